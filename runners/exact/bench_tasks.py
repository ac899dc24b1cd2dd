# SPDX-License-Identifier: GPL-2.0-or-later
"""The tasks of a program's record, and their calls: bench_calls finds them, bench_sums sums."""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import NamedTuple

from runners.exact.replay import Counts

OF_PROGRAM, OF_SERVER, OF_OTHERS = "program", "server", "other"  # whose a task is
STARTING, RUN, EXIT = "start", "run", "exit"  # parts of a program's life

Shape = frozenset[tuple[str, int]]  # how often each function was called
Edge = tuple[str, str]  # a function, and who calls it


class KernelPart(NamedTuple):
    """What a stretch of the kernel's code was in one task. Equal ones are one object."""

    kind: str
    call: str
    counts: Counts
    own: int  # instructions, page faults included
    interrupts: int
    called: Counter[Edge]  # without interrupts and page faults
    begun: int  # tasks


class CallPlace(NamedTuple):
    """Where a call comes from: the function that makes it, and the program's own that wanted it."""

    function: str
    site: str


NOWHERE = CallPlace("", "")


class CallKey(NamedTuple):
    """What makes calls alike."""

    phase: str
    call: str
    site: str
    shape: Shape


@dataclass
class CallSum:
    """Calls that are alike; `costs` has how many cost how much."""

    calls: int = 0
    kernel: int = 0
    interrupts: int = 0
    user_before: int = 0
    costs: Counter[int] = field(default_factory=Counter)


@dataclass(eq=False)
class Task:
    """A task of the record; one whose task_struct another had before is another."""

    name: str
    parent: "Task | None" = None
    its: str = ""  # whose; empty: as the parent's
    phase: str = RUN
    open: list[tuple[KernelPart, bool]] = field(default_factory=list)  # and whether that is counted
    place: CallPlace = NOWHERE
    before: int = 0  # instructions in user space since the last call
    recent: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=8))
    sums: dict[CallKey, CallSum] = field(default_factory=dict)
    parts: Counter[tuple[tuple[str, ...], int]] = field(default_factory=Counter)
    spent: Counter[str] = field(default_factory=Counter)  # instructions outside of calls
    user: int = 0

    @property
    def whose(self) -> str:
        return self.its or (self.parent.whose if self.parent else OF_OTHERS)
