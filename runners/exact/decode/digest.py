# SPDX-License-Identifier: GPL-2.0-or-later
"""Turns a replayed window into the files of a run: shapes, checks, the call tree."""

from collections import Counter
from typing import Any

from runners.exact.cells import ExactCell
from runners.exact.decode.checks import checks
from runners.exact.decode.iterations import IterationShape, ReplayedWindow
from runners.exact.decode.replay import CallTree, Counts

NAMED_DIFFERENCES = 3
MOST_VARIANTS = 64


def describe(cell: ExactCell, window: ReplayedWindow, result: dict[str, Any]) -> dict[str, Any]:
    """The results in a cell's line of cells.jsonl."""
    (usual, _), *others = window.steady.variants[:MOST_VARIANTS]
    checked = [
        {"name": name, "ok": ok, "detail": detail}
        for name, ok, detail in checks(cell, window, result)
    ]
    return {
        "window": {
            "steps": window.total.steps.total(),
            "instructions": window.total.steps.total() - window.total.repeats.total(),
        },
        "iterations": window.iterations,
        "messages_per_iteration": cell.messages // cell.iterations,
        "shapes": [
            {
                "name": name_shape(window.tree, window.steady, shape),
                "iterations": len(shape.iterations),
                "identical": shape.identical,
                "steps": shape.steps,
                "least": shape.least,
                "most": shape.most,
                "instructions": shape.steps - shape.counts.repeats.total(),
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


def _by_task(tree: CallTree, counts: Counts) -> dict[str, int]:
    tasks: Counter[str] = Counter()
    for node, steps in counts.steps.items():
        tasks[tree.path(node)[0]] += steps
    return dict(tasks.most_common())


def name_shape(tree: CallTree, steady: IterationShape, shape: IterationShape) -> str:
    """`steady`, or what the shape has more: interrupts and tasks, else functions."""
    if shape is steady:
        return "steady"
    usual, mine = (tree.by_function(each.counts.steps) for each in (steady, shape))
    new = mine.keys() - usual.keys()
    entries = sorted(name.removeprefix("asm_") for name in new if name.startswith("asm_"))
    present = _by_task(tree, steady.counts)
    tasks = [task for task in _by_task(tree, shape.counts) if task not in present]
    if entries or tasks:
        return ", ".join([*entries, *tasks])
    mine.subtract(usual)
    apart = sorted((-abs(n), function) for function, n in mine.items() if n)
    if not apart:
        return "the same functions by other paths"
    return ", ".join(f"{name} {mine[name]:+d}" for _, name in apart[:NAMED_DIFFERENCES])


def steady_lines(window: ReplayedWindow) -> list[str]:
    """The call tree of the steady iteration."""
    return tree_lines(window.tree, window.steady.counts)


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
    rows = (f"{visit.cpu}\t{lines[visit.node]}\t{visit.instructions}\n" for visit in window.order)
    return ["cpu\tline\tinstructions\n", *rows]


def _sorted(tree: CallTree, counts: Counts) -> list[int]:
    return sorted(set(counts.steps) | set(counts.calls), key=lambda n: ";".join(tree.path(n)))
