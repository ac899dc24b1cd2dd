# SPDX-License-Identifier: GPL-2.0-or-later
"""What other programs open: folded stacks, speedscope's profiles, Perfetto's timelines."""

from analysis import output
from analysis.analyse import Analysis
from analysis.exact import Cell
from analysis.speedscope import speedscope
from analysis.timeline import trace


def exports(analysis: Analysis) -> dict[str, output.Write]:
    """Files of a report by their names: see docs/run-folder.md."""
    files: dict[str, output.Write] = {}
    for profile in analysis.profiles:
        name, lines = profile.folded()
        files[name] = output.text(lines)
    for cell in (cell for comparison in analysis.exact for cell in comparison.cells):
        name = cell_name(cell)
        files[f"folded/{name}.folded"] = output.text(folded(cell))
        files[f"folded/{name}.speedscope.json"] = output.text(speedscope(cell, name))
        if cell.lap:
            files[f"timeline/{name}.pftrace"] = output.data(trace(cell))
    return files


def cell_name(cell: Cell) -> str:
    return f"{cell.kernel}-{cell.transport}-{cell.size}-{cell.scheduling}-{cell.placement}"


def folded(cell: Cell) -> str:
    """A line for each call path: the path, a blank, its own instructions."""
    return "".join(f"{';'.join(node.path)} {node.self_}\n" for node in cell.nodes if node.self_)
