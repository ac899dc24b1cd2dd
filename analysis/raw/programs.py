# SPDX-License-Identifier: GPL-2.0-or-later
"""Lines of raw/host/programs.jsonl, each a measurement of a real program; and what watch saw.

A line with `probed` is of a run of its own, after the timed ones, while the BCC tools watched the
client, its server, all their threads and what these start. Its times are in no table.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    create_model,
    model_validator,
)

from analysis.raw.exact import Events
from analysis.raw.record import Count, Model, Name, NotNegative, Positive, Word, failed
from probes.files import read_rows, typed
from probes.messages import one_line
from probes.watch import COUNTED

OthersName = Annotated[str, AfterValidator(one_line)]  # another user's, with any character in it


class Probed(Model):
    """What the BCC tools counted. For asyncio, go and java the window is from the client's "ready"
    to its result; for the others it is its whole life."""

    # Tool → quantity → key → count: `counts` of probes/bcc/counts.py, `syscount` with all system
    # calls by name, `stacks` with the causes of wake-ups
    counts: dict[str, dict[str, dict[str, Count]]]
    lost: dict[str, Count]  # tool → events without room; what that tool counted is then invalid
    missed: Count | None  # as in cells.jsonl, all tools together
    calls_missed: Count | None


class KernelCounts(Model):
    """What the kernel counted in the same window."""

    out: Count  # segments that the whole machine sent
    data: Count  # segments with payload that it sent
    machine: Count  # context switches of the whole machine
    voluntary: Count  # this and the rest: of client and server
    involuntary: Count
    user_ns: Count  # to the clock tick
    system_ns: Count


class ProgramRun(Model):
    """What every line has."""

    program: Word
    variant: Word
    clients: Positive
    transport: Word
    repeat: Count


class FailedRun(ProgramRun, extra="allow"):
    """A measurement that failed, with whatever else its program knows by then."""

    error: str


class CpuTime(Model):
    """By getrusage(2)."""

    user_us: Count
    system_us: Count


Protocol = Literal["fastcgi", "http", "else", "nothing"]
TimesByKey = dict[Literal["mean", "p50", "p99"], Count]


class MeasuredRun(ProgramRun):
    """A measurement. Which fields it has depends on its program: see programs.tsv."""

    error: None
    size: Positive | None = None  # of a message or a request
    window_ns: Positive | None = None
    requests: Positive | None = None  # by the client
    counted: Count | None = None  # requests, by the server; null where nobody counts
    latency_ns: TimesByKey | None = None  # of requests, as far as the client knows them
    # Connections of this machine in TIME_WAIT, before and after
    time_wait: tuple[Count | None, Count | None] | None = None
    counters: KernelCounts | None = None
    probed: Probed | None = None
    # redis: CPU time of the clients
    user_us: Count = 0
    system_us: Count = 0
    server_calls: Count | None = None  # by the server's own statistics, as `server_usec`
    server_usec: Count | None = None
    # Over TCP: how long filling in the address takes (gethostbyname, htons)
    address_ns: Count | None = None
    loop: Word | None = None  # of asyncio
    messages: Positive | None = None  # of asyncio; of dotnet in all calls
    calls: Positive | None = None
    with_warm_up: Positive | None = None  # messages with those before the window
    sent: Count | None = None  # bytes; of an echo lines
    received: Count | None = None  # bytes, by the server
    client: CpuTime | None = None
    server: CpuTime | None = None
    # Median and 99th percentile of the round trips, none of a stream; of Gin in older runs as
    # latency_ns, with `answered`, the requests answered with status 200
    iterations_ns: tuple[Count, ...] | TimesByKey | None = None
    answered: Count | None = None
    # Median and 99th percentile of a call, divided by the messages in it
    message_ns: tuple[Count, Count] | None = None
    echoed: Count | None = None  # lines
    runtime: str = ""  # the version of Go or Java
    log: bool | None = None  # whether Gin writes its request log
    asked: Positive | None = None  # requests in FastCGI
    answers: dict[Protocol, Count] | None = None  # protocol of the answer → how many

    @property
    def kind(self) -> "Kind":
        return PROGRAM_KINDS.get(f"{self.program} {self.variant}") or PROGRAM_KINDS.get(
            self.program, PROGRAM_KINDS[""]
        )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        lacking = [name for name in self.kind.fields if getattr(self, name) is None]
        if lacking:
            raise ValueError(f"a line of {self.program} has {' and '.join(lacking)}")
        return self


class Kind(NamedTuple):
    """How the lines of one program are read: a row of programs.tsv."""

    pattern: str
    messages: str
    fields: tuple[str, ...]
    each: int
    agree: tuple[str, ...]
    rate: str
    counters: str
    size: int
    placement: str
    many: bool


PROGRAM_KINDS = {
    row["program"]: Kind(**typed(Kind, row))
    for row in read_rows(Path(__file__).with_suffix(".tsv"))
}


PROGRAM_LINES: TypeAdapter[FailedRun | MeasuredRun] = TypeAdapter(
    Annotated[
        Annotated[FailedRun, Tag("(failed)")] | Annotated[MeasuredRun, Tag("(counted)")],
        Discriminator(failed),
    ]
)


class ProbeCost(Model):
    """What watching took, by the kernel's statistics of BPF programs."""

    runs: Count
    ns: Count  # in the programs
    entry_ns: Count  # what the way to a program costs, for each run; `ns` does not contain it
    missed: Count  # events for which a program did not run
    watched_cpu_ns: Count  # CPU time of the processes that own an end, meanwhile
    share: NotNegative | None  # of that, the programs and the way to them; null without any


