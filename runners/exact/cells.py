# SPDX-License-Identifier: GPL-2.0-or-later
"""The cells of exact mode, and each cell's order to the guest."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product

from runners.exact.knobs import NOTHING, Knob

SCHEDULINGS = ("fifo", "other")
CPUS = {"same-cpu": 1, "cross-cpu": 2}  # that the emulated machine has, by placement
# TCP's receive window settles after some thousand round trips, the last tick after four million
# instructions: enough warm-up for the first, enough iterations to see the second for what it is.
WARMUP = 3_000
MESSAGES = 600
TOLD = ("name", "what", "one", "number", "event", "cpu")  # of a knob, to the analysis
TIMEOUT = 3600  # of the workload, in its own time, which counts instructions


@dataclass(frozen=True)
class ExactCell:
    """What is counted in one boot.

    `scheduling` is `fifo` (SCHED_FIFO) or `other` (the default scheduler). The guest
    changes `knob` before it starts the workload.
    """

    id: int
    transport: str
    size: int
    scheduling: str
    messages: int = MESSAGES
    warmup: int = WARMUP
    pattern: str = "pingpong"
    placement: str = "same-cpu"
    knob: Knob = NOTHING

    @property
    def cpus(self) -> int:
        """How many CPUs its machine has."""
        return CPUS[self.placement]

    @property
    def round_trips(self) -> int:
        """How many the window has."""
        return self.messages // 2

    @property
    def order(self) -> list[tuple[str, ...]]:
        """What the guest's first program does, step by step."""
        words = {
            "--transport": self.transport,
            "--pattern": self.pattern,
            "--size": str(self.size),
            "--messages": str(self.messages),
            "--warmup": str(self.warmup),
            "--placement": self.placement,
            "--cell": str(self.id),
            "--timeout": str(TIMEOUT),
            "--dir": "/run",
        }
        if self.transport == "tcp":
            del words["--dir"]
        fifo = [("fifo",)] if self.scheduling == "fifo" else []
        return [
            *self.knob.steps,
            *fifo,
            ("workload", *(word for pair in words.items() for word in pair)),
        ]

    def fields(self) -> dict[str, object]:
        """What its line in cells.jsonl begins with."""
        knob = {name: getattr(self.knob, name) for name in TOLD} if self.knob.name else None
        return asdict(self) | {"knob": knob}

    def __str__(self) -> str:
        where = "" if self.cpus == 1 else f", {self.placement}"
        knob = f", {self.knob.name}" if self.knob.name else ""
        return f"{self.transport} {self.size} B, {self.scheduling}{where}{knob}"


def plan(
    transports: Sequence[str],
    sizes: Sequence[int],
    messages: int | None = None,
    placements: Sequence[str] = ("same-cpu",),
    schedulings: Sequence[str] = SCHEDULINGS,
) -> list[ExactCell]:
    """Every combination; transports vary fastest."""
    wanted = enumerate(product(placements, schedulings, sizes, transports), 1)
    return [
        ExactCell(number, transport, size, scheduling, messages or MESSAGES, placement=placement)
        for number, (placement, scheduling, size, transport) in wanted
    ]
