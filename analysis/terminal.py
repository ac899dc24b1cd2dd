# SPDX-License-Identifier: GPL-2.0-or-later
"""The ledger and the verdicts in the terminal."""

import sys
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.analyse import Analysis
from analysis.ledger import Ledger, Line, Row
from analysis.report import SHOWN_DISAGREEMENTS, entry_text, line_source
from analysis.wording import NOT_MEASURED, number, size_text

PLAIN_WIDTH = 160  # a pipe or a file has no width of its own
VERDICT_STYLES = {"CONFIRMED": "green", "REFUTED": "red", "CONDITIONAL": "yellow"}


def show(analysis: Analysis, report: Path) -> None:
    """What disagrees, the short ledger, the verdicts, and where the report is."""
    terminal = sys.stdout.isatty()
    console = Console(width=None if terminal else PLAIN_WIDTH, highlight=False)
    _warnings(console, analysis)
    for sentence in filter(None, analysis.answer):
        console.print(Text(sentence))
    for ledger in analysis.ledgers:
        console.print(_table(ledger, terminal))
    for verdict in analysis.verdicts:
        style = f"bold {VERDICT_STYLES.get(verdict.verdict, 'dim')}"
        console.print(Text.assemble((verdict.verdict, style), f"  {verdict.claim.statement}"))
        condition = f"{verdict.condition}. " if verdict.condition else ""
        console.print(Text(f"{condition}{verdict.why}"), style="dim")
    console.print(Text(f"\nReport: {report}"), soft_wrap=True)


def _warnings(console: Console, analysis: Analysis) -> None:
    for c in analysis.disagreements[:SHOWN_DISAGREEMENTS]:
        what = f"{c.quantity} {c.key}".strip()
        values = f"{c.first} {number(c.first_value)}, {c.second} {number(c.second_value)} a message"
        where = f"{c.transport}, {size_text(c.size)}, {c.placement}, {c.lane} {c.kernel}"
        console.print(Text.assemble(("DISAGREE  ", "bold red"), f"{what}: {values} ({where})"))
    more = len(analysis.disagreements) - SHOWN_DISAGREEMENTS
    if more > 0:
        console.print(Text(f"          and {more} more: see the report"))
    for unsound in analysis.tables.unsound:
        cell = unsound.cell
        name = f"{unsound.lane.folder}, cell {cell.id} ({cell.transport}, {cell.placement})"
        reasons = "; ".join(unsound.reasons)
        console.print(Text.assemble(("UNSOUND   ", "bold yellow"), f"{name}: {reasons}"))


def _table(ledger: Ledger, terminal: bool) -> Table:
    title = f"{ledger.pattern}, {size_text(ledger.size)}: per message, if not said otherwise"
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD if terminal else None, padding=(0, 1)
    )
    table.add_column("", overflow="fold")
    for placement, transport in ledger.columns:
        table.add_column(f"{placement}\n{transport}", justify="right", no_wrap=True)
    table.add_column("where from (second source below)", style="dim", overflow="fold")
    for row in ledger.headline():
        _add(table, ledger, row)
    return table


def _add(table: Table, ledger: Ledger, row: Row) -> None:
    per = f" / {row.measure.per}" if row.measure.per == "round trip" else ""
    words = Text(row.measure.words + per)
    if not row.lines:
        blanks = [Text(NOT_MEASURED) for _ in ledger.columns]
        table.add_row(words, *blanks, Text(row.why_missing))
    for line, first in zip(row.best(), (words, Text("")), strict=False):
        figures = [Text(_figure(row, line, column)) for column in ledger.columns]
        style = "" if first else "dim"
        table.add_row(first, *figures, Text(line_source(line)), style=style)


def _figure(row: Row, line: Line, column: tuple[str, str]) -> str:
    said = entry_text(row, line, column)
    spread = f" ({said['spread']})" if said["spread"] else ""
    return f"{said['text']}{spread}" + ("" if said["sound"] else " unsound")
