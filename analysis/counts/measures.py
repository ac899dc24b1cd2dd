# SPDX-License-Identifier: GPL-2.0-or-later
"""What can be measured: the quantities of the tidy table, and the measures made of them.

A quantity is what an instrument counted over a window. A measure is what a reader asks for: a
quantity for each message, each round trip or each payload byte. The ledger's rows and the claims'
`quantity` are measures. Add one to measures.tsv and both know it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pandas as pd

from analysis.statistics import Compared, Estimate, compared, estimates
from analysis.wording import listed, source_text
from probes.cell import ONE_WAY, ROUND_TRIP_PATTERNS, Conditions
from probes.files import read_rows, typed
from probes.transports import PAIR

TABLE = Path(__file__).with_name("measures.tsv")
EMPTY = '""'  # the key that is empty, as the table writes it
FLAGS = ("headline", "scheduler", "repeatable", "unprobed", "again")

# A key with this ending was counted outside the workload's processes.
ELSEWHERE = " elsewhere"
# Pattern → the article's program that makes it; the workload does not.
BASELINES = read_rows(TABLE.with_name("programs.tsv"))
PROGRAMS = {row["pattern"]: row["program"] for row in BASELINES if row["program"]}
OF_A_FILE = "/"  # between a program's name and its case, where a file describes the program


def program_of(pattern: str) -> str:
    """The program that makes a pattern; empty where the workload does."""
    name, case = pattern.partition(OF_A_FILE)[::2]
    return name if case else PROGRAMS.get(pattern, "")


def of_programs(table: pd.DataFrame) -> "pd.Series[bool]":
    """Which rows are of programs, and not of the workload."""
    return table["pattern"].map(program_of).astype(bool)


def of_times(tidy: pd.DataFrame) -> pd.DataFrame:
    """The rows of which times are times: of valid, unprobed cells of the host."""
    return tidy[tidy["valid"] & ~tidy["probed"] & (tidy["target"] == "host")]


@dataclass(frozen=True)
class Workload:
    """What the cells of one table have in common; `conditions` as tables have them, as text."""

    pattern: str
    size: int
    conditions: str

    @property
    def where(self) -> Conditions:
        """The conditions, each by its name."""
        return Conditions.parse(self.conditions)


# What one sample of a pattern is, where it is not a round trip.
SAMPLED = {
    "selfloop": "message_ns",
    "full": "message_ns",
    **dict.fromkeys(ONE_WAY, "send_ns"),
    "paced": "due_ns",
}
TIMES, MACHINE_WIDE, HARDWARE = (
    frozenset(
        row["quantity"]
        for row in read_rows(TABLE.with_name("quantities.tsv"))
        if row["kind"] == kind
    )
    for kind in ("time", "machine", "hardware")
)

CPU_PARTS = ("cpu_user", "cpu_system")  # of CPU time, the whole

Per = Literal["message", "round trip", "payload byte", "window"]


def unit_of(quantity: str) -> str:
    """The unit of a quantity's values, by the manner in which quantities are named."""
    if quantity.endswith("_per_s"):
        return "1/s"
    if quantity.endswith("_ns"):
        return "ns"
    if quantity.endswith("_khz"):
        return "kHz"
    return "bytes" if quantity.endswith("_bytes") else "count"


def is_time(quantity: str) -> bool:
    """Whether a quantity says how long something took, so that an emulated CPU's says nothing."""
    return unit_of(quantity) in ("ns", "1/s") or quantity in TIMES


