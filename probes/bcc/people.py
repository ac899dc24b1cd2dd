# SPDX-License-Identifier: GPL-2.0-or-later
"""What /proc says of the processes that own an end of a connection: see pairs.py."""

import ctypes
import json
import os
import re
import resource
import socket
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

PLACES = ("tmp", "run", "var/run", "dev/shm", "var/lib")  # where sockets lie
COUNTS = ("ListenOverflows",)  # of a network namespace: listeners that had no room
# Who made a control group, and the first of the 64 digits: docker-…, libpod-…, cri-containerd:…
CONTAINER = re.compile(r"[/:](?:([a-z-]+)[-:])?([0-9a-f]{64})")
SHORT = 12  # digits of it, as engines show it
# Where engines keep names, all of them root's: another user's file may be one that never ends.
DOCKER = "var/lib/docker/containers/{}/config.v2.json"
NODE = "var/log/containers/*-{}.log"  # a Kubernetes node's: pod_namespace_container-ID
PODMAN = "var/lib/containers/storage/*-containers/*containers.json"
# Libraries that encrypt connections, as /proc/PID/maps names them; a static one is not seen.
TLS = re.compile(rb"/((?:libssl|libgnutls|libmbedtls|libwolfssl|libs2n)\.so[.0-9]*)")
# Where a thread sleeps whose send has no room, or whose connect(2) to a Unix socket
ROOM = {"sk_stream_wait_memory", "sock_alloc_send_pskb", "unix_wait_for_peer"}
LISTEN, TIME_WAIT = 10, 6  # states of TCP
DIAG, BY_FAMILY, DUMP = 4, 20, 0x301  # NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, request and dump
OTHER_FILES = 160  # descriptors of what watches: its programs, maps and events
PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
REUSE = PORT_RANGE.with_name("tcp_tw_reuse")
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


def stat_fields(pid: int) -> list[str]:
    """/proc/PID/stat behind the name, which may contain anything. Raises OSError."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def switches(task: Path) -> tuple[int, int]:
    """Voluntary and involuntary switches of a thread: the last lines of its status."""
    lines = (task / "status").read_text(errors="replace").splitlines()[-2:]
    voluntary, involuntary = (int(line.partition(":")[2]) for line in lines)
    return voluntary, involuntary


def wchan(task: Path) -> str:
    """The kernel's function in which a thread sleeps; empty if it does not, or has ended."""
    with suppress(OSError):
        return (task / "wchan").read_text(encoding="ascii")
    return ""


def processes(pids: set[int]) -> dict[int, dict[str, int]]:
    """What these processes have used so far, by /proc; without those that have ended."""
    used = {}
    for pid in pids:
        try:
            fields = stat_fields(pid)
        except OSError:
            continue
        user, system = int(fields[11]) * TICK_MS, int(fields[12]) * TICK_MS
        used[pid] = {"user_ms": round(user), "system_ms": round(system)}
    return used


def threads(pid: int) -> dict[str, tuple[int, int, int, int]]:
    """Of each thread: voluntary and involuntary switches; how long it ran and wanted to, in ns."""
    used = {}
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            ran, waited, _ = (task / "schedstat").read_text(encoding="ascii").split()
            used[task.name] = (*switches(task), int(ran), int(waited))
        except (OSError, ValueError):
            continue
    return used


def identity(pid: int, listeners: "Listeners") -> dict[str, Any]:
    """Whose process it is, where its files are, and the ports of its network's listeners."""
    folder = Path(f"/proc/{pid}")
    try:
        return {
            "comm": (folder / "comm").read_text(errors="replace").strip(),
            "container": container_of((folder / "cgroup").read_text(errors="replace")),
            "places": [shared(folder / "root" / name) for name in PLACES],
            "allowed": sorted(os.sched_getaffinity(pid)),
            "listening": listeners.ports(folder),
            "tls": tls_library(folder),
        }
    except OSError:
        return {"ended": True}


def tls_library(folder: Path) -> str:
    """The library that this process may encrypt connections with; empty where it has mapped none.

    That costs less than a look at what is sent, which nobody reads here, and says less.
    """
    with suppress(OSError):
        found = TLS.search((folder / "maps").read_bytes())
        return found[1].decode("ascii") if found else ""
    return ""


def container_of(groups: str) -> str:
    """Who made the innermost container, by /proc/PID/cgroup, and its name; empty if none."""
    found = ""
    for path in re.findall(r"^\d+:[^:]*:(.*)", groups, re.MULTILINE):
        for maker, digits in CONTAINER.findall(path):
            # By cgroupfs, not by systemd, it is the first folder: /docker/…, /kubepods/…/pod…/…
            found = f"{maker or path.split('/')[1]} {container_name(digits)}"
    return found


