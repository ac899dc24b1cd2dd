# SPDX-License-Identifier: GPL-2.0-or-later
"""Lines that a target left: runs of cells, and what its kernel and tools answered."""

from dataclasses import fields
from functools import cached_property
from operator import attrgetter
from typing import Literal

from pydantic import model_validator

from analysis.raw.record import Count, Model, NotNegative, Positive, Word
from probes.cell import Conditions

Wait = Literal["block", "epoll", "edge", "poll", "select", "spin"]
Sched = Literal["other", "batch", "fifo"]
Topology = Literal["one", "two"]


class Usage(Model):
    """What getrusage(2) says of a process over its window."""

    user_us: Count
    system_us: Count
    voluntary: Count  # context switches because the process slept
    involuntary: Count  # context switches because the scheduler took the CPU away
    minor_faults: Count


class Schedstat(Model):
    """/proc/PID/schedstat of the first thread, from just before the window to just after."""

    run_ns: Count
    wait_ns: Count
    slices: Count


class TcpInfo(Model):
    """TCP_INFO over the span of schedstat, summed over the process's connections."""

    segs_out: Count
    segs_in: Count
    data_segs_out: Count
    data_segs_in: Count
    retransmits: Count
    snd_mss: Count  # this and the next two: at the end of the span
    snd_cwnd: Count
    rtt_us: Count


class Process(Model):
    """What one end of the socket counted in its window (docs/run-folder.md, "Windows")."""

    pid: Positive
    sent_messages: Count
    sent_bytes: Count
    received_messages: Count
    received_bytes: Count
    partial_sends: Count
    partial_receives: Count
    empty_receives: Count  # reads that found nothing, with `--wait epoll` or `spin`
    refused_connects: Count = 0  # in pattern `backlog`: those that failed with EAGAIN
    rusage: Usage
    schedstat: Schedstat | None
    # null where the transport is not TCP, and in pattern `connect`, whose connections take their
    # counters with them: asking each before it closes would be one more system call in each round
    # trip. `proc` has the machine's counters.
    tcp_info: TcpInfo | None


class Result(Model):
    """What the workload printed."""

    # CLOCK_MONOTONIC from the client's first send to its last receive; in `stream` and `writers` to
    # the server's last receive; in `paced` from an interval before the first request is due
    window_ns: Positive
    # Iterations of the window that come back: round trips, of `selfecho` too; in `selfloop`
    # messages; in `stream` and `writers` 0
    round_trips: Count
    clock_cost_ns: NotNegative  # the cost of one clock reading, measured in the same process
    # The CPUs that client and server were pinned to; null with placement `free`
    cpus: tuple[Count, Count] | None
    # Options that differ by transport, as the kernel reports them: `{"TCP_NODELAY": 1}`, `{}`
    socket: dict[str, int]
    # Throughput by interval: up to 20 pairs of messages and nanoseconds, each of at least 256
    # iterations. They follow on each other, and together are the window.
    intervals: tuple[tuple[Count, Count], ...]
    client: Process
    # null in `selfloop` and `selfecho`, which have none: `client` is then both ends
    server: Process | None
    # Path → its text at the begin and at the end of the window: `/proc/net/snmp`,
    # `/proc/net/netstat`, `/proc/net/dev`, `/proc/softirqs`, `/proc/net/softnet_stat`; null for a
    # file that this kernel does not show
    proc: dict[str, tuple[str, str] | None]

    @property
    def processes(self) -> tuple[Process, ...]:
        """Both ends; one process where it did both parts."""
        return (self.client, self.server) if self.server else (self.client,)

    def both(self, field: str) -> int:
        """The sum of a count over the two processes; `rusage.voluntary` is of getrusage(2)."""
        return sum(map(attrgetter(field), self.processes))


class CpuDisturbance(Model):
    """What the kernel counted on one CPU while a cell ran."""

    idle_ns: Count  # nothing to run, or waiting for a disk; this and the next in whole steps
    steal_ns: Count  # the hypervisor ran something else although this CPU had something to run
    interrupts: Count | None  # of all kinds; null where the kernel does not show them
    khz: Count | None  # its frequency just after the run; null where the kernel does not show it