class Measure(NamedTuple):
    """A figure that a reader asks for."""

    id: str
    words: str
    quantity: str
    per: Per
    keys: tuple[str, ...] = ()  # all of them must be measured; () takes every own key, none of
    # another context, which is in no sum unless it is named
    unit: str = ""  # what one of it is called; empty for a count
    headline: bool = False  # in the short ledger on the first screen
    ledger: bool = True  # a row of the full ledger
    scheduler: bool = False  # depends on the scheduler: the least disturbed source comes first
    repeatable: bool = False  # exact mode under SCHED_FIFO comes first: others are samples
    unprobed: bool = False  # the kernel or a program counts it: no probe is needed
    instruments: tuple[str, ...] = ()  # only these instruments' figures, best first; () for all
    # What is counted of the functions that every round trip calls: their number, or their calls.
    hit: Literal["", "number", "calls"] = ""
    again: bool = False  # another row's figure for each message, for the figure that compares all
    over: str = ""  # for each of this quantity, counted in the same run

    @property
    def detail(self) -> bool:
        """Whether it is a part of the row above it."""
        return self.words.startswith("…")

    @property
    def full_words(self) -> str:
        """Its words where the row above does not stand: `instructions, in the most …`."""
        if not self.detail:
            return self.words
        above = MEASURES[: [measure.id for measure in MEASURES].index(self.id)]
        whole = next(measure.words for measure in reversed(above) if not measure.detail)
        return f"{whole.partition(',')[0]}, {self.words.removeprefix('… ')}"


def _measure(row: dict[str, Any]) -> Measure:
    flags = set(row["flags"].split())
    if strange := flags - {*FLAGS, "unlisted"}:
        raise ValueError(f"{TABLE.name}: {row['measure']} has the flag {strange.pop()}")
    return Measure(
        **typed(Measure, row)
        | {flag: flag in flags for flag in FLAGS}
        | {
            "id": row["measure"],
            "keys": tuple("" if key == EMPTY else key for key in row["keys"].split(",") if key),
            "ledger": "unlisted" not in flags,
            "instruments": tuple(filter(None, row["instrument"].split(","))),
        }
    )


MEASURES = tuple(map(_measure, read_rows(TABLE)))
MEASURE_BY_ID = {measure.id: measure for measure in MEASURES}


# The conditions of a figure, and where it comes from.
WORKLOAD = ("pattern", "size", "conditions")
SOURCE = ("instrument", "target", "kernel", "probe_level", "probed")
# Probes on one probe level, the best first. perf has one window for both processes.
PROBES = ("bpftrace", "bcc", "perf", "ftrace")
# `calls:FUNCTION` asks for a kernel function's calls a message, `calls:ONE+OTHER` for their sum.
CALLS = "calls:"
# A cell on a machine.
CELL = (*WORKLOAD, "target", "kernel", "transport")
RUN_OF_CELL = (*WORKLOAD, "transport", "repeat", "cell", *SOURCE, "messages", "valid")


def groups(rows: pd.DataFrame, *by: str) -> Iterator[tuple[Any, pd.DataFrame]]:
    """The values of these columns, sorted, and the rows that have them."""
    return iter(rows.groupby(list(by), sort=True))


def rows_of(table: pd.DataFrame) -> Iterator[Any]:
    """The rows of a table, each with its columns as attributes."""
    return iter(table.itertuples(index=False))


def measure_of(name: str) -> Measure | None:
    """The measure of that name; of calls of functions, one made for it."""
    if not name.startswith(CALLS):
        return MEASURE_BY_ID.get(name)
    functions = tuple(name.removeprefix(CALLS).split("+"))
    words = f"calls of {listed(list(functions))}"
    return Measure(name, words, "function_calls", "message", functions) if all(functions) else None


def measure_all(tidy: pd.DataFrame, requested: Iterable[str] = ()) -> pd.DataFrame:
    """One row for each measure, cell run and instrument; `requested` names calls of functions.

    Columns: `measure`, `value` and those of RUN_OF_CELL.
    """
    runs = tidy.groupby(list(RUN_OF_CELL), sort=True)
    tidy = tidy.assign(run=runs.ngroup())  # one number for all of RUN_OF_CELL: grouped by it often
    by_quantity = {str(quantity): rows for quantity, rows in tidy.groupby("quantity")}
    frames = [_figures(by_quantity, m) for m in MEASURES if m.quantity in by_quantity]
    calls = (measure_of(name) for name in sorted(set(requested)) if name.startswith(CALLS))
    frames += [_calls(tidy, measure) for measure in calls if measure]
    kept = [frame for frame in frames if not frame.empty]
    if not kept:
        return pd.DataFrame(columns=["measure", *RUN_OF_CELL, "value"])
    return pd.concat(kept, ignore_index=True)


