# SPDX-License-Identifier: GPL-2.0-or-later
"""A line of raw/host/programs.jsonl: one measurement of a real program.

A line with `probed` is of a run of its own, after the timed ones, while the BCC tools watched the
client, its server, all their threads and what these start. Its times are in no table.
"""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Tag, TypeAdapter

from analysis.raw.record import Count, Model, Positive, Word


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
