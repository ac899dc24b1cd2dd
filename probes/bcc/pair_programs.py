# SPDX-License-Identifier: GPL-2.0-or-later
"""The programs in the kernel that count for pairs.py, and rows of what they have counted.

They are made for the running kernel: the places of its structures' members are compiled in.
"""

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from probes import callsite
from probes.bcc import frame
from probes.bpf import Programs
from probes.btf import RUNNING, Btf
from probes.isa import HOST
from probes.messages import RunError
from probes.watch import COUNTED, Column

COUNTING = "counting"
MAP_ENTRIES = 1 << 16
PAGE = os.sysconf("SC_PAGE_SIZE")
WINDOW = 64  # jiffies: as in ends.c
CLOSED = 1 << 63  # as in ends.c
# A raw tracepoint's way to its program and the two clock readings of the statistics, which they do
# not contain: an estimate, from the 64 to 134 instructions that docs/knobs.md counts.
ENTRY_NS = 60
OFFSETS = {
    "FAMILY": "sock_common.skc_family",
    "NET": "sock_common.skc_net",
    "DADDR6": "sock_common.skc_v6_daddr",
    "STATE": "sock_common.skc_state",
    "PROTOCOL": "sock.sk_protocol",
    "TYPE": "sock.sk_type",
    "SOCKET": "sock.sk_socket",
    "PEER": "unix_sock.peer",
    "ADDRESS": "unix_sock.addr",
    "SPORT": "inet_sock.inet_sport",
    "NAME": "unix_address.name",
    "LENGTH": "unix_address.len",
    "INUM": "net.ns.inum",
    "SEGMENTS_OUT": "tcp_sock.data_segs_out",
    "SEGMENTS_IN": "tcp_sock.data_segs_in",
    "WRITTEN": "tcp_sock.write_seq",
    "NEXT": "tcp_sock.snd_nxt",
    "UNACKED": "tcp_sock.snd_una",
    "SEND_WINDOW": "tcp_sock.snd_wnd",
    "PENDING": "inet_connection_sock.icsk_pending",
    "FUNCTION": "timer_list.function",
    "ACK_PENDING": "inet_connection_sock.icsk_ack.pending",
    "ACK_TIMER_AT": "inet_connection_sock.icsk_delack_timer",
    "TASK_STACK": "task_struct.stack",
    "COPIED": "tcp_sock.copied_seq",
    "CHRONO": "tcp_sock.chrono_stat",
    "DUPLICATES": "tcp_sock.dsack_dups",
    "DEPARTS": "tcp_sock.tcp_wstamp_ns",
    "SENT_AT": "tcp_sock.tcp_clock_cache",
    "RECEIVED_UP_TO": "tcp_sock.rcv_nxt",
    "SENT_AGAIN": "tcp_sock.total_retrans",
    "BYTES_ACKED": "tcp_sock.bytes_acked",
    "BYTES_RECEIVED": "tcp_sock.bytes_received",
    "FLAGS": "socket.flags",
    "FILE": "socket.file",
    "FILE_FLAGS": "file.f_flags",
}
# Since Linux 6.19 the timer is the socket's.
WRITE_TIMERS = ("inet_connection_sock.icsk_retransmit_timer", "sock.tcp_retransmit_timer")
TIMERS = {"DELAYED_ACK_TIMER": "tcp_delack_timer", "WRITE_TIMER": "tcp_write_timer"}
COARSE = 6  # CLOCK_MONOTONIC_COARSE: it goes on with the jiffies
JIFFY_S = time.clock_getres(COARSE)
TIMER_LIST = Path("/proc/timer_list")
SOURCES = [Path(__file__).with_name(name) for name in ("ends.c", "pairs.c", "waits.c")]
STATE_PROGRAM = "on_state"  # connections that open and close are known at all times
# Raw tracepoint → its program.
STATE_EVENTS = {
    "inet_sock_set_state": STATE_PROGRAM,
    "tcp_retransmit_skb": "on_retransmit",
    "timer_expire_entry": "on_timer",
    "kfree_skb": "on_free",
}
EVENTS = {
    "sock_send_length": "on_send",
    "sock_recv_length": "on_receive",
    "consume_skb": "on_free",  # before Linux 6.3 it does not say where
}
# Before Linux 6.3: the function, the number of its arguments, and what it does.
FUNCTIONS = (
    ("tcp_sendmsg", 3, "SENT"),
    ("tcp_recvmsg", 5, "RECEIVED"),
    ("unix_stream_sendmsg", 3, "SENT"),
    ("unix_stream_recvmsg", 4, "RECEIVED"),
)
FUNCTION = """
KRETFUNC_PROBE({name})
{{
	void *sk = (void *)ctx[0];
	if ({is_socket})
		bpf_probe_read_kernel(&sk, 8, (char *)ctx[0] + SOCK);
	happened(sk, (int)ctx[{arguments}], {what}); /* the result follows the arguments */
	return 0;
}}
"""


