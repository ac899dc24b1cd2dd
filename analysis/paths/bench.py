# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel executed for a program of the user's: as a table, and for other programs."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from pathlib import Path
from typing import NamedTuple

from analysis.drawing import Drawn
from analysis.paths import tree
from analysis.paths.figures import graphs, palette
from analysis.paths.functions import DISPATCHES, ENTRY
from analysis.paths.tree import Span
from analysis.raw.bench import Bench, CallRow, Whose
from analysis.raw.record import damaged, read_object, read_text
from analysis.wording import counted
from probes.contract import BENCH

TREE_FILE = "tree.tsv"
MOST_CALL_ROWS = 20
LEAST_PART = 1 / 5000  # of a flame graph's width
OTHER = "other: "  # how the root of a task begins that is neither the program's nor the server's
WHOSE: dict[Whose, str] = {"program": "", "server": "of the server"}
PHASES = {"start": "start, until main()", "exit": "exit"}


@dataclass(frozen=True)
class BenchRun:
    """A stored run of a program: bench.json and its call tree."""

    folder: Path
    about: Bench
    tree: tuple[Span, ...]

    def rows(self, whose: str, phase: str = "run") -> list[CallRow]:
        """Return calls, those that were made most often first."""
        rows = [row for row in self.about.rows if (row.whose, row.phase) == (whose, phase)]
        return sorted(rows, key=lambda row: (-row.calls, -row.kernel, row.call, row.site))

    @property
    def instructions(self) -> int:
        return sum(span.instructions for span in self.tree)


def read_bench(folder: Path) -> BenchRun:
    """Read what `exact -- PROGRAM` has left. Raises RunError."""
    return BenchRun(folder, read_object(folder / BENCH, Bench), tuple(_spans(folder / TREE_FILE)))


def _spans(path: Path) -> Iterator[Span]:
    _, *lines = read_text(path).splitlines() or [""]
    for number, line in enumerate(lines, 2):
        try:
            names, calls, steps, instructions = line.split("\t")
            yield Span(tuple(names.split(";")), int(instructions), int(calls), int(steps))
        except ValueError:
            raise damaged(f"{path}, line {number}", "it is no line of a call tree") from None


class CallColumn(NamedTuple):
    """A column of figures: its head, and the field of a row."""

    head: str
    field: str


CALL_COLUMNS = (
    CallColumn("calls", "calls"),
    CallColumn("kernel", "kernel"),
    CallColumn("usual", "usual"),
    CallColumn("most", "most"),
    CallColumn("user before", "user_before"),
)


def table(run: BenchRun, whose: str, most: int = MOST_CALL_ROWS) -> list[str]:
    """Return the lines of a side's calls; those of start and exit are one line each."""
    named: defaultdict[str, list[CallRow]] = defaultdict(list)
    for row in run.rows(whose):
        named[call_name(row)].append(row)
    ranked = sorted(named.items(), key=lambda item: -sum(row.kernel for row in item[1]))
    lines = [(name, [*_sums(rows)]) for name, rows in ranked[:most]]
    for (_, figures), (_, rows) in zip(lines, ranked, strict=False):
        figures[2:4] = [rows[0].usual, max(row.most for row in rows)]
    if rest := ranked[most:]:
        all_rest = [row for _, rows in rest for row in rows]
        lines.append((f"{counted(len(rest), 'more row')}: calls.csv", _sums(all_rest)))
    phases = {phase: run.rows(whose, phase) for phase in PHASES}
    lines += [(PHASES[phase], _sums(rows)) for phase, rows in phases.items() if rows]
    texts = [[c.head for c in CALL_COLUMNS]]
    texts += [["" if n is None else f"{n:,}" for n in figures] for _, figures in lines]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    names = ["system call, and who wanted it", *(name for name, _ in lines)]
    first = max(map(len, names))
    return [
        f"{name:{first}}  " + "  ".join(f"{t:>{w}}" for t, w in zip(row, widths, strict=True))
        for name, row in zip(names, texts, strict=True)
    ]


def _sums(rows: Sequence[CallRow]) -> list[int | None]:
    sums = {
        name: sum(getattr(row, name) for row in rows) for name in ("calls", "kernel", "user_before")
    }
    return [sums.get(column.field) for column in CALL_COLUMNS]


def call_name(row: CallRow) -> str:
    """`write < main (schedule +1)`."""
    site = f" < {row.site}" if row.site not in ("", row.call) else ""
    return f"{row.call}{site}" + (f" ({row.shape})" if row.shape else "")


