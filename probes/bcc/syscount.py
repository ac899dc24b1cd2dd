# SPDX-License-Identifier: GPL-2.0-or-later
"""syscount - which system calls do these processes make, and how often?

USAGE: sudo python3 probes/bcc/syscount.py WORKLOAD   (then run WORKLOAD elsewhere; Ctrl-C ends)
       sudo python3 probes/bcc/syscount.py -p PID,PID

HOOK   raw_syscalls:sys_enter   every system call, by its number; by their names
OUTPUT @syscalls[cell, NAME]   of the calls that were made at all

         redis-server and a client, 23 INCR on one connection:

         @syscalls[0, epoll_wait]: 23
         @syscalls[0, read]: 46
         @syscalls[0, write]: 46

READ   What a program does around its messages: an event loop's epoll_wait, a runtime's futex.
CAVEAT A call counts where it is entered.
"""

import sys
from functools import cache
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from probes.bcc import frame
from probes.files import read_rows
from probes.isa import HOST

NUMBERS = 512  # there are fewer; what is beyond is counted with the last one
SYSCOUNT_PROGRAM = """
TRACEPOINT_PROBE(raw_syscalls, sys_enter)
{
	struct window *own = mine();
	u32 number = args->id;
	if (number >= COUNTERS)
		number = COUNTERS - 1;
	if (own)
		own->n[number] += 1;
	return PASS;
}
"""


def name(number: int) -> str:
    if HOST.call_table:
        return _names(HOST.call_table).get(number, f"number_{number}")
    from bcc.syscall import syscall_name  # only here: who does not count need not have BCC

    text: str = syscall_name(number).decode()
    return text if text.isidentifier() else f"number_{number}"


@cache
def _names(table: Path) -> dict[int, str]:
    return {int(row["number"]): row["name"] for row in read_rows(table)}


def maps(windows: list[tuple[int, list[int]]]) -> frame.Maps:
    """`@syscalls` → `cell,name` → how often."""
    counts: frame.Maps = {"@syscalls": {}}
    for cell, n in windows:
        for number, count in enumerate(n):
            if count:
                frame.add(counts, "syscalls", cell, name(number), count)
    return counts


if __name__ == "__main__":
    sys.exit(frame.tool(__doc__, SYSCOUNT_PROGRAM, NUMBERS, maps))