def container_name(digits: str, root: Path = Path("/")) -> str:
    """A container's name, where its engine keeps it; else the beginning of its ID."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads((root / DOCKER.format(digits)).read_text(encoding="utf-8"))
        return str(kept["Name"]).lstrip("/")
    for log in root.glob(NODE.format(digits)):
        return log.name.removesuffix(f"-{digits}.log")
    for containers in root.glob(PODMAN):
        with suppress(OSError, ValueError, LookupError, TypeError, StopIteration):
            rows = json.loads(containers.read_text(encoding="utf-8"))
            return str(next(row["names"][0] for row in rows if row["id"] == digits))
    return digits[:SHORT]


def shared(place: Path) -> str:
    """What is the same for two processes that see the same folder; empty without the folder."""
    try:
        status = place.stat()
    except OSError:
        return ""
    return f"{status.st_dev}:{status.st_ino}"


def listening(table: Path) -> set[int]:
    """Ports that somebody listens at, in the process's network namespace."""
    rows = [line.split() for line in table.read_text(encoding="ascii").splitlines()[1:]]
    return {int(fields[1].rpartition(":")[2], 16) for fields in rows if fields[3] == "0A"}


def namespaces() -> dict[int, Path]:
    """Each network namespace (inode) → a process's folder in it."""
    spaces: dict[int, Path] = {}
    for folder in (Path("/proc/self"), *Path("/proc").glob("[0-9]*")):
        with suppress(OSError):
            spaces.setdefault((folder / "ns/net").stat().st_ino, folder / "net")
    return spaces


def network_counts(spaces: dict[int, Path]) -> dict[int, dict[str, int]]:
    """What each namespace has counted of TCP (`TcpExt` of /proc/net/netstat): COUNTS of it."""
    counted: dict[int, dict[str, int]] = {}
    for inode, folder in spaces.items():
        with suppress(OSError):
            names, counts, *_ = (folder / "netstat").read_text(encoding="ascii").splitlines()
            known = dict(zip(names.split()[1:], map(int, counts.split()[1:]), strict=True))
            counted[inode] = {name: known[name] for name in COUNTS if name in known}
            counted[inode] |= dropped(folder)
    return counted


def dropped(tables: Path) -> Counter[str]:
    """Datagrams for which a socket of UDP had no room, by its port. Raises OSError."""
    drops: Counter[str] = Counter()
    for name in ("udp", "udp6"):
        for line in (tables / name).read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if int(fields[-1]):
                drops[f"dropped {int(fields[1].rpartition(':')[2], 16)}"] += int(fields[-1])
    return drops


class Listeners:
    """Who waits at each listener of TCP, and for how many there is room, as `ss -ltn` has it; the
    connections in TIME_WAIT. By sock_diag(7), whose sockets stay in their namespace."""

    def __init__(self, spaces: dict[int, Path]) -> None:
        self._sockets: dict[int, socket.socket] = {}
        self.counts: dict[int, dict[str, int]] = {}
        # Of networks for which no descriptor is left, `ports` reads the tables.
        room = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - OTHER_FILES
        with Path("/proc/self/ns/net").open("rb") as own:
            for inode, folder in [*spaces.items()][: max(1, room)]:
                with suppress(OSError), (folder.parent / "ns/net").open("rb") as space:
                    enter(space.fileno())
                    self._sockets[inode] = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, DIAG)
                    self.counts[inode] = {"ports": local_ports(), "reuse": reused()}
            enter(own.fileno())

    def look(self) -> None:
        """The most that have waited so far."""
        for inode, netlink in self._sockets.items():
            counts = self.counts[inode]
            for port, _, waiting, backlog in listed(netlink, LISTEN):
                counts[f"waiting {port}"] = max(waiting, counts.get(f"waiting {port}", 0))
                counts[f"backlog {port}"] = backlog

    def ports(self, process: Path) -> list[int]:
        """The ports of a process's network at the last look. Raises OSError.

        Its tables have each connection in TIME_WAIT, too: to read them for a hundred processes that
        open connections takes a minute. Where nothing is known (a network that is newer than the
        watch, a kernel without inet_diag), they are read.
        """
        counts = self.counts.get((process / "ns/net").stat().st_ino, {})
        known = {int(name[8:]) for name in counts if name.startswith("backlog ")}
        return sorted(known or listening(process / "net/tcp") | listening(process / "net/tcp6"))

    def count_closed(self) -> None:
        """Count who is in TIME_WAIT, by each port that more than one connection has."""
        for inode, netlink in self._sockets.items():
            closed = Counter(port for row in listed(netlink, TIME_WAIT) for port in row[:2])
            shared = {f"time-wait {port}": count for port, count in closed.items() if count > 1}
            self.counts[inode] = {
                name: count
                for name, count in self.counts[inode].items()
                if not name.startswith("time-wait ")
            } | shared

    def close(self) -> None:
        for netlink in self._sockets.values():
            netlink.close()


