# SPDX-License-Identifier: GPL-2.0-or-later
"""The head of the answer in a terminal of 80 columns, in the order of the page."""

import textwrap
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.text import Text

from analysis.claims.verdict import Judged, more_text
from analysis.report import frames
from analysis.report.report import AFTER_WORK, COUNTS, Report, compared
from analysis.report.requested import (
    FigureRow,
    columns_of,
    text_counts,
    text_exact,
    text_kernels,
    text_programs,
    text_times,
)
from analysis.wording import ABSENT, capital, counted, listed, size_text, title_of
from probes.messages import one_line

WIDTH, MOST_LINES = 80, 22
LEAST_NAME = 16  # characters of a row's name
MOST_DIFFERING = 2  # counts in a sentence
MOST_LINES_OF_A_TABLE = 16  # lines of each table of what was named beside the comparison
MOST_LACKS = 3  # reasons why something is missing
STYLES = {
    "CONFIRMED": "bold green",
    "REFUTED": "bold red",
    "INVALID": "bold yellow",
    "BUSY": "bold yellow",
    "DISAGREE": "bold red",
}


def show(report: Report, page: Path) -> None:
    """Print at most MOST_LINES lines, and what the run was told to measure beside the comparison;
    the path of the page is the last.
    """
    console = Console(width=WIDTH, highlight=False, soft_wrap=True)
    lines = [*_wrapped(report.headline, ""), *_wrapped(report.matter, ""), *_warnings(report)]
    verdicts, most = report.analysis.verdicts, MOST_LINES
    shown: list[Judged] = []
    more = more_text(verdicts, shown)
    if requested := list(_requested(report)):
        most += len(requested)
    for number, part in enumerate(_answer(report, requested)):  # the tables stand in any case
        if number == 0 or len(lines) + len(part) < most - bool(more):
            lines += part
        most = max(most, len(lines) + 1 + bool(more))
    for verdict in report.settled:
        claim = verdict.claim
        accepted = f" Accepted: {verdict.accepted}." if verdict.accepted else ""
        words = _wrapped(f"{verdict.text}: {claim.statement}{accepted} ({claim.source.id})")
        more = more_text(verdicts, [*shown, verdict])
        if len(lines) + len(words) + bool(more) >= most:
            break
        lines += words
        shown.append(verdict)
    if (more := more_text(verdicts, shown)) and len(lines) < most - 1:
        lines.append(f"{more}: see the report.")
    for line in [*lines[: most - 1], f"Report: {page}"]:
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


def _answer(report: Report, requested: list[str]) -> Iterator[list[str]]:
    """The tables, what differs, and the machines."""
    answer = report.answer
    if answer is None or report.analysis.run.for_claims:
        yield requested
        return
    rows = compared(answer, report.analysis.timings)
    if len(answer.transports) > 1 and not rows.empty:
        rows = rows[~rows.iloc[:, 0].str.startswith("CPU")]  # the shares of a CPU say it
        lines = table(_narrow(rows))
        unresolved = (
            ["p99 in brackets: not resolved."]
            if answer.times and any("(" in p99 for p99 in rows.iloc[:, -1])
            else []
        )
        yield ["", *lines, *unresolved, *requested]
    else:
        yield requested
    differing = answer.differing(alike=False)
    each = [f"{c.name} ({' and '.join(c.figures.values())})" for c in differing[:MOST_DIFFERING]]
    if len(differing) > MOST_DIFFERING:
        each.append(f"and {len(differing) - MOST_DIFFERING} more")
    if each:
        yield _wrapped(f"Differs ({', '.join(answer.transports)}): {'; '.join(each)}.")
    counters: dict[str, list[str]] = {}
    for count in answer.kernels or filter(None, map(answer.count, COUNTS)):
        name = count.measure.removeprefix("payload_")
        where = count.counted.removeprefix("counted ")
        counters.setdefault(count.kernel, []).append(f"{name} {where}")
    times = [f"times: {answer.host}", answer.ways] if answer.host else []
    counts = [f"{kernel}: {', '.join(names)}" for kernel, names in counters.items()]
    if sources := "; ".join(filter(None, [*times, *counts])):
        yield _wrapped(f"{capital(sources)}.")


