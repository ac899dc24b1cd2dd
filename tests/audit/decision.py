# SPDX-License-Identifier: GPL-2.0-or-later
"""The first screen's decision, its large figures, and whether they matter: computed again."""

import re
from collections.abc import Iterator

from tests.audit import intervals
from tests.audit.checks import Check, Checks, Match
from tests.audit.intervals import Estimate
from tests.audit.printed import DASH, ENDS, NUMBER, TIME, parse, parse_ends, unit_of
from tests.audit.screen import TITLES, TRANSPORTS, ByRepeat, Screen, conditions

RATES = (100, 10_000, 100_000)  # requests a second
NAME = r"a Unix socket|[\w-]+"
PLACE = r"(?:on one CPU|across two CPUs|placed freely)"
TOTAL = rf"(?P<total>{TIME})(?: \((?P<ends>{ENDS})\))?"
# "adds 5.21 µs (2.90 to 7.53) to a round trip on one CPU and 21.5 µs (10.8 to 32.2) across …"
ADDED = rf"(?P<verb>adds|saves|and) {TOTAL}(?: (?:to|of) a [a-z ]+?)? (?P<place>{PLACE})"
OPEN = rf"makes no difference that this run can tell (?P<place>{PLACE}) \((?P<ends>{ENDS})\)"
# "The difference is below 1 % of a request that takes longer than 521 µs (290 to 753) on …"
LARGE = (
    r"(?:below (?P<percent>\d) % of a request that takes longer than|or) "
    rf"{TOTAL} (?P<place>{PLACE})"
)
CARD = (
    rf"\*\*(?P<title>{'|'.join(sorted(TITLES, key=len, reverse=True))})\*\*: [^;\d]*; "
    rf"(?P<total>{TIME}); (?P<first>[\w-]+) (?P<one>{TIME}); (?P<second>[\w-]+) (?P<two>{TIME}); "
    rf"(?:95 % interval (?P<ends>{ENDS})|(?P<few>\d+) repeats?, too few for an interval); "
    rf"(?P<ratio>{NUMBER}) times as long(?: \((?P<ratio_ends>{ENDS})\))?"
    r"(?:; medians, (?P<repeats>\d+) repeats?)?"
)
INTERVAL = r"95 %(?: intervals?)?(?=\)|,)"  # of a table's figures, each of which is checked
# "two CPUs: unix 35.6 µs, tcp 57.1 µs"
SLIDE = (
    rf"(?P<title>{'|'.join(sorted(map(str.lower, TITLES), key=len, reverse=True))}): "
    rf"(?P<first>[\w-]+) (?P<one>{TIME}), (?P<second>[\w-]+) (?P<two>{TIME})"
).replace("cpu", "CPU")
# "10,000 round trips of 64 B a second take more of a CPU over …: 5.42 % (2.74 to 8.09) on one …"
SHARE = rf"{NUMBER} %(?: \({NUMBER} to {NUMBER}\))? {PLACE}"
SHARES = (
    rf"(?P<rate>{NUMBER}) [a-z ]+ of [\d.]+ \w+ a second take more of a CPU over [^:]*: "
    rf"(?P<each>{SHARE}(?:(?:, | and ){SHARE})*)"
)
REACHED = rf"(?P<each>{NUMBER} {PLACE}(?:(?:, | and ){NUMBER} {PLACE})*) over (?P<name>{NAME})\."


def _pairs(screen: Screen, where: str) -> tuple[list[float], list[float]]:
    """The medians of the first two transports, of the repeats that both have."""
    return _both(*(screen.times(name, where, "p50") for name in screen.names))


def _both(first: ByRepeat, second: ByRepeat) -> tuple[list[float], list[float]]:
    repeats = sorted(first.keys() & second.keys())
    return [first[repeat] for repeat in repeats], [second[repeat] for repeat in repeats]


def _difference(first: list[float], second: list[float]) -> Estimate:
    return intervals.mean([b - a for a, b in zip(first, second, strict=True)])


def _said(what: str, text: str, ends: str | None, estimate: Estimate) -> Checks:
    yield Check(what, parse(text), (estimate.value,))
    if ends:
        low, high = parse_ends(ends, unit_of(text))
        yield Check(f"{what}, lower end", low, (estimate.low,))
        yield Check(f"{what}, upper end", high, (estimate.high,))
    elif estimate.low is not None:
        yield f"{what}: its interval is not said"


def added(match: Match, screen: Screen) -> Checks:
    where = conditions(match["place"], None)
    estimate = _difference(*_pairs(screen, where))
    sign = -1 if match["verb"] == "saves" or estimate.value < 0 else 1
    estimate = estimate.negative() if sign < 0 else estimate
    if estimate.low is not None and estimate.low <= 0:
        yield f"{where}: the interval holds no difference, and the decision says one"
    yield from _said(f"{where}, added", match["total"], match["ends"], estimate)


