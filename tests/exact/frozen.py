# SPDX-License-Identifier: GPL-2.0-or-later
"""Digests of exact cells, frozen: what may change the machine or the decoding must keep them.

    python -m tests.exact.frozen RUN …     # from stored runs of exact mode

prints the lines of frozen.tsv. `record` is that of what QEMU executed, and so of one build of the
guest's programs; `kernel` is of the steady round trip's call tree without user space.
"""

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

from analysis.paths.cells import ExactCell, read_exact
from analysis.raw.run import read_run

TABLE = Path(__file__).parent / "frozen.tsv"
COLUMNS = (
    "release", "qemu", "transport", "scheduling", "placement", "instructions", "kernel", "tree",
    "order", "record", "programs",
)  # fmt: skip


def digest(lines: Iterator[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def row(cell: ExactCell, programs: str) -> dict[str, str]:
    tree = [(";".join(s.path), s.calls, s.steps, s.instructions, s.in_user) for s in cell.tree]
    values = (
        *(cell.kernel, cell.qemu, cell.transport, cell.sched, cell.placement, str(cell.total)),
        digest(repr(line) for line in tree if not line[-1]),
        digest(repr(line) for line in tree),
        digest(f"{s.cpu} {';'.join(s.path)} {s.instructions}" for s in cell.order),
        *(cell.record_sha256[:16], programs),
    )
    return dict(zip(COLUMNS, values, strict=True))


def rows(folder: Path) -> list[dict[str, str]]:
    run = read_run(folder)
    (programs,) = {
        digest(iter([path.read_text().partition('"sha256"')[2]]))
        for path in folder.glob("raw/exact-*/environment.json")
    }
    return [row(cell, programs) for cell in read_exact(run)]


if __name__ == "__main__":
    print("\t".join(COLUMNS))
    for path in sys.argv[1:]:
        for found in rows(Path(path)):
            print("\t".join(found[name] for name in COLUMNS))
