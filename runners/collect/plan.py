# SPDX-License-Identifier: GPL-2.0-or-later
"""The plan: which cells run, how often, in what order, with which instrument attached."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cell:
    """The unit that is run. `size` in bytes; `messages` and `warmup` count single sends."""

    transport: str
    pattern: str
    size: int
    placement: str
    messages: int
    warmup: int
    wait: str = "block"
    sched: str = "other"
    topology: str = "one"
    in_flight: int | None = None  # pipeline
    clients: int | None = None  # clients
    extra: bool = False  # not asked for: run for its time, never probed (runners/cells.py)

    def __str__(self) -> str:
        words = [self.transport, self.pattern, f"{self.size} B", self.placement]
        defaults = (("wait", "block"), ("sched", "other"), ("topology", "one"))
        words += [getattr(self, key) for key, usual in defaults if getattr(self, key) != usual]
        return " ".join(words)


@dataclass(frozen=True)
class CellRun:
    """One run of a cell. `id` is what the workload's marker carries: unique in a lane."""

    id: int
    cell: Cell
    repeat: int


@dataclass(frozen=True)
class Pass:
    """Cell runs that share what is attached: scripts of probes/scripts.tsv, or nothing."""

    scripts: tuple[str, ...]
    runs: tuple[CellRun, ...]


@dataclass(frozen=True)
class Plan:
    """What one lane does. `user` is the (uid, gid) that the workload runs as, None for our own.

    `samples`: keep each round-trip time, which costs a reading of the clock each.
    `own_kernel`: this kernel is ours alone, so that settings of it may be changed between cells.
    `checks`: programs of `checks_folder` that ask this kernel something, after the cells.
    """

    workload: str
    passes: tuple[Pass, ...]
    user: tuple[int, int] | None = None
    samples: bool = False
    own_kernel: bool = False
    cell_timeout: int = 60
    checks: tuple[str, ...] = ()
    checks_folder: str = ""

    def dump(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @property
    def runs(self) -> int:
        return sum(len(one.runs) for one in self.passes)


def load(path: Path) -> Plan:
    """Read what `Plan.dump` wrote."""
    data = json.loads(path.read_text(encoding="utf-8"))
    passes = tuple(
        Pass(
            tuple(one["scripts"]),
            tuple(CellRun(run["id"], Cell(**run["cell"]), run["repeat"]) for run in one["runs"]),
        )
        for one in data["passes"]
    )
    lists = {
        "passes": passes,
        "user": tuple(data["user"]) if data["user"] else None,
        "checks": tuple(data["checks"]),
    }
    return Plan(**data | lists)
