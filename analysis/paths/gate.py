# SPDX-License-Identifier: GPL-2.0-or-later
"""Two kernels' steady round trips compared: within an allowance, beyond it, or not to be told."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from analysis.paths import changes
from analysis.paths.cells import ExactCell, failed_cells
from analysis.paths.changes import ONLY_CALLS, WORK, ExactPair, Moved, cell_name
from analysis.paths.line_changes import LINE_QUANTITIES, LineChange, LineCounts, line_change
from analysis.raw.run import Run
from analysis.wording import counted
from probes.contract import BEYOND, UNTOLD, WITHIN
from probes.messages import UsageError, shown

EXACT_CELL = "exact cell "  # in run.json's missing
MOST_SUMMARY_LINES = 20  # of the summary
COMMIT_WIDTH = 72  # of a line, as in a commit's message
ALLOWED = r"\d{1,9}(?:\.\d{1,6})?"
ALLOWANCE = re.compile(
    rf"(?P<number>{ALLOWED})(?P<percent>%?)(?P<more>(?:,(?:{'|'.join(LINE_QUANTITIES)})={ALLOWED})*)"
)
NOT_TIME = (
    "Instructions are not time (docs/time-explained.md): cache misses, lock contention, other "
    "CPUs are not seen."
)


class Allowance(NamedTuple):
    """By how much a round trip may grow: instructions, or with `percent` a part of the first;
    and lines of data, lines of code and moves."""

    number: float
    percent: bool
    lines: LineCounts = LineCounts(0, 0, 0)

    def holds_lines(self, change: LineChange | None) -> bool:
        return change is None or all(
            more <= most for more, most in zip(change.more, self.lines, strict=True)
        )

    def holds(self, pair: ExactPair) -> bool:
        return pair.more <= self.number * (pair.before.total / 100 if self.percent else 1)

    def __str__(self) -> str:
        return f"{self.number:g} %" if self.percent else f"{self.number:,g} instructions"

    def words(self, results: "Iterable[CellResult]") -> str:
        """What it allows; of lines and moves where the results have them."""
        parts = [str(self)]
        if any(result.change for result in results):
            names = ("lines", "lines of code", "moves")
            parts += [f"{most:g} {name}" for name, most in zip(names, self.lines, strict=True)]
        return ", ".join(parts)


def parse_allowance(text: str) -> Allowance:
    """Raises UsageError."""
    if (match := ALLOWANCE.fullmatch(text)) is None:
        raise UsageError(
            f"--allowance {shown(text)} is neither a number nor a part such as 0.5%, "
            "with or without ,lines=N,code=N,moves=N."
        )
    lines = dict(part.split("=") for part in match["more"].split(",") if part)
    most = LineCounts(**{name: float(lines.get(name, 0)) for name in LINE_QUANTITIES})
    return Allowance(float(match["number"]), match["percent"] == "%", most)


class CellResult(NamedTuple):
    """A cell of the gate: `why` it cannot be told, or the `pair` that tells."""

    name: str
    status: int
    pair: ExactPair | None = None
    why: str = ""
    change: LineChange | None = None  # where both runs counted lines

    def line(self, width: int = 0) -> str:
        """The cell, and what became of its round trip."""
        if self.pair is None:
            return f"{self.name:{width}}  cannot be told: {self.why}"
        before, more = self.pair.before.total, self.pair.more
        change = f"{more:+,} ({more / before:+.2%})" if more else "the same"
        return f"{self.name:{width}}  {before:>9,} -> {before + more:>9,}  {change}"

    def reasons(self) -> Iterator[str]:
        """Yield what is behind the difference, the most important line first."""
        pair = self.pair
        if self.change:
            yield self.change.line()
            yield from map(str, self.change.objects)
        if pair is None or not pair.functions():
            return
        parts = pair.parts()
        number = Counter(part.kind for part in parts)
        of_work, of_calls = (
            sum(part.difference for part in parts if part.kind == kind)
            for kind in (WORK, ONLY_CALLS)
        )
        if work := [part for part in parts if part.kind == WORK]:
            yield _most(f"work {of_work:+,} in {counted(len(work), 'function')}: ", work)
        payloads = pair.before.payload, pair.after.payload
        copies = [f"{payload.per_byte(pair.after.size):.2f}" for payload in payloads if payload]
        if len(set(copies)) == 2:
            yield f"copies of each payload byte: {' -> '.join(copies)}"
        moves = [number[kind] for kind in (changes.INLINED, changes.OUTLINED, changes.RENAMED)]
        if any(moves):
            counts = "{} inlined, {} no longer inlined, {} renamed".format(*moves)
            yield f"compiler {of_calls:+,}: {counts}"
        steps = pair.after.steps - pair.before.steps
        if steps != pair.more:
            yield f"{steps:+,} steps, with each repetition of a string instruction"


@dataclass(frozen=True)
class Gate:
    """All cells; each kernel is called as the user called it, with its release."""

    results: tuple[CellResult, ...]
    allowance: Allowance
    names: tuple[str, str]
    machine: str

    @property
    def status(self) -> int:
        """A cell beyond the allowance decides, whatever the others cannot tell."""
        return next((status for status in (BEYOND, UNTOLD) if self.count(status)), WITHIN)

    def count(self, status: int) -> int:
        return sum(result.status == status for result in self.results)

    @property
    def words(self) -> str:
        return self.allowance.words(self.results)

    @property
    def verdict(self) -> str:
        cells, untold = counted(len(self.results), "cell"), self.count(UNTOLD)
        if self.status == WITHIN:
            return f"PASS: all of {cells} within the allowance of {self.words}."
        if self.status == UNTOLD:
            return f"UNKNOWN: {untold} of {cells} cannot be told."
        beyond = f"{self.count(BEYOND)} of {cells} beyond the allowance of {self.words}"
        return f"FAIL: {beyond}{f'; {untold} cannot be told' if untold else ''}."


def judge(
    pairs: Sequence[ExactPair],
    runs: tuple[Run, Run],
    second: Iterable[ExactCell],
    allowed: Allowance,
) -> Gate:
    """Judge the cells of both runs, of which the `second` has these. Raises UsageError for none."""
    archs = sorted({cell.arch for pair in pairs for cell in (pair.before, pair.after)})
    if len(archs) > 1:
        raise UsageError(
            f"the two runs are of {' and '.join(archs)}: a gate judges by its own kind."
        )
    results = []
    reasons = dict(_lacking(runs))
    for cell in second:
        reasons.setdefault(str(cell.cell), "the first run has no such cell")
    for pair in pairs:
        name = str(pair.after.cell)
        reasons.pop(name, None)
        cells = {"first": pair.before, "second": pair.after}
        broken = next((which for which, cell in cells.items() if cell.broken), "")
        if broken:
            why = f"the {broken} kernel's is invalid: {cells[broken].broken[0]}"
            results.append(CellResult(cell_name(name), UNTOLD, why=why))
        else:
            change = line_change(pair.before, pair.after)
            holds = allowed.holds(pair) and allowed.holds_lines(change)
            status = WITHIN if holds else BEYOND
            results.append(CellResult(cell_name(name), status, pair, change=change))
    results += [CellResult(cell_name(name), UNTOLD, why=why) for name, why in reasons.items()]
    if not results:
        raise UsageError("the two runs have no exact cell that could be compared.")
    machine = next((f"{pair.after.cpu} of QEMU {pair.after.qemu}" for pair in pairs), "")
    return Gate(tuple(results), allowed, (kernel_name(runs[0]), kernel_name(runs[1])), machine)


def _lacking(runs: tuple[Run, Run]) -> Iterator[tuple[str, str]]:
    """Cells that could not be counted, and why: the first kernel's last, whose reason stays."""
    for which, run in (("second", runs[1]), ("first", runs[0])):
        lacks = [(str(line.cell), line.error.split("\n")[0]) for line in failed_cells(run)]
        lacks += [
            (name.removeprefix(EXACT_CELL), lack.why)
            for lack in run.missing
            for name in lack.quantities
            if name.startswith(EXACT_CELL)
        ]
        yield from ((name, f"on the {which} kernel: {why}") for name, why in lacks)


