# SPDX-License-Identifier: GPL-2.0-or-later
"""Make docs/hooks.md of the tables in probes/, so that it cannot drift.

hooks.tsv has bpftrace's scripts and the kernel's own counters; bcc/counts.tsv and perf/stat.tsv the
other two instruments; scripts.tsv what a run attaches.

python3 -m probes.hooks > docs/hooks.md
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from probes.tables import read_rows

PROBES = Path(__file__).parent
KERNELS = ("5.10", "6.1", "6.12", "7.2")
RUNGS = ("function", "tracepoint", "counters")
HEAD = """\
# Hooks

Made by `python3 -m probes.hooks > docs/hooks.md` out of `probes/hooks.tsv`,
`probes/bcc/counts.tsv`, `probes/perf/stat.tsv` and `probes/scripts.tsv`; change those instead.

Which hook gives each quantity on each kernel, strongest rung first. **function**: a kprobe, for
which the kernel must allow probes of its functions; **tracepoint**: an event that the kernel names
itself; **counters**: what it counts anyway. Where a hook does not exist the quantity is missing
from the report, with the reason, and never 0. `+$2` is the place of a call in a function, computed
on the running kernel. Tests attach every one of them on every
kernel of this table.

| quantity | rung | hook | by |{kernels} why |
| --- | --- | --- | --- |{rule} --- |
"""


BCC = """
## A second time: bcc

`probes/bcc/counts.py` counts these in the same windows, by a compiler, loader and maps of its own.
Of several choices the first is taken whose hooks the kernel has; where none is whole the counter
is missing. Whose: *own*, of the running task, if it is one of the two processes; *elsewhere*, of
whoever is not; *anyone*; *prev* and *wakee*, of the task that the event names.
`probes/bcc/stacks.py` (`wakeup_causes`, `wakeup_stacks`) and `probes/bcc/latency.py` (`path_count`,
`path_ns`, `path_latency`) need `sched:sched_waking`, `sched:sched_switch` and
`raw_syscalls:sys_enter`, `sys_exit` only, which every kernel has. So does `probes/bcc/syscount.py`,
`syscalls` by name, which like `counts.py` and `stacks.py` watches the articles' own programs
(`--apps`). There, and with `-p PID,… --follow`, whose is a matter of processes: all their threads,
and what these start (`sched:sched_process_fork`, `sched:sched_process_exit`).

| quantity | choice | hook | whose | only | adds |
| --- | --- | --- | --- | --- | --- |
"""
PERF = """
## A third time: perf

`perf stat` counts these in the two processes' contexts, between the client's first send and its
last receive. `perf record` counts system calls by name, from the events of `perf trace`, and takes
stacks by a clock (`probes/perf/trace.tsv`, `profile.tsv`). Hardware events are missing where
no PMU is.

| quantity | event | filter |
| --- | --- | --- |
"""
SCRIPTS = """
## What a run attaches

Without `--instruments` a script is attached on the lanes named here, `host` being this kernel and
`vm` a guest: in an emulated CPU attaching takes tens of seconds. Scripts of one window count in the
same cell runs, so that their figures can be compared.

| script | by | rung | in every run on | window | quantities |
| --- | --- | --- | --- | --- | --- |
"""


@dataclass(frozen=True)
class Hook:
    """A row of probes/hooks.tsv."""

    quantities: tuple[str, ...]
    script: str
    rung: str
    hooks: tuple[str, ...]
    kernels: tuple[str, ...]
    why: str


def read_hooks(path: Path = PROBES / "hooks.tsv") -> list[Hook]:
    """The rows in their order."""
    return [
        Hook(
            tuple(row["quantities"].split()),
            row["script"],
            row["rung"],
            tuple(row["hooks"].split()) if row["script"] else (row["hooks"],),
            KERNELS if row["kernels"] == "all" else tuple(row["kernels"].split()),
            row["why"],
        )
        for row in read_rows(path)
    ]


def page() -> str:
    """docs/hooks.md."""
    entries = [(quantity, hook) for hook in read_hooks() for quantity in hook.quantities]
    entries.sort(key=lambda entry: (entry[0], RUNGS.index(entry[1].rung)))
    kernels = "".join(f" {kernel} |" for kernel in KERNELS)
    head = HEAD.format(kernels=kernels, rule=" --- |" * len(KERNELS))
    return head + "".join(_row(quantity, hook) for quantity, hook in entries) + _others()


def _others() -> str:
    """The tables of bcc and perf."""
    bcc = [
        f"| {_named(row)} | {row['choice']} | `{row['hook']}` | {row['task']} "
        f"| {_code(row['only'])} | {_code(row['amount'])} |\n"
        for row in read_rows(PROBES / "bcc/counts.tsv")
    ]
    perf = [
        f"| {_named(row)} | `{row['event']}` | {_code(row['filter'])} |\n"
        for row in read_rows(PROBES / "perf/stat.tsv")
    ]
    return "".join([BCC, *bcc, PERF, *perf, SCRIPTS, *_scripts()])


def _scripts() -> list[str]:
    """One line for each script, even where it has a file for each of several kernels."""
    rows = {row["script"]: row for row in reversed(read_rows(PROBES / "scripts.tsv"))}
    return [
        f"| {name} | {row['instrument']} | {row['rung']} | {', '.join(row['headline'].split())} "
        f"| {row['stretch']} | {', '.join(row['quantities'].split())} |\n"
        for name, row in reversed(rows.items())
    ]


def _named(row: dict[str, str]) -> str:
    return ", ".join(filter(None, (row["quantity"], row["key"])))


def _code(text: str) -> str:
    """A bar would end the table's cell."""
    return "`" + text.replace("|", "\\|") + "`" if text else ""


def _row(quantity: str, hook: Hook) -> str:
    words = ", ".join(f"`{name}`" for name in hook.hooks) if hook.script else hook.hooks[0]
    there = "".join(f" {'yes' if kernel in hook.kernels else 'no'} |" for kernel in KERNELS)
    name = quantity.replace(".", ", ")
    script = f"`{hook.script}`" if hook.script else "the program"
    return f"| {name} | {hook.rung} | {words} | {script} |{there} {hook.why} |\n"


if __name__ == "__main__":
    print(page(), end="")