class Disturbance(Model):
    """What else the measured CPUs did, from just before the workload started to after its end."""

    wall_ns: Positive
    step_ns: Positive  # the kernel counts idle and stolen time in steps: 10 ms
    own_ns: Count  # CPU time of the workload and of the collector
    load: NotNegative  # the average of a minute, just after the run (getloadavg(3))
    cpus: dict[str, CpuDisturbance]  # the CPUs that the cell is pinned to; all with `free`

    @property
    def rest_ns(self) -> int:
        """CPU time of all others on these CPUs together, give or take a step each."""
        away = sum(cpu.idle_ns + cpu.steal_ns for cpu in self.cpus.values())
        return self.wall_ns * len(self.cpus) - away - self.own_ns

    @property
    def others_ns(self) -> int:
        return max(0, self.rest_ns)


class ProgramRuns(Model):
    """Runs of an instrument's BPF programs, by the kernel's statistics (BPF_ENABLE_STATS)."""

    # 0 where the kernel keeps no such statistics (before Linux 5.8). The markers' runs count.
    runs: Count
    ns: Count


class PlannedCell(Model):
    """What each cell has, run or failed."""

    id: Positive  # the number that the workload's marker carries, unique in its target
    transport: Word
    pattern: Word
    size: Positive  # bytes of one message
    placement: Word
    messages: Positive
    warmup: Count  # messages before the window


class Cell(PlannedCell):
    """One run of a cell. The lines stand in the order in which the cells ran."""

    wait: Wait
    sched: Sched
    topology: Topology  # how many connections
    also: Word = "none"  # what the calls of a message do besides; older runs lack it
    in_flight: Positive | None  # messages that pattern `pipeline` has on the way
    clients: Positive | None  # connections, in patterns that have several
    backlog: Positive | None = None  # that listen(2) is given in pattern `backlog`
    rate: Positive | None = None  # requests a second of pattern `paced`; older runs lack it
    work: Positive | None = None  # microseconds that its server works for each; null for none
    # Nobody asked for the cell. It runs to take the time of a message apart, and is in no ledger
    # and no verdict.
    extra: bool
    repeat: Count  # 0, 1, …: which repeat of this cell
    instruments: tuple[Word, ...]  # what was attached while it ran; empty when it ran unprobed
    scripts: tuple[Word, ...]  # the scripts attached, by their names in probes/scripts.tsv
    lost: Count  # events that ftrace or perf lost in the window
    # Script → events of the whole machine for which its programs did not run in this cell
    # (docs/limitations.md); null where the kernel does not count them
    missed: dict[str, Count | None]
    # Script → those of `missed` that make the cell invalid: calls of kernel functions and events of
    # `net`, which hardly anything but the workload's path makes
    calls_missed: dict[str, Count | None]
    bpf_programs: dict[str, ProgramRuns]  # instrument → runs of its BPF programs in this cell
    error: str | None  # one sentence: the cell failed and has no `result`
    result: Result | None = None
    disturbance: Disturbance | None = None  # null where the cell failed; older runs lack it

    @model_validator(mode="after")
    def _whole(self) -> "Cell":
        if self.error is None and self.result is None:
            raise ValueError("has neither an 'error' nor a 'result'")
        if self.scripts and not self.instruments:
            raise ValueError("names scripts without instruments")
        return self

    @cached_property
    def conditions(self) -> Conditions:
        """What keeps the cell from being compared with any other."""
        names = [part.name for part in fields(Conditions) if part.name != "knob"]
        return Conditions(**{name: getattr(self, name) for name in names})

    @property
    def probed(self) -> bool:
        return bool(self.instruments)

    @property
    def probes(self) -> tuple[str, str]:
        """What was attached: instruments, scripts; empty words when nothing was."""
        return ", ".join(self.instruments), ", ".join(self.scripts)


class CheckLine(Model):
    """One circumstance under which a program of runners/checks ran."""

    check: str
    when: dict[str, str]  # circumstance → value: `{"umask": "022"}`, `{}`
    facts: dict[str, str | int | bool]  # what it found; empty when it failed
    error: str | None  # why it found nothing, in one sentence


class ToolLine(Model):
    """A tool that was asked about its options."""

    tool: str
    help: str  # what `--help` printed
    options: dict[str, bool]  # option → whether the tool took it
    error: str | None  # why it could not be asked, in one sentence