def kernel_name(run: Run) -> str:
    """`6.1.192 (tree)`: release, and the name that the user gave where it says something else."""
    releases = [entry.kernel for entry in run.manifest.exact]
    kernels = run.manifest.options.get("kernels")
    given = str(kernels[0]) if isinstance(kernels, list) and kernels else ""
    release, name = [*releases, "?"][0], given.rstrip("/").rpartition("/")[2]
    return release if release.startswith(name) else f"{release} ({name})"


def text(gate: Gate, page: str, times: Sequence[str] = ()) -> str:
    """At most MOST_LINES lines: a line for each cell, the most changed first where there are many,
    and what is behind the first of them. `times` stand below the verdict."""
    first, second = gate.names
    head = [f"Instructions of a steady round trip: {second} against {first}"]
    foot = [gate.verdict, *times, f"Counted on {gate.machine}.", NOT_TIME, f"All functions: {page}"]
    space = MOST_SUMMARY_LINES - len(head) - len(foot)
    results = list(gate.results)
    if len(results) > space:
        results.sort(key=lambda result: -abs(result.pair.more) if result.pair else -(10**12))
        foot.insert(0, f"And {counted(len(results) - space + 1, 'cell')} that changed no more.")
        results = results[: space - 1]
    width, left = max(len(result.name) for result in results), space - len(results)
    lines = []
    for result in results:
        reasons = list(result.reasons())[:left]
        left -= len(reasons)
        lines += [f"  {result.line(width)}", *(f"    {reason}" for reason in reasons)]
    return "\n".join([*head, *lines, *foot]) + "\n"


def _most(line: str, moved: Sequence[Moved]) -> str:
    """The line with as many functions as there is space for, one at least."""
    for number, row in enumerate(moved):
        calls = f" ({row.calls_before}->{row.calls_after} calls)"
        calls = calls if row.calls_before != row.calls_after else ""
        named = f"{', ' if number else ''}{row.name} {row.difference:+,}{calls}"
        if number and len(line) + len(named) > COMMIT_WIDTH:
            return f"{line}, ..."
        line += named
    return line


def ktap(gate: Gate, times: Sequence[str] = ()) -> str:
    """KTAP version 1 (docs.kernel.org/dev-tools/ktap.html): a test for each cell."""
    lines = ["KTAP version 1", f"1..{len(gate.results)}"]
    lines.append(f"# {gate.names[1]} against {gate.names[0]}, allowance {gate.words}")
    lines += [f"# {line}" for line in (*times, NOT_TIME)]
    for number, result in enumerate(gate.results, 1):
        if result.pair is not None:
            rows = (f"{p.fate} {p.name}: {p.before} -> {p.after}" for p in result.pair.parts())
            lines += [f"# {line}" for line in (result.line(), *result.reasons(), *rows)]
        outcome = "ok" if result.status == WITHIN else "not ok"
        error = f" # ERROR {result.why.replace('#', '')}" if result.why else ""
        lines.append(f"{outcome} {number} - {result.name}{error}")
    return "\n".join(lines) + "\n"