def _figures(by_quantity: dict[str, pd.DataFrame], measure: Measure) -> pd.DataFrame:
    rows = by_quantity[measure.quantity]
    if measure.keys:
        rows = rows[rows["key"].isin(measure.keys)]
    else:
        rows = rows[~rows["key"].str.endswith(ELSEWHERE)]
    if measure.instruments:
        rows = rows[rows["instrument"].isin(measure.instruments)]
    if is_time(measure.quantity):
        rows = rows[~rows["probed"].astype(bool)]
    if measure.per == "round trip" or measure.hit:
        rows = rows[rows["pattern"].isin(ROUND_TRIP_PATTERNS)]
    if measure.hit:
        rows = rows[rows["value"] >= round_trips(rows)]
    sums = rows.groupby("run")["value"].agg(["sum", "count"])
    totals = rows.drop_duplicates("run").set_index("run").loc[sums.index, list(RUN_OF_CELL)]
    totals = totals.join(sums).reset_index(drop=True)
    if measure.keys:
        totals = totals[totals["count"] == len(measure.keys)]
    if measure.over:
        totals = _over(totals, by_quantity.get(measure.over, rows.iloc[:0]))
    value = totals["count" if measure.hit == "number" else "sum"] / _divisor(totals, measure)
    return totals.assign(measure=measure.id, value=value).drop(columns=["sum", "count"])


