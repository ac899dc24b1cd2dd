# SPDX-License-Identifier: GPL-2.0-or-later
"""bench.json: what the kernel executed for a program of the user's, by system call."""

from typing import Literal

from analysis.raw.exact import ExactEnvironment
from analysis.raw.record import Count, Model, Name, NotNegative

Whose = Literal["program", "server", "other"]


class CallRow(Model):
    """Calls that are alike: of one system call, from one place, that call the same functions as
    often."""

    whose: Whose
    phase: Literal["start", "run", "exit"]  # start: until main()
    call: Name
    site: str  # the program's own function that wanted it; empty where it is not known
    shape: str  # what it calls more than the call's usual shape; empty for that
    shape_id: Name  # equal where each function is called as often
    calls: Count
    kernel: Count  # instructions of all of them, page faults included, interrupts not
    usual: Count  # instructions of one: the most frequent cost
    identical: Count  # calls that cost just that
    least: Count
    most: Count
    user_before: Count  # instructions in user space since the call before
    interrupts: Count  # instructions of what interrupted them


class Sums(Model):
    """Instructions of the tasks of one side."""

    tasks: Count
    user: Count
    calls: Count  # their number
    kernel: Count  # in system calls
    interrupts: Count
    faults: Count = 0  # of pages that user space touched first
    beginnings: Count = 0  # of tasks, and of what had begun before the record


class Bench(Model):
    """A program's run in the exact machine."""

    format: Literal[1]
    name: Name
    pathcost: Name
    command: list[str]
    started: Name
    seconds: NotNegative
    program: list[str]
    server: list[str]  # empty without one
    warm: bool
    knob: str
    environment: ExactEnvironment
    files: dict[str, Name]  # path in the guest → sha256
    record_sha256: Name
    windows: Count  # of window_begin(); 0: the whole run is counted
    steps: Count  # of the whole record; of a repeated instruction each repetition
    sums: dict[Whose, Sums]
    rows: list[CallRow]
