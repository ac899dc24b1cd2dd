# SPDX-License-Identifier: GPL-2.0-or-later
"""What must hold between figures that different sources counted in the same window."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from tests.audit import exact, workload
from tests.audit.folder import Figures, Folder, timed
from tests.audit.validity import QUIET
from tests.audit.workload import both

# Name, how many comparisons held, a sentence for each that did not.
Law = tuple[str, int, list[str]]
# Kernel functions through which every message of a transport passes once, each way.
ENTRIES = {
    "unix": ("unix_stream_sendmsg", "unix_stream_recvmsg"),
    "tcp": ("tcp_sendmsg", "tcp_recvmsg"),
}
# Calls of these functions that are no message of their own.
EMPTY = (("partial_sends",), ("partial_receives", "empty_receives"))
# getrusage is read just outside the window, where a tick may preempt.
EDGE = 4
Seen = dict[tuple[str, str, str], float]  # instrument, quantity, key
# What is compared, one figure, and the other, in one cell.
Pairs = Iterator[tuple[str, float, float]]


def laws(folder: Folder, computed: Figures) -> Iterator[Law]:
    """Each law, over all valid cells of the run that can show it."""
    by_cell: dict[tuple[str, str, int], Seen] = defaultdict(dict)
    valid = {(w.target, w.kernel, w.cell) for w, figure in computed.items() if figure.valid}
    for where, figure in computed.items():
        counted = by_cell[where.target, where.kernel, where.cell]
        counted[where.instrument, where.quantity, where.key] = figure.value
    cells = [
        (target, cell, by_cell[target["kind"], target["kernel"], cell["id"]])
        for target in folder.manifest["targets"]
        for cell in folder.lines(target["folder"], "cells.jsonl")
        if (target["kind"], target["kernel"], cell["id"]) in valid
    ]
    for name, law in LAWS.items():
        wrong, holds = [], 0
        for target, cell, seen in cells:
            for what, one, other in law(folder, target, cell, seen):
                if one == other:
                    holds += 1
                else:
                    place = f"{target['folder']}, cell {cell['id']}"
                    wrong.append(f"{place}: {what}: {one:.12g} and {other:.12g}.")
        yield name, holds, wrong
    yield _exact(folder)


def _switches(folder: Folder, target: dict[str, Any], cell: dict[str, Any], seen: Seen) -> Pairs:
    """perf is left out: it has one window for both processes."""
    for by, script in (("bpftrace", "switches"), ("bcc", "counts")):
        for key in ("voluntary", "involuntary"):
            probed, kernel = seen.get((by, "switches", key)), seen["kernel", "switches", key]
            if probed is None or cell["missed"].get(script):
                continue
            if key == "involuntary" and 0 <= kernel - probed <= EDGE:
                probed = kernel
            yield f"{key} switches by {by} and by getrusage", probed, kernel


def _samples(folder: Folder, target: dict[str, Any], cell: dict[str, Any], seen: Seen) -> Pairs:
    """A ping-pong's round trips follow on each other, so they fill the window."""
    if cell["pattern"] == "pingpong" and timed(target) and "ftrace" not in cell["instruments"]:
        result = cell["result"]
        times = workload.samples(folder.raw / target["folder"], cell)
        yield "samples and round trips", len(times), result["round_trips"]
        if "rate" not in cell:  # paced round trips have pauses between them
            yield "sum of the samples and the window, ns", sum(times), result["window_ns"]


def _intervals(folder: Folder, target: dict[str, Any], cell: dict[str, Any], seen: Seen) -> Pairs:
    result = cell["result"]
    if intervals := result["intervals"]:
        yield "messages of the intervals", sum(n for n, _ in intervals), cell["messages"]
        yield "ns of the intervals", sum(ns for _, ns in intervals), result["window_ns"]


def _entries(folder: Folder, target: dict[str, Any], cell: dict[str, Any], seen: Seen) -> Pairs:
    for function, more in zip(ENTRIES.get(cell["transport"], ()), EMPTY, strict=False):
        expected = cell["messages"] + sum(both(cell["result"], name) for name in more)
        if cell["pattern"] == "connect" and len(more) > 1:  # a read finds that the peer has closed
            expected += cell["result"]["round_trips"]
        for by in ("bpftrace", "ftrace"):
            # It may have no probe, or be compiled into its caller.
            if (calls := seen.get((by, "function_calls", function))) is None:
                continue
            # ftrace's window is the client's: the server may be in its first read already.
            if by == "ftrace" and len(more) > 1 and calls == expected - 1:
                calls = expected
            yield f"calls of {function} by {by} and messages", calls, expected


def _segments(folder: Folder, target: dict[str, Any], cell: dict[str, Any], seen: Seen) -> Pairs:
    own = seen.get(("kernel", "tcp_segments", "data"))
    probed = seen.get(("bpftrace", "segments", "data"))
    if own is not None and probed is not None and cell["pattern"] in QUIET:
        probed += seen.get(("bpftrace", "segments", "data elsewhere"), 0)
        yield "segments with payload by bpftrace and by TCP_INFO", probed, own


LAWS: dict[str, Callable[[Folder, dict[str, Any], dict[str, Any], Seen], Pairs]] = {
    "switches of a probe = those of getrusage(2)": _switches,
    "round trips = samples, which fill the window": _samples,
    "intervals of throughput = the window": _intervals,
    "calls of the path's entry = messages": _entries,
    "segments of a probe = those of TCP_INFO": _segments,
}


def _exact(folder: Folder) -> Law:
    """Exact cells: tree, iteration and window are of the same steps and instructions."""
    wrong, holds = [], 0
    for entry in folder.manifest.get("exact", []):
        for cell in folder.lines(entry["folder"], "cells.jsonl"):
            if cell["error"] is None:
                found = exact.broken(folder.raw / entry["folder"], cell)
                wrong += [f"{entry['folder']}, {sentence}." for sentence in found]
                holds += not found
    return "exact trees = their round trips, instruction for instruction", holds, wrong
