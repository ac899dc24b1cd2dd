# SPDX-License-Identifier: GPL-2.0-or-later
"""From a replayed window to the files that a run keeps: shapes, checks, the call tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from runners.exact.cells import ExactCell
from runners.exact.laps import Shape, Window
from runners.exact.replay import Counts, Tree

SEND = {"unix": "unix_stream_sendmsg", "tcp": "tcp_sendmsg"}
TRAPS = (("asm_exc_int3",), ("asm_exc_debug",))
NAMED_DIFFERENCES = 3
MOST_VARIANTS = 64


def describe(cell: ExactCell, window: Window, result: dict[str, Any]) -> dict[str, Any]:
    """What cells.jsonl says of a cell, beside what was asked."""
    checks = list(_checks(cell, window, result))
    return {
        "window": {
            "steps": window.total.steps.total(),
            "instructions": window.total.steps.total() - window.total.repeats.total(),
            "guest_ns": result["window_ns"],
            "switches": dict(window.total.switches),
            "tasks": _by_task(window.tree, window.total),
        },
        "laps": window.laps,
        "shapes": [
            {
                "name": name_shape(window.tree, window.steady, shape),
                "laps": len(shape.laps),
                "first": shape.laps[0],
                "alike": shape.alike,
                "steps": shape.steps,
                "least": shape.least,
                "most": shape.most,
                "instructions": shape.steps - shape.counts.repeats.total(),
                "switches": dict(shape.counts.switches),
            }
            for shape in window.shapes
        ],
        "variants": _variants(window),
        "cycles": [{"shapes": list(cycle.shapes), "laps": cycle.laps} for cycle in window.cycles()],
        "checks": checks,
        "sound": all(check["ok"] for check in checks),
    }


def _variants(window: Window) -> list[dict[str, Any]]:
    """How else the steady round trip goes: call path → calls and steps more than in the usual one.

    The most frequent first; which of them is the usual one may hang on a timer's phase, so whoever
    compares two cells to the instruction needs the others too.
    """
    usual, *others = window.steady.variants[:MOST_VARIANTS]
    return [
        {"laps": laps, "moved": _moved(window.tree, usual[0], counts)} for counts, laps in others
    ]


def _moved(tree: Tree, usual: Counts, counts: Counts) -> dict[str, list[int]]:
    nodes = {*usual.steps, *usual.calls, *counts.steps, *counts.calls}
    moved = {
        node: [counts.calls[node] - usual.calls[node], counts.steps[node] - usual.steps[node]]
        for node in sorted(nodes)
    }
    return {";".join(tree.path(node)): both for node, both in moved.items() if any(both)}


def _checks(cell: ExactCell, window: Window, result: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What must hold for the cell to be sound: each with both of its figures."""
    summed = window.total.steps.total()
    yield {
        "name": "the tree's self counts sum to the window",
        "ok": summed == window.counted,
        "detail": f"{summed} in the tree, {window.counted} counted by the emulator",
    }
    sent = _calls(window.tree, window.total, SEND[cell.transport])
    partial = result["client"]["partial_sends"] + result["server"]["partial_sends"]
    yield {
        "name": f"calls of {SEND[cell.transport]} are messages",
        "ok": sent == cell.messages + partial,
        "detail": f"{sent} calls, {cell.messages} messages and {partial} partial sends",
    }
    apart = window.counted - result["window_ns"]
    probes = _probes_on_marks(window)
    cost = result["clock_cost_ns"]
    yield {
        "name": "the window agrees with the guest's clock",
        "ok": 0 <= apart - probes <= 2 * cost,
        "detail": f"{apart} instructions more than nanoseconds; a clock reading costs {cost:.0f}"
        + (f", probes on the window's marks {probes}" if probes else ""),
    }
    for pattern, must in cell.knob.evidence(cell.transport):
        called = _called(window, pattern)
        yield {
            "name": f"{cell.knob.name} was in force: {pattern} {'is' if must else 'is not'} called",
            "ok": bool(called) == must,
            "detail": ", ".join(f"{n} calls of {name}" for name, n in called.items()) or "no call",
        }


def _probes_on_marks(window: Window) -> int:
    """Steps of the client's traps out of user space: of uprobes on the functions that hold the
    markers, whose programs run within the window and outside the two readings of the clock.
    """
    return sum(
        steps
        for node, steps in window.total.steps.items()
        if (path := window.tree.path(node))[0] == "client" and path[2:3] in TRAPS
    )


def _called(window: Window, pattern: str) -> dict[str, int]:
    """Calls in the steady round trip, of functions that fit the pattern."""
    calls: Counter[str] = Counter()
    for node, count in window.steady.counts.calls.items():
        if fnmatchcase(name := window.tree.functions[node], pattern):
            calls[name] += count
    return dict(calls)


def _calls(tree: Tree, counts: Counts, function: str) -> int:
    return sum(n for node, n in counts.calls.items() if tree.functions[node] == function)


def _by_task(tree: Tree, counts: Counts) -> dict[str, int]:
    tasks: Counter[str] = Counter()
    for node, steps in counts.steps.items():
        tasks[tree.path(node)[0]] += steps
    return dict(tasks.most_common())


def by_function(tree: Tree, counts: Counts) -> Counter[str]:
    """Self steps of each function."""
    functions: Counter[str] = Counter()
    for node, steps in counts.steps.items():
        functions[tree.functions[node]] += steps
    return functions


def name_shape(tree: Tree, steady: Shape, shape: Shape) -> str:
    """`steady`, or what sets a lap apart: interrupts and tasks of its own, else functions."""
    if shape is steady:
        return "steady"
    usual = {tree.functions[node] for node in steady.counts.steps}
    mine = {tree.functions[node] for node in shape.counts.steps}
    entries = sorted(name.removeprefix("asm_") for name in mine - usual if name.startswith("asm_"))
    present = _by_task(tree, steady.counts)
    tasks = [task for task in _by_task(tree, shape.counts) if task not in present]
    if entries or tasks:
        return ", ".join([*entries, *tasks])
    more = by_function(tree, shape.counts)
    more.subtract(by_function(tree, steady.counts))
    apart = sorted(((n, f) for f, n in more.items() if n), key=lambda one: (-abs(one[0]), one[1]))
    if not apart:
        return "the same functions by other paths"
    return ", ".join(f"{function} {n:+d}" for n, function in apart[:NAMED_DIFFERENCES])


def tree_lines(tree: Tree, counts: Counts) -> list[str]:
    """The call tree: path, calls, steps, instructions; sorted, so that equal trees are equal."""
    lines = [
        f"{';'.join(tree.path(node))}\t{counts.calls[node]}\t{counts.steps[node]}"
        f"\t{counts.steps[node] - counts.repeats[node]}\n"
        for node in _sorted(tree, counts)
    ]
    return ["path\tcalls\tsteps\tinstructions\n", *lines]


def lap_lines(window: Window) -> list[str]:
    """The steady lap in its order: a CPU, a line of the call tree (from 1), steps."""
    lines = {node: n for n, node in enumerate(_sorted(window.tree, window.steady.counts), 1)}
    rows = (f"{one.cpu}\t{lines[one.node]}\t{one.steps}\n" for one in window.order)
    return ["cpu\tline\tsteps\n", *rows]


def _sorted(tree: Tree, counts: Counts) -> list[int]:
    return sorted(set(counts.steps) | set(counts.calls), key=lambda n: ";".join(tree.path(n)))
