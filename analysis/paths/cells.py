# SPDX-License-Identifier: GPL-2.0-or-later
"""Exact mode's cells, out of raw/exact-*/: the steady round trip, transports side by side.

In the tidy table a row of the instrument `exact` is the steady iteration, so `messages` is 2 for a
round trip, whatever the window held (for copies, a short window of its own); of patterns that are
not WHOLE there is the window alone.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from pydantic import TypeAdapter

from analysis.counts.ledger import transport_order
from analysis.machine import kernel_text
from analysis.paths import lines
from analysis.paths.lines import FieldOfObject, LineOfObject, read_fields, read_lines, read_moves
from analysis.paths.tree import Span, by_function, by_layer, calls_of, function_layer, summed
from analysis.raw.exact import EXACT_LINES, ExactEnvironment, ExactLine, FailedExactLine
from analysis.raw.record import Count, Positive, damaged, read_object, read_table
from analysis.raw.run import ExactEntry, Missing, Run, check_kernel, read_cells
from analysis.wording import listed, number, size_text, transport_text
from probes.cell import WHOLE, Conditions
from probes.contract import ENVIRONMENT
from probes.isa import ISAS, USUAL

PROCESSES = ("client", "server")
MOST_IN_SENTENCE = 4  # transports
SCHEDULINGS = {"fifo": "under SCHED_FIFO", "other": "with the default scheduler"}
DEFAULT = "other"
# Whose events → their quantity in the tidy table.
EVENT_QUANTITIES = {
    "executed": "executed_events",
    "busy": "busy_events",
    "path": "path_events",
}
SYSTEM_CALLS = frozenset(isa.system_call for isa in ISAS.values())
# schedule() on the way back to user space or out of an interrupt, and where preemption is tried.
PREEMPTION = re.compile(
    r"(?:exit_to_user_?mode|do_notify_resume)[^;]*;schedule;|;irqentry_exit|preempt_schedule"
)
TREE_HEAD, ORDER_HEAD = "path\tcalls\tsteps\tinstructions", "cpu\tline\tinstructions"
TREE: TypeAdapter[list[Any]] = TypeAdapter(list[tuple[str, Count, Count, Count]])
ORDER: TypeAdapter[list[Any]] = TypeAdapter(list[tuple[Count, Positive, Count]])


def scheduling_text(name: str) -> str:
    """`under SCHED_FIFO`; the name of a scheduling that has no words."""
    return SCHEDULINGS.get(name, name)


class ExactCell(ExactLine):
    """One exact cell, with its steady round trip summed by path, and in its order.

    Older runs have no `order`.
    """

    kernel: str
    qemu: str
    cpu: str
    memory_groups: bool = True  # whether the kernel has them
    arch: str = USUAL.name
    tree: tuple[Span, ...]
    broken: tuple[str, ...]
    order: tuple[Span, ...] = ()
    line_rows: tuple[LineOfObject, ...] = ()
    field_rows: tuple[FieldOfObject, ...] = ()
    moved: tuple[Span, ...] = ()  # an iteration in its order, with the moves of cache lines

    def as_variant(self, number: int) -> "ExactCell":
        """The cell as its iterations of another variant went, from 1 up; 0 is the usual."""
        if not number:
            return self
        variant = self.variants[number - 1]
        tree = {";".join(span.path): span for span in self.tree}
        for path, (calls, steps) in variant.moved.items():
            usual = tree.get(path) or Span(tuple(path.split(";")), 0)
            own = usual.instructions + steps - variant.repeats.get(path, 0)
            tree[path] = Span(usual.path, own, usual.calls + calls, usual.steps + steps)
        kept = tuple(span for span in tree.values() if span.calls or span.steps)
        return self.model_copy(update={"tree": kept})

    @property
    def conditions(self) -> Conditions:
        return self.cell.conditions

    @property
    def unusual(self) -> tuple[str, ...]:
        """A word for each unusual condition but its scheduler and its knob."""
        return replace(self.conditions, sched=DEFAULT, knob="").unusual

    @property
    def where(self) -> str:
        """Its pattern, where it is not the usual one, its placement, and what else is unusual."""
        pattern = [self.pattern] if self.pattern != "pingpong" else []
        return " ".join([*pattern, "+".join((self.placement, *self.unusual))])

    @property
    def total(self) -> int:
        """Instructions of the steady round trip; a repeated string instruction counts once."""
        return sum(span.instructions for span in self.tree)

    @property
    def steps(self) -> int:
        return sum(span.steps for span in self.tree)

    @property
    def identical(self) -> int:
        """How many of the iterations are the steady round trip, alike in every call path."""
        return self.shapes[0].identical if self.shapes else 0

    @property
    def is_steady(self) -> bool:
        """Whether half of the iterations or more call the same functions equally often.

        Where one way's messages queue up, the iterations that fill the queue are the usual ones.
        """
        alike = self.shapes[0].iterations if self.shapes else 0
        return 2 * alike >= self.iterations

    @property
    def of_message(self) -> float:
        """The instructions of a message, the mean over the window."""
        return self.window.instructions / self.messages

    @property
    def steady(self) -> float:
        """A message's part of the steady iteration; of a pattern without one, the mean."""
        whole = self.pattern in WHOLE
        return self.total / self.messages_per_iteration if whole else self.of_message

    @property
    def frequency(self) -> str:
        return f"in {self.identical} of {self.iterations} iterations"

    def functions(self) -> Counter[str]:
        """The self instructions of each function."""
        return by_function(self.tree)

    def calls(self) -> Counter[str]:
        return calls_of(self.tree)

    def layers(self) -> Counter[str]:
        """The self instructions of each layer."""
        return by_layer(self.tree)

    def system_calls(self) -> int:
        """How many system calls both processes make in the steady iteration."""
        calls = self.calls()
        return sum(calls[name] for name in SYSTEM_CALLS)

    def switches(self) -> tuple[int, int]:
        """Voluntary and other switches of the two processes in the window, by getrusage(2)."""
        return self.result.both("rusage.voluntary"), self.result.both("rusage.involuntary")


