# SPDX-License-Identifier: GPL-2.0-or-later
"""Two runs compared: two kernels, two machines, or two settings.

What is compared was measured alike in both: the same pattern, size, placement and transport, by the
same instrument, in the same target, with or without probes. Kernels of one release are compared
with each other; where each run has one other kernel in a target, these two are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd

from analysis.analyse import Analysis
from analysis.counts.ledger import in_reading_order
from analysis.counts.measures import WORKLOAD, is_time, measure_of
from analysis.machine import loopback_words
from analysis.paths.cells import ExactCell
from analysis.paths.changes import ExactPair, exact_pairs
from analysis.raw.run import Target
from analysis.statistics import Values, change

SAME, CHANGED, STEADY, UNKNOWN = "same", "beyond the noise", "within the noise", "cannot be told"
FIGURE_KEYS = ("measure", *WORKLOAD, "transport", "instrument", "probed")
Kernels = Mapping[str, Mapping[str, str]]  # target → kernel of the first run → the second's
same_conditions = attrgetter("after.size", "after.where", "after.sched")


def of_first_conditions(pairs: Sequence[ExactPair]) -> list[ExactPair]:
    """All transports of the first pair's size, placement and scheduling."""
    return [pair for pair in pairs if same_conditions(pair) == same_conditions(pairs[0])]


@dataclass(frozen=True)
class Diff:
    """All that two runs have in common, and what differs around them."""

    before: Analysis
    after: Analysis
    shifts: pd.DataFrame  # see df_shifts
    exact: tuple[ExactPair, ...]
    settings: pd.DataFrame  # see df_settings

    def of(self, verdict: str) -> pd.DataFrame:
        """The shifts with this verdict."""
        return self.shifts[self.shifts["verdict"] == verdict]

    @property
    def names(self) -> tuple[str, str]:
        """The runs' names; where these are one, their folders."""
        first, second = self.before.run, self.after.run
        if first.name != second.name:
            return first.name, second.name
        return str(first.path), str(second.path)


def compare(before: Analysis, after: Analysis) -> Diff:
    """Everything that both runs measured."""
    kernels = {
        target: pair_kernels(*(_kernels(run, target) for run in (before, after)))
        for target in ("host", "guest", "exact")
    }
    shifts = df_shifts(before.measured, after.measured, kernels)

    def place(cell: ExactCell) -> tuple[Any, ...]:
        kernel = kernels["exact"].get(cell.kernel, cell.kernel)
        return cell.transport, cell.size, cell.where, cell.sched, kernel

    first, second = (
        [cell for comparison in run.exact for cell in comparison.cells] for run in (before, after)
    )
    exact = tuple(exact_pairs(first, second, place))
    return Diff(before, after, shifts, exact, df_settings(before, after, kernels))


def _kernels(analysis: Analysis, target: str) -> list[str]:
    return sorted({kernel for kind, kernel in analysis.folders if kind.startswith(target)})


def pair_kernels(before: list[str], after: list[str]) -> dict[str, str]:
    """Kernel of the first run → the one of the second that it is compared with."""
    pairs = {name: name for name in before if name in after}
    rest = [name for name in before if name not in pairs], [n for n in after if n not in pairs]
    if len(rest[0]) == len(rest[1]) == 1:
        pairs[rest[0][0]] = rest[1][0]
    return pairs


