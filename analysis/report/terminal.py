# SPDX-License-Identifier: GPL-2.0-or-later
"""The head of the answer in a terminal of 80 columns, in the order of the page."""

import textwrap
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.text import Text

from analysis.report.report import COUNTS, Report, compared
from analysis.wording import amount, capital, counted, spanned
from probes.messages import one_line
from probes.transports import PAIR

WIDTH, MOST_LINES = 80, 22
LEAST_NAME = 16  # characters of a row's name
MOST_NAMED = 2  # counts in a sentence
MOST_PROGRAMS = 4
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
    lines = [*_wrapped(report.headline, ""), *_wrapped(report.matter, ""), *_warnings(report)]
    left = len(report.settled)
    for number, part in enumerate(_answer(report)):  # the table stands in any case
        if number == 0 or len(lines) + len(part) < MOST_LINES - bool(left):
            lines += part
    for verdict in report.settled:
        claim = verdict.claim
        words = _wrapped(f"{verdict.text}: {claim.statement} ({claim.source.id})")
        if len(lines) + len(words) + (left > 1) >= MOST_LINES:
            break
        lines += words
        left -= 1
    if left and len(lines) < MOST_LINES - 1:
        lines.append(f"And {counted(left, 'more verdict')}: see the report.")
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
        text = f"INVALID   {counted(len(invalid), 'cell run')}, in no verdict: {why}"
        lines += textwrap.wrap(text, WIDTH, max_lines=2, placeholder=" …", subsequent_indent="  ")
    if analysis.disturbed.many:
        lines.append(f"BUSY      {analysis.disturbed.how_many()} were disturbed, see the report")
    yield from ["", *lines] if lines else []


def _answer(report: Report) -> Iterator[list[str]]:
    """The table, what differs, and the machines."""
    answer = report.answer
    if answer is None or report.analysis.run.for_claims or len(answer.transports) < 2:
        return
    rows = compared(answer, report.analysis.timings)
    rows = rows[~rows.iloc[:, 0].str.startswith("CPU")]  # the shares of a CPU say it
    yield ["", *table(pd.concat([rows, programs(report, list(rows.columns))]))]
    differing = answer.differing(alike=False)
    each = [f"{c.name} ({' and '.join(c.figures.values())})" for c in differing[:MOST_NAMED]]
    if len(differing) > MOST_NAMED:
        each.append(f"and {len(differing) - MOST_NAMED} more")
    if each:
        yield _wrapped(f"Differs ({', '.join(answer.transports)}): {'; '.join(each)}.")
    counters: dict[str, list[str]] = {}
    for count in filter(None, map(answer.count, COUNTS)):
        name = count.measure.removeprefix("payload_")
        where = count.counted.removeprefix("counted ")
        counters.setdefault(count.kernel, []).append(f"{name} {where}")
    times = [f"times: {answer.host}", answer.ways] if answer.times else []
    counts = [f"{kernel}: {', '.join(names)}" for kernel, names in counters.items()]
    yield _wrapped(f"{capital('; '.join(filter(None, [*times, *counts])))}.")


def programs(report: Report, columns: list[str]) -> pd.DataFrame:
    """A row for each real program: how long a request of it takes, and how much more over TCP."""
    sides = [(side, group.unit) for group in report.analysis.survivals for side in group.programs]
    if columns[1:3] != list(PAIR):
        sides = []
    rows = [
        (
            f"{side.pattern}, {unit}",
            amount(side.ns.first.value, "ns"),
            amount(side.ns.second.value, "ns"),
            spanned(side.ns.added, "ns"),
            "",
        )
        for side, unit in sides[:MOST_PROGRAMS]
    ]
    return pd.DataFrame(rows, columns=columns)


def table(rows: pd.DataFrame) -> Iterator[str]:
    """The rows below each other; a name that is too long for its column goes on below.

    Where long names of transports leave names of rows no room, the last column stays away.
    """
    lines = [list(rows.columns), *rows.values.tolist()]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    room = WIDTH - sum(widths[1:]) - 2 * len(widths[1:])
    if room < LEAST_NAME:
        yield from table(rows.iloc[:, :-1])
        return
    widths[0] = min(widths[0], room)
    for name, first, second, *others in lines:
        figures = [f"{first:>{widths[1]}}", f"{second:>{widths[2]}}"]
        figures += [f"{text:{width}}" for text, width in zip(others, widths[3:], strict=True)]
        words = textwrap.wrap(name, widths[0])
        yield "  ".join([f"{words[0]:{widths[0]}}", *figures]).rstrip()
        yield from (f"  {more}" for more in words[1:])
