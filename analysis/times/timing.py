# SPDX-License-Identifier: GPL-2.0-or-later
"""Times of unprobed cells on the host, and how many times as long each transport takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.counts.ledger import all_conditions, in_conditions, transport_order
from analysis.counts.measures import SAMPLED, Workload, compare_transports, of_times
from analysis.raw.files import read_samples
from analysis.raw.run import Run
from analysis.statistics import Compared, Estimate, Values, mean, pooled
from analysis.times.modes import Modality, modality
from probes.cell import ONE_WAY

Key = tuple[str, int, str, str]  # pattern, size, conditions, transport
Iterations = Mapping[Key, Sequence[Values]]  # nanoseconds of each iteration, repeat by repeat

ROUND_TRIP = "round trip"
ITERATION = {
    "selfloop": "message",
    "full": "message",
    **dict.fromkeys(ONE_WAY, "send"),
    "paced": "paced request",
}
# In a stream the time of a send says when there was room, not what a message costs.
BY_THROUGHPUT = (*ONE_WAY, "asyncio-stream", "uvloop-stream")
LEAST_ITERATIONS = 100  # of a p99 that is more than the slowest one
QUANTITIES = ("rtt_ns", *SAMPLED.values(), "messages_per_s")


@dataclass(frozen=True)
class Times(Workload):
    """A transport's times under one set of conditions.

    p50 is the mean over repeats of their median iterations, in ns; the runs of one repeat count
    once. p99 is of all iterations of all repeats together.
    p50 is of the repeats that count in the difference from `than`, that of `than` in the one from
    the next transport; in a stream, which is compared otherwise, of its own.
    `by_median` and `by_all` hold it against `than`, the first transport: by the p50, and by the
    time of all iterations, slow ones included (the inverse of messages a second). In a stream both
    are that.
    """

    transport: str
    kernel: str
    p50: Estimate | None
    p99: Estimate | None
    messages_per_s: Estimate | None
    modality: Modality | None  # None: too few iterations to tell
    than: str
    by_median: Compared | None  # None of the first transport, and where no repeat has both
    by_all: Compared | None  # None where nobody counted messages, too

    @property
    def ratio(self) -> Estimate | None:
        """How many times as long it takes as `than`."""
        return self.by_median.ratio if self.by_median else None

    @property
    def ratio_all(self) -> Estimate | None:
        return self.by_all.ratio if self.by_all else None

    @property
    def iteration(self) -> str:
        return ITERATION.get(self.pattern, ROUND_TRIP)


def read_iterations(run: Run, invalid: set[tuple[str, int]]) -> Iterations:
    """The raw times of the host's valid, unprobed cells. `invalid`: (folder, cell)."""
    cells = [
        ((cell.pattern, cell.size, str(cell.conditions), cell.transport), target, cell)
        for target, cell in run.cells()
        if target.timed and cell.result and not cell.probed
        if (target.folder, cell.id) not in invalid
    ]
    results: dict[Key, list[Values]] = {}
    for key, target, cell in sorted(cells, key=lambda row: (row[0], row[2].repeat)):
        if len(times := read_samples(target, cell)):
            results.setdefault(key, []).append(times)
    return results


def build_timings(tidy: pd.DataFrame, iterations: Iterations) -> tuple[Times, ...]:
    """Latency, throughput and ratios under all conditions that have valid, unprobed times."""
    times = of_times(tidy)
    times = times[times["quantity"].isin(QUANTITIES)]
    results = []
    for workload in all_conditions(times):
        rows = in_conditions(times, workload)
        medians, windows = iteration_times(rows, workload[0]), message_times(rows)
        names = sorted(set(rows["transport"]), key=transport_order)
        than = next((name for name in names if name in medians.columns), "")
        sample = SAMPLED.get(workload[0], "rtt_ns")
        # Repeats are interleaved: those that have both transports met one machine.
        pairs = {
            name: pair
            for name in names
            if name != than and (pair := compare_transports(medians, (than, name)))
        }
        p50s = {name: pair.second for name, pair in pairs.items()}
        if pairs:
            p50s[than] = next(iter(pairs.values())).first
        if workload[0] in BY_THROUGHPUT:
            p50s = {}
        for name in names:
            own = rows[rows["transport"] == name]
            p50, clusters = p50s.get(name), iterations.get((*workload, name), ())
            results.append(
                Times(
                    *workload,
                    transport=name,
                    kernel=str(own["kernel"].iloc[0]),
                    p50=p50.above_zero() if p50 else _estimate(own, sample, "p50"),
                    p99=_p99(clusters),
                    messages_per_s=_estimate(own, "messages_per_s", ""),
                    modality=modality(clusters),
                    than=than,
                    by_median=pairs.get(name),
                    by_all=compare_transports(windows, (than, name)) if name in pairs else None,
                )
            )
    return tuple(results)


def _p99(clusters: Sequence[Values]) -> Estimate | None:
    return pooled(clusters, 0.99) if sum(map(len, clusters)) >= LEAST_ITERATIONS else None


def iteration_times(times: pd.DataFrame, pattern: str) -> pd.DataFrame:
    """What is compared: nanoseconds, a row for each repeat and a column for each transport."""
    if pattern in BY_THROUGHPUT:
        return message_times(times)
    rows = times[times["quantity"] == SAMPLED.get(pattern, "rtt_ns")]
    rows = rows[rows["key"] == "p50"]
    return rows.pivot_table(index="repeat", columns="transport", values="value")


def message_times(times: pd.DataFrame) -> pd.DataFrame:
    """The whole window's nanoseconds for each message, in the same shape.

    How long a paced window takes is set, and no result: there it is the mean request.
    """
    rows = times[times["quantity"] == "messages_per_s"]
    rows = rows.assign(value=1e9 / rows["value"])
    means = times[(times["quantity"] == SAMPLED["paced"]) & (times["key"] == "mean")]
    rows = rows if means.empty else means
    return rows.pivot_table(index="repeat", columns="transport", values="value")


def _estimate(rows: pd.DataFrame, quantity: str, key: str) -> Estimate | None:
    chosen = rows[(rows["quantity"] == quantity) & (rows["key"] == key)]
    if chosen.empty:
        return None
    return mean(chosen.groupby("repeat")["value"].mean().to_numpy()).above_zero()