class Comparison(NamedTuple):
    """Transports side by side, on one kernel with one scheduling and one placement."""

    cells: tuple[ExactCell, ...]
    kernel: str
    sched: str
    size: int
    placement: str
    pattern: str
    unusual: str

    @property
    def title(self) -> str:
        words = [scheduling_text(self.sched)]
        words += [self.placement] if self.placement != "same-cpu" else []
        words += [self.pattern] if self.pattern != "pingpong" else []
        return ", ".join([*words, self.unusual] if self.unusual else words)

    @property
    def sentence(self) -> str:
        """What a message takes over each transport; of many over the cheapest and the costliest."""
        shown = self.cells
        if len(shown) > MOST_IN_SENTENCE:
            by_cost = sorted(shown, key=lambda cell: cell.of_message)
            shown = (by_cost[0], by_cost[-1])
        costs = listed(
            [f"{cell.of_message:,.0f} over {transport_text(cell.transport)}" for cell in shown]
        )
        times = number(shown[-1].of_message / shown[0].of_message)
        ratio = f" ({times} times as many)" if len(shown) > 1 else ""
        size = size_text(self.size)
        return (
            f"Instructions of a message of {size} on {kernel_text(self.kernel)} {self.title}: "
            f"{costs}{ratio}, the mean of all."
        )

    def layers(self) -> list[tuple[str, tuple[int, ...]]]:
        """Layer → instructions by transport, the most expensive first."""
        counters = [cell.layers() for cell in self.cells]
        names = {name for counter in counters for name in counter}
        rows = [(name, tuple(counter[name] for counter in counters)) for name in names]
        return sorted(rows, key=lambda row: (-max(row[1]), row[0]))


def compare(cells: tuple[ExactCell, ...]) -> tuple[Comparison, ...]:
    """Each kernel, scheduling, size and placement once, transports side by side; no knobs."""
    groups: dict[Any, list[ExactCell]] = {}
    for cell in sorted(cells, key=lambda cell: transport_order(cell.transport)):
        if not cell.knob:
            place = (cell.kernel, cell.sched, cell.size, cell.placement, cell.pattern)
            groups.setdefault((*place, ", ".join(cell.unusual)), []).append(cell)
    return tuple(Comparison(tuple(group), *key) for key, group in groups.items())


def copiers(cells: Iterable[ExactCell], kernel: str) -> frozenset[str]:
    """Who was seen to copy payload on that kernel: not every cell is followed, and it is the same
    function in all of them."""
    return frozenset(
        name
        for cell in cells
        if cell.kernel == kernel and cell.payload
        for name in cell.payload.copiers
    )