def undecided(match: Match, screen: Screen) -> Checks:
    estimate = _difference(*_pairs(screen, conditions(match["place"], None)))
    low, high = parse_ends(match["ends"])
    yield Check("lower end", low, (estimate.low,))
    yield Check("upper end", high, (estimate.high,))
    if estimate.low is None or estimate.high is None or not estimate.low <= 0 <= estimate.high:
        yield f"{match['place']}: the difference can be told"


def large(match: Match, screen: Screen) -> Checks:
    """One percent of which the difference is."""
    where = conditions(match["place"], None)
    first, second = _pairs(screen, where)
    percent = int(match["percent"] or 1)
    estimate = _difference([100 * a / percent for a in first], [100 * b / percent for b in second])
    estimate = estimate.negative() if estimate.value < 0 else estimate
    if estimate.low is not None and estimate.high is not None and estimate.low <= 0:
        largest = max(-estimate.low, estimate.high)  # the largest difference that is left open
        estimate = Estimate(largest, None, None, estimate.repeats)
    if percent != 1:
        yield f"the share is {percent} %, and the report's is 1 %"
    yield from _said(f"{where}, request", match["total"], match["ends"], estimate)


def card(match: Match, screen: Screen) -> Checks:
    where = TITLES[match["title"]]
    first, second = _pairs(screen, where)
    if (match["first"], match["second"]) != screen.names:
        yield f"{match['title']} is of {match['first']} and {match['second']}"
    for name, values in (("one", first), ("two", second)):
        yield Check(f"{where}, {name}", parse(match[name]), (intervals.mean(values).value,))
    yield from _said(f"{where}, added", match["total"], match["ends"], _difference(first, second))
    repeats = match["few"] or match["repeats"]
    yield Check(f"{where}, repeats", parse(repeats), (len(first),))
    ratio = intervals.quotient(second, first)
    yield from _said(f"{where}, ratio", match["ratio"], match["ratio_ends"], ratio)


def nothing(_: Match, __: Screen) -> Checks:
    yield from ()


def slide(match: Match, screen: Screen) -> Checks:
    title = f"{match['title'][:1].upper()}{match['title'][1:]}"
    pairs = _pairs(screen, TITLES[title])
    for name, values in zip(("one", "two"), pairs, strict=True):
        yield Check(f"slide, {title}", parse(match[name]), (intervals.mean(values).value,))


def reached(match: Match, screen: Screen) -> Checks:
    name = TRANSPORTS.get(match["name"], match["name"])
    for rate, place in re.findall(rf"({NUMBER}) ({PLACE})", match["each"]):
        where = conditions(place, None)
        yield Check(f"reached, {where}", parse(rate), (_rate(screen, name, where),))


def _rate(screen: Screen, name: str, where: str) -> float:
    """Round trips a second, the mean over repeats."""
    rates = [1e9 / ns / 2 for ns in screen.windows(name, where).values()]
    return intervals.mean(rates).value


def shares(match: Match, screen: Screen) -> Checks:
    rate = parse(match["rate"]).value
    if rate not in RATES:
        yield f"{match['rate']} is not one of the rates that the report is for"
    pattern = rf"({NUMBER}) %(?: \(({NUMBER} to {NUMBER})\))? ({PLACE})"
    for share, ends, place in re.findall(pattern, match["each"]):
        where = conditions(place, None)
        yield from _said(f"{where}, share", share, ends, _share(screen, where, rate))


def _share(screen: Screen, where: str, rate: float) -> Estimate:
    """Percent of a CPU that so many round trips a second take more over the second transport."""
    first, second = _both(*(screen.cpu(name, where) for name in screen.names))
    scale = 2 * rate * 100 / 1e9
    return _difference([scale * a for a in first], [scale * b for b in second])


def wrong(screen: Screen) -> Iterator[str]:
    """The table of shares of a CPU: one sentence for each figure that is not so."""
    if not screen.matter:
        return
    head, _, *rows = screen.matter
    for title, column in zip(head[1:], range(1, len(head)), strict=True):
        where = TITLES[title]
        if not screen.cpu(screen.names[1], where):
            yield f"{where}: no CPU time in the table of figures"
            continue
        for row in rows:
            rate = parse(row[0]).value
            if rate not in RATES:
                yield f"{row[0]} is not one of the rates that the table is for"
            share = _share(screen, where, rate)
            figure, _, ends = row[column].rstrip(")").partition(" (")
            beyond = any(_rate(screen, name, where) < rate for name in screen.names)
            if figure.endswith("*") is not beyond:
                yield f"{where}, {row[0]} requests a second: marked wrongly as beyond reach"
            low, high = ends.replace(" … ", DASH).split(DASH) if ends else ("", "")
            values = ((figure.rstrip("* %"), share.value), (low, share.low), (high, share.high))
            for text, value in values:
                if text and not parse(text).fits(value):
                    yield f"{where}, {row[0]} requests a second: printed {text}, computed {value}"
            if not ends and share.low is not None:
                yield f"{where}, {row[0]} requests a second: its interval is not said"
