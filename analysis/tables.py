# SPDX-License-Identifier: GPL-2.0-or-later
"""The tidy table: one row for each figure, whoever measured it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.counts.quantities import ROUND_TRIP_PATTERNS, SAMPLED, TIMES, unit_of
from analysis.counts.validity import invalid_reasons
from analysis.exact import cells as exact
from analysis.exact import files as exact_files
from analysis.programs import records
from analysis.raw.cells import Cell, Result
from analysis.raw.failures import failures
from analysis.raw.probe_files import Scripts, read_ftrace, read_samples, read_scripts
from analysis.raw.proc import Reader, delta, device, other_devices, snmp, softirq
from analysis.raw.run import Missing, Run, Target

COLUMNS = (
    "run", "target", "kernel", "probe_level", "instrument", "transport", "pattern", "size",
    "placement", "repeat", "cell", "probed", "quantity", "key", "value", "unit", "messages",
    "valid",
)  # fmt: skip

# What /proc counts over a window: file, quantity, key, how to read it.
PROC: tuple[tuple[str, str, str, Reader], ...] = (
    # OutSegs leaves out segments that are sent again.
    ("/proc/net/snmp", "segments", "out", snmp("Tcp", "OutSegs", "RetransSegs")),
    ("/proc/net/netstat", "segments", "data", snmp("TcpExt", "TCPOrigDataSent")),
    ("/proc/net/snmp", "segments", "again", snmp("Tcp", "RetransSegs")),
    ("/proc/net/dev", "lo_packets", "", device("lo", 9)),
    # lo counts what it hands on, after the Ethernet header is taken off: not what a probe sees.
    ("/proc/net/dev", "lo_bytes", "ip", device("lo", 8)),
    # Whatever went out by a device that is one: the machine's other traffic is in it.
    ("/proc/net/dev", "nic_packets", "", other_devices("lo", 9)),
    ("/proc/softirqs", "softirqs", "NET_RX", softirq("NET_RX")),
)
# Percentile → how many round trips there must be for it to be more than the maximum.
PERCENTILES = {"p50": (50, 1), "p90": (90, 10), "p99": (99, 100)}


@dataclass(frozen=True)
class Figure:
    """One value over a cell's window."""

    instrument: str
    quantity: str
    key: str
    value: float


@dataclass(frozen=True)
class Invalid:
    """A cell run that no verdict may use, and why."""

    target: Target
    cell: Cell
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Tables:
    """The tidy table, and what has to be said about it."""

    tidy: pd.DataFrame
    invalid: tuple[Invalid, ...]
    missing: tuple[Missing, ...]
    # (kernel's folder, cell) → what was attached: instruments, scripts
    probes: dict[tuple[str, int], tuple[str, str]]


def build_tables(run: Run, cells: tuple[exact.ExactCell, ...]) -> Tables:
    """Read every instrument's files and put their figures, and the exact cells', into one table."""
    rows: list[tuple[object, ...]] = []
    invalid: list[Invalid] = []
    missing = list(run.missing)
    for target in run.targets:
        scripts = read_scripts(target)
        missing += failures(target)
        for cell in target.cells:
            missing += _missing(target, cell, scripts)
            if cell.result is None:
                continue
            figures = list(_figures(target, cell, cell.result, scripts))
            reasons = invalid_reasons(cell, cell.result, [_as_tuple(f) for f in figures])
            if reasons:
                invalid.append(Invalid(target, cell, tuple(reasons)))
            rows += (_row(run, target, cell, figure, not reasons) for figure in _once(figures))
    rows += exact.rows(run, cells)
    program_rows, program_failures = records.read_programs(run)
    rows += program_rows
    missing += program_failures
    missing += exact_files.failures(run)
    tidy = pd.DataFrame(rows, columns=list(COLUMNS))
    probes = {
        (target.folder, cell.id): cell.probes for target in run.targets for cell in target.cells
    }
    return Tables(tidy.astype({"value": "float64"}), tuple(invalid), tuple(missing), probes)


def _once(figures: list[Figure]) -> Iterable[Figure]:
    """Each figure once: two scripts may count the same thing (validity has compared them)."""
    return {(f.instrument, f.quantity, f.key): f for f in figures}.values()


def _as_tuple(figure: Figure) -> tuple[str, str, str, float]:
    return figure.instrument, figure.quantity, figure.key, figure.value


def _row(run: Run, target: Target, cell: Cell, f: Figure, valid: bool) -> tuple[object, ...]:
    where = (run.name, target.kind, target.kernel, target.probe_level, f.instrument)
    conditions = str(cell.conditions)
    what = (cell.transport, cell.pattern, cell.size, conditions, cell.repeat, cell.id)
    figure = (cell.probed, f.quantity, f.key, f.value, unit_of(f.quantity))
    return (*where, *what, *figure, cell.messages, valid)