def df_shifts(before: pd.DataFrame, after: pd.DataFrame, kernels: Kernels) -> pd.DataFrame:
    """Every figure that both runs have, of exact cells apart.

    Columns: measure, pattern, size, conditions, transport, instrument, target, probed; before and
    after, means over valid repeats; low and high, the 95 % interval of the change, each run by
    itself (empty where it was not needed or there are too few repeats); verdict, unit, per, change,
    first_kernel, second_kernel, first_repeats, second_repeats.
    """
    by = [*FIGURE_KEYS, "target", "second_kernel"]

    def values(measured: pd.DataFrame) -> pd.DataFrame:
        rows = measured[measured["valid"].astype(bool) & (measured["instrument"] != "exact")]
        groups = rows.groupby([*FIGURE_KEYS, "target", "kernel"])["value"]
        return pd.DataFrame(
            [(*key, key[-1], each.to_numpy(float)) for key, each in groups],
            columns=[*by, "kernel", "values"],
        ).astype(dict.fromkeys(by, object))  # an empty table has no types that fit the other's

    first = values(before).rename(columns={"kernel": "first_kernel"})
    places = zip(first["target"], first["first_kernel"], strict=True)
    paired = [kernels.get(target, {}).get(kernel, "") for target, kernel in places]
    first["second_kernel"] = pd.Series(paired, first.index, dtype=object)
    both = first.merge(values(after), "inner", by, suffixes=("_first", "_second"))
    known = {name: measure for name in set(both["measure"]) if (measure := measure_of(name))}
    # Left out: figures that another row has too, and times of an emulated CPU.
    kept = {name for name, measure in known.items() if not measure.again}
    timed = {name for name, measure in known.items() if is_time(measure.quantity)}
    both = both[both["measure"].isin(kept)]
    both = both[(both["target"] == "host") | ~both["measure"].isin(timed)]
    pairs = list(zip(both["values_first"], both["values_second"], strict=True))
    judged = pd.DataFrame(
        [judge(*pair) for pair in pairs], both.index, ["low", "high", "verdict"]
    ).astype({"low": float, "high": float})
    shifts = both[["measure", *WORKLOAD, "transport", "instrument", "target", "probed"]].assign(
        before=[first.mean() for first, _ in pairs],
        after=[second.mean() for _, second in pairs],
        **judged,
        unit=both["measure"].map(lambda name: known[name].unit),
        per=both["measure"].map(lambda name: known[name].per),
        change=lambda rows: rows["after"] - rows["before"],
        first_kernel=both["first_kernel"],
        second_kernel=both["second_kernel"],
        first_repeats=[len(first) for first, _ in pairs],
        second_repeats=[len(second) for _, second in pairs],
    )
    shifts = shifts.sort_values(["target", "instrument", "probed", "first_kernel", "measure"])
    return in_reading_order(shifts)


def judge(a: Values, b: Values) -> tuple[float | None, float | None, str]:
    """Interval of the change of means, and the verdict.

    What came out as one figure in every repeat of both runs has no noise: it is the same or it is
    not. Else the interval decides, from statistics.LEAST_REPEATS repeats of each run up.
    """
    if np.ptp(a) == np.ptp(b) == 0:
        if a[0] == b[0]:
            return None, None, SAME
        if min(len(a), len(b)) > 1:
            return None, None, CHANGED
    figure = change(a, b)
    if figure.low is None:
        return None, None, UNKNOWN
    return figure.low, figure.high, STEADY if figure.spans(0) else CHANGED


def df_settings(before: Analysis, after: Analysis, kernels: Kernels) -> pd.DataFrame:
    """What was asked for, and what the machines say of themselves, where that differs.

    Columns: where (a target, or "options"), what, first, second.
    """
    places = [("options", before.run.manifest.options, after.run.manifest.options)]
    second = {(target.kind, target.kernel): target for target in after.run.targets}
    for target in before.run.targets:
        if other := second.get((target.kind, kernels[target.kind].get(target.kernel, ""))):
            places.append((target.kind, _environment(target), _environment(other)))
    rows = [
        (place, name, *("absent" if value is None else str(value) for value in pair))
        for place, *sides in places
        for name in sorted(set().union(*sides))
        if (pair := [side.get(name) for side in sides])[0] != pair[1]
    ]
    return pd.DataFrame(rows, columns=["where", "what", "first", "second"])


def _environment(target: Target) -> dict[str, Any]:
    """Tools and settings among the rest."""
    environment = target.environment
    rest = environment.model_dump(exclude={"loopback", "tools", "settings"})
    return {**loopback_words(target), **rest, **environment.tools, **environment.settings}
