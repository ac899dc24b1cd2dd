# SPDX-License-Identifier: GPL-2.0-or-later
"""counts - what does a message cost, counted a second time without bpftrace?

USAGE: sudo python3 probes/bcc/counts.py WORKLOAD   (then run WORKLOAD elsewhere; Ctrl-C ends)
       sudo python3 probes/bcc/counts.py -p PID,PID [--follow] --seconds 5

HOOKS  probes/bcc/counts.tsv: function entries, calls and tracepoints, for each counter the best
       that this kernel has. The tool lists a counter without a hook as missing, never as 0.
OUTPUT @quantity[cell, key], by the names of docs/run-folder.md; -p has cell 0.

         @lo_packets[2]: 46
         @messages[2, sent]: 46
         @skb_clones[2]: 46
         @switches[2, voluntary]: 46

READ   Compiler, loader and maps are others than bpftrace's: where the two agree, neither lost an
       event. All counters of an event are added in one program, after one look-up.
CAVEAT In the two processes' contexts, but for keys that end in "elsewhere" and for packets.
"""

import argparse
import json
import sys
from collections.abc import Container, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from probes import callsite
from probes.bcc import frame
from probes.reasons import Reason, ReasonError, missing, reason
from probes.tables import read_rows

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
class CounterHook:
    """A row of counts.tsv: one hook of a counter, and what it adds."""

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
class CounterPlan:
    """What this kernel can count: counters, their rows, and why others are missing."""

    counters: tuple[Counter, ...]
    rows: tuple[CounterHook, ...]
    missing: dict[Counter, list[Reason]]

    @property
    def hooks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.hook for row in self.rows))


def read_table() -> list[CounterHook]:
    return [CounterHook(**row) for row in read_rows(TABLE)]


def make_plan(table: Iterable[CounterHook], lack: dict[str, Reason]) -> CounterPlan:
    """Take the first choice of each counter that has all its hooks.

    `lack`: hook → why this kernel does not have it.
    """
    choices: dict[Counter, dict[str, list[CounterHook]]] = {}
    for row in table:
        choices.setdefault(row.counter, {}).setdefault(row.choice, []).append(row)
    rows: list[CounterHook] = []
    lacking: dict[Counter, list[Reason]] = {}
    for counter, of in choices.items():
        whole = [group for group in of.values() if not any(row.hook in lack for row in group)]
        if whole:
            rows += whole[0]
        else:
            absent = [row.hook for group in of.values() for row in group if row.hook in lack]
            lacking[counter] = list({str(lack[hook]): lack[hook] for hook in absent}.values())
    return CounterPlan(tuple(dict.fromkeys(row.counter for row in rows)), tuple(rows), lacking)


def places(hook: str) -> list[tuple[str, int]]:
    """(function, offset) of each attach point of a function's hook. Raises CallSiteError."""
    if ">" not in hook:
        return [(hook.removesuffix("@return"), 0)]
    caller, offsets = callsite.all_call_offsets(hook)
    return [(caller, offset) for offset in offsets]


def lacks(hooks: Iterable[str]) -> dict[str, Reason]:
    """Hook → why this kernel does not have it."""
    found: dict[str, Reason] = {}
    symbols = callsite.read_symbols() if KPROBES.exists() else {}
    for hook in hooks:
        try:
            _check(hook, symbols)
        except ReasonError as error:
            found[hook] = error.reasons[0]
    return found


def _check(hook: str, symbols: Container[str]) -> None:
    """Raises ReasonError where this kernel does not have the hook."""
    if ":" in hook:
        if not frame.has_event(hook):
            raise ReasonError(reason("no-tracepoint", event=hook))
        return
    if not KPROBES.exists():
        raise ReasonError(reason("no-kprobes"))
    for function, _ in places(hook):
        if function not in symbols:
            raise ReasonError(reason("no-function", function=function))


def program(plan: CounterPlan) -> str:
    """C: one function for each hook."""
    return IS_LO + "".join(_function(plan, number) for number in range(len(plan.hooks)))


def _function(plan: CounterPlan, number: int) -> str:
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


def attach(bpf: Any, plan: CounterPlan) -> dict[Counter, list[Reason]]:
    """Attach the functions' hooks. Counter → why it could not be attached."""
    failed: dict[Counter, list[Reason]] = {}
    for number, hook in enumerate(plan.hooks):
        if ":" in hook:
            continue  # attached when it was loaded
        step = bpf.attach_kretprobe if hook.endswith("@return") else bpf.attach_kprobe
        try:
            for function, offset in places(hook):
                where = {"event_off": offset} if offset else {}
                step(event=function, fn_name=f"kprobe_{number}", **where)
        except Exception as error:  # BCC raises a bare Exception
            why = reason("hook-refused", hook=hook, error=error)
            failed |= {row.counter: [why] for row in plan.rows if row.hook == hook}
    return failed


def maps(bpf: Any, plan: CounterPlan, failed: Container[Counter]) -> frame.Maps:
    """`@quantity` → `cell,key` → count."""
    found: frame.Maps = {}
    for cell, counts in frame.windows(bpf):
        for (quantity, key), count in zip(plan.counters, counts, strict=False):
            if (quantity, key) not in failed:
                frame.add(found, quantity, cell, key, count)
    return found


def run(given: argparse.Namespace) -> None:
    table = read_table()
    plan = make_plan(table, lacks(dict.fromkeys(row.hook for row in table)))
    bpf = frame.load(given, program(plan), len(plan.counters))
    failed = attach(bpf, plan)
    for (quantity, key), reasons in (plan.missing | failed).items():
        for why in reasons:
            if given.json or given.windows:
                print(frame.MISSING + json.dumps(missing([quantity], why)))
            else:
                print(f"{frame.MISSING}{quantity} {key}".rstrip() + f": {why}")
    frame.serve(given, bpf, lambda: maps(bpf, plan, failed), frame.show_counts)


if __name__ == "__main__":
    sys.exit(frame.main(__doc__, run))
