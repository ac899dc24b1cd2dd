# SPDX-License-Identifier: GPL-2.0-or-later
"""The plan as the collector reads it: passes of cell runs. Standard library only."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cell:
    """One combination of factors: the unit that is run.

    `size` is in bytes; `messages` and `warmup` count single sends.
    """

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
    extra: bool = False  # the planner adds it for its time, and never probes it

    def __str__(self) -> str:
        words = [self.transport, self.pattern, f"{self.size} B", self.placement]
        defaults = (("wait", "block"), ("sched", "other"), ("topology", "one"))
        words += [getattr(self, key) for key, usual in defaults if getattr(self, key) != usual]
        return " ".join(words)


@dataclass(frozen=True)
class CellRun:
    """One run of a cell. The workload's markers carry `id`, which is unique in a target."""

    id: int
    cell: Cell
    repeat: int


@dataclass(frozen=True)
class Pass:
    """Cell runs under the same attached scripts of probes/scripts.tsv, or under none."""

    scripts: tuple[str, ...]
    runs: tuple[CellRun, ...]


@dataclass(frozen=True)
class Plan:
    """What one target does. The workload runs as `user` (uid, gid); None means as ourselves.

    `samples`: keep every round-trip time, at the cost of one clock reading each.
    `own_kernel`: nobody else uses this kernel, so its settings may change between cells.
    `checks`: programs of runners/checks that test this kernel after the cells.
    """

    workload: str
    passes: tuple[Pass, ...]
    user: tuple[int, int] | None = None
    samples: bool = False
    own_kernel: bool = False
    cell_timeout: int = 60
    checks: tuple[str, ...] = ()

    def dump(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @property
    def runs(self) -> int:
        """How many cell runs there are."""
        return sum(len(group.runs) for group in self.passes)

    @property
    def cells(self) -> list[Cell]:
        """The cell of every run, in order."""
        return [run.cell for group in self.passes for run in group.runs]


def load(path: Path) -> Plan:
    """Read what `Plan.dump` wrote."""
    data = json.loads(path.read_text(encoding="utf-8"))
    passes = tuple(
        Pass(
            tuple(entry["scripts"]),
            tuple(CellRun(run["id"], Cell(**run["cell"]), run["repeat"]) for run in entry["runs"]),
        )
        for entry in data["passes"]
    )
    user = tuple(data["user"]) if data["user"] else None
    return Plan(**data | {"passes": passes, "user": user, "checks": tuple(data["checks"])})
