# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare each number above the report's verdicts with the tidy table.

    python tests/audit/sentences.py reports/<run>

Exit status: 0 when each number is what measurements.csv and the raw files give at the precision
printed, 1 when one is not or no pattern knows it, 2 when there is nothing to check.

A sentence that the report newly says needs a pattern in PATTERNS: a regular expression for the part
that holds numbers, and a function that recomputes them.
"""

from __future__ import annotations

import re
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.audit import beside, decision, intervals, journey, ledger, modes, tally
from tests.audit.checks import Check, Checks, Match
from tests.audit.folder import NoRunError, open_folder
from tests.audit.intervals import Estimate
from tests.audit.printed import (
    DASH,
    ENDS,
    NUMBER,
    TIME,
    parse,
    parse_ends,
    quotient_fits,
    tokens,
    unit_of,
)
from tests.audit.screen import (
    CALLS,
    HIT,
    INSTRUCTIONS,
    TRANSPORTS,
    Screen,
    conditions,
    counts,
    spread,
)

NAME = r"a Unix socket|[\w-]+"
PLACE = r"(?:[Oo]n one CPU|[Aa]cross two CPUs|[Pp]laced freely)"


def _named(name: str) -> str:
    return TRANSPORTS.get(name, name)


# "copies each payload byte 2.00 times over a Unix socket and TCP alike"
RANGE = rf"{NUMBER}(?:{DASH}{NUMBER})?"
BY_TRANSPORT = (
    rf"(?P<one>{RANGE}) {{unit}} over (?P<first>{NAME})"
    rf"(?: and (?P<alike>{NAME}) alike| and (?P<two>{RANGE}) over (?P<second>{NAME}))?"
    rf"(?:, (?P<times>{NUMBER}) times as many)?"
)


def _counts(measure: str) -> Callable[[Match, Screen], Checks]:
    def check(match: Match, screen: Screen) -> Checks:
        yield from _range(screen, measure, match["one"], match["first"])
        if match["alike"]:
            yield from _range(screen, measure, match["one"], match["alike"])
        elif match["two"]:
            yield from _range(screen, measure, match["two"], match["second"])
        if match["times"]:
            yield from _times_as_many(screen, measure, match)

    return check


def _range(screen: Screen, measure: str, text: str, name: str) -> Checks:
    """The medians over repeats, lowest and highest placement, of one of the sources."""
    low, _, high = text.partition(DASH)
    found = []
    for by_conditions in counts(screen, measure, _named(name)).values():
        medians = [spread(values)[0] for values in by_conditions.values()]
        found.append((min(medians), max(medians)))
    fitting = [
        ends for ends in found if parse(low).fits(ends[0]) and parse(high or low).fits(ends[1])
    ]
    if not fitting:
        yield f"{measure}, {name}: printed {text}, and the sources give {found or 'nothing'}"


def _times_as_many(screen: Screen, measure: str, match: Match) -> Checks:
    """The quotient of the medians by one of the sources that have both figures."""
    first, second = (counts(screen, measure, _named(match[n])) for n in ("first", "second"))
    quotients = [
        spread(values)[0] / spread(first[source][where])[0]
        for source, by_conditions in second.items()
        for where, values in by_conditions.items()
        if where in first.get(source, {})
    ]
    if not any(parse(match["times"]).fits(quotient) for quotient in quotients):
        yield f"{measure}: printed {match['times']} times as many, and the sources give {quotients}"


# "on one CPU 10.1 µs over a Unix socket and 15.6 µs over TCP (1.55 times as long, 95 % interval …"
MEDIANS = (
    rf"(?P<place>{PLACE})(?: \((?P<ways>[^()]*)\))? (?P<one>{TIME}) over (?P<first>{NAME})"
    rf"(?: and (?P<two>{TIME}) over (?P<second>{NAME})"
    rf"(?: \((?P<ratio>{NUMBER}) times as long, (?P<sure>[^();]*)"
    rf"(?:; (?P<all>{NUMBER}) times by the mean(?P<sure_all>[^()]*))?\))?)?"
)


def _medians(match: Match, screen: Screen) -> Checks:
    where = conditions(match["place"], match["ways"])
    medians = {}
    for figure, name in (("one", "first"), ("two", "second")):
        if match[name]:
            medians[name] = screen.times(_named(match[name]), where, "p50")
            value = _mean(medians[name])
            yield Check(f"{match[name]}, {where}", parse(match[figure]), (value.value,))
    if not match["ratio"]:
        return
    one, two, ratio = parse(match["one"]), parse(match["two"]), parse(match["ratio"])
    paired = "paired" in match["sure"]
    if not paired and not quotient_fits(two, one, ratio):
        yield f"{match['ratio']} is not the ratio of {match['two']} and {match['one']} beside it"
    estimate = _mean(_ratios(medians)) if paired else _quotient(medians)
    yield from _estimate(where, match["ratio"], match["sure"], estimate)
    if match["all"]:
        windows = {n: screen.windows(_named(match[n]), where) for n in ("first", "second")}
        whole = _quotient(windows)
        yield from _estimate(f"{where}, all iterations", match["all"], match["sure_all"], whole)


def _mean(by_repeat: dict[int, float]) -> Estimate:
    return intervals.mean(list(by_repeat.values()))


def _ratios(by_name: dict[str, dict[int, float]]) -> dict[int, float]:
    """Second through first, repeat by repeat."""
    first, second = by_name["first"], by_name["second"]
    return {repeat: second[repeat] / first[repeat] for repeat in first.keys() & second.keys()}


def _quotient(by_name: dict[str, dict[int, float]]) -> Estimate:
    """Second through first, of the repeats that both have."""
    first, second = by_name["first"], by_name["second"]
    repeats = sorted(first.keys() & second.keys())
    return intervals.quotient([second[r] for r in repeats], [first[r] for r in repeats])


def _estimate(what: str, value: str, sure: str | None, estimate: Estimate) -> Checks:
    """A figure with `95 % interval 1.35 to 1.82, 6 repeats`, or with too few repeats for one."""
    yield Check(what, parse(value), (estimate.value,))
    if sure and (found := re.search(rf"\b95 % interval(?: within this run)? ({ENDS})", sure)):
        yield from _interval(what, found[1], estimate)
    elif estimate.low is not None:
        yield f"{what}: its interval is not said"
    if sure and (found := re.search(r"(\d+) repeats?", sure)):
        yield Check(f"{what}, repeats", parse(found[1]), (estimate.repeats,))


def _interval(what: str, ends: str, estimate: Estimate, unit: str = "") -> Checks:
    low, high = parse_ends(ends, unit)
    yield Check(f"{what}, lower end", low, (estimate.low,))
    yield Check(f"{what}, upper end", high, (estimate.high,))


# "Across two CPUs a message of 64 B takes 11.3 µs (…) longer over TCP than over a Unix socket: …"
PART = rf"(?P<{{name}}>{TIME})(?: \((?P<{{name}}_ends>{ENDS})\))?"
SHARED = rf"{PART}(?:, (?P<{{name}}_share>\d+) %,)? in (?:{{words}})"
GAP = (
    rf"(?P<place>{PLACE}) a message of [\d.]+ \w+ takes {PART.format(name='total')} "
    rf"(?P<way>longer|less) over (?P<over>{NAME}) than over (?P<than>{NAME})"
    rf"(?:: {SHARED.format(name='stack', words='the stack')} and "
    rf"{SHARED.format(name='rest', words='switching between the processes|sleeping and waking')})?"
    r"(?: \((?P<repeats>\d+) repeats?, too few for an interval\))?"
)
# What differs from the whole cell in nothing but the stack alone.
STACK = {"same-cpu": ("selfecho", "same-cpu"), "cross-cpu": ("pingpong", "cross-cpu+spin")}


def _gap(match: Match, screen: Screen) -> Checks:
    where = conditions(match["place"], None)
    names = [_named(match["over"]), _named(match["than"])]
    whole = [screen.times(name, where, "p50") for name in names]
    pattern, other = STACK[where]
    stack = [screen.times(name, other, "p50", pattern) for name in names]
    tables = [*whole, *(stack if match["stack"] else [])]
    repeats = sorted(set.intersection(*(set(table) for table in tables)))
    # A round trip is two messages.
    differences = [
        [(over[r] - than[r]) / 2 for r in repeats]
        for over, than in ([whole, stack] if match["stack"] else [whole])
    ]
    total = intervals.mean(differences[0])
    said = total if match["way"] == "longer" else total.negative()
    yield from _part(f"{where}, difference", match, "total", said)
    if match["stack"]:
        yield from _part(f"{where}, stack", match, "stack", intervals.mean(differences[1]))
        rest = intervals.estimate(lambda means: means[0] - means[1], differences)
        yield from _part(f"{where}, rest", match, "rest", rest)
        share = intervals.estimate(lambda means: means[1] / means[0], differences).value
        if match["stack_share"]:
            yield Check(f"{where}, share", parse(match["stack_share"]), (100 * share,))
            yield Check(f"{where}, share", parse(match["rest_share"]), (100 - 100 * share,))
    if match["repeats"]:
        yield Check(f"{where}, repeats", parse(match["repeats"]), (len(repeats),))


def _part(what: str, match: Match, name: str, estimate: Estimate) -> Checks:
    yield Check(what, parse(match[name]), (estimate.value,))
    if match[f"{name}_ends"]:
        yield from _interval(what, match[f"{name}_ends"], estimate, unit_of(match[name]))
    elif estimate.low is not None:
        yield f"{what}: its interval is not said"


# "on one CPU at 8.53 µs (46 %) and 11.6 µs (53 %) (unix), at …": each mode by itself.
MODE = rf"{TIME}(?: \(\d+ %\))?"
MODES = (
    rf"(?P<place>{PLACE})(?: \((?P<ways>[^()\d]*)\))? "
    rf"(?P<each>at {MODE}(?:(?:, | and ){MODE})* \([^()]*\)"
    rf"(?:, at {MODE}(?:(?:, | and ){MODE})* \([^()]*\))*)"
)


def _modes(match: Match, screen: Screen) -> Checks:
    where = conditions(match["place"], match["ways"])
    for part in re.finditer(rf"at (?P<modes>{MODE}.*?) \((?P<name>[^()%]*)\)", match["each"]):
        transport, _, of = part["name"].partition(", ")
        if of:
            continue  # medians of blocks or repeats: too few values for a density of our own
        found = re.findall(rf"({TIME})(?: \((\d+) %\))?", part["modes"])
        places = [parse(time).value for time, _ in found]
        shares = [int(share) if share else None for _, share in found]
        yield from modes.wrong(screen, transport, where, places, shares)


# "the receive softirq": instructions of the first exact cell of each transport, in their order.
JOURNEY = rf"(?P<count>{NUMBER}) instructions over (?P<name>(?!a Unix|TCP)[\w-]+)"
STAGE = rf"\w+: [a-z_ ]+(?:\(\))? {NUMBER}"
ALT = rf"(?P<name>{NAME}): (?P<stages>{STAGE}(?:, {STAGE})*)"
SOFTIRQ = rf"Of (?P<name>{NAME})'s, (?P<share>\d+)% lie in the receive softirq"


def _journey(match: Match, screen: Screen) -> Checks:
    found = journey.of(screen, _named(match["name"]))
    yield Check(f"journey over {match['name']}", parse(match["count"]), (found.total,))


def _stages(match: Match, screen: Screen) -> Checks:
    found = journey.of(screen, _named(match["name"]))
    for stage in match["stages"].split(", "):
        what, _, count = stage.rpartition(" ")
        yield Check(f"{match['name']}, {what}", parse(count), (found.stages.get(what),))


def _softirq(match: Match, screen: Screen) -> Checks:
    found = journey.of(screen, _named(match["name"]))
    yield Check("share of the softirq", parse(match["share"]), (100 * found.softirq / found.total,))


def _tally(match: Match, screen: Screen) -> Checks:
    yield from tally.wrong(screen, match)


def _size(match: Match, screen: Screen) -> Checks:
    if match["size"] != screen.size_text:
        yield f"the size {match['size']} is not the ledger's, {screen.size_text}"


# What holds numbers, and how they are computed again. All patterns look at every paragraph.
PATTERNS: tuple[tuple[str, Callable[[Match, Screen], Checks]], ...] = (
    (BY_TRANSPORT.format(unit="times"), _counts("copies of each payload byte")),
    (BY_TRANSPORT.format(unit="different functions a round trip"), _counts(HIT)),
    (BY_TRANSPORT.format(unit="function calls a message"), _counts(CALLS)),
    (f"(?:takes|executes) {BY_TRANSPORT.format(unit='instructions')}", _counts(INSTRUCTIONS)),
    (decision.ADDED, decision.added),
    (decision.OPEN, decision.undecided),
    (decision.LARGE, decision.large),
    (decision.CARD, decision.card),
    (decision.REACHED, decision.reached),
    (decision.SHARES, decision.shares),
    (decision.SLIDE, decision.slide),
    (decision.INTERVAL, decision.nothing),
    (MEDIANS, _medians),
    (GAP, _gap),
    (MODES, _modes),
    (beside.ONE_EACH, beside.one_each),
    (beside.PACKED, beside.packed),
    (JOURNEY, _journey),
    (ALT, _stages),
    (SOFTIRQ, _softirq),
    (beside.STEADY, beside.steady),
    (beside.DISTURBED, beside.disturbed),
    (beside.EARLY, beside.early),
    (tally.TALLY, _tally),
    (r"\b(?P<size>[\d.]+ (?:B|KiB|MiB))\b", _size),
)


def wrong(screen: Screen) -> Iterator[str]:
    """One sentence for each number that is not what it should be, or that no pattern knows."""
    versions = "|".join(sorted(map(re.escape, screen.known()), key=len, reverse=True))
    for text in screen.paragraphs:
        spans = [m.span() for m in re.finditer(rf"{versions}|\]\([^)]*\)", text)]
        for pattern, recompute in PATTERNS:
            for match in re.finditer(pattern, text):
                spans.append(match.span())
                yield from _sentences(recompute, match, screen)
        for begin, end, number in tokens(text):
            if not any(low <= begin and end <= high for low, high in spans):
                around = text[max(0, begin - 30) : end + 30]
                yield f"a number that nobody checks: {number} in “{around}”"
    yield from ledger.wrong(screen)
    yield from decision.wrong(screen)


def _sentences(
    recompute: Callable[[Match, Screen], Checks], match: Match, screen: Screen
) -> Iterator[str]:
    try:
        for check in recompute(match, screen):
            if sentence := check if isinstance(check, str) else check.sentence():
                yield sentence
    except (ValueError, KeyError) as error:  # the table has nothing of the kind
        yield f"“{match[0]}” cannot be computed again: {error}"


def main(arguments: list[str]) -> int:
    """The command line."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("usage: python tests/audit/sentences.py RUN, a run's folder", file=sys.stderr)
        return 2
    run = Path(arguments[0])
    with tempfile.TemporaryDirectory() as place:
        try:
            text = (run / "report.md").read_text(encoding="utf-8")
            found = list(wrong(Screen(open_folder(run, Path(place)), text)))
        except (NoRunError, OSError, ValueError, KeyError) as error:
            print(f"sentences: {run} cannot be checked: {error}", file=sys.stderr)
            return 2
    for sentence in found:
        print(f"DIFFERENT: {sentence}.")
    print("every number of the first screen is right" if not found else f"{len(found)} different")
    return 1 if found else 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader that has seen enough
    sys.exit(main(sys.argv[1:]))
