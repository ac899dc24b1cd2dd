# SPDX-License-Identifier: GPL-2.0-or-later
"""counts - what does a message cost, counted a second time without bpftrace?

USAGE: sudo python3 probes/bcc/counts.py WORKLOAD   (then run WORKLOAD elsewhere; Ctrl-C ends)
       sudo python3 probes/bcc/counts.py -p PID,PID [--follow] --seconds 5

HOOKS  probes/bcc/counts.tsv: function entries, calls and tracepoints, for each counter the best
       that this kernel has. A counter whose hook is absent is said to be missing, and is never 0.
OUTPUT @quantity[cell, key], by the names of docs/run-folder.md; -p has cell 0.

         @lo_packets[2]: 46
         @messages[2, sent]: 46
         @skb_clones[2]: 46
         @switches[2, voluntary]: 46

READ   Compiler, loader and maps are others than bpftrace's: where the two agree, neither lost an
       event. All counters of an event are added in one program, after one look-up.
CAVEAT In the two processes' contexts, but for keys that end in "elsewhere" and for packets.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from probes import callsite
from probes.bcc import frame

TABLE = Path(__file__).with_name("counts.tsv")
KPROBES = frame.TRACEFS / "kprobe_events"
IS_LO = """
/* The event contains the device's name, at the offset in the lower half of `where`. */
static inline int is_lo(void *event, u32 where)
{
	char name[4] = {};
	bpf_probe_read(name, 3, (char *)event + (where & 0xffff));
	return name[0] == 'l' && name[1] == 'o' && !name[2];
}
"""
TASKS = {
    "own": "own",
    "prev": "window_of(args->prev_pid)",
    "wakee": "window_of(args->pid)",
    "anyone": "nobodys()",
    "elsewhere": "own ? 0 : nobodys()",
}
Counter = tuple[str, str]


@dataclass(frozen=True)
class Row:
    """A line of counts.tsv."""

    quantity: str
    key: str
    choice: str
    hook: str
    task: str
    only: str
    amount: str

    @property
    def counter(self) -> Counter:
        return self.quantity, self.key


@dataclass(frozen=True)
class Plan:
    """What this kernel can count: counters, their rows, and why others are missing."""

    counters: tuple[Counter, ...]
    rows: tuple[Row, ...]
    missing: dict[Counter, str]

    @property
    def hooks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.hook for row in self.rows))


def read_table(path: Path = TABLE) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as lines:
        kept = (line for line in lines if not line.startswith("#"))
        return [Row(**row) for row in csv.DictReader(kept, delimiter="\t")]


def make_plan(table: Iterable[Row], lack: dict[str, str]) -> Plan:
    """For each counter its first choice that lacks nothing; `lack` is hook → why it is absent."""
    choices: dict[Counter, dict[str, list[Row]]] = {}
    for row in table:
        choices.setdefault(row.counter, {}).setdefault(row.choice, []).append(row)
    rows: list[Row] = []
    missing: dict[Counter, str] = {}
    for counter, of in choices.items():
        whole = [group for group in of.values() if not any(row.hook in lack for row in group)]
        if whole:
            rows += whole[0]
        else:
            absent = [row.hook for group in of.values() for row in group if row.hook in lack]
            missing[counter] = "; ".join(dict.fromkeys(lack[hook] for hook in absent))
    return Plan(tuple(dict.fromkeys(row.counter for row in rows)), tuple(rows), missing)


def places(hook: str) -> list[tuple[str, int]]:
    """(function, offset) of each attach point of a function's hook. Raises CallSiteError."""
    caller, _, called = hook.partition(">")
    if not called:
        return [(hook.removesuffix("@return"), 0)]
    callee, _, number = called.partition("*")
    offsets = callsite.call_offsets(caller, callee)
    if len(offsets) != int(number):
        raise callsite.CallSiteError(
            f"{caller} calls {callee} at {len(offsets)} places, not {number}."
        )
    return [(caller, offset) for offset in offsets]


def lacks(hooks: Iterable[str]) -> dict[str, str]:
    """Hook → why this kernel does not have it."""
    found: dict[str, str] = {}
    symbols = callsite.read_symbols() if KPROBES.exists() else {}
    for hook in hooks:
        if ":" in hook:
            if not frame.has_event(hook):
                found[hook] = f"this kernel has no tracepoint {hook}"
        elif not KPROBES.exists():
            found[hook] = "this kernel has no kprobes"
        else:
            try:
                gone = [name for name, _ in places(hook) if name not in symbols]
            except callsite.CallSiteError as error:
                found[hook] = str(error).rstrip(".")
            else:
                if gone:
                    found[hook] = f"this kernel has no function {gone[0]}"
    return found


def program(plan: Plan) -> str:
    """C: one function for each hook."""
    return IS_LO + "".join(_function(plan, number) for number in range(len(plan.hooks)))


def _function(plan: Plan, number: int) -> str:
    hook = plan.hooks[number]
    rows = [row for row in plan.rows if row.hook == hook]
    head = f"int kprobe_{number}(struct pt_regs *ctx)"
    if ":" in hook:
        head = f"TRACEPOINT_PROBE({', '.join(hook.split(':'))})"
    mine = any(row.task in ("own", "elsewhere") or "own" in row.only for row in rows)
    body = "\tstruct window *own = mine();\n" if mine else ""
    for task in dict.fromkeys(row.task for row in rows):
        body += f"\tstruct window *{task}_ = {TASKS[task]};\n\tif ({task}_) {{\n"
        for row in rows:
            if row.task == task:
                only = f"if ({row.only}) " if row.only else ""
                index = plan.counters.index(row.counter)
                body += f"\t\t{only}{task}_->n[{index}] += {row.amount};\n"
        body += "\t}\n"
    return f"{head}\n{{\n{body}\treturn PASS;\n}}\n"


def attach(bpf: Any, plan: Plan) -> dict[Counter, str]:
    """Attach the functions' hooks; counters that could not be, and why."""
    failed: dict[Counter, str] = {}
    for number, hook in enumerate(plan.hooks):
        if ":" in hook:
            continue  # attached when it was loaded
        step = bpf.attach_kretprobe if hook.endswith("@return") else bpf.attach_kprobe
        try:
            for function, offset in places(hook):
                where = {"event_off": offset} if offset else {}
                step(event=function, fn_name=f"kprobe_{number}", **where)
        except Exception as error:  # BCC raises a bare Exception
            why = f"no probe can be attached to {hook} ({error})"
            failed |= {row.counter: why for row in plan.rows if row.hook == hook}
    return failed


def maps(bpf: Any, plan: Plan, failed: dict[Counter, str]) -> frame.Maps:
    """`@quantity` → `cell,key` → count."""
    found: frame.Maps = {}
    for cell, counts in frame.windows(bpf):
        for (quantity, key), count in zip(plan.counters, counts, strict=False):
            if (quantity, key) not in failed:
                entries = found.setdefault(f"@{quantity}", {})
                name = f"{cell},{key}" if key else str(cell)
                entries[name] = entries.get(name, 0) + count
    return found


def run(given: argparse.Namespace) -> None:
    table = read_table()
    plan = make_plan(table, lacks(dict.fromkeys(row.hook for row in table)))
    frame.hold_signals()
    bpf = frame.load(given, program(plan), len(plan.counters))
    failed = attach(bpf, plan)
    for (quantity, key), why in (plan.missing | failed).items():
        print(f"missing {quantity} {key}".rstrip() + f": {why}")
    frame.serve(given, bpf, lambda: maps(bpf, plan, failed), frame.show_counts)


if __name__ == "__main__":
    sys.exit(frame.main(__doc__, run))
