# SPDX-License-Identifier: GPL-2.0-or-later
"""What can be measured: the quantities of the tidy table, and the measures made of them.

A quantity is what an instrument counted over a window. A measure is what a reader asks for: a
quantity for each message, each round trip or each payload byte. The ledger's rows and the claims'
`quantity` are measures. Add one to measures.tsv and both know it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pandas as pd

from probes.files import read_rows

TABLE = Path(__file__).with_name("measures.tsv")
EMPTY = '""'  # the key that is empty, as the table writes it
FLAGS = ("headline", "scheduler", "unprobed", "again")

# A key with this ending was counted outside the workload's processes.
ELSEWHERE = " elsewhere"
# Patterns in which a round trip is two messages.
ROUND_TRIP_PATTERNS = ("pingpong", "pipeline", "connect", "selfecho", "clients", "paced")
# Pattern → the article's program that makes it; the workload does not.
PROGRAMS = {
    **{f"redis-{variant}": "redis" for variant in ("new", "keep")},
    **{f"asyncio-{pattern}": "asyncio" for pattern in ("pingpong", "stream")},
    **{f"dotnet-{variant}": "dotnet" for variant in ("written", "corrected")},
    **{f"uvloop-{pattern}": "asyncio" for pattern in ("pingpong", "stream")},
    **{f"gin-{connections}{log}": "gin" for connections in ("keep", "new") for log in ("", "-log")},
    "gin-fastcgi": "gin",
    **{f"{language}-echo": language for language in ("go", "java")},
}
OF_A_FILE = "/"  # between a program's name and its case, where a file describes the program


def program_of(pattern: str) -> str:
    """The program that makes a pattern; empty where the workload does."""
    name, case = pattern.partition(OF_A_FILE)[::2]
    return name if case else PROGRAMS.get(pattern, "")


def of_programs(table: pd.DataFrame) -> "pd.Series[bool]":
    """Which rows are of programs, and not of the workload."""
    return table["pattern"].map(program_of).astype(bool)


# The fields of KernelWorkload, in their order.
KernelKey = tuple[str, int, str, str, str]


@dataclass(frozen=True)
class Workload:
    """What the cells of one table have in common; `conditions` is `str` of `Conditions`."""

    pattern: str
    size: int
    conditions: str


@dataclass(frozen=True)
class KernelWorkload(Workload):
    """One workload on one kernel."""

    target: str
    kernel: str

    @property
    def kernel_text(self) -> str:
        return f"{self.target} {self.kernel}"

    @property
    def where(self) -> str:
        """`guest 6.12 · pingpong · 64 B · cross-cpu`."""
        return f"{self.kernel_text} · {self.pattern} · {self.size} B · {self.conditions}"


# What one sample of a pattern is, where it is not a round trip.
SAMPLED = {"selfloop": "message_ns", "stream": "send_ns", "paced": "due_ns"}
# The kernel counts these for the whole machine, so a probe's `elsewhere` belongs to the comparison.
MACHINE_WIDE = frozenset({"segments", "lo_packets", "lo_bytes", "softirqs"})
# What a CPU counts by itself: no event that anybody is told of.
HARDWARE = frozenset({"cycles", "instructions", "cache_misses", "tlb_misses"})
# Times: never a guest's, and in a measure never a probed cell's.
TIMES = frozenset(
    {
        *("rtt_ns", "messages_per_s", "requests_per_s", "server_ns", "address_share"),
        *("switches_per_s", "machine_switches_per_s", "cpu_ns", "task_clock_ns"),
        *("path_ns", "path_latency", *SAMPLED.values(), "steal_ns", "others_ns"),
    }
)

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
    unprobed: bool = False  # the kernel or a program counts it: no probe is needed
    instruments: tuple[str, ...] = ()  # only these instruments' figures, best first; () for all
    # What is counted of the functions that every round trip calls: their number, or their calls.
    hit: Literal["", "number", "calls"] = ""
    again: bool = False  # another row's figure for each message, for the figure that compares all
    over: str = ""  # for each of this quantity, which the same instrument counted in the same run


def _measure(row: dict[str, Any]) -> Measure:
    flags = set(row["flags"].split())
    if strange := flags - {*FLAGS, "unlisted"}:
        raise ValueError(f"{TABLE.name}: {row['measure']} has the flag {strange.pop()}")
    columns = ("words", "quantity", "per", "unit", "hit", "over")
    named: dict[str, Any] = {name: row[name] for name in columns}
    named |= {flag: flag in flags for flag in FLAGS}
    return Measure(
        id=row["measure"],
        keys=tuple("" if key == EMPTY else key for key in row["keys"].split(",") if key),
        ledger="unlisted" not in flags,
        instruments=tuple(filter(None, row["instrument"].split(","))),
        **named,
    )


MEASURES = tuple(map(_measure, read_rows(TABLE)))
MEASURE_BY_ID = {measure.id: measure for measure in MEASURES}
