# SPDX-License-Identifier: GPL-2.0-or-later
"""Functions that a message calls, as instruments saw them: counted, sampled, and by stacks.

Probes beside exact counts: the probes ran in a guest of the same kernel, with another CPU model,
its own scheduling conditions and a window with ticks in it; exact mode tells the steady round trip.
Where they differ, the function's layer says whether that is what differs between the two machines.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import pandas as pd

from analysis.counts.agreement import WITHIN_PER_MESSAGE, WITHIN_SHARE
from analysis.counts.ledger import (
    all_conditions,
    conditions_order,
    in_conditions,
    transport_order,
    version,
)
from analysis.counts.measures import (
    ELSEWHERE,
    WORKLOAD,
    KernelKey,
    KernelWorkload,
    groups,
    round_trips,
)
from analysis.paths.cells import DEFAULT
from analysis.paths.tree import CALLER, UNCLASSIFIED, USER, Path, Span, own_layer
from analysis.raw.record import read_text
from analysis.raw.run import Run
from analysis.wording import place, size_text, transport_text

EXACT_TARGET = f"exact-{DEFAULT}"  # guests use the default scheduler
PROBES = ["bpftrace", "ftrace"]
TOP = 24
CELL = ["kernel", "transport", "pattern", "size", "conditions"]
# What the workload itself asks of the kernel round its window (clock, rusage, TCP_INFO), and what
# comes with it, happens before the tracer is switched off.
CALLS_AROUND = 12.0
A_ROUND_TRIP = 0.5  # calls a message, of a function that each round trip calls
# A tracer opens and closes its window for both processes at once: either can be inside a call.
EDGES = 2.0
SCHEDULING = {"sched", "idle"}
HELPER_LAYERS = {"lock", "rcu", "time", "interrupt", "softirq", "memory", CALLER}
# Once an end has received some 64 KiB its window may grow to twice what it is, and from then on
# __tcp_cleanup_rbuf() asks after each read what to advertise. Of all functions of a round trip it
# is the only one that a young connection calls less often (probes/exact/README.md).
OLD_ALONE = {"__tcp_select_window"}

EQUAL = "equally often"
CONDITIONS = "scheduling: the two machines' conditions differ"
HELPER = "a helper of scheduling, ticks or the mitigations"
EDGE = "the tracer's window is wider by some system calls"
AGE = "exact mode's connection has had more messages"
OPEN = "not explained"
DIFFERENT = (OPEN, AGE, EDGE, CONDITIONS, HELPER)
UNSEEN = "no probe watched it"
OUTSIDE = "outside the steady round trip: ticks, edges of the window"
BLIND = " ftrace cannot see functions of lib/, entry code and all that is marked notrace."

# Where user space ends; what is above is the workload's own and the C library's.
ENTRY = re.compile(r"entry_SYSCALL|asm_|do_syscall_|ret_from_fork")
STACK = re.compile(r"([^;]+);(.+) ([0-9]{1,15})")

PARTS = ("send-wakeup", "wakeup-running", "running-return", "send-return")
NOT_WOKEN = "not-woken"
SHOWN_WAYS = 4


@dataclass(frozen=True)
class FunctionTable(KernelWorkload):
    """Functions of one set of conditions on one kernel."""

    transports: tuple[str, ...]
    # Name, calls a message by transport, the most called first: of the first table all of them.
    top: tuple[tuple[str, tuple[float, ...]], ...]
    shared: int  # hit on every transport
    only: dict[str, tuple[str, ...]]  # transport → functions hit on it alone


def function_tables(tidy: pd.DataFrame) -> tuple[FunctionTable, ...]:
    """Return one table for each kernel and conditions, valid runs only."""
    rows = called(tidy)
    # A function belongs to a path when it is called at least once a round trip.
    hit = rows["value"] >= round_trips(rows)
    rows = rows.assign(per_message=rows["value"] / rows["messages"], hit=hit)
    tables: list[FunctionTable] = []
    for kernel, group in groups(rows, "target", "kernel"):
        for conditions in all_conditions(group):
            some = in_conditions(group, conditions)
            tables.append(_table(some, TOP if tables else None, (*conditions, *kernel)))
    return tuple(tables)


def called(tidy: pd.DataFrame) -> pd.DataFrame:
    """The rows with calls of all functions: ftrace's, else exact mode's of the same kernel."""
    rows = _calls(tidy)
    traced = rows[rows["instrument"] == "ftrace"]
    watched = set(traced.loc[traced["target"] == "guest", "kernel"])
    counted = (rows["target"] == EXACT_TARGET) & ~rows["kernel"].isin(watched)
    return pd.concat([traced, rows[counted]])


def function_changes(tidy: pd.DataFrame) -> pd.DataFrame:
    """Functions hit on one guest's kernel and not on the next one that ran, for each transport.

    Columns: transport, older, newer, appeared, vanished; under the first conditions.
    """
    rows = called(tidy[tidy["target"].isin(["guest", EXACT_TARGET])])
    rows = rows[rows["value"] >= round_trips(rows)]
    changes = []
    for conditions in all_conditions(rows)[:1]:
        rows = in_conditions(rows, conditions)
        for transport in sorted(set(rows["transport"]), key=transport_order):
            hit = rows[rows["transport"] == transport].groupby("kernel")["key"].agg(set)
            for older, newer in pairwise(sorted(hit.index, key=version)):
                came = sorted(hit[newer] - hit[older]), sorted(hit[older] - hit[newer])
                changes.append((transport, older, newer, *came))
    return pd.DataFrame(changes, columns=["transport", "older", "newer", "appeared", "vanished"])


def _calls(tidy: pd.DataFrame) -> pd.DataFrame:
    return tidy[tidy["valid"] & (tidy["quantity"] == "function_calls")]


def _table(rows: pd.DataFrame, top: int | None, key: KernelKey) -> FunctionTable:
    names = sorted(set(rows["transport"]), key=transport_order)
    calls = rows.pivot_table("per_message", "key", "transport", aggfunc="median", fill_value=0.0)
    calls = calls[names]
    hit = rows[rows["hit"]]
    on = {name: set(hit[hit["transport"] == name]["key"]) for name in names}
    most = calls.assign(most=calls.max(axis=1)).reset_index()
    most = most.sort_values(["most", "key"], ascending=[False, True])[:top]
    by_calls = most[["key", *names]].itertuples(index=False)
    only = {
        name: tuple(sorted(on[name].difference(*(on[other] for other in names if other != name))))
        for name in names
    }
    shared = len(set.intersection(*on.values())) if len(names) > 1 else 0
    top_rows = tuple((name, tuple(values)) for name, *values in by_calls)
    return FunctionTable(*key, transports=tuple(names), top=top_rows, shared=shared, only=only)


def crosscheck(tidy: pd.DataFrame) -> pd.DataFrame:
    """Join probes in a guest with exact counts of the same kernel, by cell and function.

    Columns: CELL, function, layer; bpftrace, ftrace, exact (calls a message, NaN where an
    instrument did not see the function), traced (round trips that ftrace saw), verdict.
    """
    rows = _calls(tidy)
    rows = rows.assign(calls=rows["value"] / rows["messages"]).rename(columns={"key": "function"})
    by = [*CELL, "function"]
    exact = rows[rows["target"] == EXACT_TARGET].groupby(by)["calls"].mean().rename("exact")
    probed = rows[(rows["target"] == "guest") & rows["instrument"].isin(PROBES)]
    seen = probed.groupby([*by, "instrument"]).agg(
        calls=("calls", "median"), messages=("messages", "min")
    )
    columns = [
        seen[kind].unstack("instrument").reindex(columns=PROBES).add_prefix(prefix)
        for kind, prefix in (("calls", ""), ("messages", "of "))
    ]
    joined = pd.concat([exact, *columns], axis=1).reset_index()
    in_both = joined.groupby(CELL)[["exact", *PROBES]].transform("count")
    joined = joined[(in_both["exact"] > 0) & (in_both[PROBES].sum(axis=1) > 0)]
    traced = joined.groupby(CELL)["of ftrace"].transform("min").fillna(0) // 2
    joined = joined.assign(
        layer=[own_layer(name) or UNCLASSIFIED for name in joined["function"]],
        traced=traced.astype(int),
        verdict=[_verdict(row) for row in joined.to_dict("records")],
    )
    joined = joined.sort_values("function")
    joined = joined.sort_values("transport", key=lambda s: s.map(transport_order), kind="stable")
    return joined.sort_values(
        "kernel", key=lambda s: s.map(version), ascending=False, kind="stable"
    )


def _verdict(row: dict[Any, Any]) -> str:
    exact = row["exact"]
    probed = [(row[name], row[f"of {name}"]) for name in PROBES if not pd.isna(row[name])]
    if pd.isna(exact):
        return OUTSIDE if any(calls for calls, _ in probed) else EQUAL
    if not probed:
        return UNSEEN
    within = max(WITHIN_SHARE * exact, WITHIN_PER_MESSAGE)
    if all(abs(calls - exact) <= max(within, EDGES / messages) for calls, messages in probed):
        return EQUAL
    if row["function"] in OLD_ALONE and all(calls <= exact for calls, _ in probed):
        return AGE
    layer = own_layer(row["function"])
    if layer in SCHEDULING:
        return CONDITIONS
    if layer in HELPER_LAYERS:
        return HELPER
    wider = (0 <= (calls - exact) * messages <= CALLS_AROUND for calls, messages in probed)
    return EDGE if all(wider) else OPEN


def hits_text(rows: pd.DataFrame) -> str:
    """Return how many functions a round trip calls, of the first kernel, size and conditions."""
    if rows.empty:
        return ""
    by = ["kernel", "size", "conditions"]
    first = rows[(rows[by] == rows[by].iloc[0]).all(axis=1)]
    kernel, size, conditions = first[by].iloc[0]
    texts = [
        _hits(str(transport), some) for transport, some in first.groupby("transport", sort=False)
    ]
    return (
        f"How many different kernel functions a round trip of {size_text(size)} calls "
        f"({place(conditions)}, default scheduler, exact mode on {kernel}): {'; '.join(texts)}."
        f"{BLIND if first['traced'].any() else ''}"
    )


def _hits(transport: str, rows: pd.DataFrame) -> str:
    """Return how many functions a round trip calls: exact mode's number, and what ftrace sees."""
    exact, ftrace = (set(rows[rows[by] >= A_ROUND_TRIP]["function"]) for by in ("exact", "ftrace"))
    text = f"over {transport_text(transport)} {len(exact)}"
    if not (traced := rows["traced"].iloc[0]):
        return text
    blind = set(rows[rows["ftrace"].isna()]["function"]) & exact
    return (
        f"{text} (over {traced} round trips in a guest ftrace counted {len(ftrace)}: "
        f"{len(ftrace & exact)} of these and {len(ftrace - exact)} others; it cannot see "
        f"{len(blind)} of these)"
    )


