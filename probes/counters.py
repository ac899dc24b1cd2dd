# SPDX-License-Identifier: GPL-2.0-or-later
"""counters.tsv: what bpftrace, bcc and perf count, and where the running kernel has each hook."""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from probes import callsite
from probes.callsite import TRACEFS
from probes.files import read_rows, typed
from probes.isa import HOST, USUAL, Isa
from probes.reasons import Reason, ReasonError, reason
from probes.transports import holding

KPROBES = TRACEFS / "kprobe_events"
# What tables and scripts write as x86-64 has it: a register, a function, a system call's number.
REGISTER = re.compile(r'\breg\("(\w+)"\)')
PROBED_FUNCTION = re.compile(r"(?<=^kprobe:)\w+", re.MULTILINE)
CALL_NUMBER = re.compile(r"(\bargs->id [=!]= )(\d+)\b")


class Counter(NamedTuple):
    """A line of counters.tsv: one hook of a counter, and what it adds."""

    script: str
    hook: str
    task: str
    only: str
    quantity: str
    key: str
    amount: str
    by: tuple[str, ...]
    transports: tuple[str, ...]
    why: str

    @property
    def name(self) -> tuple[str, str]:
        """The counter to which it adds."""
        return self.quantity, self.key

    def covers(self) -> tuple[str, ...]:
        """The transports of a run that it counts; empty: all."""
        names = (name for word in self.transports for name in holding(word))
        return tuple(dict.fromkeys(names))


def native(text: str, isa: Isa = HOST) -> str:
    """What bpftrace is to do, in an architecture's words instead of x86-64's."""
    names = {str(number): name for name, number in USUAL.numbers.items()}
    text = REGISTER.sub(lambda m: f'reg("{isa.arguments[USUAL.arguments.index(m[1])]}")', text)
    text = PROBED_FUNCTION.sub(lambda m: isa.functions.get(m[0], m[0]), text)
    return CALL_NUMBER.sub(lambda m: f"{m[1]}{isa.numbers[names[m[2]]]}", text)


def _native_row(row: dict[str, str]) -> dict[str, str]:
    return row | {name: native(row[name]) for name in ("only", "amount")}


@cache
def read_counters(by: str = "") -> tuple[Counter, ...]:
    """All lines, or those of one instrument."""
    rows = read_rows(Path(__file__).with_name("counters.tsv"))
    counters = (Counter(**typed(Counter, _native_row(row))) for row in rows)
    return tuple(counter for counter in counters if not by or by in counter.by)


def attach_points(hook: str) -> list[str]:
    """The attach points of the first name of a hook that this kernel has: `f+12` is within a
    function. Raises ReasonError with what every name lacks.
    """
    lacks: list[Reason] = []
    for name in hook.split("|"):
        try:
            return _attach_points(name)
        except ReasonError as error:
            lacks += error.reasons
    raise ReasonError(*lacks)


def _attach_points(name: str) -> list[str]:
    for part in name.split("/") if name else ():
        if ":" in part:
            if not callsite.has_event(part):
                raise ReasonError(reason("no-tracepoint", event=part))
            continue
        if not KPROBES.exists():
            raise ReasonError(reason("no-kprobes"))
        if ">" in part:
            caller, offsets = callsite.all_call_offsets(part)
            return [f"{caller}+{offset}" for offset in offsets]
        callsite.address(part.removesuffix("@return"))
    return [name] if name else []
