# SPDX-License-Identifier: GPL-2.0-or-later
"""answer.json: times, shares of a CPU and the ledger, computed again from measurements.csv."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

from tests.audit import intervals
from tests.audit.folder import Figures, Folder, Where
from tests.audit.intervals import Estimate
from tests.audit.workload import SAMPLES, TRIPS

NEAR = 1e-9  # relative
ByRepeat = dict[int, float]
Rows = list[tuple[Where, float, int]]  # of one cell run, by one source
# Measure → quantity, its keys (none: all of the processes' own), and per what it is told.
MEASURES: dict[str, tuple[str, tuple[str, ...], str]] = {
    "payload_copies": ("copy_bytes", ("in", "out", "kernel"), "byte"),
    "skb_allocs": ("skb_allocs", ("",), "message"),
    "syscalls": ("syscalls", (), "message"),
    "lo_packets": ("lo_packets", ("",), "message"),
    "softirqs": ("softirqs", ("NET_RX",), "message"),
    "wakeups": ("wakeups", (), "trip"),
    "spurious_wakeups": ("spurious_wakeups", (), "trip"),
    "switches": ("switches", ("voluntary", "involuntary"), "trip"),
    "functions_hit": ("function_calls", (), "hit"),
    "function_calls": ("function_calls", (), "calls"),
    "instructions": ("instructions", ("total",), "message"),
    "instructions_mean": ("instructions", ("window",), "message"),
    "instructions_share": ("steady_share", ("",), "window"),
    "steps": ("steps", ("total",), "message"),
}
SOURCE = ("instrument", "target", "kernel", "probed")


def compared(folder: Folder, figures: Figures) -> Iterator[tuple[str, str, float, float | None]]:
    """Topic, name, the number in answer.json, and the same number computed again."""
    path = folder.path / "answer.json"
    document = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    valid = [(where, figure) for where, figure in figures.items() if figure.valid]
    host = [(w, f) for w, f in valid if w.target == "host" and not w.probed]
    if answer := document.get("answer"):
        yield from _answer(answer, _Times(host, answer["pattern"], answer["size"]))
    for row in document.get("times", ()):
        times = _Times(host, row["pattern"], row["size"])
        what = (row["transport"], row["conditions"])
        rates = {repeat: 1e9 / ns for repeat, ns in times.windows(*what).items()}
        keys = {f"{key}_ns": times.samples(*what, key) for key in ("p50", "p99")}
        for name, by_repeat in {**keys, "messages_per_s": rates}.items():
            if row[name]:
                own = intervals.mean(list(by_repeat.values()))
                low = own.low if own.low is None else max(0.0, own.low)  # a time is none below 0
                yield from _estimate(f"{what}: {name}", row[name], own._replace(low=low))
    yield from _ledger(document.get("ledger", ()), valid)


class _Times:
    """The valid, unprobed times of one pattern and size on the host, by repeat."""

    def __init__(self, host: list[Any], pattern: str, size: int) -> None:
        self.pattern = pattern
        self.rows = [(w, f) for w, f in host if (w.pattern, w.size) == (pattern, size)]

    def _means(self, transport: str, conditions: str, quantity: str, key: str) -> ByRepeat:
        """A pass that was run again has two values for a repeat."""
        values = defaultdict(list)
        for where, figure in self.rows:
            found = (where.transport, where.conditions, where.quantity, where.key)
            if found == (transport, conditions, quantity, key):
                values[where.repeat].append(figure.value)
        return {repeat: sum(each) / len(each) for repeat, each in values.items()}

    def samples(self, transport: str, conditions: str, key: str) -> ByRepeat:
        """A percentile of the iterations, in nanoseconds."""
        return self._means(transport, conditions, SAMPLES.get(self.pattern, "rtt_ns"), key)

    def windows(self, transport: str, conditions: str) -> ByRepeat:
        """The whole window's nanoseconds for each message."""
        rates = self._means(transport, conditions, "messages_per_s", "")
        return {repeat: 1e9 / rate for repeat, rate in rates.items()}

    def cpu(self, transport: str, conditions: str) -> ByRepeat:
        """CPU time of both processes for a message, in user mode and in the kernel."""
        sums: ByRepeat = defaultdict(float)
        for where, figure in self.rows:
            found = (where.transport, where.conditions, where.quantity)
            if found == (transport, conditions, "cpu_ns"):
                sums[where.repeat] += figure.value / figure.messages
        return sums


Numbers = Iterator[tuple[str, str, float, float | None]]


