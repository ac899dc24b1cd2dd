# SPDX-License-Identifier: GPL-2.0-or-later
"""counts - what bpftrace's scripts count by kprobes, counted a second time without bpftrace.

USAGE: sudo python3 -m probes.bcc.counts WORKLOAD OUT   (then run WORKLOAD elsewhere; Ctrl-C ends)

HOOKS  the kprobes of HOOKS below, each in all kernels from 5.10 to 7.2.
OUTPUT OUT: one JSON object a line, as `bpftrace -f json` prints it: @quantity[cell, key].
READ   Compiler, loader and maps are others than bpftrace's: where the two agree, neither lost an
       event. Counters are per CPU and are added up at the end, so that an event costs two look-ups.
CAVEAT Only in the two processes' contexts, as bpftrace's.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from probes.bcc import headers

# (quantity, key, function, what to add: C, over the function's registers)
HOOKS = (
    ("messages", "sent", "unix_stream_sendmsg", "1"),
    ("messages", "sent", "tcp_sendmsg", "1"),
    ("copy_calls", "out", "simple_copy_to_iter", "1"),
    ("copy_bytes", "out", "simple_copy_to_iter", "PT_REGS_PARM2(ctx)"),
    ("skb_allocs", "", "__alloc_skb", "1"),
    ("skb_clones", "", "skb_clone", "1"),
    ("skb_frees", "", "skb_release_data", "1"),
    ("segments", "data", "__tcp_transmit_skb", "!!(u32)PT_REGS_PARM3(ctx)"),
    ("segments", "ack", "__tcp_transmit_skb", "!(u32)PT_REGS_PARM3(ctx)"),
    ("checksum_calls", "ip_send_check", "ip_send_check", "1"),
    ("function_calls", "sock_def_readable", "sock_def_readable", "1"),
    ("function_calls", "unix_write_space", "unix_write_space", "1"),
    ("function_calls", "tcp_queue_rcv", "tcp_queue_rcv", "1"),
    ("function_calls", "tcp_v4_rcv", "tcp_v4_rcv", "1"),
    ("function_calls", "loopback_xmit", "loopback_xmit", "1"),
)
COUNTERS = tuple(dict.fromkeys(hook[:2] for hook in HOOKS))
FUNCTIONS = tuple(dict.fromkeys(hook[2] for hook in HOOKS))
READY = "attached"

FRAME = """
struct key { u32 cell; u32 counter; };
BPF_HASH(cells, u32, u32, 64);
BPF_TABLE("percpu_hash", struct key, u64, counts, 16384);

int window_begin(struct pt_regs *ctx)
{
	u32 tid = bpf_get_current_pid_tgid(), cell = PT_REGS_PARM1(ctx);
	struct key key = {.cell = cell};
	u64 zero = 0;
	cells.update(&tid, &cell);
#pragma unroll
	for (int i = 0; i < COUNTERS; i++) {
		key.counter = i;
		counts.insert(&key, &zero);
	}
	return 0;
}

int window_end(struct pt_regs *ctx)
{
	u32 tid = bpf_get_current_pid_tgid();
	cells.delete(&tid);
	return 0;
}
"""
ENTRY = """
int hit_%(function)s(struct pt_regs *ctx)
{
	u32 tid = bpf_get_current_pid_tgid();
	u32 *cell = cells.lookup(&tid);
	if (!cell)
		return 0;
	struct key key = {.cell = *cell};
	u64 *count;
%(additions)s	return 0;
}
"""
ADDITION = """\
	key.counter = %(counter)d;
	count = counts.lookup(&key);
	if (count)
		*count += %(amount)s;
"""


def program() -> str:
    """The BPF program: one function for each hooked function."""
    text = FRAME
    for function in FUNCTIONS:
        additions = "".join(
            ADDITION % {"counter": COUNTERS.index((quantity, key)), "amount": amount}
            for quantity, key, hooked, amount in HOOKS
            if hooked == function
        )
        text += ENTRY % {"function": function, "additions": additions}
    return text


def load(workload: str) -> Any:
    """Compile and attach everything."""
    with tempfile.TemporaryDirectory() as folder:
        headers.write(Path(folder))
        os.environ["BCC_KERNEL_SOURCE"] = folder
        from bcc import BPF  # only here: a program that does not count need not have BCC

        bpf = BPF(text=program(), cflags=[f"-DCOUNTERS={len(COUNTERS)}"])
    for marker in ("window_begin", "window_end"):
        bpf.attach_uprobe(name=workload, sym=marker, fn_name=marker)
    for function in FUNCTIONS:
        bpf.attach_kprobe(event=function, fn_name=f"hit_{function}")
    return bpf


def maps(bpf: Any) -> dict[str, dict[str, int]]:
    """`@quantity` → `cell,key` → count."""
    found: dict[str, dict[str, int]] = {}
    for key, per_cpu in bpf["counts"].items():
        quantity, name = COUNTERS[key.counter]
        entry = f"{key.cell},{name}" if name else str(key.cell)
        found.setdefault(f"@{quantity}", {})[entry] = sum(per_cpu)
    return found


def main(argv: list[str]) -> int:
    """Count until a signal comes, then write what was counted."""
    workload, out = argv
    signals = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        bpf = load(workload)
    except ImportError:
        print("ERROR: BCC is not installed (Debian: python3-bpfcc)", file=sys.stderr)
        return 1
    print(READY, flush=True)
    signal.sigwait(signals)
    counted = {"type": "map", "data": maps(bpf)}
    Path(out).write_text(json.dumps(counted) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