@dataclass(frozen=True)
class Profile(KernelWorkload):
    """The samples of one cell, over its valid runs: each stack and how often it was seen.

    Source: `perf record -e cpu-clock -g` of the two processes between the client's first send and
    its last receive (probes/perf/profile.tsv), folded: `process;outermost;…;innermost N`.
    """

    transport: str
    emulated: bool
    stacks: Counter[Path]

    @property
    def samples(self) -> int:
        return self.stacks.total()

    @property
    def spans(self) -> list[Span]:
        return [Span(("", *path), samples) for path, samples in self.stacks.items()]

    @property
    def where(self) -> str:
        size = size_text(self.size)
        return f"{self.kernel_text} · {self.pattern} · {size} · {self.conditions}"

    def folded(self) -> tuple[str, str]:
        """Return a file's name, and its lines, for any flame graph program."""
        cell = f"{self.transport}-{self.pattern}-{self.size}-{self.conditions}"
        lines = [f"{';'.join(path)} {count}\n" for path, count in sorted(self.stacks.items())]
        return f"folded/profile-{self.target}-{self.kernel}-{cell}.folded", "".join(lines)


def profiles(run: Run, invalid: set[tuple[str, int]]) -> tuple[Profile, ...]:
    """Make one for each cell that perf record watched; `invalid` is (target's folder, cell)."""
    made: dict[tuple[object, ...], Profile] = {}
    for target in run.targets:
        for cell in target.cells:
            if "profile" not in cell.scripts or (target.folder, cell.id) in invalid:
                continue
            what = (cell.pattern, cell.size, str(cell.conditions))
            key = (*what, target.kind, target.kernel, cell.transport)
            for path in sorted(target.path.glob(f"perf/*/profile-{cell.id}.folded")):
                stacks = read_folded(read_text(path))
                profile = Profile(*key, target.accelerator == "tcg", Counter())
                made.setdefault((target.folder, *key), profile).stacks.update(stacks)
    return tuple(sorted((profile for profile in made.values() if profile.samples), key=_order))