def _answer(answer: dict[str, Any], times: _Times) -> Numbers:
    for placed in answer["times"]:
        where = placed["conditions"]
        names = answer["transports"]
        medians = _paired(*(times.samples(name, where, "p50") for name in names))
        yield from _pair(f"{where}: iteration", placed["iteration_ns"], *medians)
        added = _difference(*medians)
        added = added.negative() if added.value < 0 else added
        if added.low is not None and added.high is not None and added.low <= 0:
            added = Estimate(max(-added.low, added.high), None, None, added.repeats)
        yield from _estimate(f"{where}: request of 1 %", placed["one_percent_ns"], added.times(100))
        reached = {
            name: 1e9 / placed["messages"]
            * _mean([1 / ns for ns in times.windows(name, where).values()])
            for name in names
        }  # fmt: skip
        for name, rate in placed["reached"].items():
            yield "answer", f"{where}: requests a second over {name}", rate, reached[name]
        if not placed["cpu_ns"]:
            continue
        cpu = _paired(*(times.cpu(name, where) for name in names))
        yield from _pair(f"{where}: CPU time", placed["cpu_ns"], *cpu)
        for share in placed["shares"]:
            rate = share["requests_per_s"]
            scale = rate * placed["messages"] / 1e9
            own = _difference(*([scale * ns for ns in column] for column in cpu))
            yield from _estimate(f"{where}: share at {rate}", share["cpu_share"], own)
            beyond = any(rate > most for most in reached.values())
            yield "answer", f"{where}: {rate} is beyond reach", share["beyond"], beyond


def _paired(first: ByRepeat, second: ByRepeat) -> tuple[list[float], list[float]]:
    repeats = sorted(first.keys() & second.keys())
    return [first[repeat] for repeat in repeats], [second[repeat] for repeat in repeats]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _difference(first: Sequence[float], second: Sequence[float]) -> Estimate:
    return intervals.mean([b - a for a, b in zip(first, second, strict=True)])


def _pair(name: str, stored: dict[str, Any], first: list[float], second: list[float]) -> Numbers:
    for part, own in (
        ("first", intervals.mean(first)), ("second", intervals.mean(second)),
        ("added", _difference(first, second)), ("ratio", intervals.quotient(second, first)),
    ):  # fmt: skip
        yield from _estimate(f"{name}, {part}", stored[part], own)


def _estimate(name: str, stored: dict[str, Any], own: Estimate) -> Numbers:
    for part, value in zip(("value", "low", "high", "repeats"), own, strict=True):
        if stored[part] is None or value is None:
            yield "answer", f"{name}, {part}", float(stored[part] is None), float(value is None)
        else:
            yield "answer", f"{name}, {part}", stored[part], value


def _ledger(rows: Sequence[dict[str, Any]], valid: list[Any]) -> Numbers:
    """Median, lowest and highest over repeats, of the source that a row names."""
    cells: dict[tuple[Any, ...], Rows] = defaultdict(list)
    for where, figure in valid:
        if where.instrument == "exact":  # the ledger names the scheduler in the target
            sched = "fifo" if "+fifo" in where.conditions else "other"
            conditions = where.conditions.replace("+fifo", "")
            where = where._replace(target=f"exact-{sched}", conditions=conditions)
        source = tuple(getattr(where, name) for name in SOURCE)
        cell = (where.pattern, where.size, where.conditions, where.transport, where.repeat)
        cells[*source, *cell, where.cell].append((where, figure.value, figure.messages))
    values: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for key, cell_rows in cells.items():
        for name in MEASURES:
            if (value := _measured(name, cell_rows)) is not None:
                values[name, *key[:-2]].append(value)
    for row in rows:
        if row["measure"] in MEASURES and row["valid"]:
            names = ("measure", *SOURCE, "pattern", "size", "conditions", "transport")
            own = values[tuple(row[name] for name in names)]
            each = (("value", median), ("low", min), ("high", max), ("repeats", len))
            for part, figure in each:
                name = (
                    f"{row['measure']} {row['transport']} {row['conditions']} {row['instrument']}"
                )
                yield "ledger", f"{name}, {part}", row[part], figure(own) if own else None


def _measured(name: str, rows: Rows) -> float | None:
    """A measure of one cell run by one source; None where it was not counted."""
    quantity, keys, per = MEASURES[name]
    found = [row for row in rows if row[0].quantity == quantity and _own(row[0].key, keys)]
    if not found or (keys and len(found) != len(keys)):
        return None
    # An exact cell's copies and its mean are of other windows than its round trip.
    where, _, messages = found[0]
    if per in ("hit", "calls"):
        often = [value for _, value, _ in found if value >= messages / 2]
        if where.instrument not in ("exact", "ftrace") or where.pattern not in TRIPS:
            return None
        return len(often) if per == "hit" else sum(often) / messages
    total = sum(value for _, value, _ in found)
    if per == "trip":
        return total / (messages / 2) if where.pattern in TRIPS else None
    return total / {"window": 1, "message": messages, "byte": messages * where.size}[per]


def _own(key: str, keys: tuple[str, ...]) -> bool:
    return key in keys if keys else not key.endswith(" elsewhere")


def different(stored: float, own: float | None) -> bool:
    """Whether two numbers differ by more than the order of adding."""
    return own is None or abs(stored - own) > NEAR * max(abs(stored), abs(own), 1e-9)
