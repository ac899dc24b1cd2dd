# SPDX-License-Identifier: GPL-2.0-or-later
"""What other programs open: folded stacks, speedscope's profiles, Perfetto's timelines."""

from analysis.analyse import Analysis
from analysis.exact.cells import ExactCell, copiers
from analysis.exact.speedscope import speedscope
from analysis.exact.timeline import trace
from analysis.report import output


def exports(analysis: Analysis) -> dict[str, output.Write]:
    """Files of a report by their names: see docs/run-folder.md."""
    stacks = (profile.folded() for profile in analysis.profiles)
    files: dict[str, output.Write] = {name: output.text(lines) for name, lines in stacks}
    cells = [cell for comparison in analysis.exact for cell in comparison.cells]
    for cell in cells:
        name = cell_name(cell)
        files[f"folded/{name}.folded"] = output.text(folded(cell))
        files[f"folded/{name}.speedscope.json"] = output.text(speedscope(cell, name))
        if cell.iteration:
            files[f"timeline/{name}.pftrace"] = output.data(
                trace(cell, copiers(cells, cell.kernel))
            )
    return files


def cell_name(cell: ExactCell) -> str:
    where = cell.where.replace(" ", "-")
    return f"{cell.kernel}-{cell.transport}-{cell.size}-{cell.scheduling}-{where}"


def folded(cell: ExactCell) -> str:
    """A line for each call path: the path, a blank, its own instructions."""
    lines = ((";".join(node.path), node.instructions) for node in cell.nodes)
    return "".join(f"{path} {own}\n" for path, own in lines if own)
