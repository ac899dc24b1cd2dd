# SPDX-License-Identifier: GPL-2.0-or-later
"""The steady round trip in its order: what ran after what, in instructions (exact mode).

Source: raw/exact-*/iteration/<id>.tsv. A repeated string instruction counts once. Spans of all
processes and CPUs follow each other, as the emulator ran them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from analysis.functions.layers import USER, layer_of
from probes.paths import Names, read_paths

CALL = re.compile(r"__x64_sys_(\w+)$")
PROCESSES = ("client", "server")


def _or_named(calls: str, names: Iterable[Names]) -> re.Pattern[str]:
    """These system calls, and the functions where a transport's messages enter or leave."""
    found = {re.escape(place.function) for places in names for place in places}
    return re.compile("|".join([calls, *(f"^{name}$" for name in sorted(found))]))


PATHS = read_paths().values()
SEND = _or_named(r"sys_(?:write|sendto|sendmsg)$", (path.sends for path in PATHS))
RECEIVE = _or_named(r"sys_(?:read|recvfrom|recvmsg)$", (path.receives for path in PATHS))

Path = tuple[str, ...]  # from the task in


@dataclass(frozen=True)
class Span:
    """`instructions` instructions of the last function of `path`, one after the other."""

    cpu: int
    path: Path
    instructions: int

    @property
    def task(self) -> str:
        return self.path[0]

    @property
    def call(self) -> str:
        """The system call that it is part of; empty in user space and in kernel threads."""
        names = [found[1] for name in self.path if (found := CALL.search(name))]
        return names[-1] if names else ""

    @property
    def in_user(self) -> bool:
        return self.path[-1] == USER

    def is_in(self, functions: re.Pattern[str]) -> bool:
        return any(functions.search(name) for name in self.path)


@dataclass(frozen=True)
class Slice:
    """A name at a depth, from `start` on for `width` instructions."""

    name: str
    depth: int
    start: int
    width: int


def slices(spans: Sequence[Span], names: Callable[[Span], Path]) -> Iterator[Slice]:
    """What follows on itself in one task under equal names is one; in the order of their ends."""
    open_: list[tuple[str, int]] = []
    now, task = 0, ""
    for span in spans:
        wanted = names(span)
        together = min(len(open_), len(wanted)) if span.task == task else 0
        kept = 0
        while kept < together and open_[kept][0] == wanted[kept]:
            kept += 1
        while len(open_) > kept:
            name, start = open_.pop()
            yield Slice(name, len(open_), start, now - start)
        open_ += [(name, now) for name in wanted[kept:]]
        now, task = now + span.instructions, span.task
    while open_:
        name, start = open_.pop()
        yield Slice(name, len(open_), start, now - start)


def layers(span: Span) -> Path:
    """The layers that its path goes down through, neighbours of one name once.

    User space stands for itself only, and not above every system call.
    """
    depths = range(first_layer(span), len(span.path) + 1)
    return tuple(name for name, _ in groupby(layer_of(span.path[:n]).name for n in depths))


def first_layer(span: Span) -> int:
    """How much of its path the first of its layers has."""
    return 2 if span.in_user else 3


def message(iteration: Sequence[Span]) -> tuple[Span, ...]:
    """The first message: from the sender's system call to the receiver's return to user space.

    What lies between stays in: the sender that goes to sleep, switches, softirqs. Empty where the
    iteration holds no whole message.
    """
    sends = [n for n, span in enumerate(iteration) if span.is_in(SEND) and span.task in PROCESSES]
    if not sends:
        return ()
    begin, sender = sends[0], iteration[sends[0]].task
    while begin and iteration[begin - 1].task == sender and not iteration[begin - 1].in_user:
        begin -= 1
    received = False
    for end in range(begin, len(iteration)):
        span = iteration[end]
        if span.task in PROCESSES and span.task != sender:
            if span.in_user and received:
                return tuple(iteration[begin:end])
            received = received or span.is_in(RECEIVE)
    return ()
