# SPDX-License-Identifier: GPL-2.0-or-later
"""counts - what does a message cost, counted a second time without bpftrace?

USAGE: sudo python3 probes/bcc/counts.py WORKLOAD   (then run WORKLOAD elsewhere; Ctrl-C ends)
       sudo python3 probes/bcc/counts.py -p PID,PID

HOOKS  lines of probes/counters.tsv that bcc counts: function entries, calls and tracepoints, for
       each counter the best that this kernel has. A counter without a hook is missing, never 0.
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
import re
import sys
from collections.abc import Container, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from probes.bcc import frame
from probes.counters import Counter, attach_points, read_counters
from probes.isa import HOST
from probes.reasons import Reason, ReasonError, missing, reason

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
Name = tuple[str, str]
PointsByHook = dict[str, list[str] | ReasonError]  # hook → its attach points here, or what it lacks
# Words of counters.tsv in C; numbers are as wide as their type.
C = (
    (r"\buint32\b", "u32"),
    (r"\bint32\b", "s32"),
    (r"\bretval\b", "PT_REGS_RC(ctx)"),
    # At a call: what is passed.
    *((rf'\breg\("{name}"\)', f"PT_REGS_PARM{n}(ctx)") for n, name in enumerate(HOST.arguments, 1)),
    (r"\blo\b", "is_lo(args, args->data_loc_name)"),
)


@dataclass(frozen=True)
class CounterPlan:
    """What this kernel can count, and why the rest is missing."""

    chosen: tuple[Counter, ...]
    points: PointsByHook
    missing: dict[Name, list[Reason]]

    @property
    def names(self) -> list[Name]:
        return list(dict.fromkeys(counter.name for counter in self.chosen))

    @property
    def hooks(self) -> list[str]:
        return list(dict.fromkeys(counter.hook for counter in self.chosen))


def make_plan(counters: Iterable[Counter], points: PointsByHook) -> CounterPlan:
    """Take the first script of each counter that has all its hooks."""
    choices: dict[Name, dict[str, list[Counter]]] = {}
    for counter in counters:
        choices.setdefault(counter.name, {}).setdefault(counter.script, []).append(counter)
    chosen: list[Counter] = []
    lacking: dict[Name, list[Reason]] = {}
    for name, scripts in choices.items():
        lacks: list[Reason] = []
        for group in scripts.values():
            errors = [e for c in group if isinstance(e := points[c.hook], ReasonError)]
            if not errors:
                chosen += group
                break
            lacks += [why for error in errors for why in error.reasons if why not in lacks]
        else:
            lacking[name] = lacks
    return CounterPlan(tuple(chosen), points, lacking)


def program(plan: CounterPlan) -> str:
    """C: one function for each hook."""
    return IS_LO + "".join(_function(plan, number) for number in range(len(plan.hooks)))


def _function(plan: CounterPlan, number: int) -> str:
    hook, names = plan.hooks[number], plan.names
    counters = [counter for counter in plan.chosen if counter.hook == hook]
    head = f"int kprobe_{number}(struct pt_regs *ctx)"
    if ":" in hook:
        head = f"TRACEPOINT_PROBE({', '.join(hook.split(':'))})"
    mine = any(c.task in ("own", "elsewhere") or "own" in c.only for c in counters)
    body = "\tstruct window *own = mine();\n" if mine else ""
    for task in dict.fromkeys(counter.task for counter in counters):
        body += f"\tstruct window *{task}_ = {TASKS[task]};\n\tif ({task}_) {{\n"
        for counter in counters:
            if counter.task == task:
                only = f"if ({in_c(counter.only)}) " if counter.only else ""
                index, amount = names.index(counter.name), in_c(counter.amount)
                body += f"\t\t{only}{task}_->n[{index}] += {amount};\n"
        body += "\t}\n"
    return f"{head}\n{{\n{body}\treturn PASS;\n}}\n"


def in_c(text: str) -> str:
    """A condition or an amount of counters.tsv in BCC's C."""
    for word, replacement in C:
        text = re.sub(word, replacement, text)
    return re.sub(r"\barg(\d)\b", lambda arg: f"PT_REGS_PARM{int(arg[1]) + 1}(ctx)", text)


def attach(bpf: Any, plan: CounterPlan) -> dict[Name, list[Reason]]:
    """Attach the functions' hooks. Counter → why it could not be attached."""
    failed: dict[Name, list[Reason]] = {}
    for number, hook in enumerate(plan.hooks):
        points = plan.points[hook]
        if ":" in hook or isinstance(points, ReasonError):
            continue  # events are attached when the program is loaded
        try:
            for point in points:
                function, _, offset = point.partition("+")
                name = function.removesuffix("@return")
                step = bpf.attach_kprobe if name == function else bpf.attach_kretprobe
                place = {"event_off": int(offset)} if offset else {}
                step(event=name, fn_name=f"kprobe_{number}", **place)
        except Exception as error:  # BCC raises a bare Exception
            why = reason("hook-refused", hook=hook, error=error)
            failed |= {counter.name: [why] for counter in plan.chosen if counter.hook == hook}
    return failed


def maps(bpf: Any, plan: CounterPlan, failed: Container[Name]) -> frame.Maps:
    """`@quantity` → `cell,key` → count."""
    totals: frame.Maps = {}
    for cell, counts in frame.windows(bpf):
        for (quantity, key), count in zip(plan.names, counts, strict=False):
            if (quantity, key) not in failed:
                frame.add(totals, quantity, cell, key, count)
    return totals


def run(given: argparse.Namespace) -> None:
    counters, points = read_counters("bcc"), PointsByHook()
    for counter in counters:
        try:
            points[counter.hook] = attach_points(counter.hook)
        except ReasonError as error:
            points[counter.hook] = error
    plan = make_plan(counters, points)
    bpf = frame.load(given, program(plan), len(plan.names))
    failed = attach(bpf, plan)
    for (quantity, key), reasons in (plan.missing | failed).items():
        for why in reasons:
            if given.json or given.windows:
                print(frame.MISSING_PREFIX + json.dumps(missing([quantity], why)))
            else:
                print(f"{frame.MISSING_PREFIX}{quantity} {key}".rstrip() + f": {why}")
    frame.serve(given, bpf, lambda: maps(bpf, plan, failed), frame.show_counts)


if __name__ == "__main__":
    sys.exit(frame.main(__doc__, run))
