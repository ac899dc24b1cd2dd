# SPDX-License-Identifier: GPL-2.0-or-later
"""The answer, which compares the first two transports of the first ledger.

Times are of this machine, counts of the machine that their source names.
"""

from collections.abc import Iterator

import pandas as pd
from pydantic import BaseModel, ConfigDict

from analysis.analyse import Figures
from analysis.counts.ledger import (
    Ledger,
    Row,
    build_ledgers,
    conditions_order,
    in_conditions,
    version,
)
from analysis.counts.measures import compare_transports, of_times
from analysis.machine import counter_text, kernel_text, machine_text
from analysis.paths.figures import NEEDS_SIZE, scheduled
from analysis.statistics import Compared, Estimate
from analysis.times.cold import after_work, colder, one_percent_ns, stored_prices
from analysis.times.timing import ROUND_TRIP, Times, iteration_times
from analysis.wording import amount, extent, listed, ways
from probes.cell import MANY_CLIENTS, ROUND_TRIP_PATTERNS
from probes.transports import PAIR

RATES = (100, 10_000, 100_000)  # requests a second
EVEN = 0.05  # of an iteration's time: an unresolved difference that is surely smaller is none
BESIDE_TIMES = ("payload_copies", "instructions")  # counts beside the times, of each kernel
MOST_NAMED = 4  # conditions in a sentence; tables have all
# Conditions that the answer shows, and the option that measures them.
PLACES = {
    "same-cpu": "--placements same-cpu",
    "cross-cpu": "--placements cross-cpu",
    "cross-cpu+spin": "--placements cross-cpu --wait spin",
    "free": "--placements free",
}


class Part(BaseModel):
    """A part of answer.json."""

    model_config = ConfigDict(frozen=True, extra="forbid", from_attributes=True)


class Share(Part):
    requests_per_s: int
    cpu_share: Estimate  # of one CPU, that the second transport takes more; 1 is all of it
    cold_cpu_share: Estimate | None  # the same after other work
    beyond: bool  # some transport's connection did not reach so many requests a second


class Placed(Part):
    """The times under one set of conditions."""

    conditions: str
    iteration_ns: Compared  # the median iteration: of ping-pong a round trip
    # How much longer the second transport's is after other work, by prices; null without these.
    cold_ns: Estimate | None
    cpu_ns: Compared | None  # of both processes for a message; null where they poll
    messages: int  # in an iteration
    reached: dict[str, float]  # requests a second that one connection reached, by transport
    shares: tuple[Share, ...]
    # A request of which the difference's far end, after other work where known, is one percent.
    one_percent_ns: float

    @classmethod
    def of(
        cls,
        conditions: str,
        iteration: Compared,
        cpu: Compared | None,
        messages: int,
        reached: dict[str, float],
        more: Estimate | None = None,
    ) -> "Placed":
        added = iteration.added
        cold = after_work(added, more) if more and cpu else None
        cold_cpu = after_work(cpu.added * messages, more) if more and cpu else None
        shares = [
            Share(
                requests_per_s=rate,
                cpu_share=cpu.added * (rate * messages / 1e9),
                cold_cpu_share=cold_cpu and cold_cpu * (rate / 1e9),
                beyond=any(rate > most for most in reached.values()),
            )
            for rate in RATES
            if cpu
        ]
        return cls(
            conditions=conditions,
            iteration_ns=iteration,
            cold_ns=cold,
            cpu_ns=cpu,
            messages=messages,
            reached=reached,
            shares=tuple(shares),
            one_percent_ns=one_percent_ns(cold or added),
        )

    @property
    def even(self) -> float | None:
        """The share of an iteration that the difference surely stays within, if it is small."""
        first, added = self.iteration_ns.first, self.iteration_ns.added
        if added.low is None or not added.spans(0):
            return None
        within = added.far / first.value
        return within if within <= EVEN else None


class PlacedCount(Part):
    """A row of the ledger under one set of conditions, where all its transports have figures."""

    conditions: str
    figures: dict[str, str]  # of each transport, as the report writes them
    ratio: float | None  # as in LedgerCount


