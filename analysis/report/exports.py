# SPDX-License-Identifier: GPL-2.0-or-later
"""What other programs open: folded stacks, speedscope's profiles, Perfetto's timelines."""

from collections.abc import Iterable

from analysis.exact.cells import Comparison, ExactCell, copiers
from analysis.exact.speedscope import speedscope
from analysis.exact.timeline import trace


def exports(compared: Iterable[Comparison]) -> dict[str, bytes]:
    """Files of a report about its exact cells, by their names: see docs/run-folder.md."""
    files: dict[str, bytes] = {}
    cells = [cell for comparison in compared for cell in comparison.cells]
    for cell in cells:
        name = cell_name(cell)
        files[f"folded/{name}.folded"] = folded(cell).encode()
        files[f"folded/{name}.speedscope.json"] = speedscope(cell, name).encode()
        if cell.iteration:
            files[f"timeline/{name}.pftrace"] = trace(cell, copiers(cells, cell.kernel))
    return files


def cell_name(cell: ExactCell) -> str:
    where = cell.where.replace(" ", "-")
    return f"{cell.kernel}-{cell.transport}-{cell.size}-{cell.scheduling}-{where}"


def folded(cell: ExactCell) -> str:
    """A line for each call path: the path, a blank, its own instructions."""
    lines = ((";".join(node.path), node.instructions) for node in cell.nodes)
    return "".join(f"{path} {own}\n" for path, own in lines if own)
