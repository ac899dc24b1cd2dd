# SPDX-License-Identifier: GPL-2.0-or-later
"""What can be measured: the quantities of the tidy table, and the measures made of them.

A quantity is what an instrument counted over a window. A measure is what a reader asks for: a
quantity for each message, each round trip or each payload byte. The ledger's rows and the claims'
`quantity` are measures. Add one here and both know it.
"""

from dataclasses import dataclass
from typing import Literal

# A key with this ending was counted outside the workload's processes.
ELSEWHERE = " elsewhere"
# Patterns in which a round trip is two messages.
ROUND_TRIP_PATTERNS = ("pingpong", "pipeline", "connect", "selfecho", "clients")
# Patterns that a program of an article's makes, and not the workload: which one.
APPS = {"redis-new": "redis", "redis-keep": "redis"}
# What one sample of a pattern is, where it is not a round trip.
SAMPLED = {"selfloop": "message_ns", "stream": "send_ns"}
# The kernel counts these for the whole machine, so a probe's `elsewhere` belongs to the comparison.
MACHINE_WIDE = frozenset({"segments", "lo_packets", "lo_bytes", "softirqs"})
# What a CPU counts by itself: no event that anybody is told of.
HARDWARE = frozenset({"cycles", "instructions", "cache_misses", "tlb_misses"})
# Times: never a guest's, and in a measure never a probed cell's.
TIMES = frozenset(
    {
        "rtt_ns",
        "messages_per_s",
        "switches_per_s",
        "cpu_ns",
        "requests_per_s",
        "server_ns",
        "task_clock_ns",
        "path_ns",
        "path_latency",
    }
    | set(SAMPLED.values())
)

Per = Literal["message", "round trip", "payload byte", "window"]


def unit_of(quantity: str) -> str:
    """The unit of a quantity's values, by the manner in which quantities are named."""
    if quantity.endswith("_per_s"):
        return "1/s"
    if quantity.endswith("_ns"):
        return "ns"
    return "bytes" if quantity.endswith("_bytes") else "count"


@dataclass(frozen=True)
class Measure:
    """A figure that a reader asks for."""

    id: str
    words: str
    quantity: str
    per: Per
    keys: tuple[str, ...] = ()  # all of them must be measured; () takes every own key, none of
    # another context, which is in no sum unless it is named
    unit: str = ""  # what one of it is called; empty for a count
    headline: bool = False  # in the short ledger on the first screen
    ledger: bool = True  # a row of the full ledger
    undisturbed: bool = False  # a probe changes it: counters of unprobed runs come first
    instrument: str = ""  # only this instrument's figures; empty for all
    # Of functions called at least once a round trip: their number, or their calls.
    hit: Literal["", "number", "calls"] = ""
    again: bool = False  # another row's figure for each message, for the figure that compares all
    over: str = ""  # for each of this quantity, which the same instrument counted in the same run


def _elsewhere(quantity: str, key: str = "", words: str = "") -> tuple[Measure, ...]:
    """The unfiltered count's rest: the same events on nobody's back of the two processes."""
    whose = {key: words} if key else {"ksoftirqd": "in ksoftirqd", "other": "in other contexts"}
    return tuple(
        Measure(f"{quantity}_{name}_elsewhere", f"… {where}", quantity, "message",
                (f"{name}{ELSEWHERE}",))
        for name, where in whose.items()
    )  # fmt: skip