def rows(run: Run, cells: tuple[ExactCell, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield rows of the tidy table, in the order of its columns."""
    for cell in cells:
        source = (run.name, "exact", cell.kernel, "function", "exact")
        workload = (cell.transport, cell.pattern, cell.size, str(cell.conditions))
        yield from ((*source, *workload, 0, cell.id, False, *count) for count in _counts(cell))


def as_sources(rows: pd.DataFrame) -> pd.DataFrame:
    """Move the scheduler of exact mode's rows from `conditions` to `target`: `exact-fifo`.

    Beside other instruments' figures the two schedulers are sources for one cell, not two cells.
    """
    exact = rows["instrument"] == "exact"
    cells = rows.loc[exact, "conditions"].map(Conditions.parse)
    rows = rows.copy()
    rows.loc[exact, "target"] = [f"exact-{conditions.sched}" for conditions in cells]
    rows.loc[exact, "conditions"] = [str(replace(each, sched=DEFAULT)) for each in cells]
    return rows


def _counts(cell: ExactCell) -> Iterator[tuple[str, str, float, str, int, bool]]:
    """Quantity, key, value, unit, messages, and whether it is valid."""
    valid = not cell.broken
    if cell.pattern in WHOLE:
        layers = {f"layer:{name}": count for name, count in cell.layers().items()}
        steady = [("instructions", {"steady": cell.total, **layers, **cell.functions()})]
        steady += [("steps", {"total": cell.steps}), ("function_calls", +cell.calls())]
        for quantity, counts in steady:
            for key, count in counts.items():
                yield quantity, key, count, "count", cell.messages_per_iteration, valid
        share = cell.identical / cell.iterations
        yield "steady_share", "", share, "count", cell.messages_per_iteration, valid
        for kind, events in (cell.events.kinds if cell.events else {}).items():
            for key, count in events.items():
                yield (
                    EVENT_QUANTITIES[kind],
                    key,
                    count,
                    "count",
                    cell.messages_per_iteration,
                    valid,
                )
    yield "instructions", "total", cell.window.instructions, "count", cell.messages, valid
    for quantity, key, mean in lines.counts(cell):
        yield quantity, key, mean, "count", cell.messages_per_iteration, valid
    if payload := cell.payload:
        for way, size in payload.copied.items():
            yield "copy_bytes", way, size, "bytes", payload.messages, payload.valid
        for name, functions in (("loaded", payload.loaded), ("stored", payload.stored)):
            layers = summed((function_layer(each), size) for each, size in functions.items())
            sizes = {f"{name} layer:{layer}": size for layer, size in layers.items()}
            for key, size in ({name: sum(functions.values())} | sizes).items():
                yield "memory_bytes", key, size, "bytes", payload.messages, valid


def read_exact(run: Run) -> tuple[ExactCell, ...]:
    """Read the exact cells of a run that have figures. Raises RunError for damaged files."""
    cells = []
    for entry in run.manifest.exact:
        raw = run.path / "raw" / entry.folder
        environment = read_object(raw / ENVIRONMENT, ExactEnvironment)
        check_kernel(entry, environment.kernel, raw)
        more = environment.model_dump(include={"qemu", "cpu", "arch", "memory_groups"})
        more["kernel"] = _kernel_name(environment)
        for line in read_cells(raw, entry, EXACT_LINES):
            if isinstance(line, ExactLine):
                tree = more["tree"] = _tree(raw / f"tree/{line.id}.tsv")
                order = more["order"] = _order(raw / f"iteration/{line.id}.tsv", tree)
                more["broken"] = tuple(_broken(line, tree, order))
                more["line_rows"] = read_lines(raw, line)
                more["field_rows"] = read_fields(raw, line)
                more["moved"] = read_moves(raw, line)
                cells.append(ExactCell(**dict(line), **more))
    return tuple(cells)


def _kernel_name(environment: ExactEnvironment) -> str:
    """Return the release; of a tree's kernel for another architecture also that."""
    kernel, arch = environment.kernel, environment.arch
    return kernel if arch == USUAL.name or arch in kernel else f"{kernel} ({arch})"


def failures(run: Run) -> Iterator[Missing]:
    """Yield the exact cells, the payloads and the cache lines that could not be counted."""
    for entry, line in _lines(run):
        lacks = [
            (f"payload of exact cell {line.id}", getattr(line, "payload_error", None)),
            (f"cache lines of exact cell {line.id}", getattr(line, "lines_error", None)),
        ]
        if isinstance(line, FailedExactLine):
            knob = f", knob {line.knob.name}" if line.knob else ""
            lacks = [(f"exact cell {line.id}{knob}", line.error)]
        for what, error in lacks:
            if error is not None:
                yield Missing(what, entry.folder, error.split("\n")[0])


def failed_cells(run: Run) -> list[FailedExactLine]:
    return [line for _, line in _lines(run) if isinstance(line, FailedExactLine)]


def _lines(run: Run) -> Iterator[tuple[ExactEntry, ExactLine | FailedExactLine]]:
    for entry in run.manifest.exact:
        for line in read_cells(run.path / "raw" / entry.folder, entry, EXACT_LINES):
            yield entry, line


def _broken(line: ExactLine, tree: Sequence[Span], order: Sequence[Span]) -> Iterator[str]:
    yield from (f"{check.name}: {check.detail}" for check in line.checks if not check.ok)
    steady = line.shapes[0].instructions if line.shapes else -1
    if steady != sum(span.instructions for span in tree):
        yield "the stored tree does not sum to the steady round trip"
    if order and steady != sum(span.instructions for span in order):
        yield "the stored iteration does not sum to the steady round trip"


def _tree(path: Path) -> tuple[Span, ...]:
    rows = read_table(path, TREE_HEAD, TREE)
    if not rows:
        raise damaged(path, "it holds no tree")
    return tuple(Span(tuple(names.split(";")), own, *counts) for names, *counts, own in rows)


def _order(path: Path, tree: Sequence[Span]) -> tuple[Span, ...]:
    """Older runs have none, or one in steps."""
    rows = read_table(path, ORDER_HEAD, ORDER) if path.exists() else []
    if any(line > len(tree) for _, line, _ in rows):
        raise damaged(path, "it names a line that the tree lacks")
    return tuple(Span(tree[line - 1].path, own, cpu=cpu) for cpu, line, own in rows)
