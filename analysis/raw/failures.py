# SPDX-License-Identifier: GPL-2.0-or-later
"""Cells without a result: an absent transport, or sizes that it cannot carry, each listed once."""

import re
from collections.abc import Iterator

from analysis.raw.cells import Cell
from analysis.raw.run import Missing, Target
from analysis.wording import counted, listed, size_text

PROGRAM = "pathcost-workload: "
NOT_THIS_SIZE = re.compile(r", not \d+$")


def failures(target: Target) -> Iterator[Missing]:
    """One entry for each transport and reason; `transport NAME` where all its cells failed."""
    transports = dict.fromkeys(cell.transport for cell in target.cells)
    for transport in transports:
        cells = [cell for cell in target.cells if cell.transport == transport]
        reasons: dict[str, list[Cell]] = {}
        for cell in cells:
            if cell.error is not None:
                # Without the size: each reason is listed once.
                why = NOT_THIS_SIZE.sub("", cell.error.removeprefix(PROGRAM))
                reasons.setdefault(why, []).append(cell)
        for why, failed in reasons.items():
            whole = len(reasons) == 1 and len(failed) == len(cells)
            what = f"transport {transport}" if whole else _cells(failed)
            requested = any(not cell.extra for cell in failed)
            absent = transport if whole else ""
            yield Missing(what, target.folder, why, requested, transport=absent)


def _cells(failed: list[Cell]) -> str:
    """`unix: pingpong of 64 KiB and 1 MiB, same-cpu and cross-cpu, in 6 runs`."""
    patterns = listed(list(dict.fromkeys(cell.pattern for cell in failed)))
    sizes = listed([size_text(size) for size in sorted({cell.size for cell in failed})])
    placements = listed(list(dict.fromkeys(str(cell.conditions) for cell in failed)))
    return (
        f"{failed[0].transport}: {patterns} of {sizes}, {placements}, in "
        f"{counted(len(failed), 'run')}"
    )
