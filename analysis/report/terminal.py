# SPDX-License-Identifier: GPL-2.0-or-later
"""The ledger, the times and the verdicts in the terminal."""

import sys
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.analyse import Analysis
from analysis.claims.verdict import steadiness, tally
from analysis.counts.kernels import TARGET
from analysis.counts.ledger import MOST_TOGETHER, Ledger, Line, Row, in_no_row
from analysis.counts.quantities import ELSEWHERE
from analysis.report.sections.counts import disagreement_lines, machines
from analysis.times.timing import Times
from analysis.times.words import ratio_text, timing_of_ratio
from analysis.wording import NOT_MEASURED, amount, counted, listed, size_text, spread

PLAIN_WIDTH = 160  # a pipe or a file has no width of its own
# Names of rows may fold, and never vanish: below this width the spreads stay in the report.
NARROW = 140
NAME_WIDTH = 22
FROM_WIDTH = 8  # `guest a`
COLUMN_WIDTH = 18  # a figure with its spread, and half of that without
TIMES = (
    ("round-trip time, median (p50)", "p50", "ns"),
    ("round-trip time, p99", "p99", "ns"),
    ("messages a second", "messages_per_s", ""),
)
MOST_LEDGERS = 4
MOST_MISSING = 8  # reasons
VERDICT_STYLES = {"CONFIRMED": "green", "REFUTED": "red"}


