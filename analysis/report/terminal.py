# SPDX-License-Identifier: GPL-2.0-or-later
"""The head of the answer in a terminal of 80 columns."""

import textwrap
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.text import Text

from analysis.report import frames
from analysis.report.report import Report
from analysis.times.waterfall import part_text
from analysis.wording import amount, capital, counted, listed, number, title_of, transport_text
from probes.messages import one_line

WIDTH, MOST_LINES = 80, 22
PLAIN_WIDTH = 160  # of a table: a pipe or a file has no width of its own
MOST_NAMED = 3  # counts in a sentence
MOST_PROGRAMS = 4
RATE = 10_000  # requests a second
STYLES = {
    "CONFIRMED": "bold green",
    "REFUTED": "bold red",
    "INVALID": "bold yellow",
    "BUSY": "bold yellow",
    "DISAGREE": "bold red",
}


def show(report: Report, page: Path) -> None:
    """Print at most MOST_LINES lines; the path of the page is the last."""
    console = Console(width=WIDTH, highlight=False, soft_wrap=True)
    lines = [*_wrapped(report.headline, ""), *_warnings(report), *_answer(report)]
    for verdict in report.settled:
        claim = verdict.claim
        words = _wrapped(f"{verdict.text}: {claim.statement} ({claim.source.id})")
        if len(lines) + len(words) < MOST_LINES:
            lines += words
    for line in [*lines[: MOST_LINES - 1], f"Report: {page}"]:
        name = next((name for name in STYLES if line.startswith(name)), "")
        console.print(Text.assemble((name, STYLES.get(name, "")), one_line(line[len(name) :])))


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def _warnings(report: Report) -> Iterator[str]:
    analysis = report.analysis
    invalid = analysis.tables.invalid
    lines = []
    if several := len(analysis.disagreements):
        lines.append(f"DISAGREE  {counted(several, 'figure')}: instruments differ, see the report")
    if invalid:
        why = invalid[0].reasons[0]
        lines += _wrapped(f"INVALID   {counted(len(invalid), 'cell run')}, in no verdict: {why}")
    if analysis.disturbed.many:
        lines.append(f"BUSY      {analysis.disturbed.how_many()} were disturbed, see the report")
    yield from ["", *lines] if lines else []


def _answer(report: Report) -> Iterator[str]:
    answer = report.answer
    if answer is None or report.analysis.run.for_claims or len(answer.transports) < 2:
        return
    yield ""
    rows = frames.answer(answer)
    yield from table(pd.concat([rows, programs(report, list(rows.columns))]))
    counters: dict[str, list[str]] = {}
    for count in filter(None, map(answer.count, frames.COUNTS)):
        name = count.measure.removeprefix("payload_")
        where = count.counted.removeprefix("counted ")
        counters.setdefault(count.kernel, []).append(f"{name} {where}")
    times = [f"times: {answer.host}", answer.ways] if answer.times else []
    counts = [f"{kernel}: {', '.join(names)}" for kernel, names in counters.items()]
    yield from _wrapped(f"{capital('; '.join(filter(None, [*times, *counts])))}.")
    yield from _differences(report)
    if answer.asleep:
        shares = [
            f"{number(100 * share.cpu_share.value)} % ({title_of(placed.conditions)})"
            for placed in answer.asleep for share in placed.shares if share.requests_per_s == RATE
        ]  # fmt: skip
        large = [
            f"{amount(placed.one_percent_ns.value, 'ns')} ({title_of(placed.conditions)})"
            for placed in answer.asleep
        ]
        yield from _wrapped(
            f"Over {transport_text(answer.transports[1])} {RATE:,} requests/s take "
            f"{listed(shares, 'or')} more of a CPU. A request of {listed(large, 'or')} "
            "takes 1 % longer."
        )


def programs(report: Report, columns: list[str]) -> pd.DataFrame:
    """A row for each real program: how long a request of it takes, and how much more over TCP."""
    sides = [(side, group.unit) for group in report.analysis.survivals for side in group.programs]
    rows = [
        (f"{side.pattern}, {unit}",
         *(amount(side.ns[name].value, "ns") for name in ("unix", "tcp")), part_text(side.extra))
        for side, unit in sides[:MOST_PROGRAMS]
        if columns[1:3] == ["unix", "tcp"]
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def table(rows: pd.DataFrame) -> Iterator[str]:
    """The rows below each other; the first column gives way where the others are wide."""
    lines = [list(rows.columns), *rows.values.tolist()]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    widths[0] = min(widths[0], WIDTH - sum(widths[1:]) - 6)
    for name, first, second, difference in lines:
        yield (
            f"{name[: widths[0]]:{widths[0]}}  {first:>{widths[1]}}  {second:>{widths[2]}}  "
            f"{difference}"
        )


def _differences(report: Report) -> Iterator[str]:
    assert report.answer
    counts = report.answer.differing(alike=False)
    each = [f"{count.name} ({' and '.join(count.figures.values())})"
            for count in counts[:MOST_NAMED]]  # fmt: skip
    more = [f"and {len(counts) - MOST_NAMED} more"] if len(counts) > MOST_NAMED else []
    if each:
        names = ", ".join(report.answer.transports)
        yield from _wrapped(f"Differs ({names}): {'; '.join([*each, *more])}.")
