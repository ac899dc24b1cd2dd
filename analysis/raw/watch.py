# SPDX-License-Identifier: GPL-2.0-or-later
"""watch.json and prices.json: what --watch saw, and what messages cost on that machine."""

from typing import Literal

from analysis.raw.record import Count, Model, NotNegative, Positive


class ProbeCost(Model):
    """What watching took, by the kernel's statistics of BPF programs."""

    runs: Count
    ns: Count  # in the programs
    entry_ns: Count  # what the way to a program costs, for each run; `ns` does not contain it
    missed: Count  # events for which a program did not run
    watched_cpu_ns: Count  # CPU time of the processes that own an end, meanwhile
    share: NotNegative | None  # of that, the programs and the way to them; null without any


class End(Model):
    """One end of one connection: what its process sent and received through it."""

    family: Literal["tcp", "unix"]
    net: Count  # stands for the network namespace of loopback addresses; 0 for others
    own: str  # address and port; of a Unix socket a number
    peer: str  # the own address of the other end
    comm: str  # of the thread that used it first
    opened: Literal[
        "", "connected", "accepted"
    ]  # in the time that was watched, and from which side
    path: str  # of a Unix socket, if it has one; an abstract name begins with @
    sizes: dict[str, Count]  # sends by the power of two below their bytes
    pid: Count
    sent: Count  # bytes
    received: Count
    sends: Count
    receives: Count
    empty: Count  # calls that failed: mostly there was nothing to receive
    turns: Count  # how often it sent after it had received, or first
    answers: Count  # how often it received after it had sent
    answer_ns: Count  # from its last send to these
    works: Count  # how often it sent after it had received
    work_ns: Count  # from the last receive to these
    near: Count  # what it received after a turn and was sent on the same CPU
    far: Count  # the same, sent on another CPU
    cpus: Count  # a bit for each CPU
    connections: Count  # that opened in the time that was watched
    namespace: Count  # network namespace
    inode: Count  # of a Unix socket


class Owner(Model):
    """A process that owns an end: what it used in the time that was watched."""

    comm: str = ""
    user_ms: int = 0
    system_ms: int = 0
    voluntary: Count = 0  # context switches because a thread slept
    involuntary: Count = 0
    busiest_ms: Count = 0  # how long the thread that wanted to run most ran or waited for a CPU
    uid: Count = 0
    # What tells folders apart in which sockets often lie (device and inode of /tmp, /run, …)
    places: tuple[str, ...] = ()
    allowed: tuple[Count, ...] = ()  # CPUs on which its first thread may run
    threads: Count = 0
    listening: tuple[Count, ...] = ()  # ports, in its network namespace
    ended: bool = False  # it was gone when the watch ended


class Only(Model):
    """What the user wants to see; empty for everything."""

    pids: tuple[Count, ...] = ()
    ports: tuple[Count, ...] = ()


class Watched(Model):
    """watch.json."""

    format: Literal[1]
    seconds: NotNegative  # from the first probe to the last
    active_s: (
        NotNegative  # how long the probes counted: less than `seconds` where they were sampled
    )
    cpus: Positive = 1
    idle_cpus: NotNegative = 0.0  # how many CPUs had nothing to run, on average
    hooks: Literal["tracepoints", "functions"]
    probes: ProbeCost
    own_cpu_ms: Count = 0  # CPU time of the tool itself, compiling included
    lost: Count  # ends without room in the kernel's table
    ends: tuple[End, ...]
    processes: dict[str, Owner]  # by pid
    only: Only = Only()

    @property
    def sampled(self) -> bool:
        return self.active_s < 0.98 * self.seconds

    def owner(self, pid: int) -> Owner:
        return self.processes.get(str(pid), Owner(ended=True))


class PricedCell(Model):
    """A cell of the C workload, unprobed. Each list has a value for each repeat."""

    transport: Literal["unix", "tcp"]
    pattern: Literal["pingpong", "selfecho", "connect"]
    size: Positive
    placement: Literal["same-cpu", "cross-cpu"]
    cold: bool = False  # with so much other code before each receive that the CPU forgets the path
    iteration_us: tuple[NotNegative, ...]  # a round trip; of `connect` with connect and close
    client_cpu_us: tuple[NotNegative, ...]  # CPU time for an iteration
    server_cpu_us: tuple[NotNegative, ...]


class PriceList(Model):
    """prices.json."""

    format: Literal[1, 2]  # 1: without cold cells
    measured: Count  # seconds since 1970
    cells: tuple[PricedCell, ...]
    fingerprint: dict[str, str | int | list[int]]  # the machine: prices hold for it alone