def show(analysis: Analysis, report: Path) -> None:
    """What disagrees, the ledger, the verdicts, and where the report is."""
    terminal = sys.stdout.isatty()
    console = Console(width=None if terminal else PLAIN_WIDTH, highlight=False)
    _warnings(console, analysis)
    for sentence in analysis.summary:
        console.print(Text(sentence))
    # As many columns at once as there is room for: a table that is too wide loses its names.
    width = COLUMN_WIDTH // 2 if console.width < NARROW else COLUMN_WIDTH
    columns = max(1, (console.width - NAME_WIDTH - FROM_WIDTH) // width)
    for ledger in analysis.ledgers[:MOST_LEDGERS]:
        sources = Sources()
        for page in ledger.narrow(MOST_TOGETHER).pages(columns):
            console.print(_table(page, analysis.timings, sources, console))
        console.print(Text(sources.legend(machines(analysis, ledger.once()))), style="dim")
    _print_missing(console, analysis)
    _print_left_out(console, analysis)
    _print_ratios(console, analysis, terminal)
    _print_verdicts(console, analysis)
    console.print(Text(f"\nReport: {report}"), soft_wrap=True)


def _print_verdicts(console: Console, analysis: Analysis) -> None:
    """What was measured or answered; what follows from stated numbers stands in the report.

    A run that was not made for claims shows two: the others that its cells settle are in there too.
    """
    for verdict in analysis.verdicts:
        if not verdict.settled or not (analysis.run.for_claims or verdict.claim.headline):
            continue
        style = f"bold {VERDICT_STYLES.get(verdict.verdict, 'yellow')}"
        console.print(Text.assemble((verdict.text, style), f"  {verdict.claim.statement}"))
        condition = verdict.condition and f"{verdict.condition}."
        kin = f"On the same figures: {', '.join(verdict.kin)}." if verdict.kin else ""
        said = " ".join(filter(None, (verdict.lacks, condition, verdict.why, kin)))
        console.print(Text(said), style="dim")
    console.print(Text(f"{tally(analysis.verdicts)}."), style="bold")
    if analysis.run.for_claims and (said := steadiness(analysis.verdicts)):
        console.print(Text(said))


def _print_missing(console: Console, analysis: Analysis) -> None:
    """What has no row of its own, so that nothing is absent without a word."""
    absent = list(in_no_row(analysis.tables.missing).items())
    for why, what in absent[:MOST_MISSING]:
        names = ", ".join(dict.fromkeys(what))
        console.print(Text(f" Missing: {names}: {why.rstrip('.')}."), style="dim")
    more = len(absent) - MOST_MISSING
    if more > 0:
        words = counted(more, "more reason")
        console.print(Text(f" And for {words}: see the report."), style="dim")
    if absent:
        console.print()


def _print_left_out(console: Console, analysis: Analysis) -> None:
    """What the screen has no room for stands in the report, and that is said."""
    more = analysis.ledgers[MOST_LEDGERS:]
    wide = any(len(one.transports) > MOST_TOGETHER for one in analysis.ledgers)
    kernels = {target.kernel for target in analysis.run.targets if target.kind == TARGET}
    left_out = [
        *([counted(len(more), "more pattern or size", "more patterns and sizes")] if more else []),
        *(["the other transports"] if wide else []),
        *(["the other kernels, side by side"] if len(kernels) > 1 else []),
    ]
    if left_out:
        console.print(Text(f" In the report: {listed(left_out)}.\n"), style="dim")


def _print_ratios(console: Console, analysis: Analysis, terminal: bool) -> None:
    """Those that the answer has no room for, each with the timing that it holds for."""
    first = analysis.ledgers[0] if analysis.ledgers else None
    if first is None or len(first.transports) > MOST_TOGETHER:
        return
    table = Table(box=box.SIMPLE_HEAD if terminal else None, padding=(0, 1))
    for name in ("slowdown", "conditions"):
        table.add_column(name, overflow="fold")
    for timing in analysis.timings:
        if (timing.pattern, timing.size) == (first.pattern, first.size):
            for ratio in timing.ratios[1:]:
                table.add_row(Text(ratio_text(ratio)), Text(timing_of_ratio(timing, ratio)))
    if table.row_count:
        console.print(table)
        console.print()


def _warnings(console: Console, analysis: Analysis) -> None:
    for said in disagreement_lines(analysis):
        console.print(Text.assemble(("DISAGREE  ", "bold red"), said))
    for invalid in analysis.tables.invalid:
        cell = invalid.cell
        name = f"{invalid.target.folder}, cell {cell.id} ({cell.transport}, {cell.conditions})"
        reasons = "; ".join(invalid.reasons)
        console.print(Text.assemble(("INVALID   ", "bold yellow"), f"{name}: {reasons}"))


class Sources:
    """The target and a letter for where figures come from, so that a row fits a line."""

    def __init__(self) -> None:
        self._letters: dict[str, str] = {}

    def letter(self, target: str, source: str) -> str:
        letter = self._letters.setdefault(source, chr(ord("a") + len(self._letters)))
        return f"{target} {letter}"

    def legend(self, machines: list[str]) -> str:
        lines = [f" {letter}  {source}" for source, letter in self._letters.items()]
        lines += [f" {machine}" for machine in machines]
        both = " Two letters: both say so, where both measured. A second line: they differ.\n"
        return "\n".join([*lines, both])


def _table(ledger: Ledger, timings: tuple[Times, ...], sources: Sources, console: Console) -> Table:
    title = f"{ledger.pattern}, {size_text(ledger.size)}: per message unless noted"
    lines = box.SIMPLE_HEAD if console.is_terminal else None
    table = Table(title=title, title_justify="left", box=lines, padding=(0, 1), pad_edge=False)
    table.add_column("", overflow="fold", min_width=NAME_WIDTH)
    for conditions, transport in ledger.columns:
        head = conditions.replace("+", "\n+")
        table.add_column(f"{head}\n{transport}", justify="right", no_wrap=True)
    table.add_column("from", style="dim", overflow="fold", min_width=FROM_WIDTH - 1)
    for row in ledger.once():
        # What nobody asked for stands in the report; here it would hide what was measured.
        if (row.lines or row.failed) and not _nothing_elsewhere(row):
            _add(table, ledger, row, sources, narrow=console.width < NARROW)
    _add_times(table, ledger, timings, sources)
    return table


def _nothing_elsewhere(row: Row) -> bool:
    """Another context's zeros are in the report, where there is room for them."""
    keys = row.measure.keys
    figures = [entry.value for line in row.lines for entry in line.entries.values()]
    return bool(keys) and all(key.endswith(ELSEWHERE) for key in keys) and not any(figures)


def _add_times(table: Table, ledger: Ledger, timings: tuple[Times, ...], sources: Sources) -> None:
    """p50, p99 and throughput: of unprobed cells of the host, or not at all."""
    latencies = {
        (timing.conditions, latency.transport): latency
        for timing in timings
        if (timing.pattern, timing.size) == (ledger.pattern, ledger.size)
        for latency in timing.latencies
    }
    if not latencies:
        return
    kernels = sorted({latency.kernel for latency in latencies.values()})
    clock = "the workload's clock, no probe attached · host"
    source = sources.letter("host", f"{clock} · {', '.join(kernels)}")
    for words, field, unit in TIMES:
        spreads = [getattr(latencies.get(column), field, None) for column in ledger.columns]
        texts = [NOT_MEASURED if one is None else amount(one.value, unit) for one in spreads]
        table.add_row(Text(words), *map(Text, texts), Text(source))


def _add(table: Table, ledger: Ledger, row: Row, sources: Sources, *, narrow: bool) -> None:
    per = f" / {row.measure.per}" if row.measure.per == "round trip" else ""
    words = Text(row.measure.words + per)
    if not row.lines:
        blanks = [Text(NOT_MEASURED) for _ in ledger.columns]
        table.add_row(words, *blanks, Text(row.why_missing))
    lines: list[tuple[tuple[str, ...], str, str]] = []
    for line in row.best():
        if not any(column in line.entries for column in ledger.columns):
            continue  # it has figures of other columns only
        figures = tuple(_figure(row, line, column, narrow) for column in ledger.columns)
        letter = sources.letter(line.target, line.source)
        for place, (shown, letters, disturbed) in enumerate(lines):
            if says_no_more(figures, shown):
                lines[place] = shown, f"{letters}, {letter}", disturbed
                break
        else:
            lines.append((figures, letter, row.disturbed(line)))
    for place, (figures, letters, disturbed) in enumerate(lines):
        name, style = (Text(f"  {disturbed}"), "dim") if place else (words, "")
        table.add_row(name, *map(Text, figures), Text(letters), style=style)


def says_no_more(figures: tuple[str, ...], shown: tuple[str, ...]) -> bool:
    """Whether a source has the figures that another one has shown, or none."""
    pairs = zip(figures, shown, strict=True)
    return all(one in (other, NOT_MEASURED) for one, other in pairs)


def _figure(row: Row, line: Line, column: tuple[str, str], narrow: bool) -> str:
    entry = line.entries.get(column)
    if entry is None:
        return NOT_MEASURED
    unit = row.measure.unit
    extent = spread(*entry.ends, unit)
    said = amount(entry.value, unit) + (f" ({extent})" if extent and not narrow else "")
    return said if entry.valid else f"{said} invalid"