def addresses(btf: Btf) -> dict[str, int]:
    """What the programs must know of this kernel. Raises RunError."""
    known = {name: btf.offset(path) for name, path in OFFSETS.items()}
    alloc = btf.offset("socket_alloc.vfs_inode") + btf.offset("inode.i_ino")
    known["INODE"] = alloc - btf.offset("socket_alloc.socket")
    known |= {"SOCK": btf.offset("socket.sk"), "ENTRIES": MAP_ENTRIES}
    # At the end of a task's stack lies what its system call was entered with.
    known["ENTERED"] = max(HOST.stack, PAGE) - btf.size("pt_regs")
    for name, (member, more) in zip(("NUMBER", "SECOND", "THIRD"), HOST.entered, strict=True):
        known[name] = btf.offset(f"pt_regs.{member}") + more
    known["NR_CONNECT"] = HOST.numbers["connect"]
    known["JIFFY_NS"] = round(JIFFY_S * 1e9)
    for path in WRITE_TIMERS:
        with suppress(RunError):
            known["WRITE_TIMER_AT"] = btf.offset(path)
    symbols = callsite.read_symbols()
    # A function that the compiler has renamed: nothing is seen of it.
    known |= {name: symbols.get(function, (1, 0))[0] for name, function in TIMERS.items()}
    connect, size = symbols.get("unix_stream_connect", (0, 0))
    return known | {"UNIX_CONNECT": connect, "UNIX_CONNECT_SIZE": size}


class Probes:
    """The programs. They stay attached and look at the clock themselves: attaching costs a CPU."""

    def __init__(self) -> None:
        if not RUNNING.exists():
            raise RunError("it has no type information (BTF)")
        macros = addresses(Btf(RUNNING.read_bytes()))
        head = "".join(f"#define {name} {value}ull\n" for name, value in macros.items())
        head += f"#define COUNTED u64 {', '.join(column.field for column in COUNTED)};\n"
        self.by_functions = not callsite.has_event("sock:sock_send_length")
        text = head + "".join(source.read_text(encoding="ascii") for source in SOURCES)
        for name, arguments, what in FUNCTIONS if self.by_functions else ():
            is_socket = int(name.startswith("unix"))
            text += FUNCTION.format(name=name, arguments=arguments, what=what, is_socket=is_socket)
        self.bpf = frame.compiled(text)
        self._events = STATE_EVENTS | ({} if self.by_functions else EVENTS)
        # Function probes stay where they are: attaching them takes too long.
        self.may_detach = not self.by_functions
        self._own: Programs | None = None
        # For how long they have counted, and for how long the kernel has called them.
        self.active_s = self.attached_s = self._since = 0.0
        self._jiffies = WINDOW  # of each window: they count
        ticks = re.search(r"^jiffies: (\d+)", TIMER_LIST.read_text(), re.MULTILINE)
        self._first_window = time.clock_gettime(COARSE) - int(ticks[1]) % WINDOW * JIFFY_S
        self.runs = self.ns = self.fixed_ns = self.missed = 0
        self._numbers: dict[int, int] = {0: 0}  # addresses of the kernel's memory stay here

    def attach(self, share: float) -> None:
        """Begin to count so much of the time, or go on."""
        if self._since:
            return
        for event, function in self._events.items():
            self.bpf.attach_raw_tracepoint(tp=event.encode(), fn_name=function.encode())
        # bpf_ktime_get_ns() has the same clock. Attaching may take a second: it counts from here.
        self.bpf["resumed"][0] = self.bpf["resumed"].Leaf(time.monotonic_ns())
        self._since = time.monotonic()
        self.count(share)
        if self._own is None:
            self._own = Programs(os.getpid())
            print(COUNTING, file=sys.stderr, flush=True)

    def count(self, share: float) -> None:
        """Count so much of the time from now on."""
        self._account()
        self._jiffies = min(WINDOW, max(1, round(share * WINDOW)))
        self.bpf["share"][0] = self.bpf["share"].Leaf(self._jiffies)

    def detach(self) -> None:
        """Stop for now."""
        if not self._since:
            return
        self._account()
        self._since = 0.0
        self.bpf["share"][0] = self.bpf["share"].Leaf(0)
        for event in self._events:
            self.bpf.detach_raw_tracepoint(tp=event.encode())

    def _account(self) -> None:
        now = time.monotonic()
        if self._since:
            self.attached_s += now - self._since
            self.active_s += self._counted_until(now) - self._counted_until(self._since)
            self._since = now

    def _counted_until(self, now: float) -> float:
        """For how long this share has counted since the first window: a pause may cut windows."""
        windows, part = divmod((now - self._first_window) / JIFFY_S, WINDOW)
        return JIFFY_S * (windows * self._jiffies + min(part, self._jiffies))

    def pids(self) -> set[int]:
        """The processes that own an end, or have begun to connect."""
        maps = (self.bpf["ends"], self.bpf["opening"])
        return {value.pid for table in maps for _, value in table.items_lookup_batch()} - {0}

    def cost_ns(self) -> float:
        """What the programs have taken so far: their own time, and the way to them.

        `fixed_ns` of it they take whenever they are attached, also where they do not count.
        """
        assert self._own is not None
        self._account()
        own = self._own.read()
        self.runs, self.ns = sum(p.runs for p in own), sum(p.ns for p in own)
        self.missed = sum(p.missed or 0 for p in own)
        way = ENTRY_NS * self.runs
        self.fixed_ns = way + sum(p.ns for p in own if p.name == STATE_PROGRAM)
        return self.ns + way

    def ends(self, old: set[int]) -> Iterator[dict[str, Any]]:
        """A row for each end that sent or received; `old`: inodes from before the watch."""
        for end, traffic in self.bpf["ends"].items_lookup_batch():
            if traffic.pid:
                if traffic.inode in old and not is_closed(end.net):
                    traffic.connections = traffic.lead = 0
                yield row(end, traffic, self._number)

    def _number(self, word: int) -> int:
        return self._numbers.setdefault(word, len(self._numbers))

    def failures(self) -> Iterator[dict[str, Any]]:
        """A row for each process and place that it failed to connect to."""
        for key, count in self.bpf["failures"].items():
            place = path_of(bytes(key.path)) if key.family == UNIX else address(key.where)
            portless = bool(key.portless)
            yield {"pid": key.pid, "place": place, "count": count.value, "portless": portless}