class LedgerCount(Part):
    """A row of the ledger by its best source: each transport's figures over all conditions."""

    measure: str  # as in claims' `quantity`
    words: str
    per: str
    headline: bool
    figures: dict[str, str]  # of each transport, as the report writes them
    values: dict[str, float]  # the first of them
    # How many times the first transport's figure the second's is: the least and the most over all
    # conditions. Null where there is nothing to divide.
    ratio: tuple[float, float] | None
    places: tuple[PlacedCount, ...]
    alike: bool
    probed: bool  # in cells in which probes change the switches
    kernel: str
    counted: str  # where
    one_cpu: bool  # whether it was counted on one CPU alone
    # The ratio under the default scheduler, a sample: it depends on the window. Null elsewhere. Of
    # several placements it is that of the first.
    default_scheduler: float | None
    # From its least to its most, in this run and in a stored study of windows and builds.
    default_range: tuple[float, float] | None
    several: bool  # whether the run has this count of several kernels

    @property
    def name(self) -> str:
        words = f"{self.words} a round trip" if self.per == "round trip" else self.words
        if self.several:
            words = f"{words}, {self.kernel}"
        return f"{words} (with probes, which change the switches)" if self.probed else words

    @property
    def by_place(self) -> tuple[PlacedCount, ...]:
        """The conditions where the figures differ between these; empty where they do not."""
        different = {tuple(place.figures.values()) for place in self.places}
        return self.places if len(different) > 1 else ()

    @property
    def times(self) -> str:
        """`1.63 times`, or from where to where; empty where there is nothing to divide."""
        if self.alike or self.ratio is None:
            return ""
        return f"{extent(*self.ratio)} times"


class Answer(Part):
    """What a run says of the difference between two transports."""

    pattern: str
    size: int
    transports: tuple[str, ...]  # the two, or the only one
    iteration: str
    times: tuple[Placed, ...]
    counts: tuple[LedgerCount, ...]
    kernels: tuple[LedgerCount, ...]  # each kernel's own of BESIDE_TIMES; empty of one kernel
    host: str  # the machine of the times

    def count(self, measure: str) -> LedgerCount | None:
        return next((count for count in self.counts if count.measure == measure), None)

    @property
    def asleep(self) -> list[Placed]:
        """The times of processes that sleep, as most do."""
        return [placed for placed in self.times if placed.cpu_ns]

    @property
    def compared(self) -> tuple[Placed, ...]:
        """The times that the decision names."""
        return (tuple(self.asleep) or self.times)[:MOST_NAMED]

    @property
    def between_kernels(self) -> tuple[LedgerCount, LedgerCount] | None:
        """The instructions on the oldest kernel and on the newest; None of one kernel."""
        counts = [count for count in self.kernels if count.measure == "instructions"]
        return (counts[0], counts[-1]) if len(counts) > 1 else None

    @property
    def unnamed(self) -> int:
        """How many more there are."""
        return len(self.asleep or self.times) - len(self.compared)

    @property
    def ways(self) -> str:
        """How processes wait, are scheduled and connected, where that is one for all times."""
        ways_ = {ways(placed.conditions, self.pattern) for placed in self.compared}
        return ways_.pop() if len(ways_) == 1 else ""

    @property
    def several(self) -> bool:
        """Whether the figures are of several connections."""
        return self.pattern in MANY_CLIENTS

    def differing(self, *, alike: bool) -> list[LedgerCount]:
        """The ledger's headlines that differ between the transports, or that do not."""
        several = [count for count in self.counts if count.headline and len(count.figures) > 1]
        return [
            count for count in several if count.alike == alike and not count.words.startswith("…")
        ]


def build_answer(found: Figures) -> Answer | None:
    """Compare the first two transports; None where no cell has figures."""
    if not found.ledgers:
        return None
    ledger = found.ledgers[0].narrow()
    names = tuple(ledger.transports[:2])
    workload = ledger.pattern, ledger.size
    timings = [times for times in found.timings if (times.pattern, times.size) == workload]
    timed = of_times(found.tables.tidy)
    known = {*PLACES, *ledger.conditions}
    shown = [c for c in dict.fromkeys(times.conditions for times in timings) if c in known]
    placed = []
    if len(names) > 1:
        # What a cold path adds was measured for these, of which each message wakes a reader.
        usual = names == PAIR and ledger.pattern == "pingpong"
        more = colder(stored_prices(found.run)) if usual else None
        by_conditions = ([t for t in timings if t.conditions == c] for c in shown)
        placed = [_placed(timed, times, names, more) for times in by_conditions]
    cpu = found.exact[0].cells[0].cpu if found.exact else ""
    counts = _counts(found, ledger, names, cpu)
    own = found.figures[found.figures["target"] != "host"]
    own = own[(own["pattern"] == ledger.pattern) & (own["size"] == ledger.size)]
    by_kernel = [rows for _, rows in own[own["measure"].isin(BESIDE_TIMES)].groupby("kernel")]
    by_kernel.sort(key=lambda rows: version(rows["kernel"].iloc[0]))
    kernels = sorted({times.kernel for times in timings})
    return Answer(
        pattern=ledger.pattern,
        size=ledger.size,
        transports=names,
        iteration=timings[0].iteration if timings else ROUND_TRIP,
        times=tuple(filter(None, placed)),
        counts=counts,
        kernels=tuple(
            count
            for rows in by_kernel[: len(by_kernel) if len(by_kernel) > 1 else 0]
            for count in _counts(found, build_ledgers(rows, ())[0], names, cpu)
        ),
        host=listed([machine_text(found.run, "host", kernel) for kernel in kernels]),
    )


