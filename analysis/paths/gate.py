# SPDX-License-Identifier: GPL-2.0-or-later
"""Two kernels' steady round trips compared: within an allowance, beyond it, or not to be told."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from analysis.diff.compare import Diff
from analysis.paths.cells import failed_cells
from analysis.paths.changes import ExactPair, Moved, Parts
from analysis.wording import counted
from probes.messages import UsageError, shown

WITHIN, BEYOND, UNTOLD = 0, 1, 125  # exit status, as git bisect run takes it
CELL = "exact cell "  # in run.json's missing
MOST_LINES = 20  # of the summary
WIDTH = 72  # of a line, as in a commit's message
ALLOWANCE = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(%?)")
NOT_TIME = "Instructions are not time: cache misses, lock contention, other CPUs are not seen."


@dataclass(frozen=True)
class Allowance:
    """By how much a round trip may grow: instructions, or with `percent` a part of the first."""

    number: float
    percent: bool

    def holds(self, pair: ExactPair) -> bool:
        most = self.number * pair.before.total / 100 if self.percent else self.number
        return pair.more <= most

    def __str__(self) -> str:
        return f"{self.number:g} %" if self.percent else f"{self.number:,g} instructions"


def parse_allowance(text: str) -> Allowance:
    """Raises UsageError."""
    if (found := ALLOWANCE.fullmatch(text)) is None:
        raise UsageError(f"--allowance {shown(text)} is neither a number nor a part such as 0.5%.")
    return Allowance(float(found[1]), found[2] == "%")


@dataclass(frozen=True)
class Result:
    """A cell of the gate. `why` says why it cannot be told; else there are `pair` and `parts`."""

    name: str
    status: int
    pair: ExactPair | None = None
    parts: Parts | None = None
    why: str = ""


@dataclass(frozen=True)
class Gate:
    """All cells; each kernel is called as the user called it, with its release."""

    results: tuple[Result, ...]
    allowance: Allowance
    names: tuple[str, str]
    machine: str

    @property
    def status(self) -> int:
        """A cell beyond the allowance is one, whatever the others cannot tell."""
        found = {result.status for result in self.results}
        return next((status for status in (BEYOND, UNTOLD) if status in found), WITHIN)

    def of(self, status: int) -> int:
        return sum(result.status == status for result in self.results)


def judge(diff: Diff, allowance: Allowance) -> Gate:
    """Raises UsageError where the two runs have no cell at all."""
    results = [_judged(pair, allowance) for pair in diff.exact]
    results += [Result(name, UNTOLD, why=why) for name, why in _untold(diff)]
    if not results:
        raise UsageError("the two runs have no exact cell that could be compared.")
    environment = next((f"qemu64 of QEMU {p.after.qemu}" for p in diff.exact), "")
    return Gate(tuple(results), allowance, kernel_names(diff), environment)


def _judged(pair: ExactPair, allowance: Allowance) -> Result:
    name = str(pair.after.cell)
    for which, cell in (("first", pair.before), ("second", pair.after)):
        if cell.broken:
            return Result(name, UNTOLD, why=f"the {which} kernel's is invalid: {cell.broken[0]}")
    return Result(name, WITHIN if allowance.holds(pair) else BEYOND, pair, pair.parts())


def _untold(diff: Diff) -> Iterator[tuple[str, str]]:
    """Cells of the second run without a pair: name and why.

    What failed on both kernels is told once.
    """
    reasons: dict[str, str] = {}
    for which, analysis in (("first", diff.before), ("second", diff.after)):
        lacks = [(str(line.cell), line.error.split("\n")[0]) for line in failed_cells(analysis.run)]
        lacks += [
            (what.removeprefix(CELL), lack.why)
            for lack in analysis.run.missing
            for what in lack.quantities
            if what.startswith(CELL)
        ]
        for name, why in lacks:
            reasons.setdefault(name, f"on the {which} kernel: {why}")
    for cell in (cell for comparison in diff.after.exact for cell in comparison.cells):
        reasons.setdefault(str(cell.cell), "the first run has no such cell")
    judged = {str(pair.after.cell) for pair in diff.exact}
    yield from ((name, why) for name, why in reasons.items() if name not in judged)


def kernel_names(diff: Diff) -> tuple[str, str]:
    """`6.1.192 (tree)`: release, and the name that the user gave where it says something else."""
    names = []
    for analysis in (diff.before, diff.after):
        releases = [entry.kernel for entry in analysis.run.manifest.exact]
        named = analysis.run.manifest.options.get("kernels")
        given = str(named[0]) if isinstance(named, list) and named else ""
        release, name = [*releases, "?"][0], given.rstrip("/").rpartition("/")[2]
        names.append(release if release.startswith(name) else f"{release} ({name})")
    return names[0], names[1]


def text(gate: Gate, page: str) -> str:
    """At most MOST_LINES lines: a line for each cell, the most changed first where there are many,
    and what is behind as many of them as there is space for."""
    first, second = gate.names
    head = [f"Instructions of a steady round trip: {second} against {first}"]
    foot = [*_verdict(gate), f"Counted on {gate.machine}.", NOT_TIME, f"All functions: {page}"]
    space = MOST_LINES - len(head) - len(foot)
    results = list(gate.results)
    if len(results) > space:
        results.sort(key=lambda result: -abs(result.pair.more) if result.pair else -(10**12))
        foot.insert(0, f"And {counted(len(results) - space + 1, 'cell')} that changed less.")
        results = results[: space - 1]
    width = max(len(result.name) for result in results)
    lines = [_line(result, width) for result in results]
    left = space - len(results)
    for number, result in reversed(list(enumerate(results))):
        more = _reasons(result)[: max(0, left // (number + 1))]
        left -= len(more)
        lines[number] += "".join(f"\n    {line}" for line in more)
    return "\n".join([*head, *lines, *foot]) + "\n"


def _verdict(gate: Gate) -> list[str]:
    cells = counted(len(gate.results), "cell")
    if gate.status == WITHIN:
        return [f"PASS: all of {cells} within the allowance of {gate.allowance}."]
    if gate.status == BEYOND:
        untold = f"; {gate.of(UNTOLD)} cannot be told" if gate.of(UNTOLD) else ""
        beyond = f"{gate.of(BEYOND)} of {cells} beyond the allowance of {gate.allowance}"
        return [f"FAIL: {beyond}{untold}."]
    return [f"UNKNOWN: {gate.of(UNTOLD)} of {cells} cannot be told."]


def _line(result: Result, width: int) -> str:
    if result.pair is None:
        return f"  {result.name:{width}}  cannot be told: {result.why}"
    before, after = result.pair.before.total, result.pair.after.total
    more = result.pair.more
    change = f"{more:+,} ({more / before:+.2%})" if more else "the same"
    return f"  {result.name:{width}}  {before:>9,} -> {after:>9,}  {change}"


def _reasons(result: Result) -> list[str]:
    """What is behind a cell's difference, the most important line first."""
    pair, found = result.pair, result.parts
    if pair is None or found is None or not pair.functions():
        return []
    functions = counted(len(found.work), "function")
    start = f"work {found.of_work:+,} in {functions}: "
    lines = [_most(start, found.work)] if found.work else []
    copies = [cell.payload.per_byte(cell.size) if cell.payload else None
              for cell in (pair.before, pair.after)]  # fmt: skip
    if copies[0] != copies[1] and None not in copies:
        lines.append(f"copies of each payload byte: {copies[0]:.2f} -> {copies[1]:.2f}")
    if found.inlined or found.outlined or found.renamed:
        lines.append(
            f"compiler {found.of_inlining:+,}: {len(found.inlined)} inlined, "
            f"{len(found.outlined)} no longer inlined, {len(found.renamed)} renamed"
        )
    steps = pair.after.steps - pair.before.steps
    if steps != pair.more:
        lines.append(f"{steps:+,} steps, with each repetition of a string instruction")
    return lines


