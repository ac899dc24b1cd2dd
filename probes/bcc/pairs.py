# SPDX-License-Identifier: GPL-2.0-or-later
"""pairs - who talks to whom on this machine, over TCP and Unix sockets?

USAGE: sudo python3 probes/bcc/pairs.py SECONDS LIMIT

HOOKS  sock:sock_send_length and sock:sock_recv_length (Linux 6.3), of every socket; before, the
       returns of the functions below them. sock:inet_sock_set_state for connections that open.
OUTPUT One JSON object: `ends`, a row for each end of each connection, with what it sent and
       received; `processes`, the CPU time and the switches of those who own an end; and what the
       probes cost.
READ   Counts are kept in the kernel, so their number costs nothing. `--watch` of run.sh makes
       pairs of the ends.
CAVEAT Nothing is read of what is sent. Where the probes would take more than LIMIT percent of
       the CPU time of the processes that they watch, they are detached for a part of each second:
       `active_s` says for how long they counted.
"""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from probes.bcc import frame
from probes.btf import Btf, BtfError
from runners.collect.programs import Programs, enable_statistics

FORMAT = 1
ENTRIES = 1 << 16
PERIOD_S, FIRST_S, LEAST_S = 1.0, 0.3, 0.04
# A raw tracepoint's way to its program, and the two clock readings of the statistics, which they
# do not contain: docs/cost-of-instruments.md, "watch".
ENTRY_NS = 60
OFFSETS = {
    **{"FAMILY": "sock_common.skc_family", "NET": "sock_common.skc_net"},
    **{"DADDR6": "sock_common.skc_v6_daddr", "PROTOCOL": "sock.sk_protocol"},
    **{"SOCKET": "sock.sk_socket", "PEER": "unix_sock.peer", "ADDRESS": "unix_sock.addr"},
    **{"NAME": "unix_address.name", "INUM": "net.ns.inum"},
}
SOURCE = Path(__file__).with_name("pairs.c")
# Hook → its program. With function probes, a receive of 5.10 has one argument more than later.
TRACEPOINTS = """
int on_send(struct bpf_raw_tracepoint_args *ctx)
{
	happened((void *)ctx->args[0], (int)ctx->args[1], SENT);
	return 0;
}

int on_receive(struct bpf_raw_tracepoint_args *ctx)
{
	happened((void *)ctx->args[0], (int)ctx->args[1], RECEIVED);
	return 0;
}
"""
STATE = """
int on_state(struct bpf_raw_tracepoint_args *ctx)
{
	void *sk = (void *)ctx->args[0];
	struct end end = {};
	struct common common;
	struct traffic *traffic;

	if ((int)ctx->args[2] != ESTABLISHED || !identify(sk, &end, &common))
		return 0;
	if ((traffic = ends.lookup(&end)) || (traffic = new_end(sk, &end, &common))) {
		traffic->opened = (int)ctx->args[1] == SYN_SENT ? CONNECTED : ACCEPTED;
		traffic->connections++;
		traffic->last = NOTHING;
	}
	return 0;
}
"""
EVENTS = {"sock_send_length": "on_send", "sock_recv_length": "on_receive"}
STATE_EVENT = {"inet_sock_set_state": "on_state"}
# Before Linux 6.3: the function, the number of its arguments, and its first: a socket or a sock.
FUNCTIONS = (
    ("tcp_sendmsg", 3, "sk", "SENT"),
    ("tcp_recvmsg", 5, "sk", "RECEIVED"),
    ("unix_stream_sendmsg", 3, "socket", "SENT"),
    ("unix_stream_recvmsg", 4, "socket", "RECEIVED"),
)
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


def functions(nonblock: bool) -> str:
    """C: a program for the return of each function. Its result follows its arguments."""
    text = ""
    for name, arguments, first, what in FUNCTIONS:
        place = arguments + (1 if nonblock and name == "tcp_recvmsg" else 0)
        sk = "(void *)ctx[0]" if first == "sk" else "sk"
        read = (
            "" if first == "sk" else "\tvoid *sk = 0;\n"
            "\tbpf_probe_read_kernel(&sk, 8, (char *)ctx[0] + SOCK);\n"
        )  # fmt: skip
        text += (
            f"KRETFUNC_PROBE({name})\n{{\n{read}\thappened({sk}, (int)ctx[{place}], {what});\n"
            "\treturn 0;\n}\n"
        )
    return text


