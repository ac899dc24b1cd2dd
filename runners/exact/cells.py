# SPDX-License-Identifier: GPL-2.0-or-later
"""The cells of exact mode, and what one of them asks of the workload and of the guest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

SCHEDULINGS = ("fifo", "other")
# TCP's receive window settles after some thousand round trips, the last tick after four million
# instructions: enough warm-up for the first, enough laps to see the second for what it is.
WARMUP = 3_000
MESSAGES = 600
TIMEOUT = 3600  # of the workload, in its own time, which counts instructions


@dataclass(frozen=True)
class Cell:
    """What is counted in one go. `scheduling` is `fifo` (the path) or `other` (with the fair
    scheduler); `setup` are steps that the guest carries out before the workload.
    """

    id: int
    transport: str
    size: int
    scheduling: str
    messages: int = MESSAGES
    warmup: int = WARMUP
    pattern: str = "pingpong"
    placement: str = "same-cpu"
    setup: tuple[tuple[str, ...], ...] = ()

    @property
    def round_trips(self) -> int:
        """Of the window."""
        return self.messages // 2

    @property
    def order(self) -> list[tuple[str, ...]]:
        """What the guest's first program is to do."""
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
            *self.setup,
            *fifo,
            ("workload", *(word for pair in words.items() for word in pair)),
        ]

    def fields(self) -> dict[str, object]:
        """As a line of cells.jsonl begins."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.transport} {self.size} B, {self.scheduling}"


def plan(
    transports: Sequence[str], sizes: Sequence[int], messages: int | None = None
) -> list[Cell]:
    """Every combination, transports innermost."""
    wanted = [
        (transport, size, scheduling)
        for scheduling in SCHEDULINGS
        for size in sizes
        for transport in transports
    ]
    return [
        Cell(number, *one, messages=messages or MESSAGES) for number, one in enumerate(wanted, 1)
    ]
