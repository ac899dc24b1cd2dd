# SPDX-License-Identifier: GPL-2.0-or-later
"""The tidy table: one row for each figure, whoever measured it."""

import re
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.counts import programs
from analysis.counts.measures import MACHINE_WIDE, SAMPLED, is_time, unit_of
from analysis.counts.validity import Counted, invalid_reasons, sees
from analysis.paths import cells as exact
from analysis.raw import files
from analysis.raw.cells import Cell, Result
from analysis.raw.files import BY_CELL, Scripts
from analysis.raw.run import Missing, Run, Target
from analysis.wording import counted, listed, size_text
from probes.cell import ONE_WAY, ROUND_TRIP_PATTERNS
from probes.files import read_rows
from probes.transports import Transport, forwarded, read_transports

COLUMNS = (
    "run", "target", "kernel", "probe_level", "instrument", "transport", "pattern", "size",
    "conditions", "repeat", "cell", "probed", "quantity", "key", "value", "unit", "messages",
    "valid",
)  # fmt: skip

SPARE = read_rows(Path(__file__).with_name("spare.tsv"))
PROC = read_rows(Path(__file__).with_name("raw") / "proc.tsv")
# What misses nothing of a path on which a third process works.
WHOLE_PATH = ("workload", "exact", "ftrace")
TWO_ENDS = (
    "they are counted in the client and the server, and a third process takes part; exact mode and "
    "the function tracer count it too"
)
UNCOUNTED = "attached, and left no count for this cell"
# Percentile → how many round trips there must be for it to be more than the maximum.
PERCENTILES = {"p50": (50, 1), "p90": (90, 10), "p99": (99, 100)}


NOT_THIS_SIZE = re.compile(r", not \d+$")


class Invalid(NamedTuple):
    """A cell run that no verdict may use, and why."""

    target: Target
    cell: Cell
    reasons: tuple[str, ...]


class Tables(NamedTuple):
    """The tidy table, and what has to be said about it."""

    tidy: pd.DataFrame
    invalid: tuple[Invalid, ...]
    missing: tuple[Missing, ...]
    # (kernel's folder, cell) → what was attached: instruments, scripts
    probes: dict[tuple[str, int], tuple[str, str]]

    @property
    def invalid_cells(self) -> set[tuple[str, int]]:
        """Folder and id of each invalid cell run."""
        return {(each.target.folder, each.cell.id) for each in self.invalid}


def build_tables(run: Run, cells: tuple[exact.ExactCell, ...]) -> Tables:
    """Read every instrument's files and put their figures, and the exact cells', into one table."""
    rows: list[tuple[object, ...]] = []
    invalid: list[Invalid] = []
    missing = list(run.missing)
    for target in run.targets:
        scripts = files.read_scripts(target)
        missing += failures(target)
        for transport in sorted(forwarded() & {cell.transport for cell in target.cells}):
            missing.append(Missing(f"most counts of {transport}", target.folder, TWO_ENDS))
        for cell in target.cells:
            if cell.result is None:
                continue
            uncounted = [s for s in cell.scripts if not (s in BY_CELL or scripts.of(cell.id, s))]
            if uncounted:
                name = f"cell {cell.id} ({cell.transport}, {cell.conditions}, repeat {cell.repeat})"
                missing.append(Missing(f"{name}: {', '.join(uncounted)}", target.folder, UNCOUNTED))
            path = read_transports()[cell.transport]
            figures = [
                of_records(figure, path)
                for figure in _figures(target, cell, cell.result, scripts)
                if sees(figure.instrument, figure.quantity, path)
            ]
            reasons = invalid_reasons(cell, cell.result, figures)
            if reasons:
                invalid.append(Invalid(target, cell, tuple(reasons)))
            # Two scripts may count one quantity: validity has compared them, and one row is enough.
            once = {(f.instrument, f.quantity, f.key): f for f in figures}
            rows += (_row(run, target, cell, figure, not reasons) for figure in once.values())
    rows += exact.rows(run, cells)
    program_rows, program_failures = programs.read_programs(run)
    rows += program_rows
    missing += [*program_failures, *exact.failures(run), *left_out()]
    tidy = pd.DataFrame(rows, columns=list(COLUMNS))
    probes = {(target.folder, cell.id): cell.probes for target, cell in run.cells()}
    return Tables(tidy.astype({"value": "float64"}), tuple(invalid), tuple(missing), probes)