class Probes:
    """The programs, attached in slices of time."""

    def __init__(self) -> None:
        try:
            btf = Btf.of_kernel()
            macros = {name: btf.offset(path) for name, path in OFFSETS.items()}
            alloc = btf.offset("socket_alloc.vfs_inode") + btf.offset("inode.i_ino")
            macros |= {"INODE": alloc - btf.offset("socket_alloc.socket")}
            macros |= {"SOCK": btf.offset("socket.sk"), "ENTRIES": ENTRIES}
        except BtfError as error:
            raise frame.ToolError(str(error)) from error
        head = "".join(f"#define {name} {value}\n" for name, value in macros.items())
        self.by_functions = not frame.has_event("sock:sock_send_length")
        release = tuple(int(word) for word in os.uname().release.split("-")[0].split(".")[:2])
        hooks = functions(release < (5, 19)) if self.by_functions else TRACEPOINTS
        self.bpf = frame.compiled(head + SOURCE.read_text(encoding="ascii") + hooks + STATE)
        self._events = STATE_EVENT | ({} if self.by_functions else EVENTS)
        # Function probes stay where they are: attaching them takes too long.
        self.sliced = not self.by_functions
        self._own: Programs | None = None
        self._spent: dict[int, tuple[int, int]] = {}
        self.runs = self.ns = self.missed = 0

    def attach(self) -> None:
        for event, function in self._events.items():
            self.bpf.attach_raw_tracepoint(tp=event.encode(), fn_name=function.encode())
        if self._own is None:
            self._own = Programs(os.getpid())

    def detach(self) -> None:
        for event in self._events:
            self.bpf.detach_raw_tracepoint(tp=event.encode())

    def cost_ns(self) -> float:
        """What the programs have taken so far: their own time, and the way to them."""
        assert self._own is not None
        found = self._own.read()
        self.runs, self.ns = sum(p.runs for p in found), sum(p.ns for p in found)
        self.missed = sum(p.missed or 0 for p in found)
        return self.ns + ENTRY_NS * self.runs

    def ends(self) -> Iterator[dict[str, Any]]:
        """A row for each end that sent or received."""
        numbers: dict[int, int] = {0: 0}  # addresses of the kernel's memory stay here
        for end, traffic in self.bpf["ends"].items_lookup_batch():
            if traffic.pid:
                yield row(end, traffic, lambda found: numbers.setdefault(found, len(numbers)))

    @property
    def lost(self) -> int:
        return int(self.bpf["lost"][0].value)


FIELDS = (
    *("pid", "sent", "received", "sends", "receives", "empty", "turns", "answers", "answer_ns"),
    *("works", "work_ns", "near", "far", "cpus", "connections", "namespace", "inode"),
)
FAMILIES = {1: "unix", 2: "tcp", 10: "tcp"}
OPENED = ("", "connected", "accepted")


def row(end: Any, traffic: Any, number: Callable[[int], int]) -> dict[str, Any]:
    """An end as JSON. `number` makes a small number of an address in the kernel."""
    family = FAMILIES[traffic.family]
    own, peer = (
        str(number(word)) if family == "unix" else address(word) for word in (end.own, end.peer)
    )
    return {
        "family": family,
        "net": number(end.net),
        "own": own,
        "peer": peer,
        "comm": traffic.comm.decode(errors="replace"),
        "opened": OPENED[traffic.opened],
        "path": path_of(bytes(traffic.path)) if family == "unix" else "",
        "sizes": {str(1 << n): count for n, count in enumerate(traffic.sizes) if count},
        **{name: getattr(traffic, name) for name in FIELDS},
    }


def address(number: int) -> str:
    """An address and its port. Of IPv6 the four words are folded to one, but for ::1."""
    host = (number >> 16).to_bytes(4, "little")
    name = "::1" if host == bytes((0, 0, 0, 1)) else ".".join(map(str, host))
    return f"{name}:{number & 0xFFFF}"


def path_of(raw: bytes) -> str:
    """The path, or an abstract name behind an @; empty where it has none."""
    abstract = not raw[0]
    name = raw[abstract:].split(b"\0")[0].decode(errors="replace")
    return f"@{name}" if abstract and name else name


