# SPDX-License-Identifier: GPL-2.0-or-later
"""latency - where between send and receive does a message's time go?

USAGE: sudo python3 probes/bcc/latency.py WORKLOAD   (then run WORKLOAD elsewhere; Ctrl-C ends)
       sudo python3 probes/bcc/latency.py -p PID,PID

HOOKS  raw_syscalls:sys_enter   a send begins: write, sendto or sendmsg
       sched:sched_waking       the sender wakes the other one: the message has arrived
       sched:sched_switch       the other one gets a CPU
       raw_syscalls:sys_exit    its read, recvfrom or recvmsg returns with bytes
OUTPUT @path_latency[cell, "FROM-TO N"]   how many took N ns or more, and less than twice that
       @path_ns[cell, "FROM-TO"], @path_count[cell, "FROM-TO"]   their sum, and their number
       @path_count[cell, "not-woken"]   messages whose reader was awake when they arrived

         send-wakeup: 2000 times, 4.7 us on average
                 2048 ns  ......................................           1213
                 4096 ns  ........................                          771

READ   send-wakeup is the sender's way through the kernel, over TCP the receive side's softirq
       included; wakeup-running the scheduler's, of every wake-up; running-return the reader's way
       out. Over a Unix socket most readers are awake when their message comes (see stacks.py).
CAVEAT Four tracepoints a message cost some 0.3 us each: compare the parts with each other.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from probes.bcc import frame

PARTS = ("send-wakeup", "wakeup-running", "running-return", "send-return")
SLOTS = 32  # by powers of two: up to 4 s
NOT_WOKEN = len(PARTS) * (SLOTS + 1)
COUNTERS = NOT_WOKEN + 1
FIELDS = "u64 sent, since, woken, ran;"
PROGRAM = """
#define PART(part) ((part) * 33)
#define NOT_WOKEN PART(4)

static inline void took(struct window *window, u32 first, u64 ns)
{
	u32 slot = bpf_log2l(ns) - 1;
	if (slot > 31)
		slot = 31;
	window->n[first + slot] += 1;
	window->n[first + 32] += ns;
}

TRACEPOINT_PROBE(raw_syscalls, sys_enter)
{
	struct window *own = mine();
	if (!own)
		return PASS;
	if (args->id == 1 || args->id == 44 || args->id == 46)
		own->sent = bpf_ktime_get_ns();
	else
		own->ran = 0; /* from an earlier call */
	return PASS;
}

TRACEPOINT_PROBE(sched, sched_waking)
{
	struct window *own = mine(), *woken = window_of(args->pid);
	u64 now;
	if (!own || !woken)
		return PASS;
	now = bpf_ktime_get_ns();
	woken->woken = now;
	woken->since = own->sent;
	if (own->sent)
		took(own, PART(0), now - own->sent);
	own->sent = 0; /* only the first wake-up in a send is for the message */
	return PASS;
}

TRACEPOINT_PROBE(sched, sched_switch)
{
	struct window *next = window_of(args->next_pid);
	u64 now;
	if (!next || !next->woken)
		return PASS;
	now = bpf_ktime_get_ns();
	took(next, PART(1), now - next->woken);
	next->ran = now;
	next->woken = 0;
	return PASS;
}

TRACEPOINT_PROBE(raw_syscalls, sys_exit)
{
	struct window *own = mine();
	u64 now;
	if (!own)
		return PASS;
	if (args->id == 1 || args->id == 44 || args->id == 46)
		own->sent = 0;
	if ((args->id != 0 && args->id != 45 && args->id != 47) || args->ret <= 0)
		return PASS;
	now = bpf_ktime_get_ns();
	if (own->ran)
		took(own, PART(2), now - own->ran);
	if (own->ran && own->since)
		took(own, PART(3), now - own->since);
	else
		own->n[NOT_WOKEN] += 1;
	own->ran = 0;
	return PASS;
}
"""


def maps(counted: list[tuple[int, list[int]]]) -> frame.Maps:
    """`@path_…` → `cell,part` → count, from each window's counters."""
    result: frame.Maps = {"@path_latency": {}, "@path_ns": {}, "@path_count": {}}
    for cell, n in counted:
        frame.add(result, "path_count", cell, "not-woken", n[NOT_WOKEN])
        for number, part in enumerate(PARTS):
            slots = n[number * (SLOTS + 1) : (number + 1) * (SLOTS + 1)]
            frame.add(result, "path_ns", cell, part, slots[SLOTS])
            frame.add(result, "path_count", cell, part, sum(slots[:SLOTS]))
            for slot, count in enumerate(slots[:SLOTS]):
                if count:
                    frame.add(result, "path_latency", cell, f"{part} {1 << slot}", count)
    return result


def show(counted: frame.Maps) -> None:
    """A histogram for each part of each cell."""
    for entry, count in sorted(counted["@path_count"].items()):
        cell, part = entry.split(",")
        if part == "not-woken":
            print(f"cell {cell}: {count} messages whose reader was awake already")
            continue
        average = counted["@path_ns"][entry] / count / 1000 if count else 0
        print(f"cell {cell}, {part}: {count} times, {average:.1f} us on average")
        slots = {
            int(key.rpartition(" ")[2]): value
            for key, value in counted["@path_latency"].items()
            if key.startswith(f"{entry} ")
        }
        for low, value in sorted(slots.items()):
            print(f"  {low:>10} ns  {'.' * round(60 * value / count):60}  {value}")


if __name__ == "__main__":
    sys.exit(frame.tool(__doc__, PROGRAM, COUNTERS, maps, show, FIELDS))