# For which timer: the peer's delayed ACK, before Nagle's algorithm sends more; a corked socket's;
# the repetition of data or of a SYN; pacing
WaitKind = Literal["delayed-ack", "cork", "resent", "syn", "paced"]


class Life(Model):
    """What TCP has counted of a connection since it opened, as its process sent."""

    segments_out: Count  # with data
    segments_in: Count
    resent: Count  # segments of segments_out
    bytes_out: Count
    bytes_in: Count
    unread: Count  # bytes of these that its process had not read yet


Counting = TypeVar("Counting", bound=Model)


def with_counts(model: type[Counting]) -> type[Counting]:
    """The model with a field for each count of probes/watch.tsv, which has its description."""
    counts: dict[str, Any] = {
        column.key: (Count, Field(... if column.needed else 0, description=column.what))
        for column in COUNTED
    }
    return create_model(
        model.__name__, __base__=model, __doc__=model.__doc__, __module__=__name__, **counts
    )


@with_counts
class End(Model):
    """One end of one connection, or of all that closed between two processes: what its process
    sent and received through it."""

    family: Literal["tcp", "unix", "udp"]
    net: Count  # stands for the network namespace of loopback addresses; 0 for others
    own: str  # address and port; of a Unix socket a number
    peer: str  # the own address of the other end
    comm: OthersName  # of the thread that used it first
    opened: Literal["", "connected", "accepted"]  # from which side, where it is known
    datagram: bool = False
    # Whether it has sent more messages than it has received since it opened: it spoke first
    leads: bool | None = None
    life: Life | None = None  # of a connection of TCP, or of the first that closed
    path: OthersName  # of a Unix socket, if it has one; an abstract name begins with @
    pid: Count
    cpus: Count  # a bit for each CPU
    waits: dict[WaitKind, tuple[Count, Count]] = Field({})  # times that what it sent waited, and ns
    namespace: Count  # network namespace
    inode: Count  # of a Unix socket

    def count(self, field: str) -> int:
        """What probes/watch.tsv calls so."""
        count: int = getattr(self, field)
        return count