def processes() -> dict[int, dict[str, int]]:
    """What each process has used so far, by /proc."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        user, system = int(fields[11]) * TICK_MS, int(fields[12]) * TICK_MS
        found[int(folder.name)] = {"user_ms": round(user), "system_ms": round(system)}
    return found


def switches(pid: int) -> dict[str, int]:
    """The context switches of all threads that a process has now."""
    counted = {"voluntary": 0, "involuntary": 0}
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        try:
            lines = status.read_text(errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, value = line.partition(":")
            if name == "voluntary_ctxt_switches":
                counted["voluntary"] += int(value)
            elif name == "nonvoluntary_ctxt_switches":
                counted["involuntary"] += int(value)
    return counted


def identity(pid: int) -> dict[str, Any]:
    """Whose process it is, and where its files are."""
    folder = Path(f"/proc/{pid}")
    try:
        mounts = os.readlink(folder / "ns/mnt")
        ports = listening(folder / "net/tcp") | listening(folder / "net/tcp6")
        threads = len(list((folder / "task").iterdir()))
        uid = folder.stat().st_uid
        comm = (folder / "comm").read_text(errors="replace").strip()
    except OSError:
        return {"ended": True}
    return {"comm": comm, "uid": uid, "mounts": mounts, "threads": threads, "listening": sorted(ports)}


def listening(table: Path) -> set[int]:
    """Ports that somebody listens at, in the process's network namespace."""
    rows = [line.split() for line in table.read_text(encoding="ascii").splitlines()[1:]]
    return {int(fields[1].rpartition(":")[2], 16) for fields in rows if fields[3] == "0A"}


def watched_ns(before: dict[int, Any], after: dict[int, Any], pids: set[int]) -> float:
    """CPU time of these processes between two readings."""
    return 1e6 * sum(
        sum(after[pid].values()) - sum(before.get(pid, {}).values()) for pid in pids & set(after)
    )


def watch(probes: Probes, seconds: float, limit: float) -> dict[str, Any]:
    """Count for so long, in slices where the probes are too dear; the whole answer."""
    every = [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]
    waits = {pid: switches(pid) for pid in every}
    before, began = processes(), time.monotonic()
    active, share, stopped = 0.0, 1.0, False
    while (left := began + seconds - time.monotonic()) > LEAST_S / 2 and not stopped:
        length = min(left, FIRST_S if not active else max(LEAST_S, share * PERIOD_S))
        length = left if active and share >= 1 else length
        start = time.monotonic()
        probes.attach()
        stopped = signal.sigtimedwait(frame.SIGNALS, length) is not None
        probes.detach()
        active += time.monotonic() - start
        if probes.sliced and not stopped:
            pids = {traffic.pid for traffic in probes.bpf["ends"].values()}
            used = watched_ns(before, processes(), pids) * active / (time.monotonic() - began)
            # The cost of a second of counting, as a share of what the watched use in a second.
            cost = probes.cost_ns() / used if used else 0.0
            share = min(1.0, 0.9 * limit / 100 / cost) if cost else 1.0
            pause = PERIOD_S - length if share < 1 and length < PERIOD_S else 0.0
            left = began + seconds - time.monotonic()
            stopped = pause_for(min(pause, left))
    lasted, after = time.monotonic() - began, processes()
    return answer(probes, before, after, waits, lasted=lasted, active=active)


def pause_for(seconds: float) -> bool:
    """Whether a signal came meanwhile."""
    return seconds > 0 and signal.sigtimedwait(frame.SIGNALS, seconds) is not None


def answer(
    probes: Probes,
    before: dict[int, Any],
    after: dict[int, Any],
    waits: dict[int, Any],
    *,
    lasted: float,
    active: float,
) -> dict[str, Any]:
    """All that was seen."""
    ends = list(probes.ends())
    pids = {end["pid"] for end in ends if end["pid"]}
    used = watched_ns(before, after, pids)
    cost = probes.cost_ns()
    people = {}
    for pid in sorted(pids):
        now, then = after.get(pid, {}), before.get(pid, {})
        grown = {name: value - then.get(name, 0) for name, value in now.items()}
        slept = {
            name: max(0, count - waits.get(pid, {}).get(name, 0))
            for name, count in switches(pid).items()
        }
        people[str(pid)] = {**grown, **slept, **identity(pid)}
    return {
        "format": FORMAT,
        "seconds": round(lasted, 4),
        "active_s": round(active, 4),
        "cpus": len(os.sched_getaffinity(0)),
        "hooks": "functions" if probes.by_functions else "tracepoints",
        "probes": {
            "runs": probes.runs,
            "ns": probes.ns,
            "entry_ns": ENTRY_NS,
            "missed": probes.missed,
            "watched_cpu_ns": round(used),
            "share": round(cost / used, 6) if used else None,
        },
        "lost": probes.lost,
        "ends": ends,
        "processes": people,
    }


def main() -> int:
    """The tool's exit status."""
    parser = argparse.ArgumentParser(
        prog="pairs.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("seconds", type=float)
    parser.add_argument("limit", type=float, help="percent of the watched CPU time")
    given = parser.parse_args()
    frame.hold_signals()
    try:
        statistics = enable_statistics()
        probes = Probes()
        print(frame.READY, file=sys.stderr, flush=True)
        found = watch(probes, given.seconds, given.limit)
        os.close(statistics)
    except (frame.ToolError, OSError) as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 1
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
