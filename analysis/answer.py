# SPDX-License-Identifier: GPL-2.0-or-later
"""The answer as figures: what the terminal, the report's first screen and --json say of it.

It compares the first two transports of the first ledger. Times are of this machine, counts of the
machine that their source names.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import pandas as pd

from analysis.counts.ledger import MOST_TOGETHER, Ledger, Row, in_conditions
from analysis.counts.quantities import ROUND_TRIP_PATTERNS
from analysis.machine import counter_text, kernel_text, machine_text
from analysis.paths.cells import Comparison
from analysis.raw.run import Run
from analysis.statistics import Estimate, Values, mean, quotient
from analysis.tables import Tables
from analysis.times.timing import ROUND_TRIP, Times, iteration_times
from analysis.times.words import part_text
from analysis.wording import (
    TITLES,
    amount,
    listed,
    number,
    place,
    size_text,
    spread,
    transport_text,
    ways,
)

RATES = (100, 10_000, 100_000)  # requests a second
SMALL = 0.01  # of a request's time: a difference below it is lost in the rest


@dataclass(frozen=True)
class Shown:
    """Conditions that the first screen has a figure for, and the option that measures them."""

    conditions: str
    note: str
    option: str


PLACES = (
    Shown("same-cpu", "both processes share it", "--placements same-cpu"),
    Shown("cross-cpu", "each sleeps until it is woken", "--placements cross-cpu"),
    Shown("cross-cpu+spin", "both processes poll", "--placements cross-cpu --wait spin"),
)


class Pair(NamedTuple):
    """A figure of both transports, and how much more the second one's is, paired by repeat."""

    first: Estimate
    second: Estimate
    added: Estimate
    ratio: Estimate

    @classmethod
    def of(cls, first: Values, second: Values) -> "Pair":
        return cls(mean(first), mean(second), mean(second - first), quotient(second, first))


@dataclass(frozen=True)
class Share:
    """Of a CPU: what so many requests a second take more over the second transport."""

    requests_per_s: int
    cpu_share: Estimate
    beyond: bool  # some transport's connection did not reach so many


@dataclass(frozen=True)
class Placed:
    """The times under one set of conditions."""

    conditions: str
    iteration: Pair  # the median iteration
    cpu: Pair | None  # of both processes for a message, in all modes; None where they poll
    messages: int  # in an iteration
    reached: dict[str, float]  # requests a second that one connection reached, by transport

    @property
    def large(self) -> Estimate:
        """The time of a request of which the difference is one percent.

        Where the interval holds no difference, the largest one that it leaves open.
        """
        added = self.iteration.added
        added = -added if added.value < 0 else added
        if added.low is not None and added.high is not None and added.spans(0):
            added = Estimate(max(-added.low, added.high), None, None, added.repeats)
        return added * (1 / SMALL)

    @property
    def shares(self) -> list[Share]:
        return [self.share(rate) for rate in RATES] if self.cpu else []

    def share(self, rate: int) -> Share:
        assert self.cpu is not None
        beyond = any(rate > reached for reached in self.reached.values())
        return Share(rate, self.cpu.added * (rate * self.messages / 1e9), beyond)


@dataclass(frozen=True)
class Counted:
    """A row of the ledger: each transport's figures over all conditions, in words."""

    row: Row
    figures: dict[str, str]
    counter: str  # where it was counted

    @property
    def alike(self) -> bool:
        return len(set(self.figures.values())) == 1

    def value(self, transport: str) -> float:
        """The first of its figures."""
        entries = self.row.lines[0].entries
        return next(entry.value for (_, name), entry in entries.items() if name == transport)


