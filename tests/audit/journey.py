# SPDX-License-Identifier: GPL-2.0-or-later
"""The journey of one message, out of an exact cell's iteration: who ran how many instructions."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.audit import exact
from tests.audit.screen import Screen

SYSTEM_CALL = re.compile(r"__x64_sys_(\w+)")
SENDS, RECEIVES = ("write", "sendto", "sendmsg"), ("read", "recvfrom", "recvmsg")
SOFTIRQ = "net_rx_action"
Span = tuple[tuple[str, ...], int]  # call path, steps


@dataclass
class Journey:
    """Steps from the sender's system call to the receiver's return from its own."""

    total: int = 0
    softirq: int = 0
    stages: Counter[str] = field(default_factory=Counter)


@cache
def of(screen: Screen, transport: str) -> Journey:
    """The journey in the run's first exact cell of a transport."""
    cell = cell_of(screen, transport)
    return _journey(_message(_spans(screen.folder.raw / cell["folder"], cell["id"])))


@cache
def cell_of(screen: Screen, transport: str) -> dict[str, Any]:
    """The line of an exact cell of a transport without a knob, and its `folder`: the first one on
    one CPU with the default scheduler, or else the first one.
    """
    found = []
    for entry in screen.folder.manifest.get("exact", []):
        for cell in screen.folder.lines(entry["folder"], "cells.jsonl"):
            usual = cell["knob"] is None and cell["error"] is None
            if usual and (cell["size"], cell["transport"]) == (screen.size, transport):
                found.append({**cell, "folder": entry["folder"]})
    if not found:
        raise ValueError(f"the run has no exact cell of {transport}")
    usual_first = ("placement", "same-cpu"), ("scheduling", "other")
    return min(found, key=lambda cell: [cell[name] != value for name, value in usual_first])


def _spans(raw: Path, cell: int) -> list[Span]:
    paths = [call.names for call in exact.tree(raw, cell)]
    return [(paths[line - 1], count) for line, count in exact.iteration(raw, cell)[1]]


def _call(path: tuple[str, ...]) -> str:
    """The system call that a path is in; empty in none."""
    names = [found[1] for name in path if (found := SYSTEM_CALL.fullmatch(name))]
    return names[-1] if names else ""


def _message(spans: list[Span]) -> list[Span]:
    """From the first sender's entry into the kernel to the receiver's first return from a read."""
    first = next(n for n, (path, _) in enumerate(spans) if _call(path) in SENDS)
    sender = spans[first][0][0]
    while first and spans[first - 1][0][0] == sender and spans[first - 1][0][-1] != "[user]":
        first -= 1
    reading = False
    for last in range(first, len(spans)):
        path = spans[last][0]
        if path[0] in ("client", "server") and path[0] != sender:
            if reading and path[-1] == "[user]":
                return spans[first:last]
            reading = reading or _call(path) in RECEIVES
    raise ValueError("the iteration holds no whole message")


def _journey(spans: list[Span]) -> Journey:
    found = Journey()
    for path, steps in spans:
        found.total += steps
        if SOFTIRQ in path:
            found.softirq += steps
    # The way into a system call and out of it belongs to that call. A task that is switched away
    # goes on where it was, so each task's spans are looked at by themselves.
    for task in {path[0] for path, _ in spans}:
        mine = [(path, steps) for path, steps in spans if path[0] == task]
        for in_user, part in groupby(mine, key=lambda span: span[0][-1] == "[user]"):
            stay = list(part)
            calls = [_call(path) for path, _ in stay if _call(path)]
            name = f"{calls[0]}()" if calls else "user space" if in_user else "kernel"
            found.stages[f"{task}: {name}"] += sum(steps for _, steps in stay)
    return found