class Owner(Model):
    """A process that owns an end: what it used in the time that was watched."""

    comm: OthersName = ""
    user_ms: int = 0
    system_ms: int = 0
    voluntary: Count = 0  # context switches because a thread slept
    waited_us: Count = 0  # how long its threads waited for a CPU
    ran_ms: Count = 0  # how long the thread that ran most did
    busiest_ms: Count = 0  # how long the thread that wanted to run most ran or waited for a CPU
    # What tells folders apart in which sockets often lie (device and inode of /tmp, /run, …)
    places: tuple[str, ...] = ()
    allowed: tuple[Count, ...] = ()  # CPUs on which its first thread may run
    listening: tuple[Count, ...] = ()  # ports, in its network namespace
    ended: bool = False  # it was gone when the watch ended
    container: OthersName = ""  # who made it, and its name or the beginning of its ID
    tls: OthersName = ""  # the library that it may encrypt connections with
    looks: Count = 0  # how often its threads were looked at
    blocked: Count = 0  # and how often one slept as its send had no room


class Failure(Model):
    """connect(2) of a process to a place that failed."""

    pid: Count
    place: OthersName
    count: Count
    portless: bool = False  # no port was free


class Only(Model):
    """What the user wants to see; empty for everything."""

    pids: tuple[Count, ...] = ()
    ports: tuple[Count, ...] = ()


class Watched(Model):
    """watch.json."""

    format: Literal[1]
    seconds: NotNegative  # from the first probe to the last
    active_s: NotNegative  # how long the probes counted: less than `seconds` in a sample
    idle: dict[str, float] = Field({})  # the share of the time in which a CPU had nothing to run
    hooks: Literal["tracepoints", "functions"]
    probes: ProbeCost
    lost: Count  # ends without room in the kernel's table
    ends: tuple[End, ...]
    failures: tuple[Failure, ...] = ()
    processes: dict[str, Owner]  # by pid
    # Network namespace → what it has counted meanwhile (`TcpExt` of /proc/net/netstat); how
    # many waited at most (`waiting PORT`), `backlog PORT`, and in the end `time-wait PORT`
    namespaces: dict[str, dict[str, int]] = Field({})
    only: Only = Only()

    @property
    def sampled(self) -> bool:
        return self.active_s < 0.98 * self.seconds

    def owner(self, pid: int) -> Owner:
        return self.processes.get(str(pid), Owner(ended=True))


class PricedCell(Model):
    """A cell of the C workload, unprobed. Each list has a value for each repeat."""

    # Neither unix nor tcp: of a cell that tells what events cost
    transport: Literal["unix", "tcp", "pipe", "udp", "shm"]
    pattern: Literal["pingpong", "selfecho", "connect", "paced"]
    size: Positive
    placement: Literal["same-cpu", "cross-cpu"]
    rate: Positive | None = None  # of paced: requests a second; a request's time is median_us
    cold: bool = False  # with so much other code before each receive that the CPU forgets the path
    iteration_us: tuple[NotNegative, ...]  # a round trip; of `connect` with connect and close
    median_us: tuple[NotNegative, ...] = ()  # the median iteration, where iteration_us is the mean
    client_cpu_us: tuple[NotNegative, ...]  # CPU time for an iteration
    server_cpu_us: tuple[NotNegative, ...]
    events: Events | None = None  # that exact mode counted in the same cell


class PriceList(Model):
    """prices.json."""

    # 1: without cold cells; 2: without median_us, and cells that price events; 3: without pauses
    format: Literal[1, 2, 3, 4]
    measured: Count  # seconds since 1970
    cells: tuple[PricedCell, ...]
    kernel: Name | None = None  # the release on which the cells' events were counted
    fingerprint: dict[str, str | int | list[int]]  # the machine: prices hold for it alone

    @property
    def knob(self) -> str:
        """With which knob the cells' events were counted; what the list tells is counted alike."""
        return str(self.fingerprint.get("knob", ""))