@dataclass(frozen=True)
class Answer:
    """What a run says of the difference between two transports."""

    pattern: str
    size: int
    names: tuple[str, ...]  # the two transports, or the only one
    iteration: str
    placed: tuple[Placed, ...]
    counted: tuple[Counted, ...]
    host: str  # the machine of the times

    def count(self, measure: str) -> Counted | None:
        return next((c for c in self.counted if c.row.measure.id == measure), None)

    def at(self, conditions: str) -> Placed | None:
        return next((p for p in self.placed if p.conditions == conditions), None)

    @property
    def asleep(self) -> list[Placed]:
        """Those in which processes sleep, as most do."""
        return [placed for placed in self.placed if placed.cpu]

    @property
    def ways(self) -> str:
        """How processes wait, are scheduled and connected, where that is one for all times."""
        found = {ways(placed.conditions) for placed in self.asleep or self.placed}
        return found.pop() if len(found) == 1 else ""

    @property
    def decision(self) -> str:
        """What the second transport adds to an iteration, where; empty without times."""
        return self.decided("this machine")

    def decided(self, machine: str) -> str:
        """The decision, on a machine that the words name."""
        clauses: list[str] = []
        last = ""
        for placed in self.asleep or self.placed:
            added, where = placed.iteration.added, place(placed.conditions)
            verb = "saves" if added.value < 0 else "adds"
            figure = part_text(-added if added.value < 0 else added)
            if added.low is not None and added.spans(0):
                ends = f"{amount(added.low, 'ns')} to {amount(added.high or 0, 'ns')}"
                clauses.append(f"makes no difference that this run can tell {where} ({ends})")
                verb = ""
            elif verb == last:
                clauses.append(f"{figure} {where}")
            else:
                clauses.append(f"{verb} {figure} {PREPOSITION[verb]} a {self.iteration} {where}")
            last = verb
        if not clauses:
            return ""
        return f"On {machine} {self._than}{' and '.join(clauses)}."

    @property
    def _than(self) -> str:
        """`TCP`, which is compared with a Unix socket; other pairs are both named."""
        first, second = self.names[:2]
        subject = transport_text(second)
        return f"{subject} " if first == "unix" else f"{subject}, compared with {first}, "

    @property
    def copied_and_run(self) -> str:
        """What is copied and what is run for a message: which kernel, and where it was counted."""
        by_kernel: dict[str, list[tuple[str, str]]] = {}
        for kernel, words, counter in self.clauses:
            by_kernel.setdefault(kernel, []).append((words, counter))
        said = []
        for kernel, clauses in by_kernel.items():
            counters = {counter for _, counter in clauses}
            each = [w if len(counters) == 1 else f"{w} ({counter})" for w, counter in clauses]
            last = f" ({counters.pop()})" if len(counters) == 1 else ""
            said.append(f"{kernel} {listed(each)}{last}.")
        return " ".join(said)

    @property
    def clauses(self) -> list[tuple[str, str, str]]:
        """A kernel, what it does (`copies each byte …`), and where that was counted."""
        run = next(filter(None, map(self.count, ("instructions", "function_calls"))), None)
        does = "executes {} instructions{}, for each message in the most frequent round trip"
        if run and run.row.measure.id != "instructions":
            does = "makes {} function calls{}, for each message"
        return [
            (kernel_text(found.row.lines[0].kernel), self._each(found, words), found.counter)
            for found, words in (
                (self.count("payload_copies"), "copies each byte {} times{}"), (run, does)
            )
            if found
        ]  # fmt: skip

    def _each(self, found: Counted, words: str) -> str:
        """`copies each byte 2.00 times over a Unix socket and TCP alike`."""
        (name, figure), *others = found.figures.items()
        over = f" over {transport_text(name)}"
        for other, value in others:
            alike = found.alike and f" and {transport_text(other)} alike"
            over += alike or f" and {value} over {transport_text(other)}"
        times = self.times_as_many(found)
        return words.format(figure, over + (times and f", {times} as many"))

    def times_as_many(self, found: Counted) -> str:
        """`1.63 times`; empty where the figures are alike, or there is nothing to divide."""
        first, *others = found.figures
        if found.alike or not others or not found.value(first):
            return ""
        return f"{number(found.value(others[0]) / found.value(first))} times"

    @property
    def compared(self) -> tuple[list[str], list[str]]:
        """Counts that differ, with their figures, and counts that do not."""
        differ, alike = [], []
        for found in self.counted:
            words = found.row.measure.words
            words += " a round trip" if found.row.measure.per == "round trip" else ""
            if len(found.figures) < 2 or not found.row.measure.headline or words.startswith("…"):
                continue
            if found.alike:
                alike.append(f"{words} ({found.figures[self.names[0]]})")
            else:
                figures = " and ".join(found.figures.values())
                differ.append(f"{words} ({figures})")
        return differ, alike


