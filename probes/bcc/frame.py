# SPDX-License-Identifier: GPL-2.0-or-later
"""What the BCC tools share: the window, the command line, loading without kernel headers.

A tool brings C that adds to `n[]` of a task's window. The frame opens a window at the workload's
marker `window_begin(cell, role)` and closes it at `window_end`, or opens one for each task of `-p`.
Each task counts in its own window: one look-up an event, and no atomic operation.

`--windows` takes orders from standard input, so that one start serves many measurements. It counts
by process: each thread, and each thread or child that starts later, has its own window.

    open PID,…     a window opens; the answer is `open`
    close          it closes; the answer is a line of JSON, `maps` (of cell 0) and `lost`
"""

import argparse
import ctypes
import json
import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from probes import callsite
from probes.isa import HOST
from probes.messages import RunError

READY = "attached"
# Before what cannot be counted: in words, or as JSON for a reader of --json.
MISSING_PREFIX = "missing "
SIGNALS = {signal.SIGINT, signal.SIGTERM}
Maps = dict[str, dict[str, int]]
FEW_TASKS, MOST_TASKS = 256, 4096  # with an open window at a time

WINDOWS = """
/* What each program returns: on 0 the kernel would hide the event from perf. */
#define PASS 1

struct window {
	u64 cell;
	u64 n[COUNTERS];
	FIELDS
};
struct task { u32 cell, tid; };
BPF_HASH(windows, u32, struct window, TASKS);        /* tasks with an open window */
BPF_HASH(closed, struct task, struct window, ENTRIES);
BPF_TABLE("percpu_hash", u32, struct window, anyone, ENTRIES); /* by cell, of no task */
BPF_ARRAY(open_cell, u32, 1);                        /* the client's cell plus 1; 0: none */
BPF_PERCPU_ARRAY(blank, struct window, 1);
BPF_ARRAY(lost, u64, 1);

static inline void lose(void)
{
	int zero = 0;
	u64 *count = lost.lookup(&zero);
	if (count)
		lock_xadd(count, 1);
}

static inline struct window *window_of(u32 tid)
{
	return windows.lookup(&tid);
}

static inline struct window *mine(void)
{
	return window_of(bpf_get_current_pid_tgid());
}

/* The window for tasks without one, while the client's is open. */
static inline struct window *nobodys(void)
{
	int zero = 0;
	u32 *open = open_cell.lookup(&zero), cell;
	if (!open || !*open)
		return 0;
	cell = *open - 1;
	return anyone.lookup(&cell);
}

static inline struct window *open_window(u32 tid, u32 cell)
{
	int zero = 0;
	struct window *window = blank.lookup(&zero);
	if (!window)
		return 0;
	window->cell = cell;
	if (windows.update(&tid, window))
		lose();
	return window;
}

static inline void close_window(u32 tid)
{
	struct window *window = windows.lookup(&tid);
	if (!window)
		return;
	struct task task = {.cell = window->cell, .tid = tid};
	if (closed.insert(&task, window))
		lose();
	windows.delete(&tid);
}

int window_begin(struct pt_regs *ctx)
{
	u32 cell = PT_REGS_PARM1(ctx), next = cell + 1;
	int zero = 0;
	struct window *window = open_window(bpf_get_current_pid_tgid(), cell);
	if (window && PT_REGS_PARM2(ctx) == 0) {
		if (anyone.update(&cell, window))
			lose();
		open_cell.update(&zero, &next);
	}
	return PASS;
}

int window_end(struct pt_regs *ctx)
{
	u32 none = 0;
	int zero = 0;
	if (PT_REGS_PARM2(ctx) == 0)
		open_cell.update(&zero, &none);
	close_window(bpf_get_current_pid_tgid());
	return PASS;
}
"""

# A task is followed from before its first instruction until it has ended. Its last switch comes
# after this event, and is not counted.
FOLLOW = """
TRACEPOINT_PROBE(sched, sched_process_fork)
{
	struct window *own = mine();
	if (own)
		open_window(args->child_pid, own->cell);
	return PASS;
}

TRACEPOINT_PROBE(sched, sched_process_exit)
{
	close_window(bpf_get_current_pid_tgid());
	return PASS;
}
"""