UNIX = 1
FAMILIES = {UNIX: "unix", 2: "tcp", 10: "tcp", 17: "udp"}
OPENED = ("", "connected", "accepted")
LEADS = (None, False, True)
LIFE = ("segments_out", "segments_in", "resent", "bytes_out", "bytes_in", "unread")
TRANSPORT_WAITS = ("delayed-ack", "cork", "resent", "syn", "paced")


def is_closed(net: int) -> bool:
    """Whether the namespace of an end's key has CLOSED turned over: an address, 0 or 1."""
    return net >> 62 in (0b01, 0b10)


def row(end: Any, traffic: Any, number: Callable[[int], int]) -> dict[str, Any]:
    """An end as JSON. `number` makes a small number of an address in the kernel."""
    family, net, own, peer = FAMILIES[traffic.family], end.net, end.own, end.peer
    names = [str(number(word)) if family == "unix" else address(word) for word in (own, peer)]
    if is_closed(net):
        net ^= CLOSED
        pids = own if traffic.side == OPENED.index("connected") else peer
        names[own != pids] = f"closed {pids >> 32}-{pids & 0xFFFFFFFF}:0"
    return {
        "family": family,
        "net": number(net),
        "own": names[0],
        "peer": names[1],
        "comm": traffic.comm.decode(errors="replace"),
        "opened": OPENED[traffic.side],
        "datagram": bool(traffic.datagram),
        "leads": LEADS[traffic.lead],
        "path": path_of(bytes(traffic.path)) if family == "unix" else "",
        "life": life(traffic) if family == "tcp" else None,
        "waits": {
            name: [count, count * traffic.wait_ns[n] // max(1, traffic.timed[n])]
            for n, (name, count) in enumerate(zip(TRANSPORT_WAITS, traffic.waits, strict=True))
            if count  # those that a pause cut are as long as the others
        },
        "pid": traffic.pid,
        "cpus": traffic.cpus,
        "namespace": traffic.namespace,
        "inode": traffic.inode,
        **{column.key: counted(traffic, column) for column in COUNTED},
    }


def life(traffic: Any) -> dict[str, int]:
    """What TCP has counted since the connection opened, until its process sent; of those that have
    closed, one of them."""
    return {name: getattr(traffic, name) for name in LIFE}


def counted(traffic: Any, column: Column) -> int:
    """What the kernel program has counted, as watch.json has it."""
    count: int = getattr(traffic, column.field)
    return round(count * JIFFY_S * 1000) if column.unit == "jiffies" else count


def address(number: int) -> str:
    """An address and its port. Of IPv6 the four words are folded to one, but for ::1."""
    host = (number >> 16).to_bytes(4, "little")
    name = "::1" if host == bytes((0, 0, 0, 1)) else ".".join(map(str, host))
    return f"{name}:{number & 0xFFFF}"


def path_of(raw: bytes) -> str:
    """The path, or an abstract name behind an @; empty where it has none."""
    name = raw.rstrip(b"\0").decode(errors="replace")
    return name.replace("\0", "@", 1) if name.startswith("\0") else name.partition("\0")[0]
