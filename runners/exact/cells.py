# SPDX-License-Identifier: GPL-2.0-or-later
"""The cells of exact mode, and each cell's order to the guest."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product

from probes.paths import TransportPath, read_paths
from probes.reasons import Reason, reason
from runners import cell as factors
from runners.cell import ONE_THREAD, unit
from runners.exact.knobs import NOTHING, Knob

SCHEDULINGS = ("fifo", "other")
CPUS = {"same-cpu": 1, "cross-cpu": 2}  # that the emulated machine has, by placement
# TCP's receive window settles after some thousand round trips, the last tick after four million
# instructions: enough warm-up for the first, enough iterations to see the second for what it is.
WARMUP = 3_000
MESSAGES = 600
TOLD = ("name", "what", "one", "number", "event", "cpu")  # of a knob, to the analysis
TIMEOUT = 3600  # of the workload, in its own time, which counts instructions
ONE_WAY = ("stream",)
# The emulated CPU has no AES instructions: above this size a cell takes more than ten minutes.
LARGEST_ENCRYPTED = 4 << 10


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
    wait: str = "block"
    in_flight: int | None = None  # pipeline
    clients: int | None = None  # clients, paced
    knob: Knob = NOTHING

    @property
    def cpus(self) -> int:
        """How many CPUs its machine has."""
        return CPUS[self.placement]

    @property
    def path(self) -> TransportPath:
        """Its transport's way through the kernel."""
        return read_paths()[self.transport]

    @property
    def one_way(self) -> bool:
        """Whether the client receives nothing."""
        return self.pattern in ONE_WAY

    @property
    def iterations(self) -> int:
        """How many the client makes in the window; of several clients, the first."""
        return self.messages // unit(self.pattern, self.clients)

    @property
    def impossible(self) -> Reason | None:
        """Why no emulated machine can count it; None where one may."""
        if self.wait == "spin" or not self.path.wakes:
            return reason("emulator-slice")
        if self.pattern == "paced":
            return reason("emulator-clock")
        if self.path.between == "encrypted" and self.size > LARGEST_ENCRYPTED:
            return reason("emulator-aes", size=LARGEST_ENCRYPTED)
        return None

    @property
    def order(self) -> list[tuple[str, ...]]:
        """What the guest's first program does, step by step."""
        words = {
            "--transport": self.transport,
            "--pattern": self.pattern,
            "--size": self.size,
            "--messages": self.messages,
            "--warmup": self.warmup,
            "--placement": self.placement,
            "--wait": self.wait,
            "--in-flight": self.in_flight,
            "--clients": self.clients,
            "--cell": self.id,
            "--timeout": TIMEOUT,
            "--dir": "/run",
        }
        given = [(name, str(value)) for name, value in words.items() if value is not None]
        fifo = [("fifo",)] if self.scheduling == "fifo" else []
        return [
            *self.knob.steps,
            *fifo,
            ("workload", *(word for pair in given for word in pair)),
        ]

    def fields(self) -> dict[str, object]:
        """What its line in cells.jsonl begins with."""
        knob = {name: getattr(self.knob, name) for name in TOLD} if self.knob.name else None
        return asdict(self) | {"knob": knob}

    def __str__(self) -> str:
        unusual = [
            word
            for word, usual in (
                (self.pattern, "pingpong"),
                (self.wait, "block"),
                (self.placement, "same-cpu"),
                (self.knob.name, ""),
            )
            if word != usual
        ]
        return ", ".join([f"{self.transport} {self.size} B, {self.scheduling}", *unusual])


def plan(
    transports: Sequence[str],
    sizes: Sequence[int],
    messages: int | None = None,
    placements: Sequence[str] = ("same-cpu",),
    schedulings: Sequence[str] = SCHEDULINGS,
    *,
    patterns: Sequence[str] = ("pingpong",),
    waits: Sequence[str] = ("block",),
    in_flight: int = factors.USUAL_IN_FLIGHT,
    clients: int = factors.USUAL_CLIENTS,
) -> list[ExactCell]:
    """Every combination; transports vary fastest.

    One thread has no second CPU: beside another placement, cross-cpu is left out for it.
    """
    cells: list[ExactCell] = []
    for pattern, wait, placement, scheduling, size, transport in product(
        patterns, waits, placements, schedulings, sizes, transports
    ):
        if pattern in ONE_THREAD and placement == "cross-cpu" and len(placements) > 1:
            continue
        each = unit(pattern, clients)
        cells.append(
            ExactCell(
                *(len(cells) + 1, transport, size, scheduling),
                messages=messages or MESSAGES // each * each,
                warmup=WARMUP // each * each,
                pattern=pattern,
                placement=placement,
                wait=wait,
                in_flight=in_flight if pattern == "pipeline" else None,
                clients=clients if pattern in factors.MANY_CLIENTS else None,
            )
        )
    return cells