def _placed(
    timed: pd.DataFrame, timings: list[Times], names: tuple[str, ...], more: Estimate | None
) -> Placed | None:
    """Compare the repeats that both transports have; None where there are none."""
    times = timings[0]
    rows = in_conditions(timed, (times.pattern, times.size, times.conditions))
    iteration = compare_transports(iteration_times(rows, times.pattern), names)
    if iteration is None:
        return None
    messages = 2 if times.pattern in ROUND_TRIP_PATTERNS else 1
    cpu = None
    if times.where.wait != "spin":  # who polls takes all that there is
        own = rows[rows["quantity"] == "cpu_ns"]
        own = own.assign(value=own["value"] / own["messages"])
        pivot = own.pivot_table(index="repeat", columns="transport", values="value", aggfunc="sum")
        cpu = compare_transports(pivot, names)
    reached = {
        each.transport: each.messages_per_s.value / messages
        for each in timings
        # What a paced window reached was set.
        if each.transport in names and each.messages_per_s and times.pattern != "paced"
    }
    return Placed.of(times.conditions, iteration, cpu, messages, reached, more)


def _counts(
    found: Figures, ledger: Ledger, names: tuple[str, ...], cpu: str
) -> tuple[LedgerCount, ...]:
    counts = (_count(found, ledger, row, names, cpu) for row in ledger.rows)
    return tuple(filter(None, counts))


def _count(
    found: Figures, ledger: Ledger, row: Row, names: tuple[str, ...], cpu: str
) -> LedgerCount | None:
    measure, figures, values = row.measure, {}, {}
    for name in names:
        entries = [e for (_, other), e in row.entries.items() if other == name and e.valid]
        if entries:
            each = [entry.value for entry in entries]
            figures[name] = extent(min(each), max(each), measure.unit)
            values[name] = entries[0].value
    if not figures:
        return None
    same = found.figures[found.figures["measure"] == measure.id]
    same = same[(same["pattern"] == ledger.pattern) & (same["size"] == ledger.size)]
    samples = same[(same["target"] == "exact-other") & (same["kernel"] == row.kernel)]
    # A sample of one placement, and the study is of one CPU.
    usual = min((conditions for conditions, _ in row.entries), key=conditions_order)
    samples = samples.loc[samples["conditions"] == usual]
    default = samples.set_index("transport")["value"].to_dict()
    sampled = row.target == "exact-fifo" and len(names) > 1 and {*names} <= {*default}
    ratio = default[names[1]] / default[names[0]] if sampled else None
    studied = (names, ledger.pattern, ledger.size) == (PAIR, "pingpong", NEEDS_SIZE)
    others = scheduled(row.kernel, "other") if studied and usual == "same-cpu" else []
    one_cpu = {conditions for conditions, _ in row.entries} == {"same-cpu"}
    places = tuple(_places(row, names))
    ratios = [place.ratio for place in places if place.ratio is not None]
    return LedgerCount(
        measure=measure.id,
        words=measure.words,
        per=measure.per,
        headline=measure.headline,
        figures=figures,
        values=values,
        ratio=(min(ratios), max(ratios)) if ratios else None,
        places=places,
        alike=len(set(figures.values())) == 1,
        probed=bool(row.probed),
        default_scheduler=ratio,
        default_range=(min(ratio, *others), max(ratio, *others)) if ratio and others else None,
        several=same.loc[same["target"] != "host", "kernel"].nunique() > 1,
        kernel=kernel_text(row.kernel),
        counted=counter_text(found.run, row.target, row.kernel, cpu, one_cpu),
        one_cpu=one_cpu,
    )


def _places(row: Row, names: tuple[str, ...]) -> Iterator[PlacedCount]:
    """A row's figures under each set of conditions in which all these transports have one."""
    valid = {column: entry.value for column, entry in row.entries.items() if entry.valid}
    for conditions in sorted({conditions for conditions, _ in valid}, key=conditions_order):
        values = {name: valid[conditions, name] for name in names if (conditions, name) in valid}
        if len(values) < len(names):
            continue
        first, last = values[names[0]], values[names[-1]]
        yield PlacedCount(
            conditions=conditions,
            figures={name: amount(value, row.measure.unit) for name, value in values.items()},
            ratio=last / first if len(names) > 1 and first else None,
        )
