# SPDX-License-Identifier: GPL-2.0-or-later
"""A line of raw/exact-*/cells.jsonl: an exact cell, and how its round trips went."""

from typing import Annotated

from pydantic import AliasChoices, Discriminator, Field, Tag, TypeAdapter

from analysis.raw.cells import PlannedCell, Result
from analysis.raw.record import Change, Count, Model, Name, NotNegative, Positive, Word, failed
from probes.cell import Cell

# Call path → calls and instructions more than usual.
Moves = dict[str, tuple[Change, Change]]


class ExactEnvironment(Model):
    """raw/exact-*/environment.json: what the counts hold for."""

    kernel: Name  # the release
    version: str  # the guest's /proc/version
    package: str | None  # the kernel package's version; null for a bzImage
    qemu: str  # version of QEMU's package
    cpu: str  # QEMU's model
    arch: Word = "x86-64"  # of the machine; older runs know no other
    machine: tuple[str, ...]  # QEMU's options
    command_line: str  # the kernel's
    # Whether the kernel was built with memory control groups; older runs do not say
    memory_groups: bool = True
    # Program → digest of the guest's init and of the workload, as loaded: without debug information
    # and build id
    sha256: dict[str, str]


class Knob(Model):
    """What the guest changed before the workload: a table of runners/exact/knobs.toml filled in."""

    name: str
    what: str
    one: str  # what `number` counts, where the knob counts something
    number: Count | None
    # The pattern of the functions that a probe calls once for each event that it sees
    event: str = ""
    cpu: str = ""  # the emulated CPU instead of the environment's: a model, `+` and its features


class ExactWindow(Model):
    """Sums over the whole window."""

    steps: Count  # instructions, of a repeated string instruction each repetition
    instructions: Count  # a repeated string instruction counts once


class Shape(Model):
    """A way in which iterations went: which functions they called, and how often."""

    name: str
    iterations: Positive
    identical: Positive  # iterations of the most frequent variant, which are equal in all counts
    steps: Positive  # steps and instructions are the most frequent variant's
    least: Positive  # fewest steps of all its iterations
    most: Positive  # most steps of all its iterations
    instructions: Count


class Variant(Model):
    """How other iterations of the most frequent shape went."""

    iterations: Positive
    moved: Moves  # call path → calls and steps more than in tree/<id>.tsv
    # Call path → how many more of its steps only repeat a string instruction; absent: none
    repeats: dict[str, Change] = Field(default_factory=dict)


class Events(Model):
    """What the steady iteration executes that costs time, by event (docs/time-explained.md)."""

    executed: dict[str, Count]
    busy: dict[str, Count] | None = None  # on two CPUs: without the idle tasks
    path: dict[str, Count] | None = None  # on two CPUs: the critical path, with its `hand_overs`

    @property
    def kinds(self) -> dict[str, dict[str, Count]]:
        return {name: events for name, events in dict(self).items() if events is not None}


class ExactCheck(Model):
    """What must hold for the cell to be valid."""

    name: str
    ok: bool
    detail: str


class Payload(Model):
    """Where the payload of `messages` went, in bytes: of `fifo` cells from 16 bytes up, from a boot
    of its own."""

    messages: Positive
    copied: dict[str, Count]  # `in`, `out`, `kernel`
    copiers: dict[str, Count]  # function → bytes that it copied
    readers: dict[str, Count]  # function → bytes that it read and did not copy
    loaded: dict[str, Count]  # function → bytes of any memory, user space as `[user]`
    stored: dict[str, Count]
    valid: bool

    def per_byte(self, size: int) -> float:
        """Copies of each payload byte."""
        return sum(self.copied.values()) / (self.messages * size)


class LineMoves(Model):
    """Moves of cache lines between two CPUs, means of an iteration."""

    iterations: Positive  # without the first ones, before which a line may have been anywhere
    fetches: NotNegative  # a CPU lacks the line, and another one has it or wrote it
    unread: NotNegative  # of them: nothing is loaded of what the other CPU has written
    invalidations: NotNegative  # a CPU that has the line writes, and the other one loses its copy
    usual: Count  # moves of the most frequent iteration

    @property
    def total(self) -> float:
        return self.fetches + self.invalidations


class LineEstimate(Model):
    """Misses of caches that a model of them would have, means of an iteration. No counts."""

    caches: dict[str, tuple[Positive, Positive]]  # `l1`, `l2` → bytes, lines of a set
    misses: dict[str, NotNegative]  # `l1_data`, `l1_code`, `l2_data`, `l2_code`


class Lines(Model):
    """Cache lines of 64 bytes, means of an iteration: of `fifo` cells with --lines, on a machine of
    its own."""

    iterations: Positive
    command_line: str  # what that machine's kernel has beside the usual options
    instructions: NotNegative  # there; those of the cell are of the usual machine
    loads: NotNegative
    stores: NotNegative
    data: NotNegative  # distinct lines
    written: NotNegative  # of them
    code: NotNegative
    kinds: dict[str, NotNegative]  # distinct lines of data by what part of memory they are in
    # The same by the name of the object; older runs lack it
    objects: dict[str, NotNegative] = Field(default_factory=dict)
    by_cpu: tuple[NotNegative, ...] = ()  # on two CPUs: distinct lines of data of each
    shared: NotNegative | None = None  # of both
    shared_written: NotNegative | None = None
    moves: LineMoves | None = None  # on two CPUs
    estimate: LineEstimate | None = None  # on one CPU


class ExactPlan(PlannedCell):
    """What each exact cell has, counted or failed."""

    # `fifo`: SCHED_FIFO; `other`: the default scheduler. Older runs call it `scheduling`
    sched: Word = Field(validation_alias=AliasChoices("sched", "scheduling"))
    wait: Word = "block"
    also: Word = "none"
    in_flight: Count | None = None  # of pipeline
    clients: Count | None = None  # of clients and backlog
    backlog: Count | None = None  # of backlog
    knob: Knob | None

    @property
    def cell(self) -> Cell:
        return Cell(
            self.placement,
            self.wait,
            self.sched,
            also=self.also,
            in_flight=self.in_flight,
            clients=self.clients,
            backlog=self.backlog,
            knob=self.knob.name if self.knob else "",
            transport=self.transport,
            pattern=self.pattern,
            size=self.size,
            messages=self.messages,
            warmup=self.warmup,
        )


class FailedExactLine(ExactPlan):
    """An exact cell that could not be counted."""

    error: str


class ExactLine(ExactPlan):
    """An exact cell that was counted."""

    error: None
    events: Events | None = None  # older runs have none
    window: ExactWindow
    iterations: Positive  # whole ones of the client in the window
    messages_per_iteration: Positive = 2
    shapes: tuple[Shape, ...]  # the most frequent first
    variants: tuple[Variant, ...]  # the most frequent first, 63 at most
    checks: tuple[ExactCheck, ...]
    valid: bool  # every check holds
    payload: Payload | None = None
    payload_error: str | None = None  # why the payload could not be followed
    lines: Lines | None = None
    lines_error: str | None = None  # why the cache lines could not be counted
    record_sha256: str  # digest of QEMU's record of the run: equal records are equal runs
    # How often the cell was run, and how many of these records were not as that of the last run
    records: tuple[Positive, Count] = (1, 0)
    result: Result  # what the workload printed; its times are virtual


EXACT_LINES: TypeAdapter[FailedExactLine | ExactLine] = TypeAdapter(
    Annotated[
        Annotated[FailedExactLine, Tag("(failed)")] | Annotated[ExactLine, Tag("(counted)")],
        Discriminator(failed),
    ]
)