def left_out() -> Iterator[Missing]:
    """What this analysis leaves out because a distribution's Python lacks a package."""
    for name, gives in (row.values() for row in SPARE):
        if find_spec(name) is None:
            yield Missing(gives, "", f"the Python package {name} is not installed")


def of_records(figure: Counted, path: Transport) -> Counted:
    """Where bytes are encrypted, only a record's header and nonce are copied within the kernel."""
    copied = figure.quantity in ("copy_calls", "copy_bytes") and figure.key.startswith("kernel")
    if not copied or path.between != "encrypted":
        return figure
    return figure._replace(key=figure.key.replace("kernel", "record"))


def of_two_ends(tidy: pd.DataFrame) -> pd.Series:
    """Rows that count the client and the server of a path on which a third process works too."""
    whole = tidy["instrument"].isin(WHOLE_PATH) | tidy["quantity"].isin(MACHINE_WIDE)
    return tidy["transport"].isin(forwarded()) & ~whole


def _row(run: Run, target: Target, cell: Cell, f: Counted, valid: bool) -> tuple[object, ...]:
    where = (run.name, target.kind, target.kernel, target.probe_level, f.instrument)
    conditions = str(cell.conditions)
    what = (cell.transport, cell.pattern, cell.size, conditions, cell.repeat, cell.id)
    figure = (cell.probed, f.quantity, f.key, f.value, unit_of(f.quantity))
    return (*where, *what, *figure, cell.messages, valid)


def _figures(target: Target, cell: Cell, result: Result, scripts: Scripts) -> Iterator[Counted]:
    """All figures of one cell run. Times of an emulated CPU, or a guest's, end here."""
    figures = chain(
        _from_workload(cell, result),
        _from_kernel(result),
        _from_machine(cell),
        _from_samples(target, cell),
        _from_probes(target, cell, scripts),
    )
    return (f for f in figures if target.timed or not is_time(f.quantity))


def _from_workload(cell: Cell, result: Result) -> Iterator[Counted]:
    for way in ("sent", "received"):
        yield Counted("workload", "messages", way, result.both(f"{way}_messages"))
        yield Counted("workload", "payload_bytes", way, result.both(f"{way}_bytes"))
    yield Counted("workload", "messages_per_s", "", cell.messages * 1e9 / result.window_ns)
    if cell.pattern in ROUND_TRIP_PATTERNS:
        rate = result.round_trips * 1e9 / result.window_ns
        yield Counted("workload", "requests_per_s", "", rate)
    if cell.pattern in ONE_WAY:
        yield Counted("kernel", "sender_sleeps", "", result.client.rusage.voluntary)
    if cell.backlog:
        yield Counted("workload", "connects_refused", "", result.client.refused_connects)
    reads = result.both("received_messages") + result.both("partial_receives")
    yield Counted("workload", "reads", "", reads)
    if result.client.tcp_info is not None:
        sent = sum(p.tcp_info.data_segs_out for p in result.processes if p.tcp_info)
        yield Counted("kernel", "tcp_segments", "data", sent)


def _from_kernel(result: Result) -> Iterator[Counted]:
    for key in ("voluntary", "involuntary"):
        yield Counted("kernel", "switches", key, result.both(f"rusage.{key}"))
    switches = result.both("rusage.voluntary") + result.both("rusage.involuntary")
    yield Counted("kernel", "switches_per_s", "", switches * 1e9 / result.window_ns)
    for key in ("user", "system"):
        yield Counted("kernel", "cpu_ns", key, result.both(f"rusage.{key}_us") * 1000)
    texts = {path: pair for path, pair in result.proc.items() if pair}
    counters = {path: tuple(map(files.proc_counters, pair)) for path, pair in texts.items()}
    for row in PROC:
        before, after = counters.get(row["file"], ({}, {}))
        others = [name for name in after if name.endswith(".9") and name != "lo.9"]
        names = row["counters"].split() or others
        if row["file"] in counters and after.keys() & before.keys() >= {*names}:
            grown = sum(after[name] - before[name] for name in names)
            yield Counted("kernel", row["quantity"], row["key"], grown)


