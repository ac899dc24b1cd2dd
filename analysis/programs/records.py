# SPDX-License-Identifier: GPL-2.0-or-later
"""What real programs did: raw/host/programs.jsonl → rows of the tidy table."""

from collections.abc import Callable, Iterator
from typing import Any, get_args

from analysis.counts.measures import OF_A_FILE, TIMES, unit_of
from analysis.raw import programs
from analysis.raw.record import parse_lines
from analysis.raw.run import Missing, Run, Target
from runners.cell import Conditions

FILE = "programs.jsonl"
INSTRUMENT = "program"
PROBES = "bcc"  # which counts in runs of their own
# Counted by another tool as well, or better.
IN_ANOTHER = {("counts", "syscalls"), ("counts", "function_calls")}
# A program's messages are what its author calls so; these are sends and reads of its sockets.
RENAMED = {("messages", "sent"): ("sends", ""), ("messages", "received"): ("reads", "")}
INCR_BYTES = 23  # of a request to redis: `*2 $4 INCR $3 foo` in its protocol
PONG_BYTES = 18  # of Gin's answer: {"message":"pong"}
Row = tuple[Any, ...]


def read_programs(run: Run) -> tuple[list[Row], list[Missing]]:
    """Rows in the order of the tidy table's columns, and what failed. Raises RunError."""
    rows: list[Row] = []
    missing = []
    for target in run.targets:
        path = target.path / FILE
        lines = parse_lines(path, programs.PROGRAM_LINES) if path.exists() else ()
        for number, line in enumerate(lines, 1):
            if isinstance(line, programs.FailedRun):
                name = f"{line.program}, {line.transport}, {line.variant}"
                missing.append(Missing(what=name, target=target.folder, why=line.error))
            else:
                rows += _rows(run, target, number, line)
    return rows, missing


def _rows(run: Run, target: Target, number: int, line: programs.MeasuredRun) -> Iterator[Row]:
    workload, messages, valid, figures = FIGURES[type(line)](line)
    probed = line.probed is not None
    instrument = PROBES if probed else INSTRUMENT
    source = (run.name, target.kind, target.kernel, target.probe_level, instrument, line.transport)
    rows = _probed(line.probed) if line.probed else [(figures, True)]
    # A client that was watched from its start.
    if probed and isinstance(line, programs.Dotnet) and line.with_warm_up:
        messages = line.with_warm_up
    for counts, complete in rows:
        for (quantity, key), value in counts.items():
            if quantity in TIMES and not target.timed:
                continue  # of an emulated CPU
            figure = (probed, quantity, key, value, unit_of(quantity), messages, valid and complete)
            yield (*source, *workload, line.repeat, number, *figure)


def _probed(watched: programs.Probed) -> Iterator[tuple["Figures", bool]]:
    """What each tool counted of the client, the server, their threads and children; and whether it
    lost nothing. Times of such a run are none.

    Calls are counted by syscount, by name; sends and reads that brought something by counts.
    """
    for tool, quantities in watched.counts.items():
        counts = {
            RENAMED.get((quantity, key), (quantity, key)): float(count)
            for quantity, keys in quantities.items()
            if (tool, quantity) not in IN_ANOTHER
            for key, count in keys.items()
        }
        yield counts, not watched.lost[tool] and not watched.calls_missed


Workload = tuple[str, int, str]  # pattern, size, conditions
Figures = dict[tuple[str, str], float]
Measured = tuple[Workload, int, bool, Figures]  # with messages, and whether it is valid


def _redis(line: programs.Redis) -> Measured:
    """A request and its answer are two messages. Valid: the server counted every request."""
    requests, window = line.requests, line.window_ns
    valid = line.counted == line.server_calls == requests
    conditions = str(Conditions("free", clients=line.clients if line.clients > 1 else None))
    figures: Figures = {
        ("requests_per_s", ""): requests * 1e9 / window,
        ("server_ns", ""): 1000 * line.server_usec / requests,
        **_counters(line),
    }
    if line.address_ns is not None and line.clients == 1:
        figures["address_share", ""] = line.address_ns * requests / window
    before, after = line.time_wait
    if before is not None and after is not None:
        figures["time_wait", ""] = after - before
    return (f"redis-{line.variant}", INCR_BYTES, conditions), 2 * requests, valid, figures