PREPOSITION = {"adds": "to", "saves": "of"}


class Answered(Protocol):
    """What of an analysis the answer is made of."""

    run: Run
    tables: Tables
    ledgers: tuple[Ledger, ...]
    timings: tuple[Times, ...]
    exact: tuple[Comparison, ...]


def build_answer(found: Answered) -> Answer | None:
    """None where no cell has figures."""
    if not found.ledgers:
        return None
    ledger = found.ledgers[0].narrow(MOST_TOGETHER)
    names = tuple(ledger.transports[:2])
    where = (ledger.pattern, ledger.size)
    timings = [times for times in found.timings if (times.pattern, times.size) == where]
    shown = {known.conditions for known in PLACES} | set(ledger.conditions)
    tidy = found.tables.tidy
    timed = tidy[tidy["valid"] & ~tidy["probed"] & (tidy["target"] == "host")]
    placed = [_placed(timed, times, names) for times in timings if times.conditions in shown]
    kernels = {latency.kernel for times in timings for latency in times.latencies}
    host = listed([machine_text(found.run, "host", kernel) for kernel in sorted(kernels)])
    cpu = found.exact[0].cells[0].cpu if found.exact else ""
    counted = (_counted(found.run, row, names, cpu) for row in ledger.rows)
    iteration = timings[0].iteration if timings else ROUND_TRIP
    return Answer(
        *where, names, iteration, tuple(filter(None, placed)), tuple(filter(None, counted)), host
    )


def _placed(timed: pd.DataFrame, times: Times, names: tuple[str, ...]) -> Placed | None:
    """Of the repeats that both transports have; None where there are none."""
    rows = in_conditions(timed, (times.pattern, times.size, times.conditions))
    iteration = _pair(iteration_times(rows, times.pattern), names)
    if iteration is None:
        return None
    messages = 2 if times.pattern in ROUND_TRIP_PATTERNS else 1
    cpu = None
    if "spin" not in times.conditions:  # who polls takes all that there is
        own = rows[rows["quantity"] == "cpu_ns"]
        own = own.assign(value=own["value"] / own["messages"])
        cpu = _pair(own.pivot_table(
            index="repeat", columns="transport", values="value", aggfunc="sum"
        ), names)  # fmt: skip
    reached = {
        latency.transport: latency.messages_per_s.value / messages
        for latency in times.latencies
        if latency.transport in names and latency.messages_per_s
    }
    # What a paced window reached was set.
    return Placed(
        times.conditions, iteration, cpu, messages, {} if times.pattern == "paced" else reached
    )


def _pair(by_repeat: pd.DataFrame, names: tuple[str, ...]) -> Pair | None:
    pairs = by_repeat.reindex(columns=list(names)).dropna()
    return None if pairs.empty or len(names) < 2 else Pair.of(*pairs.to_numpy().T)


def _counted(run: Run, row: Row, names: tuple[str, ...], cpu: str) -> Counted | None:
    if not row.lines:
        return None
    line, unit = row.lines[0], row.measure.unit
    figures = {}
    for name in names:
        entries = [e for (_, other), e in line.entries.items() if other == name and e.valid]
        if entries:
            low, high = min(e.value for e in entries), max(e.value for e in entries)
            figures[name] = spread(low, high, unit) or amount(low, unit)
    one_cpu = {conditions for conditions, _ in line.entries} == {"same-cpu"}
    counter = counter_text(run, line.target, line.kernel, cpu, one_cpu)
    return Counted(row, figures, counter) if figures else None


def title_text(answer: Answer) -> str:
    """`pingpong, 64 B`."""
    return f"{answer.pattern}, {size_text(answer.size)}"


def title_of(conditions: str) -> str:
    """`two CPUs, never asleep`."""
    title = TITLES.get(conditions)
    return title[:1].lower() + title[1:] if title else place(conditions)