def _narrow(rows: pd.DataFrame) -> pd.DataFrame:
    """The column of what is so after other work as rows, for which 80 columns have room."""
    if AFTER_WORK not in rows:
        return rows
    name, *transports, difference, _, _ = rows.columns
    known = rows[~rows[AFTER_WORK].isin(("", ABSENT))]
    colder = pd.DataFrame(
        {
            name: known[name] + ", other code",  # the head of the column would break the line
            **dict.fromkeys(transports, ABSENT),
            difference: known[AFTER_WORK],
        }
    )
    times = rows.drop(columns=AFTER_WORK)
    timed = (rows[AFTER_WORK] != "").sum()
    return pd.concat([times[:timed], colder, times[timed:]]).fillna("")


def _requested(report: Report) -> Iterator[str]:
    """What was named beside the comparison, a table each; and what of it is missing."""
    requested, analysis = report.requested, report.analysis
    if not analysis.run.for_claims:
        yield from _wrapped(requested.untimed)
        yield from _rows("median", list(text_times(requested.times)))
        for name, rows in requested.kernels:
            figures = text_kernels(rows, requested.named)
            yield from _rows(f"{name}, in guests", list(figures))
        for ledger, counts in requested.counts:
            where = listed([title_of(conditions) for conditions in ledger.conditions])
            name = f"{ledger.pattern}, {size_text(ledger.size)}, {where}: a message"
            yield from _rows(name, list(text_counts(ledger, counts)))
        yield from _rows("exact: instructions of a message", list(text_exact(analysis.cells)))
    yield from _rows("program", list(text_programs(analysis)))
    yield from _lacks(report)


def _rows(title: str, rows: Sequence[FigureRow]) -> Iterator[str]:
    """At most MOST_LINES_OF_A_TABLE lines of these rows.

    They are a table, or stand each below the other where they are too wide for one.
    """
    if not rows:
        return
    names = columns_of(rows)
    cells = [(row.name, *(row.figures.get(n, ABSENT) for n in names)) for row in rows]
    heads = [title, *names]
    if _room([heads, *cells]) >= LEAST_NAME:
        parts = list(blocks(pd.DataFrame(cells, columns=heads)))
    else:
        figures = [
            ", ".join(f"{n} {row.figures[n]}" for n in names if n in row.figures) for row in rows
        ]
        parts = [_wrapped(f"{capital(title)}:")]
        parts += [_wrapped(f"{row.name}: {text}") for row, text in zip(rows, figures, strict=True)]
    fitting = accumulate(map(len, parts))
    shown = max(2, sum(lines <= MOST_LINES_OF_A_TABLE for lines in fitting))
    yield from ["", *chain(*parts[:shown])]
    if more := len(parts[shown:]):
        yield f"And {counted(more, 'more row')}: see the report."


def _lacks(report: Report) -> Iterator[str]:
    """What was requested and could not be had, and why."""
    rows = frames.missing(report.requested.lacks).values.tolist()
    for what, where, why in rows[:MOST_LACKS]:
        text = f"Missing: {what} ({where}): {why}"
        yield from textwrap.wrap(text, WIDTH, max_lines=2, placeholder=" …", subsequent_indent="  ")
    if more := len(rows[MOST_LACKS:]):
        yield f"And {counted(more, 'more reason')} why something is missing: see the report."


def _room(lines: Sequence[Sequence[str]]) -> int:
    """How many characters a table's figures leave the names of its rows."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return WIDTH - sum(widths[1:]) - 2 * len(widths[1:])


def table(rows: pd.DataFrame) -> Iterator[str]:
    """The lines of `blocks`."""
    return chain.from_iterable(blocks(rows))


def blocks(rows: pd.DataFrame) -> Iterator[list[str]]:
    """The lines of the heads and of each row; a name too long for its column goes on below.

    Where long names of transports leave names of rows no room, the last column stays away.
    """
    lines = [list(rows.columns), *rows.values.tolist()]
    room = _room(lines)
    if room < LEAST_NAME:
        yield from blocks(rows.iloc[:, :-1])
        return
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    widths[0] = min(widths[0], room)
    for name, *figures in lines:
        right = [f"{text:>{width}}" for text, width in zip(figures[:2], widths[1:], strict=False)]
        left = [f"{text:{width}}" for text, width in zip(figures[2:], widths[3:], strict=True)]
        first, *others = textwrap.wrap(name, widths[0])
        line = "  ".join([f"{first:{widths[0]}}", *right, *left]).rstrip()
        yield [line, *(f"  {more}" for more in others)]
