# SPDX-License-Identifier: GPL-2.0-or-later
"""What the terminal shows unless --full is given: the answer, on one screen of 80 columns."""

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from analysis.analyse import Analysis
from analysis.answer import Answer, Pair, title_of, title_text
from analysis.claims.verdict import Verdict, tally
from analysis.machine import kernel_text
from analysis.programs.table import OVER, UNDER
from analysis.statistics import Estimate
from analysis.times.words import part_text
from analysis.wording import amount, capital, counted, listed, number, transport_text

WIDTH, MOST_LINES = 80, 25
NAME, FIGURE = 34, 9  # columns of the table, where its figures are not longer
Row = tuple[str, str, str, str]  # what, the figure of either transport, their difference
ROWS = {
    "payload_copies": "copies of each payload byte",
    "instructions": "instructions a message, emulated",
}
MOST_NAMED = 3  # counts in a sentence
MOST_PROGRAMS = 4
RATE = 10_000  # requests a second
STYLES = {
    "CONFIRMED": "bold green",
    "REFUTED": "bold red",
    "INVALID": "bold yellow",
    "BUSY": "bold yellow",
}


def show_brief(analysis: Analysis, report: Path) -> None:
    """At most MOST_LINES lines; the path of the report is the last."""
    console = Console(width=WIDTH, highlight=False, soft_wrap=True)
    end = [f"Report: {report}"]
    lines = [*_warnings(analysis), *_answer(analysis)]
    for verdict in _verdicts(analysis):
        told = _wrapped(f"{verdict.text}: {verdict.claim.statement}", "  ")
        if len(lines) + len(told) + len(end) <= MOST_LINES:
            lines += told
    for line in [*lines[: MOST_LINES - len(end)], *end]:
        console.print(_styled(line))


def _styled(line: str) -> Text:
    name = next((name for name in STYLES if line.startswith(name)), "")
    return Text.assemble((name, STYLES.get(name, "")), line[len(name) :])


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def _warnings(analysis: Analysis) -> Iterator[str]:
    if found := len(analysis.disagreements):
        yield f"DISAGREE  {counted(found, 'figure')}: instruments differ, see --full"
    if found := len(analysis.tables.invalid):
        yield f"INVALID   {counted(found, 'cell run')}: used in no verdict, see --full"
    if analysis.disturbed.many:
        yield f"BUSY      {analysis.disturbed.how_many()} were disturbed, see --full"


def _answer(analysis: Analysis) -> Iterator[str]:
    answer = analysis.answer
    if analysis.run.for_claims:
        yield from _wrapped(f"{tally(analysis.verdicts)}.")
        return
    if answer is None:
        yield "This run holds no figures: the report says what is missing."
        return
    if len(answer.names) < 2 or not (answer.decision or answer.copied_and_run):
        for sentence in analysis.summary:
            yield from _wrapped(sentence)
    else:
        yield from _wrapped(answer.decision or answer.copied_and_run)
        yield ""
        programs = program_rows(analysis) if answer.names == (UNDER, OVER) else ()
        yield from table([*_rows(answer), *programs])
        yield from _sources(answer)
        yield from _differences(answer)
        yield from _matters(answer)


def _rows(answer: Answer) -> Iterator[Row]:
    """Times and CPU time with the interval of the difference, and what is copied and run."""
    first, second = answer.names
    yield (title_text(answer), first, second, "difference (95 %)")
    for placed in answer.placed:
        name = f"{answer.iteration}, {title_of(placed.conditions)}"
        yield _pair(name, placed.iteration)
    for placed in answer.asleep:
        if cpu := placed.cpu:
            yield _pair(f"CPU time a message, {title_of(placed.conditions)}", cpu)
    for measure, words in ROWS.items():
        if (found := answer.count(measure)) and len(found.figures) > 1:
            ratio = "none" if found.alike else answer.times_as_many(found) or "see --full"
            first, second = found.figures.values()
            yield (words, first, second, ratio)


def program_rows(analysis: Analysis) -> Iterator[Row]:
    """A row for each real program: how long a request of it takes, and how much more over TCP."""
    sides = [(side, group.unit) for group in analysis.survivals for side in group.programs]
    for side, unit in sides[:MOST_PROGRAMS]:
        unix, tcp = (amount(side.ns[name].value, "ns") for name in (UNDER, OVER))
        yield (f"{side.pattern}, {unit}", unix, tcp, part_text(side.extra))


def _pair(name: str, pair: Pair) -> Row:
    return name, _value(pair.first), _value(pair.second), part_text(pair.added)


def _value(time: Estimate) -> str:
    return amount(time.value, "ns")


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The rows below each other; the longest figure decides how wide its column is."""
    longest = [max(len(row[at]) for row in rows) for at in range(4)]
    left, right = (max(FIGURE, longest[at] + 1) for at in (1, 2))
    room = max(1, min(NAME, WIDTH - left - right - 2 - longest[3]))
    for name, first, second, difference in rows:
        yield f"{name[:room]:{room}}{first:>{left}}{second:>{right}}  {difference}"


def _sources(answer: Answer) -> Iterator[str]:
    """Whose the figures of the table are."""
    by_kernel: dict[str, list[str]] = {}
    for measure in ROWS:
        if found := answer.count(measure):
            words = f"{measure.removeprefix('payload_')} {found.counter.removeprefix('counted ')}"
            by_kernel.setdefault(kernel_text(found.row.lines[0].kernel), []).append(words)
    said = [f"times: {answer.host}", answer.ways] if answer.placed else []
    said += [f"{kernel}: {', '.join(found)}" for kernel, found in by_kernel.items()]
    yield from _wrapped(f"{capital('; '.join(filter(None, said)))}.", "  ")


def _differences(answer: Answer) -> Iterator[str]:
    differ, alike = answer.compared
    for words, names in (
        (f"Differs ({', '.join(answer.names)})", differ),
        ("Does not differ", alike),
    ):
        said = [
            _wrapped(f"{words}: {'; '.join(names[:count])}.", "  ")
            for count in range(1, min(MOST_NAMED, len(names)) + 1)
        ]
        # As many as two lines hold: the verdicts need theirs.
        for lines in ([lines for lines in said if len(lines) <= 2] or said[:1])[-1:]:
            yield from lines


def _matters(answer: Answer) -> Iterator[str]:
    """Whether it matters: the share of a CPU, and the request of which it is one percent."""
    shares = [
        f"{number(placed.share(RATE).cpu_share.value * 100)} % ({title_of(placed.conditions)})"
        for placed in answer.asleep
    ]
    large = [f"{_value(placed.large)} ({title_of(placed.conditions)})" for placed in answer.asleep]
    if shares:
        yield from _wrapped(
            f"Over {transport_text(answer.names[1])} {RATE:,} requests/s take "
            f"{listed(shares, 'or')} more of a CPU. A request of {listed(large, 'or')} "
            "takes 1 % longer.", "  ",
        )  # fmt: skip


def _verdicts(analysis: Analysis) -> list[Verdict]:
    """Two, or in a run for claims all that it settles."""
    settled = [verdict for verdict in analysis.verdicts if verdict.settled]
    if analysis.run.for_claims:
        return settled
    return [verdict for verdict in settled if verdict.claim.headline][:2]