def _from_machine(cell: Cell) -> Iterator[Counted]:
    """What else the measured CPUs did while the cell ran."""
    if found := cell.disturbance:
        yield Counted("kernel", "others_ns", "", found.others_ns)
        yield Counted("kernel", "load", "", found.load)
        for cpu, own in found.cpus.items():
            yield Counted("kernel", "steal_ns", cpu, own.steal_ns)
            if own.interrupts is not None:
                yield Counted("kernel", "interrupts", cpu, own.interrupts)
            if own.khz is not None:
                yield Counted("kernel", "frequency_khz", cpu, own.khz)


def _from_samples(target: Target, cell: Cell) -> Iterator[Counted]:
    if not target.timed or "ftrace" in cell.instruments:
        return
    samples = files.read_samples(target, cell)
    if not len(samples):
        return
    time = SAMPLED.get(cell.pattern, "rtt_ns")
    for key, (percent, least) in PERCENTILES.items():
        if len(samples) >= least:
            yield Counted("workload", time, key, float(np.percentile(samples, percent)))
    for key, value in (("mean", samples.mean()), ("min", samples.min()), ("max", samples.max())):
        yield Counted("workload", time, key, float(value))


def _from_probes(target: Target, cell: Cell, scripts: Scripts) -> Iterator[Counted]:
    for name in cell.scripts:
        by = scripts.instruments.get(name, files.MAPPING[0])
        if lost := scripts.lost(cell.id, name):
            yield Counted(by, "lost", f"{by} {name}", lost)
        if (missed := cell.missed.get(name)) is not None:
            yield Counted(by, "missed", name, missed)
        for (quantity, key), value in scripts.of(cell.id, name).items():
            yield Counted(by, quantity, key, value)
    if cell.lost:
        by = cell.instruments[-1] if cell.instruments else "ftrace"
        yield Counted(by, "lost", by, cell.lost)
    if "functions" in cell.scripts:
        for function, count in sorted(files.read_ftrace(target, cell).items()):
            yield Counted("ftrace", "function_calls", function, count)
    # How often an instrument's BPF programs ran, and how long they took.
    for instrument, ran in cell.bpf_programs.items():
        if ran.runs:  # else the kernel keeps no such statistics
            yield Counted(instrument, "program_runs", "", ran.runs)
            yield Counted(instrument, "program_ns", "", ran.ns)


def failures(target: Target) -> Iterator[Missing]:
    """Yield an entry for each transport and reason; `transport NAME` where all its cells failed."""
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in target.cells:
        # Without the size: each reason is listed once.
        why = NOT_THIS_SIZE.sub("", (cell.error or "").removeprefix("pathcost-workload: "))
        groups.setdefault((cell.transport, why), []).append(cell)
    for (transport, why), failed in groups.items():
        if why:
            every = all(why == other for name, other in groups if name == transport)
            name = f"transport {transport}" if every else _cells_text(failed)
            requested = any(not cell.extra for cell in failed)
            absent = transport if every else ""
            yield Missing(name, target.folder, why, requested, transport=absent)


def _cells_text(failed: list[Cell]) -> str:
    """`unix: pingpong of 64 KiB and 1 MiB, same-cpu and cross-cpu, in 6 runs`."""
    patterns, placements = (
        listed(list(dict.fromkeys(str(getattr(cell, name)) for cell in failed)))
        for name in ("pattern", "conditions")
    )
    sizes = listed([size_text(size) for size in sorted({cell.size for cell in failed})])
    runs = counted(len(failed), "run")
    return f"{failed[0].transport}: {patterns} of {sizes}, {placements}, in {runs}"
