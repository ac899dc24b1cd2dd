# SPDX-License-Identifier: GPL-2.0-or-later
"""Exact round trips for https://www.speedscope.app: flame graphs, and the order in time.

Its file format: https://github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources
"""

import json
from typing import Any

from analysis.exact.cells import ExactCell, Node
from analysis.exact.iteration import PROCESSES, Span

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def speedscope(cell: ExactCell, name: str) -> str:
    """A profile for each task; in order where the iteration was kept, else by the call tree."""
    parts: tuple[Span | Node, ...] = cell.iteration or cell.nodes
    places: dict[str, int] = {}
    profiles = []
    stacks = [(part.path, part.instructions) for part in parts]
    tasks = {path[0] for path, _ in stacks}
    for task in sorted(tasks, key=lambda task: (task not in PROCESSES, task)):
        mine = [
            (path[1:], instructions)
            for path, instructions in stacks
            if path[0] == task and instructions
        ]
        profiles.append({
            "type": "sampled",
            "name": f"{name}, {task}",
            "unit": "none",
            "startValue": 0,
            "endValue": sum(instructions for _, instructions in mine),
            "samples": [[places.setdefault(f, len(places)) for f in path] for path, _ in mine],
            "weights": [instructions for _, instructions in mine],
        })  # fmt: skip
    file: dict[str, Any] = {
        "$schema": SCHEMA,
        "name": name,
        "exporter": "pathcost",
        "shared": {"frames": [{"name": function} for function in places]},
        "profiles": profiles,
    }
    return json.dumps(file, separators=(",", ":"))
