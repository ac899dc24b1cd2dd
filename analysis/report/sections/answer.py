# SPDX-License-Identifier: GPL-2.0-or-later
"""The first screen: large figures, whether they matter, and the journey of one message."""

from analysis.analyse import Analysis
from analysis.answer import PLACES, RATES, Answer, Share, title_of, title_text
from analysis.report.blocks import Bar, Card, Cards, Items, Table, Text, numbers
from analysis.report.inline import above, code, say
from analysis.report.sections.counts import Blocks, Figures
from analysis.statistics import Estimate
from analysis.times.words import interval_text, part_text
from analysis.wording import (
    DASH,
    amount,
    capital,
    counted,
    listed,
    number,
    place,
    size_text,
    spread,
    transport_text,
)

BEYOND = "*"  # marks a rate that no connection reached


def kicker(analysis: Analysis) -> str:
    """What was measured, where and when."""
    answer, manifest = analysis.answer, analysis.run.manifest
    said = ["pathcost", analysis.run.name, manifest.started[:10]]
    if answer:
        said += [
            title_text(answer),
            *filter(None, [answer.ways]),
            *([f"times: {answer.host}"] if answer.placed else []),
        ]
    return " · ".join(said)


def first_screen(analysis: Analysis, figures: Figures) -> Blocks:
    if (answer := analysis.answer) and answer.placed:
        longest = max(
            figure.high or figure.value
            for placed in answer.placed
            for figure in (placed.iteration.first, placed.iteration.second)
        )
        matter = [_matters(answer)] if answer.asleep else []
        yield Cards([*(_card(answer, name, longest) for name in _shown(answer)), *matter])
    journey = figures.get("journey")
    yield journey if journey and journey.svg else None  # else its reason is in a section


def _shown(answer: Answer) -> list[str]:
    """The usual conditions, measured or not; where none was measured, the first of this run."""
    usual = [known.conditions for known in PLACES]
    if answer.pattern == "pingpong" and any(map(answer.at, usual)):
        return usual
    return [placed.conditions for placed in answer.placed][: len(usual)]


def _card(answer: Answer, conditions: str, longest: float) -> Card:
    known = next((known for known in PLACES if known.conditions == conditions), None)
    title = capital(title_of(conditions))
    if (placed := answer.at(conditions)) is None:
        assert known is not None
        lacks = say("Not measured: {}", code(f"sudo ./runners/run.sh {known.option}"))
        return Card(title, known.note, "", (), [lacks], ())
    pair = placed.iteration
    named = zip(answer.names, (pair.first, pair.second), strict=True)
    bars = [_bar(name, figure, longest) for name, figure in named]
    sign = "+" if pair.added.value > 0 else ""
    large = sign + part_text(pair.added)
    figure, _, ends = large.partition(" (")
    repeats = f"medians, {counted(pair.added.repeats, 'repeat')}"
    sure = [f"95 % interval {ends.rstrip(')')}", repeats] if ends else [interval_text(pair.added)]
    ratio = f"{number(pair.ratio.value)} times as long"
    if pair.ratio.low is not None and pair.ratio.high is not None:
        ratio += f" ({number(pair.ratio.low)} to {number(pair.ratio.high)})"
    lines = [sure[0], ratio, *sure[1:]]
    return Card(title, known.note if known else "", figure, bars, lines, ())


def _bar(name: str, figure: Estimate, longest: float) -> Bar:
    ends = (figure.value if end is None else end for end in (figure.low, figure.high))
    low, high = (max(0, end) / longest for end in ends)
    return Bar(name, amount(figure.value, "ns"), figure.value / longest, low, high)


def _matters(answer: Answer) -> Card:
    """Shares of a CPU at three rates, and the request of which the difference is one percent."""
    places = answer.asleep
    rows = []
    for place_, rate in enumerate(RATES):
        shares = [placed.shares[place_] for placed in places]
        rows.append((f"{rate:,}", *map(_share, shares)))
    heads = numbers(*(capital(title_of(placed.conditions)) for placed in places))
    name, over = answer.names[1], transport_text(answer.names[1])
    caption = f"CPU share {over} adds, by CPU time {_speed(answer)} (95 %)"
    beyond = any(share.beyond for placed in places for share in placed.shares)
    reached = [f"{p.reached[name]:,.0f} {place(p.conditions)}" for p in places if name in p.reached]
    mark = f"{BEYOND} {capital(_each(answer))} a second of one connection: {listed(reached)}"
    mark += f" over {over}."
    return Card("Does it matter?", "", "", (), [], [
        Table(caption, ["requests/s", *heads], rows, "narrow"),
        Text("note", mark) if beyond else None,
        Text("what", f"The difference is {_large(answer)}."),
    ])  # fmt: skip


def _share(share: Share) -> str:
    figure = share.cpu_share
    text = f"{number(100 * figure.value)} %{BEYOND if share.beyond else ''}"
    if figure.low is None or figure.high is None:
        return text
    low, high = 100 * figure.low, 100 * figure.high
    return above(text, spread(low, high) or f"{number(low)}{DASH}{number(high)}")


def colleagues(analysis: Analysis, figures: Figures) -> Blocks:
    """Sentences and a figure that are true outside the report: each has its conditions."""
    answer = analysis.answer
    if not answer or not answer.asleep:
        return
    said = [f"{answer.decided(answer.host).rstrip('.')} ({_conditions(answer)})."]
    size = size_text(answer.size)
    for kernel, words, counter in answer.clauses:
        of_size = words.replace("each byte", f"each byte of a message of {size}")
        of_size = of_size.replace("each message", f"each message of {size}")
        said.append(f"{kernel} {of_size} ({counter}).")
    second, first = (transport_text(name) for name in reversed(answer.names))
    rate, sure = RATES[1], "; ".join(filter(None, (answer.ways, "95 % intervals")))
    shares = [f"{_percent(at.share(rate))} {place(at.conditions)}" for at in answer.asleep]
    said.append(
        f"On {answer.host} {rate:,} {_each(answer)} of {size} a second take more of a CPU over "
        f"{second} than over {first}: {listed(shares)}, by the CPU time of both processes "
        f"{_speed(answer)} ({sure})."
    )
    said.append(
        f"On {answer.host} the difference between {second} and {first} for {size} is "
        f"{_large(answer)} ({sure})."
    )
    yield "Each sentence is true by itself, for the machine that it names."
    yield Items(said)
    yield figures.get("answer")


def _each(answer: Answer) -> str:
    return "round trips" if answer.iteration == "round trip" else f"{answer.iteration}s"


def _speed(answer: Answer) -> str:
    return "at the rate that was set" if answer.pattern == "paced" else "at full speed"


def _conditions(answer: Answer) -> str:
    return "; ".join(filter(None, (title_text(answer), answer.ways, "95 % intervals")))


def _percent(share: Share) -> str:
    figure = share.cpu_share
    text = f"{number(100 * figure.value)} %"
    if figure.low is None or figure.high is None:
        return text
    return f"{text} ({number(100 * figure.low)} to {number(100 * figure.high)})"


def _large(answer: Answer) -> str:
    large = [f"{part_text(placed.large)} {place(placed.conditions)}" for placed in answer.asleep]
    return f"below 1 % of a request that takes longer than {listed(large, 'or')}"
