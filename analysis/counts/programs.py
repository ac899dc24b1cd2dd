# SPDX-License-Identifier: GPL-2.0-or-later
"""What real programs did: raw/host/programs.jsonl → rows of the tidy table; and how much of a
difference between transports survives in them, and why.

Each program of an article stands beside the same pattern in C. A difference in time that the path
makes is there in both; what a runtime, an event loop or a protocol adds is the same for both
transports, and thins the ratio out.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, get_args

import pandas as pd

from analysis.counts import measures
from analysis.counts.measures import (
    MEASURE_BY_ID,
    WORKLOAD,
    Workload,
    compare_transports,
    groups,
    of_programs,
)
from analysis.raw import programs
from analysis.raw.record import parse_lines
from analysis.raw.run import Missing, Run, Target
from analysis.statistics import Compared, Estimate
from analysis.wording import RATE
from probes.cell import Conditions
from probes.contract import PROGRAMS_FILE
from probes.transports import PAIR

INSTRUMENT = "program"
PROBED_BY = "bcc"  # which counts in runs of their own
# Counted by another tool as well, or better.
IN_ANOTHER = {("counts", "syscalls"), ("counts", "function_calls")}
# A program's messages are what its author calls so; these are sends and reads of its sockets.
SOCKET_CALLS = {("messages", "sent"): ("sends", ""), ("messages", "received"): ("reads", "")}
TIME_KEYS = ("p50", "p99")  # of a list of two times
TidyRow = tuple[Any, ...]
FigureByKey = dict[tuple[str, str], float]


def read_programs(run: Run) -> tuple[list[TidyRow], list[Missing]]:
    """Rows in the order of the tidy table's columns, and what failed. Raises RunError."""
    rows: list[TidyRow] = []
    missing = []
    for target in run.targets:
        path = target.path / PROGRAMS_FILE
        lines = parse_lines(path, programs.PROGRAM_LINES) if path.exists() else ()
        for number, line in enumerate(lines, 1):
            if isinstance(line, programs.FailedRun):
                name = f"{line.program}, {line.transport}, {line.variant}"
                missing.append(Missing(what=name, target=target.folder, why=line.error))
            else:
                rows += _rows(run, target, number, line)
    return rows, missing


def _rows(run: Run, target: Target, number: int, line: programs.MeasuredRun) -> Iterator[TidyRow]:
    messages, valid, figures = measured(line)
    kind = line.kind
    pattern = kind.pattern.format(**dict(line), logs="-log" if line.log else "")
    clients = line.clients if kind.many and line.clients > 1 else None
    workload = (pattern, kind.size or line.size, str(Conditions(kind.placement, clients=clients)))
    probed = line.probed is not None
    instrument = PROBED_BY if probed else INSTRUMENT
    source = (run.name, target.kind, target.kernel, target.probe_level, instrument, line.transport)
    rows = _probed(line.probed) if line.probed else [(figures, True)]
    # A client that was watched from its start.
    if probed and line.with_warm_up:
        messages = line.with_warm_up
    for counts, complete in rows:
        for (quantity, key), value in counts.items():
            if measures.is_time(quantity) and not target.timed:
                continue  # of an emulated CPU
            unit = measures.unit_of(quantity)
            figure = (probed, quantity, key, value, unit, messages, valid and complete)
            yield (*source, *workload, line.repeat, number, *figure)


def _probed(watched: programs.Probed) -> Iterator[tuple[FigureByKey, bool]]:
    """What each tool counted of the client, the server, their threads and children; and whether it
    lost nothing. Times of such a run are none.

    Calls are counted by syscount, by name; sends and reads that brought something by counts.
    """
    for tool, quantities in watched.counts.items():
        counts = {
            SOCKET_CALLS.get((quantity, key), (quantity, key)): float(count)
            for quantity, keys in quantities.items()
            if (tool, quantity) not in IN_ANOTHER
            for key, count in keys.items()
        }
        yield counts, not watched.lost[tool] and not watched.calls_missed


def measured(line: programs.MeasuredRun) -> tuple[int, bool, FigureByKey]:
    """Messages, whether the measurement is valid, and its figures.

    Valid: all that was sent arrived, by the server's own count where it has one. CPU time is that
    of client and server.
    """
    kind, window, requests = line.kind, line.window_ns or 0, line.requests or 0
    values = dict(line) | {"answers": sum((line.answers or {}).values())}
    messages = kind.each * values[kind.messages]
    agree = {value for name in kind.agree if (value := values[name]) is not None}
    figures: FigureByKey = {}
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
        known = (
            times if isinstance(times, dict) else dict(zip(TIME_KEYS, times or (), strict=False))
        )
        figures |= {(quantity, key): float(time) for key, time in known.items()}
    if line.answers is not None:
        names = get_args(programs.Protocol)
        figures |= {("answers", name): line.answers.get(name, 0) for name in names}
    return messages, len(agree) < 2, figures