def text(run: BenchRun) -> str:
    """Return what is printed."""
    about, lines = run.about, []
    for whose in about_whom(run):
        sums = about.sums[whose]
        if WHOSE[whose]:
            lines.append(f"Calls {WHOSE[whose]}:")
        lines += table(run, whose)
        lines.append(
            f"{sums.kernel:,} instructions in {counted(sums.calls, 'system call')}, "
            f"{sums.user:,} in user space, {sums.faults:,} in page faults, "
            f"{sums.beginnings:,} to begin {counted(sums.tasks, 'task')}, "
            f"{sums.interrupts:,} in interrupts."
        )
        lines.append("")
    others = sum(span.instructions for span in run.tree if span.path[0].startswith(OTHER))
    lines.append(f"{others:,} instructions of {run.instructions:,} are of other tasks.")
    environment = about.environment
    window = ""
    if about.windows:
        window = f"; between {counted(about.windows, 'window_begin()')} and window_end()"
    lines.append(
        f"Linux {environment.kernel} on {environment.cpu} of QEMU {environment.qemu}"
        f"{' with ' + about.knob if about.knob else ''}, one CPU"
        f"{', warm' if about.warm else ''}{window}."
    )
    lines.append("Instructions are not time: caches, contention and devices are not seen.")
    return "\n".join(lines) + "\n"


def callgrind(run: BenchRun) -> str:
    """Return the call tree in Callgrind's format (valgrind.org/docs/manual/cl-format.html).

    A function's inclusive cost counts each instruction once, however often it calls itself.
    """
    own: Counter[PlacedFunction] = Counter()
    calls: defaultdict[tuple[PlacedFunction, PlacedFunction], Counter[str]] = defaultdict(Counter)
    for span in run.tree:
        names = placed(span.path)
        own[names[-1]] += span.instructions
        for edge in set(pairwise(names)):
            calls[edge]["inclusive"] += span.instructions
        if len(names) > 1:
            calls[names[-2], names[-1]]["calls"] += span.calls
    total = own.total()
    lines = ["# callgrind format", "version: 1", "creator: pathcost"]
    lines += [f"cmd: {' '.join(run.about.program)}".replace("\n", " "), "positions: line"]
    lines += ["events: Ir", f"summary: {total}", ""]
    callees: defaultdict[PlacedFunction, list[PlacedFunction]] = defaultdict(list)
    for caller, callee in sorted(calls):
        callees[caller].append(callee)
    for function in sorted(own.keys() | callees.keys()):
        lines += [f"fl={function.where}", f"fn={function.name}", f"0 {own[function]}"]
        for callee in callees.get(function, ()):
            costs = calls[function, callee]
            lines += [f"cfi={callee.where}", f"cfn={callee.name}"]
            lines += [f"calls={max(costs['calls'], 1)} 0", f"0 {costs['inclusive']}"]
        lines.append("")
    return "\n".join([*lines, f"totals: {total}"]) + "\n"


class PlacedFunction(NamedTuple):
    """A function, and whether the kernel or user space has it."""

    where: str
    name: str


def placed(path: tree.Path) -> list[PlacedFunction]:
    """Return the functions of a path, whose first name is the task's.

    The format knows who calls whom, and no whole path. So what all system calls pass has the caller
    in its name, as `callgrind --separate-callers` writes it: else a reader such as speedscope shows
    every call below every function of user space.
    """
    inside = next((at for at, name in enumerate(path) if ENTRY.match(name)), len(path))
    if path[0].startswith(OTHER):
        inside = 1
    names = [PlacedFunction("user", name) for name in path[1:inside]]
    shared = list(takewhile(DISPATCHES.match, path[inside:]))
    if names:
        shared = [f"{name}'{names[-1].name}" for name in shared]
    below = [*shared, *path[inside + len(shared) :]]
    return [*names, *(PlacedFunction("kernel", name) for name in below)] or [
        PlacedFunction("task", *path)
    ]


def folded(run: BenchRun) -> str:
    """Return the tree as folded stacks, for speedscope and other flame graph programs."""
    lines = ((";".join(span.path), span.instructions) for span in run.tree)
    return "".join(f"{path} {own}\n" for path, own in lines if own)


def drawn_flames(run: BenchRun) -> Drawn:
    """Return a flame graph of the program, and one of its server."""
    views, layers = [], []
    for whose in about_whom(run):
        spans = [span for span in run.tree if span.path[0] == whose]
        view = tree.flame_graph(
            f"{whose}: {sum(s.instructions for s in spans):,} instructions", spans
        )
        least = view.total * LEAST_PART
        views.append(replace(view, boxes=tuple(box for box in view.boxes if box.width >= least)))
        layers.append(tree.by_layer(spans))
    colours = palette(layers)
    return graphs("bench-flame", "instructions", {"": views}, colours, run.about.environment.kernel)


def about_whom(run: BenchRun) -> list[Whose]:
    return [whose for whose in WHOSE if whose in run.about.sums]