def _most(line: str, moved: Sequence[Moved]) -> str:
    """The line with as many functions as there is space for, one at least."""
    for number, row in enumerate(moved):
        named = f"{', ' if number else ''}{row.name} {row.difference:+,}{_calls(row)}"
        if number and len(line) + len(named) > WIDTH:
            return f"{line}, ..."
        line += named
    return line


def _calls(moved: Moved) -> str:
    if moved.calls_before == moved.calls_after:
        return ""
    return f" ({moved.calls_before}->{moved.calls_after} calls)"


def ktap(gate: Gate) -> str:
    """KTAP version 1 (docs.kernel.org/dev-tools/ktap.html): a test for each cell."""
    lines = ["KTAP version 1", f"1..{len(gate.results)}"]
    lines.append(f"# {gate.names[1]} against {gate.names[0]}, allowance {gate.allowance}")
    lines.append(f"# {NOT_TIME}")
    for number, result in enumerate(gate.results, 1):
        if result.pair is not None:
            told = [_line(result, 0).strip(), *_reasons(result), *_functions(result.parts)]
            lines += [f"# {line}" for line in told]
        outcome = "ok" if result.status == WITHIN else "not ok"
        error = f" # ERROR {result.why.replace('#', '')}" if result.why else ""
        lines.append(f"{outcome} {number} - {result.name}{error}")
    return "\n".join(lines) + "\n"


def _functions(found: Parts | None) -> Iterator[str]:
    """Every function of a cell whose work changed, and what the compiler did."""
    for name, *counts, kind in rows(found):
        yield f"{kind} {name}: {counts[0]} -> {counts[1]}"


def rows(found: Parts | None) -> Iterable[tuple[str, int, int, str]]:
    """Function, instructions in the first and the second kernel, and what became of it."""
    if found is None:
        return
    for kind, rows in (("changed", found.work), ("calls saved or added", found.calls_saved)):
        yield from ((moved.name, moved.before, moved.after, kind) for moved in rows)
    for row in found.inlined:
        yield row.function, row.instructions, 0, f"inlined into {row.caller}"
    for row in found.outlined:
        yield row.function, 0, row.instructions, f"no longer inlined into {row.caller}"
    for renamed in found.renamed:
        yield renamed.new, 0, 0, f"renamed from {renamed.old}"