def _counters(counted: programs.KernelCounts, which: str, window: int) -> FigureByKey:
    """Segments of the whole machine, switches of both processes."""
    figures: FigureByKey = {
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


def df_programs(measured: pd.DataFrame) -> pd.DataFrame:
    """Experiment by experiment, its measures in the order of measures.tsv, each by its best source:
    times by the program's clock, switches by the kernel's counts of unprobed runs, the rest by the
    probes.

    Columns: pattern, size, conditions, measure; entries (transport → figure); ratio (tcp / unix).
    """
    table: list[TidyRow] = []
    for (*workload, name), rows in groups(measured[of_programs(measured)], *WORKLOAD, "measure"):
        best = measures.best_source(rows, MEASURE_BY_ID[name])
        valid = best[best["valid"].astype(bool)]
        table.append((*workload, MEASURE_BY_ID[name], entries(best), ratio(valid)))
    table.sort(key=lambda row: (*program_order(*row[:2]), measures.MEASURES.index(row[3])))
    return pd.DataFrame(table, columns=[*WORKLOAD, "measure", "entries", "ratio"])


def program_order(pattern: str, size: int) -> tuple[int, str, int]:
    """The articles' programs in their order, then those of files by name."""
    known = list(measures.PROGRAMS)
    return known.index(pattern) if pattern in known else len(known), pattern, size


def entries(rows: pd.DataFrame) -> dict[str, Estimate]:
    """Transport → its figure; of rows of one measure, source and conditions."""
    figures = measures.over_repeats(rows).to_dict("records")
    return {row["transport"]: measures.estimate_of(row) for row in figures}


def ratio(rows: pd.DataFrame) -> Estimate | None:
    """TCP's by a Unix socket's; of valid rows of one measure and conditions."""
    pairs = _by_repeat(rows).reindex(columns=list(PAIR)).dropna()
    both = compare_transports(pairs)
    if both is None or not pairs[PAIR[0]].all():
        return None
    return both.ratio


def _by_repeat(rows: pd.DataFrame) -> pd.DataFrame:
    """A row for each repeat, a column for each transport."""
    return rows.pivot_table(index="repeat", columns="transport", values="value")


# The first that a program has says how long one takes: what it is of, and of a rate the inverse.
SPEEDS = {
    "requests_per_s": "request",
    "messages_per_s": "message",
    "rtt_p50": "round trip",
    "message_p50": "message",
}


@dataclass(frozen=True)
class TimedWorkload(Workload):
    """The program, or the C workload at one placement."""

    ns: Compared  # how long one takes over a Unix socket, and over TCP


@dataclass(frozen=True)
class Survival:
    """Programs of one pattern, and the same in C beside them."""

    unit: str  # what the times are of
    programs: tuple[TimedWorkload, ...]
    c_cells: tuple[TimedWorkload, ...]
    why: str


# A program's pattern → its pattern in C, the size (0: its own) and how they differ.
IN_C = {
    row["pattern"]: (row["in_c"], int(row["size"] or 0), row["why"])
    for row in measures.BASELINES
    if row["in_c"]
}


def survivals(measured: pd.DataFrame) -> tuple[Survival, ...]:
    """In the order of PROGRAMS; a program with no time over one of the two transports has none."""
    valid = measured[measured["valid"].astype(bool) & measured["transport"].isin(PAIR)]
    sides = []
    for workload, rows in groups(valid[of_programs(valid)], *WORKLOAD):
        timed = ((_side(rows, workload, speed), speed) for speed in SPEEDS)
        sides += [(side, speed) for side, speed in timed if side][:1]
    groups_of: dict[object, Survival] = {}
    sides.sort(key=lambda side: program_order(side[0].pattern, side[0].size))
    for program, speed in sides:
        name, size, why = IN_C.get(program.pattern, ("", 0, ""))
        alone = not program.where.unusual  # C has no cell with 20 clients
        cells = valid[(valid["pattern"] == name) & (valid["size"] == (size or program.size))]
        in_c = (_side(rows, workload, speed) for workload, rows in groups(cells, *WORKLOAD))
        c_cells = tuple(filter(None, in_c)) if alone else ()
        # Programs that have one C baseline share one entry.
        own_key = (program.pattern, program.size, program.conditions)
        key = (speed, name, size or program.size, why) if c_cells else own_key
        before = groups_of.get(key, Survival(SPEEDS[speed], (), c_cells, why))
        groups_of[key] = replace(before, programs=(*before.programs, program))
    return tuple(groups_of.values())


def _side(rows: pd.DataFrame, workload: tuple[str, int, str], speed: str) -> TimedWorkload | None:
    """How long one takes, in ns: unprobed, on the host."""
    unprobed = (rows["target"] == "host") & (rows["value"] > 0) & ~rows["probed"].astype(bool)
    measure, times = MEASURE_BY_ID[speed], rows[unprobed & (rows["measure"] == speed)]
    if not times.empty:
        times = measures.best_source(times, measure)
        times = times.assign(value=1e9 / times["value"]) if measure.unit == RATE else times
    both = compare_transports(_by_repeat(times))
    if both is None:
        return None
    first, second = both.first.above_zero(), both.second.above_zero()
    return TimedWorkload(*workload, replace(both, first=first, second=second))