CONFIG = """\
#define CONFIG_BPF_SYSCALL 1
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))
#define LINUX_VERSION_CODE KERNEL_VERSION(5, 10, 0)
"""
KERNEL_TYPES = """\
#pragma once
typedef unsigned char u8, __u8;
typedef unsigned short u16, __u16, __be16, __le16, __sum16;
typedef unsigned int u32, __u32, __be32, __wsum, __poll_t;
typedef unsigned long long u64, __u64, __be64;
typedef signed char s8, __s8;
typedef short s16, __s16;
typedef int s32, __s32, pid_t;
typedef long long s64, __s64;
typedef u64 __attribute__((aligned(8))) __aligned_u64;
typedef unsigned long size_t, uintptr_t;
typedef _Bool bool;
#define NULL ((void *)0)
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
"""
EMPTY = (
    *("linux/bpf_common.h", "linux/log2.h", "linux/version.h", "asm/page.h"),
    *("uapi/linux/bpf.h", "uapi/linux/if_packet.h", "generated/autoconf.h"),
)


def main(doc: str, run: Callable[[argparse.Namespace], None]) -> int:
    """Run a tool with the command line that all have; `doc` is its docstring. The exit status."""
    name = doc.partition(" ")[0]
    parser = argparse.ArgumentParser(
        prog=f"{name}.py", description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    targets = parser.add_mutually_exclusive_group(required=True)
    add = targets.add_argument
    add("workload", nargs="?", help="count in this program's windows (its markers)")
    add("-p", "--pids", metavar="PID,…", help="count in these tasks from now on")
    add("--windows", action="store_true", help="count when standard input says so (frame.py)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write maps there, as bpftrace")
    entries = int(os.environ.get("PATHCOST_BCC_ENTRIES", "4096"))
    room = "room for closed windows; what does not fit is lost, and reported (default: 4096)"
    parser.add_argument("--entries", type=int, default=entries, help=room)
    try:
        run(parser.parse_args())
    except RunError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 1
    return 0


def tool(
    doc: str,
    program: str,
    counters: int,
    maps: Callable[[list[tuple[int, list[int]]]], Maps],
    fields: str = "",
) -> int:
    """Run a tool whose `maps` are made of all windows' counters: its exit status."""

    def run(given: argparse.Namespace) -> None:
        bpf = load(given, program, counters, fields)
        serve(given, bpf, lambda: maps(list(windows(bpf))), show_counts)

    return main(doc, run)


def load(given: argparse.Namespace, program: str, counters: int, fields: str = "") -> Any:
    """Compile; attach the window and the tracepoints that the program names. Raises RunError."""
    # A client may have many children at once; the workload has two sides.
    tasks = min(given.entries, MOST_TASKS) if given.windows else FEW_TASKS
    macros = {"COUNTERS": counters, "FIELDS": fields, "ENTRIES": given.entries, "TASKS": tasks}
    text = "".join(f"#define {name} {value}\n" for name, value in macros.items())
    for event in re.findall(r"^TRACEPOINT_PROBE\((\w+, \w+)\)", program, re.MULTILINE):
        if not callsite.has_event(event.replace(", ", ":")):
            raise RunError(f"this kernel has no tracepoint {event.replace(', ', ':')}.")
    hold_signals()
    bpf = compiled(text + WINDOWS + (FOLLOW if given.windows else "") + program)
    _mend_uprobes()
    if given.pids:
        open_windows(bpf, given.pids)
    for marker in ("window_begin", "window_end") if given.workload else ():
        try:
            bpf.attach_uprobe(name=given.workload, sym=marker, fn_name=marker)
        except Exception as error:
            raise RunError(f"{given.workload} has no marker to attach to: {error}.") from error
    return bpf


def compiled(program: str) -> Any:
    """The program in the kernel; its tracepoints and fentries are attached. Raises RunError."""
    with tempfile.TemporaryDirectory() as folder:
        write_headers(Path(folder))
        os.environ["BCC_KERNEL_SOURCE"] = folder
        try:
            from bcc import BPF  # only here, so that a machine that does not count needs no BCC

            return BPF(text=program)
        except ImportError as error:
            raise RunError("BCC is missing: sudo apt-get install python3-bpfcc") from error
        except Exception as error:  # BCC raises a bare Exception, its reason on stderr
            raise RunError(f"the kernel did not take the program: {error}.") from error


def write_headers(folder: Path) -> None:
    """Write what BCC needs of the kernel's headers, 16 MB that a guest does not have.

    A program that looks into no kernel structure needs only fixed-width integers, the registers,
    and the presence of some files.
    """
    types = KERNEL_TYPES + HOST.registers
    files = {"linux/kconfig.h": CONFIG, "linux/types.h": types} | dict.fromkeys(EMPTY, "")
    for name, text in files.items():
        path = folder / "include" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")


def _mend_uprobes() -> None:
    """BCC's Python up to 0.31 calls the library without its last argument.

    The kernel then refuses a probe where another tool has one.
    """
    from bcc.libbcc import lib

    call = lib.bpf_attach_uprobe
    if len(call.argtypes) == 6:
        call.argtypes = [*call.argtypes, ctypes.c_uint32]
        lib.bpf_attach_uprobe = lambda *arguments: call(*arguments, 0)


def open_windows(bpf: Any, pids: str, follow: bool = False) -> None:
    """Count in these tasks from now on, as cell 0; to `follow`, in all threads."""
    table, opened, anyone = bpf["windows"], bpf["open_cell"], bpf["anyone"]
    for word in pids.split(","):
        if not word.isdecimal() or not Path("/proc", word).is_dir():
            raise RunError(f"there is no task {word}.")
        # A thread that starts meanwhile is either listed here, or its parent is followed already.
        for task in sorted(Path("/proc", word, "task").iterdir()) if follow else (Path(word),):
            table[table.Key(int(task.name))] = table.Leaf()
    anyone[anyone.Key(0)] = anyone.Leaf()
    opened[opened.Key(0)] = opened.Leaf(1)  # the cell, plus 1


def _close_windows(bpf: Any) -> None:
    """Close the windows of all tasks: from now on nothing is counted."""
    opened, table, closed = bpf["open_cell"], bpf["windows"], bpf["closed"]
    opened[opened.Key(0)] = opened.Leaf(0)
    for task, window in table.items():
        closed[closed.Key(0, task.value)] = window
        del table[task]


def windows(bpf: Any) -> Iterator[tuple[int, list[int]]]:
    """(cell, counters) of each task's window, and of the events that belong to no task."""
    for table in ("windows", "closed"):
        for _, window in bpf[table].items():
            yield window.cell, list(window.n)
    for key, per_cpu in bpf["anyone"].items():
        for window in per_cpu:
            yield key.value, list(window.n)


def add(maps: Maps, quantity: str, cell: int, key: str, value: int) -> None:
    """Add to a quantity's entry, in maps as bpftrace prints them."""
    entries = maps.setdefault(f"@{quantity}", {})
    name = f"{cell},{key}" if key else str(cell)
    entries[name] = entries.get(name, 0) + value


def hold_signals() -> None:
    """Before anything is attached: signals wait until `serve` takes them."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def serve(
    given: argparse.Namespace, bpf: Any, read: Callable[[], Maps], show: Callable[[Maps], None]
) -> None:
    """Count until a signal. Write what `read` returns as bpftrace would, or show it."""
    print(READY, flush=True)
    if given.windows:
        _serve_windows(bpf, read)
        return
    signal.sigwait(SIGNALS)
    maps, lost = read(), int(bpf["lost"][0].value)
    if given.json:
        lines: list[dict[str, Any]] = [{"type": "map", "data": maps}]
        if lost:
            lines.append({"type": "lost_events", "data": {"events": lost}})
        given.json.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return
    show(maps)
    if lost:
        print(f"LOST {lost} windows: too little room (--entries)")


def _serve_windows(bpf: Any, read: Callable[[], Maps]) -> None:
    for line in sys.stdin:
        word, _, pids = line.strip().partition(" ")
        if word == "open":
            open_windows(bpf, pids, follow=True)
            print("open", flush=True)
        elif word == "close":
            _close_windows(bpf)
            print(json.dumps({"maps": read(), "lost": bpf["lost"][0].value}), flush=True)
            for table in ("closed", "anyone"):
                bpf[table].clear()
            bpf["lost"][0] = bpf["lost"].Leaf(0)
        else:
            raise RunError(f"--windows does not know '{word}': there is open and close.")


def show_counts(maps: Maps) -> None:
    """As bpftrace prints its maps."""
    for name, entries in maps.items():
        for key, value in sorted(entries.items()):
            print(f"{name}[{key.replace(',', ', ')}]: {value}")
