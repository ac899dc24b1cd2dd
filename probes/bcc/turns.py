# SPDX-License-Identifier: GPL-2.0-or-later
"""turns - how long does a client wait for its answers, and how many bytes does it move?

USAGE: sudo python3 probes/bcc/turns.py -p PID,PID

HOOKS  raw_syscalls:sys_enter   when a call that may send begins
       sock:sock_send_length, sock:sock_recv_length (Linux 6.3)   what a socket sent or received
OUTPUT @turns[cell, NS]   answers that came so long after the first send before them, or up to a
                          16th of a power of two later
       @bytes[cell, "sent"], [cell, "received"]   over Unix sockets and TCP

         one client of redis, 23 INCR on one connection:

         @bytes[0, received]: 92
         @bytes[0, sent]: 690
         @turns[0, 20480]: 21
         @turns[0, 21504]: 2

READ   A turn is what the client waits: its own call that sends, the server, the call that receives.
CAVEAT Only what the processes themselves send first is a turn; a server that speaks first has none.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from probes.bcc import frame

PARTS = 16  # of each power of two
SLOTS = 32 * PARTS  # up to 34 s
COUNTERS = SLOTS + 2
TURNS_PROGRAM = f"""
enum {{ UNIX = 1, IS_TCP = 6, SENT = {SLOTS}, RECEIVED }};
BPF_TABLE("lru_hash", u64, u64, asked, 65536); /* socket → when its turn began */

TRACEPOINT_PROBE(raw_syscalls, sys_enter)
{{
	struct window *own = mine();
	if (own)
		own->entered = bpf_ktime_get_ns();
	return PASS;
}}

TRACEPOINT_PROBE(sock, sock_send_length)
{{
	struct window *own = mine();
	u64 socket = (u64)args->sk;
	if (!own || args->ret <= 0 || (args->family != UNIX && args->protocol != IS_TCP))
		return PASS;
	own->n[SENT] += args->ret;
	asked.insert(&socket, &own->entered); /* not where its turn has begun */
	return PASS;
}}

TRACEPOINT_PROBE(sock, sock_recv_length)
{{
	struct window *own = mine();
	u64 socket = (u64)args->sk, *began, ns, power, slot;
	if (!own || args->ret <= 0 || (args->family != UNIX && args->protocol != IS_TCP))
		return PASS;
	own->n[RECEIVED] += args->ret;
	began = asked.lookup(&socket);
	if (!began)
		return PASS;
	ns = bpf_ktime_get_ns() - *began;
	asked.delete(&socket);
	power = bpf_log2l(ns) - 1;
	slot = power < 4 ? ns : (power - 3) * {PARTS} + ((ns >> (power - 4)) & {PARTS - 1});
	asm volatile("" : "+r"(slot)); /* the verifier must see the bound on what is the index */
	if (slot >= SENT)
		slot = SENT - 1;
	own->n[slot] += 1;
	return PASS;
}}
"""


def least(slot: int) -> int:
    """The shortest turn that a slot counts, in ns."""
    power, part = divmod(slot, PARTS)
    return part if power == 0 else (PARTS + part) << (power - 1)


def maps(windows: list[tuple[int, list[int]]]) -> frame.Maps:
    """`@turns` → `cell,ns` → answers, and `@bytes`."""
    counts: frame.Maps = {"@turns": {}, "@bytes": {}}
    for cell, n in windows:
        frame.add(counts, "bytes", cell, "sent", n[SLOTS])
        frame.add(counts, "bytes", cell, "received", n[SLOTS + 1])
        for slot, count in enumerate(n[:SLOTS]):
            if count:
                frame.add(counts, "turns", cell, str(least(slot)), count)
    return counts


if __name__ == "__main__":
    sys.exit(frame.tool(__doc__, TURNS_PROGRAM, COUNTERS, maps, fields="u64 entered;"))
