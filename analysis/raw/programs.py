# SPDX-License-Identifier: GPL-2.0-or-later
"""Lines of raw/host/programs.jsonl, each a measurement of a real program; and what watch saw.

A line with `probed` is of a run of its own, after the timed ones, while the BCC tools watched the
client, its server, all their threads and what these start. Its times are in no table.
"""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Tag, TypeAdapter

from analysis.raw.record import Count, Model, NotNegative, Positive, Word


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


class AppRun(Model):
    """What a line of every program has."""

    program: Word
    variant: Word
    clients: Positive
    transport: Word
    repeat: Count


class FailedRun(AppRun, extra="allow"):
    """A measurement that failed, with whatever else its program knows by then."""

    error: str


class MeasuredRun(AppRun):
    """What every measurement has."""

    error: None
    size: Positive | None = None  # of a message, as its file says
    requests: Positive | None = None  # of the client
    # Connections of this machine in TIME_WAIT, before and after
    time_wait: tuple[Count | None, Count | None] | None = None
    counters: KernelCounts | None = None
    probed: Probed | None = None


class Redis(MeasuredRun):
    """Requests to redis-server. Pattern `redis-<variant>`; a request and its answer are two
    messages."""

    program: Literal["redis"]
    requests: Positive
    window_ns: Positive
    user_us: Count = 0  # CPU time of the clients
    system_us: Count = 0
    server_calls: Count  # by the server's own statistics, as `server_usec`
    server_usec: Count
    counted: Count  # what the server has counted up
    time_wait: tuple[Count | None, Count | None]
    # Over TCP: how long filling in the address takes (gethostbyname, htons)
    address_ns: Count | None = None


class CpuTime(Model):
    """By getrusage(2)."""

    user_us: Count
    system_us: Count


class Asyncio(MeasuredRun):
    """Python's event loops. Pattern `<loop>-<variant>`."""

    program: Literal["asyncio"]
    loop: Word
    size: Positive
    messages: Positive
    window_ns: Positive
    sent: Count  # bytes
    received: Count  # bytes, by the server
    client: CpuTime
    server: CpuTime
    # Median and 99th percentile of the round trips; empty for a stream
    iterations_ns: tuple[Count, ...]


class Dotnet(MeasuredRun):
    """The methods of the .NET benchmark. Pattern `dotnet-<variant>`, placement `same-cpu`."""

    program: Literal["dotnet"]
    size: Positive
    calls: Positive
    messages: Positive  # in all calls
    with_warm_up: Positive | None = None  # messages with those before the window
    sent: Count  # bytes
    received: Count
    # Median and 99th percentile of a call, divided by the messages in it
    message_ns: tuple[Count, Count]


class Echo(MeasuredRun):
    """Lines and their echoes, in Go and in Java. Pattern `<program>-echo`; a line and its echo are
    two messages."""

    program: Literal["go", "java"]
    size: Positive
    sent: Positive  # lines
    echoed: Count
    window_ns: Positive
    runtime: str  # the version of Go or Java


class RequestTimes(Model):
    """Times of the requests, by the client."""

    mean: Count
    p50: Count
    p99: Count


class Gin(MeasuredRun):
    """HTTP requests to Gin. Pattern `gin-<variant>`, with `-log` where it logs; a request
    and its answer are two messages."""

    program: Literal["gin"]
    log: bool  # whether the server writes its request log
    requests: Positive
    window_ns: Positive
    # In older lines `answered`, those with status 200, and `iterations_ns`; a client that gets
    # another status ends with an error
    answered: Count | None = None
    latency_ns: RequestTimes | None = None
    iterations_ns: RequestTimes | None = None


class Served(MeasuredRun):
    """Requests to a program of a file. Pattern `<program>/<variant>`; a request and its answer are
    two messages."""

    size: Positive  # of a request, as the file says
    requests: Positive  # by the client
    counted: Count | None = None  # by the server; null where nobody counts
    window_ns: Positive
    latency_ns: dict[Literal["mean", "p50", "p99"], Count]  # as far as the client tells


Protocol = Literal["fastcgi", "http", "else", "nothing"]


class GinInFastcgi(MeasuredRun):
    """Requests in FastCGI to Gin. Pattern `gin-fastcgi`; requests alone are messages."""

    program: Literal["gin"]
    variant: Literal["fastcgi"]
    asked: Positive
    answers: dict[Protocol, Count]  # protocol of the answer → how many


# The programs with a class of their own here.
PACKAGES = {
    *("(redis)", "(asyncio)", "(dotnet)", "(go)", "(java)", "(gin)", "(gin in FastCGI)"),
}


def _choice(line: Any) -> str:
    record = line if isinstance(line, dict) else {}
    if record.get("error") is not None:
        return "(failed)"
    fastcgi = " in FastCGI" if record.get("variant") == "fastcgi" else ""
    name = f"({record.get('program')}{fastcgi})"
    return name if name in PACKAGES else "(file)"


ProgramLine = Annotated[
    Annotated[FailedRun, Tag("(failed)")]
    | Annotated[Redis, Tag("(redis)")]
    | Annotated[Asyncio, Tag("(asyncio)")]
    | Annotated[Dotnet, Tag("(dotnet)")]
    | Annotated[Echo, Tag("(go)")]
    | Annotated[Echo, Tag("(java)")]
    | Annotated[Gin, Tag("(gin)")]
    | Annotated[GinInFastcgi, Tag("(gin in FastCGI)")]
    | Annotated[Served, Tag("(file)")],
    Discriminator(_choice),
]
PROGRAM_LINES: TypeAdapter[FailedRun | MeasuredRun] = TypeAdapter(ProgramLine)


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