def _asyncio(line: programs.Asyncio) -> Measured:
    """Valid: the server received every byte. CPU time is both processes'."""
    client, server = line.client, line.server
    figures: Figures = {
        ("messages_per_s", ""): line.messages * 1e9 / line.window_ns,
        ("cpu_ns", "user"): 1000.0 * (client.user_us + server.user_us),
        ("cpu_ns", "system"): 1000.0 * (client.system_us + server.system_us),
        **_counters(line),
        **_median_and_p99("rtt_ns", line.iterations_ns),
    }
    workload = (f"{line.loop}-{line.variant}", line.size, "free")
    return workload, line.messages, line.sent == line.received, figures


def _dotnet(line: programs.Dotnet) -> Measured:
    """Valid: all that was sent was received. The time of a call is that of its messages."""
    workload = (f"dotnet-{line.variant}", line.size, "same-cpu")
    figures = _median_and_p99("message_ns", line.message_ns)
    return workload, line.messages, line.sent == line.received, figures


def _median_and_p99(quantity: str, times: tuple[int, ...]) -> Figures:
    return {(quantity, key): float(time) for key, time in zip(("p50", "p99"), times, strict=False)}


def _echo(line: programs.Echo) -> Measured:
    """A line and its echo are two messages. Valid: every line came back."""
    window = line.window_ns
    figures = {("messages_per_s", ""): 2 * line.echoed * 1e9 / window, **_counters(line, window)}
    workload = (f"{line.program}-echo", line.size, "free")
    return workload, 2 * line.sent, line.echoed == line.sent, figures


def _gin(line: programs.Gin) -> Measured:
    """A request and its answer are two messages. Valid: each was answered with status 200.

    Switches and CPU time are the server's in the window and the client's whole life.
    """
    times = line.latency_ns or line.iterations_ns or ()
    figures: Figures = {
        ("requests_per_s", ""): line.requests * 1e9 / line.window_ns,
        **{("rtt_ns", key): float(time) for key, time in times},
        **_counters(line, line.window_ns),
    }
    if line.counters:
        figures["machine_switches_per_s", ""] = line.counters.machine * 1e9 / line.window_ns
    workload = (f"gin-{line.variant}{'-log' if line.log else ''}", PONG_BYTES, "free")
    return workload, 2 * line.requests, line.answered in (None, line.requests), figures


def _served(line: programs.Served) -> Measured:
    """A request and its answer are two messages. Valid: the server counted every request."""
    requests = line.requests
    figures: Figures = {
        ("requests_per_s", ""): requests * 1e9 / line.window_ns,
        **{("rtt_ns", key): float(time) for key, time in line.latency_ns.items()},
        **_counters(line, line.window_ns),
    }
    conditions = str(Conditions("free", clients=line.clients if line.clients > 1 else None))
    workload = (f"{line.program}{OF_A_FILE}{line.variant}", line.size, conditions)
    return workload, 2 * requests, line.counted in (None, requests), figures


def _in_fastcgi(line: programs.GinInFastcgi) -> Measured:
    """Requests alone are messages. Valid: the client made each of them."""
    figures: Figures = {
        ("answers", name): line.answers.get(name, 0) for name in get_args(programs.Protocol)
    }
    valid = sum(figures.values()) == line.asked
    return ("gin-fastcgi", PONG_BYTES, "free"), line.asked, valid, figures


def _counters(line: programs.MeasuredRun, window_ns: int = 0) -> Figures:
    """Segments of the whole machine, switches of both processes; with a window rates and times."""
    counted = line.counters
    if counted is None:
        return {}
    figures: Figures = {
        ("segments", "data"): counted.data,
        ("segments", "out"): counted.out,
        ("switches", "voluntary"): counted.voluntary,
        ("switches", "involuntary"): counted.involuntary,
    }
    if window_ns:
        switches = counted.voluntary + counted.involuntary
        figures["switches_per_s", ""] = switches * 1e9 / window_ns
        figures["cpu_ns", "user"] = counted.user_ns
        figures["cpu_ns", "system"] = counted.system_ns
    return figures


FIGURES: dict[type[programs.MeasuredRun], Callable[[Any], Measured]] = {
    **{programs.Redis: _redis, programs.Asyncio: _asyncio, programs.Dotnet: _dotnet},
    **{programs.Echo: _echo, programs.Gin: _gin, programs.GinInFastcgi: _in_fastcgi},
    programs.Served: _served,
}
