# SPDX-License-Identifier: GPL-2.0-or-later
"""The call tree of a message, out of what function_graph traced: one send and one receive.

Source: the kernel's function_graph tracer (Documentation/trace/ftrace.rst), over a few round trips.
Functions that the tracer cannot see are not in it: those of lib/, inlined ones, `notrace`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from statistics import multimode

from analysis.conditions import KernelWorkload
from analysis.counts.ledger import transport_order
from analysis.errors import RunError
from analysis.raw.record import AGAIN, read_text
from analysis.raw.run import Run

LINE = re.compile(r"^\s*\d+\)\s+\S+-(\d+)\s+\|\s+(.*)$")
SEND = re.compile(r"sys_(?:write|sendto|sendmsg)$")
RECEIVE = re.compile(r"sys_(?:read|recvfrom|recvmsg)$")
SOFTIRQ = "net_rx_action"
INDENT = "  "
DEEPEST = 500  # of calls; a kernel traces 50 (FTRACE_RETFUNC_DEPTH)


@dataclass
class Call:
    """A call and what it called, in order."""

    name: str
    calls: list["Call"] = field(default_factory=list)

    def __len__(self) -> int:
        return 1 + sum(map(len, self.calls))

    def walk(self, depth: int = 0) -> Iterator[tuple[int, "Call"]]:
        yield depth, self
        for call in self.calls:
            yield from call.walk(depth + 1)

    def text(self) -> str:
        """One function a line, indented by depth; a row of equal leaves is one line."""
        lines = ((INDENT * depth + call.name, bool(call.calls)) for depth, call in self.walk())
        rows = ((line, len(list(equal))) for (line, _), equal in groupby(lines))
        return "\n".join(f"{line}{f'  x {n}' if n != 1 else ''}" for line, n in rows)


@dataclass(frozen=True)
class Message(KernelWorkload):
    """How one message went through the kernel, in one cell."""

    transport: str
    send: Call
    receive: Call

    @property
    def in_softirq(self) -> int:
        """Functions of the receive softirq that the sender ran."""
        return sum(len(call) for _, call in self.send.walk() if call.name == SOFTIRQ)


def parse(text: str, name: str = "the trace") -> list[Call]:
    """The whole calls that no other was seen around, of every task, in the order of their ends."""
    roots: list[Call] = []
    stacks: dict[str, list[Call]] = {}
    for found in map(LINE.match, text.splitlines()):
        if not found:
            continue
        stack, words = stacks.setdefault(found[1], []), found[2].strip()
        if words.startswith("}"):
            if stack:
                _end(stack, roots)
        elif words.endswith(("{", ";")):
            stack.append(Call(words.partition("(")[0]))
            if len(stack) > DEEPEST:
                raise RunError(f"{name} nests calls deeper than a kernel does. {AGAIN}")
            if words.endswith(";"):
                _end(stack, roots)
    return roots


def _end(stack: list[Call], roots: list[Call]) -> None:
    call = stack.pop()
    (stack[-1].calls if stack else roots).append(call)


def outermost(calls: list[Call], name: re.Pattern[str]) -> Iterator[Call]:
    """Calls of that name: from Linux 6.9 on a system call lies in x64_sys_call()."""
    for call in calls:
        if name.search(call.name):
            yield call
        else:
            yield from outermost(call.calls, name)


def usual(calls: list[Call]) -> Call | None:
    """The last one whose number of functions is the commonest, the larger one of two as common."""
    size = max(multimode(map(len, calls)), default=0)
    return next((call for call in reversed(calls) if len(call) == size), None)


def messages(run: Run) -> tuple[Message, ...]:
    """One for each cell whose calls were traced, unix before tcp."""
    found = []
    for target in run.targets:
        for cell in target.cells:
            path = Path("ftrace") / f"{cell.id}.graph"
            if "tree" not in cell.scripts or not (target.path / path).exists():
                continue
            name = f"raw/{target.folder}/{path}"
            roots = parse(read_text(target.path / path, name, "its call tree is lost"), name)
            send, receive = (usual(list(outermost(roots, name))) for name in (SEND, RECEIVE))
            if send and receive:
                where = (cell.pattern, cell.size, str(cell.conditions), target.kind)
                found.append(Message(*where, target.kernel, cell.transport, send, receive))
    found.sort(
        key=lambda m: (m.kernel, m.pattern, m.size, m.conditions, transport_order(m.transport))
    )
    return tuple(found)


def all_conditions(found: tuple[Message, ...]) -> list[tuple[str, list[Message]]]:
    """(kernel and conditions in words, the transports' messages), for a comparison side by side."""
    groups: dict[str, list[Message]] = {}
    for message in found:
        groups.setdefault(message.where, []).append(message)
    return list(groups.items())
