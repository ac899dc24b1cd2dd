# SPDX-License-Identifier: GPL-2.0-or-later
"""stacks - by which way through the kernel does a process get woken?

USAGE: sudo python3 probes/bcc/stacks.py WORKLOAD   (then run WORKLOAD elsewhere; Ctrl-C ends)
       sudo python3 probes/bcc/stacks.py -p PID,PID

HOOK   sched:sched_waking   in the waker's context, so that its kernel stack is the cause
OUTPUT @wakeup_stacks[cell, "outermost;…;innermost"]   how often
       @wakeup_causes[cell, cause]   the same by the function of CAUSES that is in the stack

         46  ksys_read < … < unix_stream_recvmsg < consume_skb < sock_wfree < unix_write_space < …

READ   A message wakes its reader out of sock_def_readable, in the sender's write(). Over a Unix
       socket the reader then wakes the sender, out of unix_write_space in its read(): there is room
       again, for which nobody waited, and the sender sleeps on in its own read().
CAVEAT Names are of the running kernel; what was inlined is not in a stack. Needs no kprobe:
       it tells causes apart on kernels that allow tracepoints only.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from probes.bcc import frame

# The innermost of these functions in a stack is the cause. `elsewhere`: the waker is no process of
# the workload.
CAUSES = ("unix_write_space", "sock_def_readable")
STACKS_PROGRAM = """
struct way { u32 cell, elsewhere; int stack; };
BPF_TABLE("stacktrace", int, struct bpf_stacktrace, stacks, WAYS);
BPF_HASH(ways, struct way, u64, WAYS);

TRACEPOINT_PROBE(sched, sched_waking)
{
	struct window *woken = window_of(args->pid);
	if (!woken)
		return PASS;
	struct way way = {.cell = woken->cell, .elsewhere = !mine()};
	way.stack = stacks.get_stackid(args, 0);
	/* Another stack has its slot: without the innermost function it hashes to another slot. */
	if (way.stack < 0)
		way.stack = stacks.get_stackid(args, 1);
	if (way.stack < 0)
		way.stack = stacks.get_stackid(args, 2);
	if (way.stack < 0) {
		lose();
		return PASS;
	}
	u64 one = 1, *count = ways.lookup(&way);
	if (count)
		lock_xadd(count, 1);
	else if (ways.insert(&way, &one))
		lose();
	return PASS;
}
"""


def read(bpf: Any) -> list[tuple[int, bool, list[str], int]]:
    """(cell, woken from elsewhere, functions from the outermost in, how often), and forget it."""
    ways = []
    for way, count in bpf["ways"].items():
        # Without offsets: another call in the same function is no other stack.
        names = [bpf.ksym(address).decode() for address in bpf["stacks"].walk(way.stack)]
        ways.append((way.cell, bool(way.elsewhere), names[::-1], count.value))
    for table in ("ways", "stacks"):
        bpf[table].clear()
    return ways


def maps(cells: list[int], ways: list[tuple[int, bool, list[str], int]]) -> frame.Maps:
    """`@wakeup_…` → `cell,key` → how often."""
    causes = {f"{cell},{cause}": 0 for cell in cells for cause in (*CAUSES, "other")}
    stacks: Counter[str] = Counter()
    for cell, elsewhere, names, count in ways:
        cause = next((name for name in reversed(names) if name in CAUSES), "other")
        causes[f"{cell},{cause}"] = causes.get(f"{cell},{cause}", 0) + count
        way = ";".join(names) + (" elsewhere" if elsewhere else "")
        stacks[f"{cell},{way}"] += count
    return {"@wakeup_causes": causes, "@wakeup_stacks": dict(stacks)}


def show(counted: frame.Maps) -> None:
    """The causes, then each way, the most travelled first."""
    frame.show_counts({"@wakeup_causes": counted["@wakeup_causes"]})
    for key, count in sorted(counted["@wakeup_stacks"].items(), key=lambda entry: -entry[1]):
        cell, _, way = key.partition(",")
        print(f"\ncell {cell}: {count} times")
        for name in way.split(";"):
            print(f"  {name}")


def run(given: argparse.Namespace) -> None:
    ways = 1 << (given.entries - 1).bit_length()  # the kernel wants a power of two
    bpf = frame.load(given, f"#define WAYS {ways}\n{STACKS_PROGRAM}", 1)

    def counted() -> frame.Maps:
        return maps(sorted({cell for cell, _ in frame.windows(bpf)}), read(bpf))

    frame.serve(given, bpf, counted, show)


if __name__ == "__main__":
    sys.exit(frame.main(__doc__, run))
