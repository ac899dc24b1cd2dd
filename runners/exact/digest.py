# SPDX-License-Identifier: GPL-2.0-or-later
"""Turns a replayed window into the files of a run: shapes, checks, the call tree.

The checks are what must hold for the figures to be believed; probes/transports.toml says which
hold for which transport.
"""

from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import groupby
from typing import Any

from probes.cell import ONE_WAY, WHOLE, Cell, sends_of
from probes.transports import named, read_transports
from runners.exact.cells import cpus_of, iterations_of, path_of
from runners.exact.events import IDLE_TASK
from runners.exact.iterations import IterationShape, ReplayedWindow
from runners.exact.knobs import Knob
from runners.exact.replay import CallTree, Counts

NAMED_DIFFERENCES = 3
MOST_VARIANTS = 64
# How far the rate of a guest's clock may be off: on Debian's 6.12 it is by 0.95e-6, on 7.2 by 0.
CLOCK_RATE = 2e-6
CheckResult = tuple[str, bool, str]
"""What must hold, whether it does, and the figures that were compared."""


def describe(
    cell: Cell, window: ReplayedWindow, result: dict[str, Any], knob: Knob
) -> dict[str, Any]:
    """Return the results in a cell's line of cells.jsonl."""
    (usual, _), *others = window.steady.variants[:MOST_VARIANTS]
    checked = [
        dict(zip(("name", "ok", "detail"), check, strict=True))
        for check in checks(cell, window, result, knob)
    ]
    return {
        "window": {
            "steps": window.total.steps.total(),
            "instructions": window.total.instructions,
        },
        "iterations": window.iterations,
        "messages_per_iteration": cell.messages // iterations_of(cell),
        "events": window.events or None,
        "shapes": [
            {
                "name": name_shape(window, shape),
                "iterations": len(shape.iterations),
                "identical": shape.identical,
                "steps": shape.steps,
                "least": shape.least,
                "most": shape.most,
                "instructions": shape.counts.instructions,
            }
            for shape in window.shapes
        ],
        # What each variant calls and runs more than the usual one; the most frequent comes first.
        # A timer's phase may decide which variant is the usual, so an exact comparison of two cells
        # needs the others too.
        "variants": [
            {"iterations": iterations, **_moved(window.tree, usual, counts)}
            for counts, iterations in others
        ],
        "checks": checked,
        "valid": all(check["ok"] for check in checked),
    }


def _moved(tree: CallTree, usual: Counts, counts: Counts) -> dict[str, dict[str, Any]]:
    """Call path → calls and steps more, and call path → repetitions more among these steps."""
    moved: dict[str, Any] = {}
    repeats: dict[str, int] = {}
    for node in sorted({*usual.steps, *usual.calls, *counts.steps, *counts.calls}):
        path = ";".join(tree.path(node))
        both = [counts.calls[node] - usual.calls[node], counts.steps[node] - usual.steps[node]]
        again = counts.repeats[node] - usual.repeats[node]
        if any(both) or again:
            moved[path] = both
        if again:
            repeats[path] = again
    return {"moved": moved, "repeats": repeats}


def name_shape(window: ReplayedWindow, shape: IterationShape) -> str:
    """`steady`, or what the shape has more: interrupts and tasks, else functions."""
    tree, steady = window.tree, window.steady
    if shape is steady:
        return "steady"
    usual, mine = (tree.by_function(each.counts.steps) for each in (steady, shape))
    new = mine.keys() - usual.keys()
    entries = sorted(filter(None, map(window.isa.interrupt, new)))
    tasks: Counter[str] = Counter()
    for node, steps in shape.counts.steps.items():
        tasks[tree.path(node)[0]] += steps
    for node in steady.counts.steps:
        tasks.pop(tree.path(node)[0], None)
    if entries or tasks:
        return ", ".join([*entries, *(task for task, _ in tasks.most_common())])
    mine.subtract(usual)
    apart = sorted((-abs(n), function) for function, n in mine.items() if n)
    if not apart:
        return "the same functions by other paths"
    return ", ".join(f"{name} {mine[name]:+d}" for _, name in apart[:NAMED_DIFFERENCES])


def tree_lines(tree: CallTree, counts: Counts) -> list[str]:
    """The call tree: path, calls, steps, instructions; sorted, so that equal trees are equal."""
    lines = [
        f"{';'.join(tree.path(node))}\t{counts.calls[node]}\t{counts.steps[node]}"
        f"\t{counts.steps[node] - counts.repeats[node]}\n"
        for node in _sorted(tree, counts)
    ]
    return ["path\tcalls\tsteps\tinstructions\n", *lines]


def iteration_lines(window: ReplayedWindow) -> list[str]:
    """The steady iteration in its order: CPU, line of the call tree (from 1), instructions."""
    lines = {node: n for n, node in enumerate(_sorted(window.tree, window.steady.counts), 1)}
    rows = ["cpu\tline\tinstructions\n"]
    for (cpu, node), visits in groupby(window.order, lambda visit: visit[:2]):
        rows.append(f"{cpu}\t{lines[node]}\t{sum(visit.instructions for visit in visits)}\n")
    return rows