def read_folded(text: str) -> Counter[Path]:
    """Stacks without the process; all of user space is one frame."""
    stacks: Counter[Path] = Counter()
    for match in filter(None, map(STACK.fullmatch, text.splitlines())):
        names = match[2].split(";")
        inside = next((at for at, name in enumerate(names) if ENTRY.match(name)), len(names))
        stacks[(USER, *names[inside:])] += int(match[3])
    return stacks


def _order(p: Profile) -> tuple[object, ...]:
    conditions = (p.pattern, p.size, conditions_order(p.conditions))
    return p.target != "host", p.kernel, *conditions, transport_order(p.transport)


@dataclass(frozen=True)
class PathPart:
    """A part of the way from send to receive: how often it was seen, and how long it took."""

    name: str
    count: int
    mean_ns: float
    slots: tuple[tuple[int, int], ...]  # (from so many ns, up to twice that; how many)


class PathLatency(NamedTuple):
    """The parts of one cell's messages; `not_woken`: whose reader was awake when they came."""

    where: str
    transport: str
    messages: int
    parts: tuple[PathPart, ...]
    not_woken: int


class Way(NamedTuple):
    """One stack out of which a process was woken, from the outermost function in."""

    functions: Path
    elsewhere: bool
    per_round_trip: float


class Wakeups(NamedTuple):
    """The ways of one cell's wake-ups, the most travelled first."""

    where: str
    transport: str
    ways: tuple[Way, ...]
    others: int


