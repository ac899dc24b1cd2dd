# SPDX-License-Identifier: GPL-2.0-or-later
"""What real programs did: raw/host/programs.jsonl → rows of the tidy table."""

from collections.abc import Iterator
from typing import Any, get_args

from analysis.counts.measures import TIMES, unit_of
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
ENDS = ("p50", "p99")  # of a list of two times
Row = tuple[Any, ...]
Figures = dict[tuple[str, str], float]


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
    messages, valid, figures = measured(line)
    kind = line.kind
    pattern = kind.pattern.format(**dict(line), logs="-log" if line.log else "")
    clients = line.clients if kind.many and line.clients > 1 else None
    workload = (pattern, kind.size or line.size, str(Conditions(kind.placement, clients=clients)))
    probed = line.probed is not None
    instrument = PROBES if probed else INSTRUMENT
    source = (run.name, target.kind, target.kernel, target.probe_level, instrument, line.transport)
    rows = _probed(line.probed) if line.probed else [(figures, True)]
    # A client that was watched from its start.
    if probed and line.with_warm_up:
        messages = line.with_warm_up
    for counts, complete in rows:
        for (quantity, key), value in counts.items():
            if quantity in TIMES and not target.timed:
                continue  # of an emulated CPU
            figure = (probed, quantity, key, value, unit_of(quantity), messages, valid and complete)
            yield (*source, *workload, line.repeat, number, *figure)


def _probed(watched: programs.Probed) -> Iterator[tuple[Figures, bool]]:
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


def measured(line: programs.MeasuredRun) -> tuple[int, bool, Figures]:
    """Messages, whether the measurement is valid, and its figures.

    Valid: all that was sent arrived, by the server's own count where it has one. CPU time is that
    of client and server.
    """
    kind, window, requests = line.kind, line.window_ns or 0, line.requests or 0
    values = dict(line) | {"answers": sum((line.answers or {}).values())}
    messages = kind.each * values[kind.messages]
    agree = {value for name in kind.agree if (value := values[name]) is not None}
    figures: Figures = {}
    if kind.rate:
        count = messages if kind.rate == "messages" else requests
        figures[f"{kind.rate}_per_s", ""] = count * 1e9 / window
    if line.server_usec is not None:
        figures["server_ns", ""] = 1000 * line.server_usec / requests
        before, after = line.time_wait or (None, None)
        if before is not None and after is not None:
            figures["time_wait", ""] = after - before
    if line.address_ns is not None and line.clients == 1:
        figures["address_share", ""] = line.address_ns * requests / window
    if line.client and line.server:
        figures["cpu_ns", "user"] = 1000.0 * (line.client.user_us + line.server.user_us)
        figures["cpu_ns", "system"] = 1000.0 * (line.client.system_us + line.server.system_us)
    if line.system_us:
        figures["client_cpu_ns", "user"] = 1000.0 * line.user_us
        figures["client_cpu_ns", "system"] = 1000.0 * line.system_us
    if line.counters and kind.counters != "none":
        figures |= _counters(line.counters, kind.counters, window)
    samples = {"rtt_ns": line.latency_ns or line.iterations_ns, "message_ns": line.message_ns}
    for quantity, times in samples.items():
        known = times if isinstance(times, dict) else dict(zip(ENDS, times or (), strict=False))
        figures |= {(quantity, key): float(time) for key, time in known.items()}
    if line.answers is not None:
        names = get_args(programs.Protocol)
        figures |= {("answers", name): line.answers.get(name, 0) for name in names}
    return messages, len(agree) < 2, figures


def _counters(counted: programs.KernelCounts, which: str, window: int) -> Figures:
    """Segments of the whole machine, switches of both processes."""
    figures: Figures = {
        ("segments", "data"): counted.data,
        ("segments", "out"): counted.out,
        ("switches", "voluntary"): counted.voluntary,
        ("switches", "involuntary"): counted.involuntary,
    }
    if which != "numbers":
        switches = counted.voluntary + counted.involuntary
        figures["switches_per_s", ""] = switches * 1e9 / window
        figures["cpu_ns", "user"] = counted.user_ns
        figures["cpu_ns", "system"] = counted.system_ns
    if which == "machine":
        figures["machine_switches_per_s", ""] = counted.machine * 1e9 / window
    return figures