MEASURES: tuple[Measure, ...] = (
    Measure(
        "payload_copies",
        "copies of each payload byte",
        "copy_bytes",
        "payload byte",
        ("in", "out", "kernel"),
        headline=True,
    ),
    Measure(
        "copied_in",
        "copies of each byte, user → kernel",
        "copy_bytes",
        "payload byte",
        ("in",),
    ),
    Measure(
        "copied_out",
        "copies of each byte, kernel → user",
        "copy_bytes",
        "payload byte",
        ("out",),
    ),
    Measure(
        "copied_kernel",
        "copies of each byte, kernel → kernel",
        "copy_bytes",
        "payload byte",
        ("kernel",),
    ),
    Measure("copy_calls_in", "copy calls, user → kernel", "copy_calls", "message", ("in",)),
    Measure("copy_calls_out", "copy calls, kernel → user", "copy_calls", "message", ("out",)),
    *_elsewhere("copy_calls", "out", "by other processes"),
    Measure(
        "copy_calls_kernel", "copy calls, kernel → kernel", "copy_calls", "message", ("kernel",)
    ),
    *_elsewhere("copy_calls", "kernel", "in other contexts"),
    Measure(
        "skb_allocs", "socket buffers (skbs) allocated", "skb_allocs", "message", headline=True
    ),
    *_elsewhere("skb_allocs"),
    Measure("skb_clones", "socket buffers cloned, payload shared", "skb_clones", "message"),
    *_elsewhere("skb_clones"),
    Measure("skb_frees", "socket buffers freed, clones too", "skb_frees", "message"),
    *_elsewhere("skb_frees"),
    Measure("slab_allocs", "objects taken from the slab allocator", "slab_allocs", "message"),
    Measure(
        "slab_alloc_bytes",
        "bytes taken from the slab allocator",
        "slab_alloc_bytes",
        "message",
        unit="B",
    ),
    Measure("slab_frees", "objects given back to it", "slab_frees", "message"),
    Measure("syscalls", "system calls", "syscalls", "message", headline=True),
    Measure("lsm_hooks", "calls of security hooks", "lsm_hooks", "message"),
    Measure("audit_calls", "calls of audit", "audit_calls", "message"),
    Measure("route_lookups", "routing table searches", "route_lookups", "message"),
    Measure("checksum_calls", "calls of checksum functions", "checksum_calls", "message"),
    Measure(
        "checksum_header",
        "header bytes summed up",
        "checksum_bytes",
        "message",
        ("header",),
        unit="B",
    ),
    Measure(
        "checksum_payload",
        "payload bytes summed up, at most",
        "checksum_bytes",
        "message",
        ("payload",),
        unit="B",
    ),
    Measure("lock_contentions", "waits for a lock", "lock_contentions", "message"),
    Measure("segments_data", "TCP segments with payload", "segments", "message", ("data",)),
    Measure("segments_ack", "TCP segments that only acknowledge", "segments", "message", ("ack",)),
    Measure(
        "segments_elsewhere",
        "… sent in other contexts, by a timer or ksoftirqd",
        "segments",
        "message",
        (f"data{ELSEWHERE}", f"ack{ELSEWHERE}"),
    ),
    Measure("segments_out", "TCP segments sent, of both kinds", "segments", "message", ("out",)),
    Measure(
        "lo_packets", "packets through the loopback device", "lo_packets", "message", headline=True
    ),
    Measure(
        "lo_bytes",
        "bytes through lo, Ethernet header included",
        "lo_bytes",
        "message",
        ("",),
        unit="B",
    ),
    Measure(
        "lo_header_bytes",
        "… of these headers: Ethernet, IP, TCP",
        "lo_header_bytes",
        "message",
        unit="B",
    ),
    Measure(
        "header_overhead",
        "bytes of headers for each byte of payload",
        "lo_header_bytes",
        "payload byte",
    ),
    Measure(
        "lo_bytes_ip",
        "bytes through lo, from the IP header on",
        "lo_bytes",
        "message",
        ("ip",),
        "B",
    ),
    Measure(
        "softirqs", "receive softirqs (NET_RX)", "softirqs", "message", ("NET_RX",), headline=True
    ),
    Measure(
        "softirqs_elsewhere",
        "… in other contexts: ksoftirqd, the idle task",
        "softirqs",
        "message",
        (f"NET_RX{ELSEWHERE}",),
    ),
    *(
        Measure(
            f"receives_{who}", f"packets received {where}", "receives", "message", (who + rest,)
        )
        for who, where, rest in (
            ("sender", "in the sender's write()", ""),
            ("reader", "in the reader's read()", ""),
            ("user", "on the two processes' backs, in neither", ""),
            ("ksoftirqd", "in ksoftirqd", ELSEWHERE),
            ("other", "in any other context", ELSEWHERE),
        )
    ),
    Measure("wakeups_per_message", "wake-ups", "wakeups", "message", again=True),
    Measure("wakeups", "wake-ups", "wakeups", "round trip", headline=True),
    Measure(
        "wakeups_readable",
        "… by sock_def_readable: there is something to read",
        "wakeup_causes",
        "round trip",
        ("sock_def_readable",),
    ),
    Measure(
        "wakeups_write_space",
        "… by unix_write_space: there is room again",
        "wakeup_causes",
        "round trip",
        ("unix_write_space",),
    ),
    Measure("wakeups_other", "… by anything else", "wakeup_causes", "round trip", ("other",)),
    Measure("wakeups_in_write", "… out of a write()", "wakeup_calls", "round trip", ("write",)),
    Measure("wakeups_in_read", "… out of a read()", "wakeup_calls", "round trip", ("read",)),
    Measure(
        "spurious_wakeups",
        "wake-ups that found nothing to read",
        "spurious_wakeups",
        "round trip",
        headline=True,
    ),
    Measure("migrations", "moves to another CPU", "migrations", "message"),
    Measure(
        "switches_per_message",
        "context switches",
        "switches",
        "message",
        ("voluntary", "involuntary"),
        undisturbed=True,
        again=True,
    ),
    Measure(
        "switches",
        "context switches",
        "switches",
        "round trip",
        ("voluntary", "involuntary"),
        headline=True,
        undisturbed=True,
    ),
    Measure(
        "switches_voluntary",
        "… voluntary: went to sleep",
        "switches",
        "round trip",
        ("voluntary",),
        undisturbed=True,
    ),
    Measure(
        "switches_involuntary",
        "… involuntary: was preempted",
        "switches",
        "round trip",
        ("involuntary",),
        undisturbed=True,
    ),
    Measure(
        "functions_hit",
        "kernel functions hit",
        "function_calls",
        "window",
        instrument="ftrace",
        hit="number",
        unit="functions",
        headline=True,
    ),
    Measure(
        "function_calls",
        "calls of these functions",
        "function_calls",
        "message",
        instrument="ftrace",
        hit="calls",
        headline=True,
    ),
    Measure("missed", "events that probes missed, whole machine", "missed", "message"),
    Measure("stranger_packets", "packets of other programs on lo", "stranger_packets", "message"),
    Measure(
        "instructions",
        "instructions, kernel and user",
        "instructions",
        "message",
        ("total",),
        headline=True,
    ),
    Measure("cycles", "CPU cycles", "cycles", "message"),
    Measure(
        "instructions_per_cycle",
        "instructions a cycle (IPC)",
        "instructions",
        "window",
        ("total",),
        instrument="perf",
        over="cycles",
    ),
    Measure("cache_misses", "cache misses", "cache_misses", "message"),
    Measure("tlb_misses", "TLB misses, of loads", "tlb_misses", "message"),
    Measure("page_faults", "page faults", "page_faults", "message"),
    Measure(
        "memory_loaded",
        "bytes that its instructions load, of any memory",
        "memory_bytes",
        "message",
        ("loaded",),
        unit="B",
    ),
    Measure(
        "memory_stored",
        "bytes that its instructions store, in any memory",
        "memory_bytes",
        "message",
        ("stored",),
        unit="B",
    ),
    Measure(
        "cpu_user",
        "CPU time in user mode",
        "cpu_ns",
        "message",
        ("user",),
        unit="ns",
        undisturbed=True,
    ),
    Measure(
        "cpu_system",
        "CPU time in the kernel",
        "cpu_ns",
        "message",
        ("system",),
        unit="ns",
        undisturbed=True,
    ),
    Measure(
        "cpu",
        "CPU time, user mode and kernel",
        "cpu_ns",
        "message",
        ("user", "system"),
        unit="ns",
        ledger=False,
        undisturbed=True,
    ),
    Measure(
        "requests_per_s",
        "requests a second",
        "requests_per_s",
        "window",
        unit="1/s",
        ledger=False,
        undisturbed=True,
    ),
    Measure(
        "server_time",
        "the server's own time for a request",
        "server_ns",
        "window",
        unit="ns",
        ledger=False,
        undisturbed=True,
    ),
    Measure(
        "time_wait",
        "connections left in TIME_WAIT",
        "time_wait",
        "window",
        ledger=False,
        undisturbed=True,
    ),
    Measure(
        "nic_packets",
        "packets through any other device than lo",
        "nic_packets",
        "message",
        ledger=False,
        undisturbed=True,
    ),
    Measure(
        "switches_per_s",
        "context switches a second",
        "switches_per_s",
        "window",
        unit="1/s",
        ledger=False,
        undisturbed=True,
    ),
    Measure(
        "message_p50",
        "time of a message from a thread to itself, median",
        "message_ns",
        "window",
        ("p50",),
        unit="ns",
        ledger=False,
        undisturbed=True,
    ),
    *(
        Measure(
            f"rtt_{key}",
            f"round-trip time, {words}",
            "rtt_ns",
            "window",
            (key,),
            unit="ns",
            ledger=False,
            undisturbed=True,
        )
        for key, words in (("p50", "median"), ("p99", "99th percentile"))
    ),
    Measure(
        "messages_per_s",
        "messages a second",
        "messages_per_s",
        "window",
        unit="1/s",
        ledger=False,
        undisturbed=True,
    ),
)

MEASURE_BY_ID = {measure.id: measure for measure in MEASURES}