def latencies(tidy: pd.DataFrame) -> tuple[PathLatency, ...]:
    """One for each cell that latency.py watched, by valid runs; times of a guest are in none."""
    rows = tidy[tidy["valid"] & tidy["quantity"].isin(("path_count", "path_ns", "path_latency"))]
    rows = rows[rows["cell"].isin(rows[rows["quantity"] == "path_ns"]["cell"])]
    made = []
    for words, transport, group in _cells(rows):
        if (group["quantity"] == "path_ns").any():
            sums: dict[Any, float] = group.groupby(["quantity", "key"])["value"].sum().to_dict()
            messages = int(group.drop_duplicates("cell")["messages"].sum())
            parts = tuple(_part(name, sums) for name in PARTS)
            awake = int(sums.get(("path_count", NOT_WOKEN), 0))
            made.append(PathLatency(words, transport, messages, parts, awake))
    return tuple(made)


def _part(name: str, sums: dict[Any, float]) -> PathPart:
    count = int(sums.get(("path_count", name), 0))
    total = float(sums.get(("path_ns", name), 0))
    slots = sorted(
        (int(key.rpartition(" ")[2]), int(value))
        for (quantity, key), value in sums.items()
        if quantity == "path_latency" and key.startswith(f"{name} ")
    )
    return PathPart(name, count, total / count if count else 0.0, tuple(slots))


def wakeups(tidy: pd.DataFrame) -> tuple[Wakeups, ...]:
    """Make one for each cell that stacks.py watched, by valid runs."""
    made = []
    for words, transport, group in _cells(
        tidy[tidy["valid"] & (tidy["quantity"] == "wakeup_stacks")]
    ):
        round_trips = group.drop_duplicates("cell")["messages"].sum() / 2
        by_way = group.groupby("key")["value"].sum().sort_values(ascending=False)
        ways = tuple(
            Way(
                tuple(str(key).removesuffix(ELSEWHERE).split(";")),
                str(key).endswith(ELSEWHERE),
                float(count) / round_trips,
            )
            for key, count in by_way.head(SHOWN_WAYS).items()
        )
        made.append(Wakeups(words, transport, ways, max(0, len(by_way) - SHOWN_WAYS)))
    return tuple(made)


def _cells(rows: pd.DataFrame) -> Iterable[tuple[str, str, pd.DataFrame]]:
    """Kernel and conditions in words, transport, and the cell's rows, in reading order."""
    cells = groups(rows, *WORKLOAD, "target", "kernel", "transport")
    named = [(KernelWorkload(*key[:-1]).where, key[-1], group) for key, group in cells]
    return sorted(named, key=lambda cell: (cell[0], transport_order(cell[1])))
