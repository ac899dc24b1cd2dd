# SPDX-License-Identifier: GPL-2.0-or-later
"""answer.json: times and shares of a CPU, computed again from measurements.csv and samples/."""

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from tests.audit import intervals
from tests.audit.folder import Figures, Folder
from tests.audit.intervals import Estimate
from tests.audit.workload import SAMPLES, samples

NEAR = 1e-9  # relative
ByRepeat = dict[int, float]


def compared(folder: Folder, figures: Figures) -> Iterator[tuple[str, str, float, float | None]]:
    """Topic, name, the number in answer.json, and the same number computed again."""
    path = folder.path / "answer.json"
    document = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    host = [(w, f) for w, f in figures.items() if f.valid and w.target == "host" and not w.probed]
    if answer := document.get("answer"):
        times = _Times(host, answer["pattern"], answer["size"])
        usual = (answer["pattern"], answer["transports"]) == ("pingpong", ["unix", "tcp"])
        yield from _answer(answer, times, _colder(folder) if usual else None)
    for row in document.get("times", ()):
        times = _Times(host, row["pattern"], row["size"])
        what = (row["transport"], row["conditions"])
        rates = [1e9 / ns for ns in times.windows(*what).values()]
        for name, own in (
            ("p50_ns", _p50(times, document["times"], row)),
            ("p99_ns", intervals.pooled(_iterations(folder, times, *what), 0.99)),
            ("messages_per_s", intervals.mean(rates)),
        ):
            if row[name]:
                low = own.low if own.low is None else max(0.0, own.low)  # a time is none below 0
                yield from _estimate(f"{what}: {name}", row[name], own._replace(low=low))


def _colder(folder: Folder) -> Estimate | None:
    """By how many ns the second transport's extra time grows in a cold path; None without prices.

    On one CPU a round trip lasts as long as both processes use the CPU.
    """
    file = folder.raw / "host/prices.json"
    if not file.exists():
        return None
    columns = {}
    for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
        if (cell["pattern"], cell["size"], cell["placement"]) == ("pingpong", 64, "same-cpu"):
            both = zip(cell["client_cpu_us"], cell["server_cpu_us"], strict=True)
            columns[cell["transport"], cell["cold"]] = [1000 * sum(pair) for pair in both]
    ordered = [columns[name, cold] for cold in (False, True) for name in ("unix", "tcp")]
    return intervals.estimates(lambda m: [m[3] - m[2] - m[1] + m[0]], ordered)[0]


def _after_work(hot: Estimate, more: Estimate) -> Estimate:
    """A difference in a cold path; the two were measured apart."""
    value = hot.value + more.value
    if None in (hot.low, more.low):
        return hot._replace(value=value, low=None, high=None)
    half = math.hypot(*((each.high - each.low) / 2 for each in (hot, more)))  # type: ignore[operator]
    return hot._replace(value=value, low=value - half, high=value + half)


def _iterations(
    folder: Folder, times: "_Times", transport: str, conditions: str
) -> list[list[int]]:
    """What each iteration took, repeat by repeat."""
    cells = {
        (where.repeat, where.cell)
        for where, _ in times.rows
        if (where.transport, where.conditions) == (transport, conditions)
    }
    lines = {line["id"]: line for line in folder.lines("host", "cells.jsonl")}
    return [samples(folder.raw / "host", lines[cell]) for _, cell in sorted(cells)]


def _p50(times: "_Times", rows: Any, row: Any) -> Estimate:
    """Of the repeats that count in the difference from the first transport of its conditions."""
    same = ("pattern", "size", "conditions")
    names = [each["transport"] for each in rows if all(each[key] == row[key] for key in same)]
    columns = [times.samples(name, row["conditions"], "p50") for name in names]
    place = names.index(row["transport"])
    first, second = _paired(columns[0], columns[max(place, 1)])
    return intervals.compared(first, second)[2 if place else 1]


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


def _answer(answer: dict[str, Any], times: _Times, more: Estimate | None) -> Numbers:
    for placed in answer["times"]:
        where = placed["conditions"]
        names = answer["transports"]
        medians = _paired(*(times.samples(name, where, "p50") for name in names))
        yield from _pair(f"{where}: iteration", placed["iteration_ns"], *medians)
        added = _difference(*medians)
        if more and placed["cpu_ns"]:
            added = _after_work(added, more)
            yield from _estimate(f"{where}: after other work", placed["cold_ns"], added)
        far = max(abs(end) for end in (added.low, added.high, added.value) if end is not None)
        yield "answer", f"{where}: request of 1 %", placed["one_percent_ns"], 100 * far
        reached = {
            name: 1e9 / placed["messages"]
            * intervals.mean([1 / ns for ns in times.windows(name, where).values()]).value
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
            if more:
                trips = [[placed["messages"] * ns for ns in column] for column in cpu]
                own = _scaled(_after_work(_difference(*trips), more), rate / 1e9)
                yield from _estimate(f"{where}: cold share at {rate}", share["cold_cpu_share"], own)
            beyond = any(rate > most for most in reached.values())
            yield "answer", f"{where}: {rate} is beyond reach", share["beyond"], beyond


def _paired(first: ByRepeat, second: ByRepeat) -> tuple[list[float], list[float]]:
    repeats = sorted(first.keys() & second.keys())
    return [first[repeat] for repeat in repeats], [second[repeat] for repeat in repeats]


def _difference(first: Sequence[float], second: Sequence[float]) -> Estimate:
    return intervals.mean([b - a for a, b in zip(first, second, strict=True)])


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    value, low, high, repeats = estimate
    if low is None or high is None:
        return Estimate(factor * value, None, None, repeats)
    return Estimate(factor * value, factor * low, factor * high, repeats)


def _pair(name: str, stored: dict[str, Any], first: list[float], second: list[float]) -> Numbers:
    more = sum(b > a for a, b in zip(first, second, strict=True))
    yield "answer", f"{name}, more", stored["more"], more
    own_ones = intervals.compared(first, second)
    for part, own in zip(("added", "first", "second", "ratio"), own_ones, strict=True):
        yield from _estimate(f"{name}, {part}", stored[part], own)


def _estimate(name: str, stored: dict[str, Any], own: Estimate) -> Numbers:
    for part, value in zip(("value", "low", "high", "repeats"), own, strict=True):
        if stored[part] is None or value is None:
            yield "answer", f"{name}, {part}", float(stored[part] is None), float(value is None)
        else:
            yield "answer", f"{name}, {part}", stored[part], value


def different(stored: float, own: float | None) -> bool:
    """Whether two numbers differ by more than the order of adding."""
    return own is None or abs(stored - own) > NEAR * max(abs(stored), abs(own), 1e-9)