def local_ports() -> int:
    """How many ports the thread's network namespace has for those who connect."""
    with suppress(OSError, ValueError):
        low, high = map(int, PORT_RANGE.read_text(encoding="ascii").split())
        return high - low + 1
    return 0


def reused() -> int:
    """Whether a port in TIME_WAIT may be used again over loopback, in the thread's namespace."""
    with suppress(OSError, ValueError):
        return int(int(REUSE.read_text(encoding="ascii")) > 0)
    return 0


def enter(space: int) -> None:
    """Make this network namespace the thread's own. Raises OSError."""
    if ctypes.CDLL(None).setns(space, 0):
        raise OSError("setns")


def listed(netlink: socket.socket, state: int) -> Iterator[tuple[int, ...]]:
    """Port, the peer's, and the two lengths of queues of each TCP socket in a state."""
    for family in (socket.AF_INET, socket.AF_INET6):
        wanted = struct.pack("BBxxI48x", family, socket.IPPROTO_TCP, 1 << state)
        netlink.send(struct.pack("IHHII", 16 + len(wanted), BY_FAMILY, DUMP, 0, 0) + wanted)
        kind = BY_FAMILY
        while kind == BY_FAMILY:
            data = netlink.recv(1 << 16)
            while data and kind == BY_FAMILY:
                length, kind = struct.unpack_from("IH", data)
                if kind == BY_FAMILY:  # struct inet_diag_msg
                    ports, queues = struct.unpack_from("!HH", data, 20), data[72:80]
                    yield *ports, *struct.unpack("II", queues)
                data = data[length + 3 & ~3 :]


def unix_inodes(spaces: dict[int, Path]) -> set[int]:
    """The inodes of all Unix sockets."""
    inodes: set[int] = set()
    for folder in spaces.values():
        with suppress(OSError):
            # A name may have line feeds in it, and then what is behind them is no row.
            rows = map(str.split, (folder / "unix").read_text(errors="replace").splitlines()[1:])
            inodes |= {int(row[6]) for row in rows if len(row) > 6 and row[6].isdecimal()}
    return inodes


class People:
    """The processes that own an end: what each used since the watch began."""

    def __init__(self, listeners: Listeners) -> None:
        self._listeners = listeners
        self._first = processes({int(folder.name) for folder in Path("/proc").glob("[0-9]*")})
        self._threads = {pid: threads(pid) for pid in self._first}
        self._ran_ns: dict[int, int] = {}
        self.found: dict[int, dict[str, Any]] = {}

    def look(self, pids: set[int]) -> None:
        """Read them again: what ends before the next look keeps what it had used by now."""
        for pid in pids - set(self.found):
            self.found[pid] = identity(pid, self._listeners)
        # Last, since the probes' cost is read next, and is compared with this.
        now = processes(pids)
        for pid in now:
            entry = self.found[pid]
            grown = now[pid] | self._grown(pid)
            for name, before in self._first.get(pid, {}).items():
                grown[name] -= before
            sleeps = {wchan(task) for task in Path(f"/proc/{pid}/task").glob("*")}
            grown["looks"] = entry.get("looks", 0) + 1
            grown["blocked"] = entry.get("blocked", 0) + (not ROOM.isdisjoint(sleeps))
            for name, value in grown.items():
                # What threads that have ended had counted is gone.
                entry[name] = max(entry.get(name, 0), value)
        for pid in pids - set(now):
            self.found[pid]["ended"] = True

    def _grown(self, pid: int) -> dict[str, int]:
        """Its threads' switches and waits for a CPU; the times of the thread that used most."""
        before = self._threads.get(pid, {})
        grown = [
            [count - first for count, first in zip(counts, before.get(tid, (0,) * 4), strict=True)]
            for tid, counts in threads(pid).items()
        ]
        voluntary, _, ran, waited = list(zip(*grown, strict=True)) or [(0,)] * 4
        self._ran_ns[pid] = max(sum(ran), self._ran_ns.get(pid, 0))
        return {
            "voluntary": sum(voluntary),
            "waited_us": sum(waited) // 1000,
            "ran_ms": max(ran) // 1_000_000,
            "busiest_ms": max(map(sum, zip(ran, waited, strict=True))) // 1_000_000,
        }

    @property
    def cpu_ns(self) -> float:
        """CPU time of all of them together; /proc has it in ticks, and by thread in ns.

        In a short look each of a hundred processes may use less than a tick; what a thread that has
        ended used is in the ticks alone.
        """
        return sum(
            max(1e6 * (row.get("user_ms", 0) + row.get("system_ms", 0)), self._ran_ns.get(pid, 0))
            for pid, row in self.found.items()
        )