def _figures(target: Target, cell: Cell, result: Result, scripts: Scripts) -> Iterator[Figure]:
    """All figures of one cell run. Times of an emulated CPU, or a guest's, end here."""
    sources = (
        _from_workload(cell, result),
        _from_kernel(result),
        _from_samples(target, cell),
        _from_scripts(cell, scripts),
        _from_ftrace(target, cell),
        _from_programs(target, cell),
    )
    for source in sources:
        for figure in source:
            if target.timed or figure.quantity not in TIMES:
                yield figure


def _from_workload(cell: Cell, result: Result) -> Iterator[Figure]:
    for way in ("sent", "received"):
        yield Figure("workload", "messages", way, result.both(f"{way}_messages"))
        yield Figure("workload", "payload_bytes", way, result.both(f"{way}_bytes"))
    yield Figure("workload", "messages_per_s", "", cell.messages * 1e9 / result.window_ns)
    if cell.pattern in ROUND_TRIP_PATTERNS:
        rate = result.round_trips * 1e9 / result.window_ns
        yield Figure("workload", "requests_per_s", "", rate)
    reads = result.both("received_messages") + result.both("partial_receives")
    yield Figure("workload", "reads", "", reads)
    if result.client.tcp_info is not None:
        counters = [process.tcp_info for process in result.processes if process.tcp_info]
        yield Figure("kernel", "tcp_segments", "data", sum(info.data_segs_out for info in counters))


def _from_kernel(result: Result) -> Iterator[Figure]:
    for key in ("voluntary", "involuntary"):
        yield Figure("kernel", "switches", key, result.usage(key))
    switches = result.usage("voluntary") + result.usage("involuntary")
    yield Figure("kernel", "switches_per_s", "", switches * 1e9 / result.window_ns)
    for key in ("user", "system"):
        yield Figure("kernel", "cpu_ns", key, result.usage(f"{key}_us") * 1000)
    for path, quantity, key, read in PROC:
        grown = delta(result.proc.get(path), read)
        if grown is not None:
            yield Figure("kernel", quantity, key, grown)


def _from_samples(target: Target, cell: Cell) -> Iterator[Figure]:
    if not target.timed or "ftrace" in cell.instruments:
        return
    samples = read_samples(target, cell)
    if not len(samples):
        return
    time = SAMPLED.get(cell.pattern, "rtt_ns")
    for key, (percent, least) in PERCENTILES.items():
        if len(samples) >= least:
            yield Figure("workload", time, key, float(np.percentile(samples, percent)))
    yield Figure("workload", time, "mean", float(samples.mean()))
    yield Figure("workload", time, "min", float(samples.min()))
    yield Figure("workload", time, "max", float(samples.max()))


def _from_scripts(cell: Cell, scripts: Scripts) -> Iterator[Figure]:
    for name in cell.scripts:
        by = scripts.instrument(name)
        lost = scripts.lost(cell.id, name)
        if lost:
            yield Figure(by, "lost", f"{by} {name}", lost)
        if (missed := cell.missed.get(name)) is not None:
            yield Figure(by, "missed", name, missed)
        for count in scripts.of(cell.id, name):
            yield Figure(by, count.quantity, count.key, count.value)


def _from_programs(target: Target, cell: Cell) -> Iterator[Figure]:
    """What an instrument's BPF programs took; an emulated CPU's time is no time."""
    for instrument, ran in cell.bpf_programs.items():
        if ran.runs:  # else the kernel keeps no such statistics
            yield Figure(instrument, "program_runs", "", ran.runs)
            if target.timed:
                yield Figure(instrument, "program_ns", "", ran.ns)


def _from_ftrace(target: Target, cell: Cell) -> Iterator[Figure]:
    if cell.lost:
        by = cell.instruments[-1] if cell.instruments else "ftrace"
        yield Figure(by, "lost", by, cell.lost)
    if "ftrace" not in cell.instruments:
        return
    calls = read_ftrace(target, cell)
    for function, count in sorted((calls or {}).items()):
        yield Figure("ftrace", "function_calls", function, count)


def _missing(target: Target, cell: Cell, scripts: Scripts) -> Iterator[Missing]:
    """What a cell run should have brought and did not; for a whole cell: raw/failures.py."""
    if cell.error is not None:
        return
    name = f"cell {cell.id} ({cell.transport}, {cell.conditions}, repeat {cell.repeat})"
    files = {"functions": f"ftrace/{cell.id}.tsv", "tree": f"ftrace/{cell.id}.graph"}
    for script in cell.scripts:
        if script not in files and not scripts.of(cell.id, script):
            yield Missing(
                f"{name}: {scripts.instrument(script)} {script}",
                target.folder,
                "the script was attached and left no count for this cell",
            )
    traced = [script for script in cell.scripts if script in files]
    if "ftrace" in cell.instruments and not traced:
        traced = ["functions"]  # of a run before scripts of ftrace had names
    for script in traced:
        if not (target.path / files[script]).exists():
            yield Missing(
                f"{name}: ftrace {script}", target.folder, "it was attached and left no file"
            )