def _calls(tidy: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    """Calls of functions that the instrument watched: 0 in a cell that did not call one of them.

    Whoever lists what was called leaves out what was not, so a function counts as watched where the
    same instrument saw it on the same kernel at all, in whatever cell.
    """
    rows = tidy[tidy["quantity"] == measure.quantity]
    sums = []
    for _, traced in groups(rows, "instrument", "target", "kernel"):
        if set(measure.keys) <= set(traced["key"]):
            value = traced["value"].where(traced["key"].isin(measure.keys), 0.0)
            sums.append(traced.assign(value=value).groupby(list(RUN_OF_CELL))["value"].sum())
    if not sums:
        return pd.DataFrame()
    totals: pd.DataFrame = pd.concat(sums).reset_index()
    return totals.assign(measure=measure.id, value=totals["value"] / totals["messages"])


def _over(totals: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Divided by what the same instrument counted of another quantity in the same run."""
    by = list(RUN_OF_CELL)
    others = rows.groupby(by, sort=True)["value"].sum().rename("other").reset_index()
    both = totals.merge(others[others["other"] > 0], on=by)
    return both.assign(sum=both["sum"] / both["other"]).drop(columns="other")


def round_trips(rows: pd.DataFrame) -> "pd.Series[float]":
    """A round trip is two messages."""
    return rows["messages"] / 2


def _divisor(rows: pd.DataFrame, measure: Measure) -> Any:
    if measure.per == "round trip":
        return round_trips(rows)
    if measure.per == "payload byte":
        return rows["messages"] * rows["size"]
    return rows["messages"] if measure.per == "message" else 1


def over_repeats(measured: pd.DataFrame) -> pd.DataFrame:
    """A figure over repeats: of counts the median, lowest and highest; of times as everywhere the
    trimmed mean and its interval. Of valid repeats if any is.

    Columns: `measure`, the conditions, `transport`, the source, `value`, `low`, `high`, `repeats`,
    `valid`.
    """
    by = ["measure", *WORKLOAD, "transport", *SOURCE]
    any_valid = measured.groupby(by)["valid"].transform("any")
    used = measured[measured["valid"] | ~any_valid.astype(bool)]
    table = used.groupby(by, sort=True).agg(
        value=("value", "median"),
        low=("value", "min"),
        high=("value", "max"),
        repeats=("value", "size"),
        valid=("valid", "all"),
    )
    measures = {name: measure_of(name) for name in set(used["measure"])}
    times = [name for name, measure in measures.items() if measure and is_time(measure.quantity)]
    for where, rows in groups(used[used["measure"].isin(times)], *WORKLOAD, *SOURCE):
        workload, source = where[: len(WORKLOAD)], where[len(WORKLOAD) :]
        for (name, transport), figure in _times(rows):
            ends = figure.value, figure.low, figure.high
            table.loc[(name, *workload, transport, *source), ["value", "low", "high"]] = ends
    return table.reset_index()


def _times(rows: pd.DataFrame) -> Iterator[tuple[tuple[str, str], Estimate]]:
    """Measure and transport → a time; `rows` are of one workload and source.

    The difference to another transport decides which repeats count: of a part that of the whole, so
    that parts add up.
    """
    table = rows.pivot_table(index="repeat", columns=["measure", "transport"], values="value")
    for name, transport in list[Any](table.columns):
        parts = [part for part in CPU_PARTS if part in table] if name in CPU_PARTS else [name]
        whole = table[parts].T.groupby("transport").sum(min_count=len(parts)).T
        others = [each for each in (*PAIR, *whole) if each in whole and each != transport]
        decides = whole[transport] - whole[others[0]] if others else whole[transport]
        columns = pd.concat([decides, table[name, transport]], axis=1).dropna()
        if columns.empty:  # no repeat has both
            columns = pd.concat([table[name, transport]] * 2, axis=1).dropna()
        figure = estimates(lambda means: means, *columns.to_numpy().T)[1]
        yield (name, transport), figure.above_zero()


def estimate_of(row: Mapping[Any, Any]) -> Estimate:
    """The figure in a row of `over_repeats`; no ends where repeats are too few for an interval."""
    low, high = (None if isnan(row[end]) else row[end] for end in ("low", "high"))
    return Estimate(row["value"], low, high, row["repeats"], row["valid"])


def compare_transports(by_repeat: pd.DataFrame, names: Sequence[str] = PAIR) -> Compared | None:
    """Two columns of a table with a row for each repeat, of the repeats that have both.

    None where no repeat has both.
    """
    first, second = names
    both = by_repeat.reindex(columns=[first, second]).dropna()
    if both.empty:
        return None
    return compared(both[first].to_numpy(float), both[second].to_numpy(float))


def source_rank(measure: Measure, row: Any) -> tuple[int, ...]:
    """How good a source is for a measure; lower is better.

    The strongest probes come first, then the kernel's own counters. What depends on the scheduler
    comes from the least disturbed source first.
    """
    probe = row.instrument not in ("kernel", "workload")
    by = PROBES.index(row.instrument) if row.instrument in PROBES else len(PROBES)
    probe_level = ("function", "tracepoint", "counters").index(row.probe_level)
    guest, probed = disturbance(row.target, row.probed)
    guest += row.target == ("exact-other" if measure.repeatable else "exact-fifo")
    if measure.scheduler:
        return (guest, probed, int(probe), probe_level, by)
    place = measure.instruments.index(row.instrument) if measure.instruments else int(not probe)
    return (place, probe_level if probe else 0, probed, guest, by)


def disturbance(target: str, probed: bool) -> tuple[int, int]:
    """What disturbs the scheduler, least first: a guest's time is further off than a probe's."""
    return int(target != "host"), int(probed)


def best_source(rows: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    """The rows of one measure and conditions that come from the best source."""
    sources = [source for _, source in groups(rows, *SOURCE)]
    return min(sources, key=lambda source: source_rank(measure, source.iloc[0]))


def source_of(rows: pd.DataFrame) -> str:
    """The one source of these rows, in words."""
    first = rows.iloc[0]
    return source_text(first["instrument"], first["target"], first["kernel"], bool(first["probed"]))