def _sorted(tree: CallTree, counts: Counts) -> list[int]:
    return sorted(set(counts.steps) | set(counts.calls), key=lambda n: ";".join(tree.path(n)))


def checks(
    cell: Cell, window: ReplayedWindow, result: dict[str, Any], knob: Knob
) -> Iterator[CheckResult]:
    """Yield the checks of a cell, with `result` as the workload printed it."""
    summed = window.total.steps.total()
    yield (
        "the tree's self counts sum to the window",
        summed == window.counted,
        f"{summed} in the tree, {window.counted} counted by the emulator",
    )
    path = path_of(cell)
    if "calls" in path.checks:
        yield _calls(cell, window, result)
    if "no-calls" in path.checks:
        yield _no_calls(window)
    yield _clock(cell, window, result)
    counts, where = window.steady.counts, "steady iteration"
    if cell.pattern not in WHOLE:  # it may only fill a buffer: what empties that is not in it
        counts, where = window.total, "window"
    calls = window.tree.by_function(counts.calls)
    for names in path.through if "through" in path.checks else ():
        place = named(names, {name for name, n in calls.items() if n})
        wanted = "|".join(name.function for name in names)
        yield (
            f"messages pass {wanted}",
            place is not None,
            f"{calls[place.function] if place else 'no'} calls in the {where}",
        )
    for pattern, must in knob.evidence(cell.transport):
        called = {name: n for name, n in calls.items() if fnmatchcase(name, pattern)}
        yield (
            f"{knob.name} was in force: {pattern} {'is' if must else 'is not'} called",
            bool(called) == must,
            ", ".join(f"{n} calls of {name}" for name, n in called.items()) or "no call",
        )


def _entered(window: ReplayedWindow) -> Counter[str]:
    """Calls of each function, without those that a side makes when its own window has ended."""
    calls = window.tree.by_function(window.total.calls)
    calls.subtract(window.tree.by_function(window.outside.calls))
    return calls


def _calls(cell: Cell, window: ReplayedWindow, result: dict[str, Any]) -> CheckResult:
    """Where the reader may fall behind, a call may find no room and be made again."""
    entered = _entered(window)
    path, one_way = path_of(cell), cell.pattern in ONE_WAY
    place = named(path.sends, entered)
    sends = place.function if place else path.sends[0].function
    sides = [side for side in (result["client"], result["server"]) if side]
    whole = cell.messages * sends_of(cell.also, cell.size)
    calls = whole + sum(side["partial_sends"] for side in sides)
    refused = one_way and (cell.wait != "block" or "sends" in path.repeats)
    again = refused or path.legs > 1  # who forwards sends each again, or several as one
    return (
        f"calls of {sends} are messages" + (", or more where there was no room" if refused else ""),
        entered[sends] >= calls if again else entered[sends] == calls,
        f"{entered[sends]} calls, {cell.messages} messages and {calls - whole} partial sends",
    )


def _no_calls(window: ReplayedWindow) -> CheckResult:
    entered = _entered(window)
    others = {place.function for path in read_transports().values() for place in path.sends}
    called = {name: entered[name] for name in sorted(others) if entered[name]}
    return (
        "no message passes through the kernel: no transport's send function is called",
        not called,
        ", ".join(f"{n} calls of {name}" for name, n in called.items()) or "no call",
    )


def _clock(cell: Cell, window: ReplayedWindow, result: dict[str, Any]) -> CheckResult:
    """A nanosecond is an instruction, except where the machine idles: its clock skips ahead then.

    In ping-pong on two CPUs one of them always has something to do. Where messages go one way, the
    server reads the clock behind its marker, so the nanoseconds may be those of a reading more.
    """
    apart = window.counted - result["window_ns"]
    drift = CLOCK_RATE * window.counted
    # The client's traps out of user space come from uprobes on the functions that hold the markers:
    # their programs run within the window, and outside the two readings of the clock.
    probes = 0
    for node, steps in window.total.steps.items():
        task, *path = window.tree.path(node)
        if task == "client" and len(path) > 1 and path[1] in window.isa.traps:
            probes += steps
    cost = result["clock_cost_ns"]
    tasks = {window.tree.path(node)[0] for node in window.total.steps}
    idles = any(task.startswith(IDLE_TASK) for task in tasks) and (
        cpus_of(cell) == 1 or cell.pattern != "pingpong"
    )
    least = (-cost if cell.pattern in ONE_WAY else 0) - drift
    return (
        "the window agrees with the guest's clock",
        apart - probes <= 2 * cost + drift and (idles or apart - probes >= least),
        f"{apart} instructions more than nanoseconds; a clock reading costs {cost:.0f}"
        + (f", probes on the window's marks {probes}" if probes else "")
        + ("; the machine idled, and its clock skipped ahead" if idles else ""),
    )
