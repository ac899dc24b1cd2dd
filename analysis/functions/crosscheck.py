# SPDX-License-Identifier: GPL-2.0-or-later
"""Calls of each kernel function: what probes counted beside what exact mode counted.

The probes ran in a guest of the same kernel, with another CPU model, its own scheduling conditions
and a window with ticks in it; exact mode tells the steady round trip. Where they differ, the
function's layer says whether that is what differs between the two machines; what it does not say is
marked.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from analysis.counts.agreement import WITHIN_PER_MESSAGE, WITHIN_SHARE
from analysis.counts.ledger import transport_order, version
from analysis.counts.measures import groups
from analysis.functions.layers import CALLER, UNCLASSIFIED, own_layer
from analysis.functions.table import EXACT_TARGET
from analysis.wording import place, size_text, transport_text

PROBES = ("bpftrace", "ftrace")
# What the workload itself asks of the kernel round its window (clock, rusage, TCP_INFO), and what
# comes with it, happens before the tracer is switched off.
CALLS_AROUND = 12.0
A_ROUND_TRIP = 0.5  # calls a message, of a function that each round trip calls
# A tracer opens and closes its window for both processes at once: either can be inside a call.
EDGES = 2.0
CELL = ["kernel", "transport", "pattern", "size", "conditions"]
SCHEDULING = {"sched", "idle"}
HELPERS = {"lock", "rcu", "time", "interrupt", "softirq", "memory", CALLER}

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
BLIND = " ftrace cannot see functions of lib/, entry code and all that is marked notrace."
UNSEEN = "no probe watched it"
OUTSIDE = "outside the steady round trip: ticks, edges of the window"


class FunctionRow(NamedTuple):
    """One function's calls a message; None where an instrument did not see it."""

    function: str
    layer: str
    bpftrace: float | None
    ftrace: float | None
    exact: float | None
    verdict: str


@dataclass(frozen=True)
class Crosscheck:
    """One transport on one kernel."""

    kernel: str
    transport: str
    size: int
    conditions: str
    rows: tuple[FunctionRow, ...]
    traced: int  # round trips that ftrace saw; 0 without it

    def of(self, *verdicts: str) -> tuple[FunctionRow, ...]:
        """The rows with one of these verdicts."""
        return tuple(row for row in self.rows if row.verdict in verdicts)

    @property
    def both(self) -> tuple[FunctionRow, ...]:
        """What both sides saw."""
        return self.of(EQUAL, *DIFFERENT)

    @property
    def hits_text(self) -> str:
        """How many functions a round trip calls: exact mode's number, and what ftrace sees."""
        exact, ftrace = (
            {row.function for row in self.rows if (getattr(row, by) or 0) >= A_ROUND_TRIP}
            for by in ("exact", "ftrace")
        )
        text = f"over {transport_text(self.transport)} {len(exact)}"
        if not self.traced:
            return text
        blind = {row.function for row in self.rows if row.ftrace is None} & exact
        return (
            f"{text} (over {self.traced} round trips in a guest ftrace counted {len(ftrace)}: "
            f"{len(ftrace & exact)} of these and {len(ftrace - exact)} others; it cannot see "
            f"{len(blind)} of these)"
        )


def hits_text(found: Sequence[Crosscheck]) -> str:
    """How many functions a round trip calls, of the first kernel, size and conditions."""
    if not found:
        return ""
    kernel, size, conditions = found[0].kernel, found[0].size, found[0].conditions
    texts = [
        check.hits_text
        for check in found
        if (check.kernel, check.size, check.conditions) == (kernel, size, conditions)
    ]
    return (
        f"How many different kernel functions a round trip of {size_text(size)} calls "
        f"({place(conditions)}, default scheduler, exact mode on {kernel}): {'; '.join(texts)}."
        f"{BLIND if any(check.traced for check in found) else ''}"
    )


def crosschecks(tidy: pd.DataFrame) -> tuple[Crosscheck, ...]:
    """For each cell that has both: probes in a guest and exact counts of the same kernel."""
    rows = tidy[tidy["valid"] & (tidy["quantity"] == "function_calls")]
    rows = rows.assign(per_message=rows["value"] / rows["messages"])
    exact = rows[rows["target"] == EXACT_TARGET]
    probed = rows[(rows["target"] == "guest") & rows["instrument"].isin(PROBES)]
    found = []
    for cell, counted in groups(exact, *CELL):
        same = (probed[CELL] == list(cell)).all(axis=1)
        if same.any():
            kernel, transport, _, size, conditions = cell
            rows_of_both = tuple(_rows(counted, probed[same]))
            ftrace = probed[same & (probed["instrument"] == "ftrace")]["messages"]
            traced = 0 if ftrace.empty else int(ftrace.min()) // 2
            found.append(Crosscheck(kernel, transport, size, conditions, rows_of_both, traced))
    found.sort(key=lambda check: transport_order(check.transport))
    found.sort(key=lambda check: version(check.kernel), reverse=True)
    return tuple(found)


def _rows(exact: pd.DataFrame, probed: pd.DataFrame) -> Iterator[FunctionRow]:
    counted = exact.groupby("key")["per_message"].mean()
    seen = {name: group.groupby("key") for name, group in probed.groupby("instrument")}
    calls = {name: group["per_message"].median() for name, group in seen.items()}
    messages = {name: group["messages"].min() for name, group in seen.items()}
    names = sorted({*exact["key"], *probed["key"]})
    for function in names:
        there = {name: float(of[function]) for name, of in calls.items() if function in of.index}
        value = float(counted[function]) if function in counted.index else None
        measured = [_Probed(there[name], float(messages[name][function])) for name in there]
        yield FunctionRow(
            function,
            own_layer(function) or UNCLASSIFIED,
            there.get("bpftrace"),
            there.get("ftrace"),
            value,
            _verdict(function, value, measured),
        )


class _Probed(NamedTuple):
    calls: float
    messages: float

    def equals(self, exact: float) -> bool:
        edges = EDGES / self.messages
        within: float = max(WITHIN_SHARE * exact, WITHIN_PER_MESSAGE, edges)
        return abs(self.calls - exact) <= within


def _verdict(function: str, exact: float | None, probed: list[_Probed]) -> str:
    if exact is None:
        return OUTSIDE if any(found.calls for found in probed) else EQUAL
    if not probed:
        return UNSEEN
    if all(found.equals(exact) for found in probed):
        return EQUAL
    if function in OLD_ALONE and all(found.calls <= exact for found in probed):
        return AGE
    layer = own_layer(function)
    if layer in SCHEDULING:
        return CONDITIONS
    if layer in HELPERS:
        return HELPER
    wider = (0 <= (found.calls - exact) * found.messages <= CALLS_AROUND for found in probed)
    return EDGE if all(wider) else OPEN
