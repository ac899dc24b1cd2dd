# SPDX-License-Identifier: GPL-2.0-or-later
"""What a packet on loopback meets besides the network stack itself: firewalls, taps, queues, BPF.

It is looked up in our network namespace and control group, which are the workload's too. A look
changes nothing: where it would load a kernel module we do not look, since without the module there
is nothing to find. Unix sockets send no packets and meet none of it.
"""

import errno
import os
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from runners.host import programs

SOCKETS, SYMBOLS = Path("/proc/net/netlink"), Path("/proc/kallsyms")
PTYPE = Path("/proc/net/ptype")
NETLINK_NETFILTER = 12
# linux/netfilter/nf_tables.h; requests carry the number of nf_tables in their upper byte.
GETTABLE, GETCHAIN = 0x0A01, 0x0A04
TABLE_NAME, TABLE_FLAGS, DORMANT = 1, 2, 1
CHAIN_TABLE, CHAIN_NAME, CHAIN_HOOK, CHAIN_USE = 1, 3, 4, 6
HOOK_NUMBER, HOOK_PRIORITY, HOOK_DEVICE, HOOK_DEVICES = 1, 2, 3, 4
FAMILIES = {1: "inet", 2: "ip", 5: "netdev", 10: "ip6"}
# Where packets of loopback pass; they are never forwarded, whose number is 2.
HOOKS = {0: "prerouting", 1: "input", 3: "output", 4: "postrouting", 5: "ingress"}
NETDEV_HOOKS = {0: "ingress", 1: "egress"}
# A function of nf_tables that is never inlined: a kernel that has it need not load the module.
NF_TABLES = " nft_do_chain"

GETLINK, GETQDISC = 18, 38  # linux/rth
IFINFOMSG_SIZE, TCMSG_SIZE = 16, 20
LINK_XDP, XDP_ATTACHED = 43, 2
QDISC_KIND = 1
LO = "lo"

CGROUP_HOOKS = {"ingress": 0, "egress": 1, "sock_ops": 3}
TCX_HOOKS = {"ingress": 46, "egress": 47}


# netlink(7).
HEADER = struct.Struct("=IHHII")  # struct nlmsghdr: length, type, flags, sequence, port
ATTRIBUTE = struct.Struct("=HH")  # struct nlattr: length, type
REQUEST_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
ERROR, DONE = 2, 3  # types of messages
KIND = 0x3FFF  # of an attribute's type, without NLA_F_NESTED and NLA_F_NET_BYTEORDER
MOST = 1 << 20  # bytes of one answer; the kernel sends 32 KiB at most
SECONDS = 10  # the kernel answers at once, or not at all


class UnknownError(Exception):
    """The kernel does not tell; the message says why."""


def loopback() -> dict[str, dict[str, Any]]:
    """`loopback` of environment.json: kind of obstacle → `found`, or why it is `unknown`."""
    return {name: _found(look) for name, look in LOOKS.items()}


def met(record: dict[str, dict[str, Any]]) -> str:
    """What was found, in words: `nf_tables: inet filter input (…); conntrack: active`."""
    found = {name: answer["found"] for name, answer in record.items() if answer.get("found")}
    return "; ".join(f"{name}: {', '.join(names)}" for name, names in found.items())


def not_known(record: dict[str, dict[str, Any]]) -> str:
    """What the kernel did not tell, with the reason."""
    why = {name: answer["unknown"] for name, answer in record.items() if "unknown" in answer}
    return "; ".join(f"{name} ({reason})" for name, reason in why.items())


def _found(look: Callable[[], list[str]]) -> dict[str, Any]:
    try:
        return {"found": look()}
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return {"unknown": f"{where}{error.strerror or error}"}
    except UnknownError as error:
        return {"unknown": str(error)}


def _nf_tables() -> list[str]:
    if not has_nf_tables():
        return []
    everything = bytes(4)  # struct nfgenmsg: all families
    tables = dump(NETLINK_NETFILTER, GETTABLE, everything)
    return chains(tables, dump(NETLINK_NETFILTER, GETCHAIN, everything))


def has_nf_tables() -> bool:
    """Whether nf_tables is loaded. Opening a netlink socket of its family would load it."""
    lines = SOCKETS.read_text(encoding="ascii").splitlines()[1:]
    if not any(int(line.split()[1]) == NETLINK_NETFILTER for line in lines):
        return False
    with SYMBOLS.open(encoding="ascii") as symbols:
        return any(NF_TABLES in line for line in symbols)


def chains(tables: list[bytes], answers: list[bytes]) -> list[str]:
    """Chains that packets of loopback go through: `inet filter input (hook input, …)`."""
    asleep, words = set(_dormant(tables)), []
    for answer in answers:
        family, found = FAMILIES.get(answer[0], ""), dict(attributes(answer[4:]))
        table = text(found.get(CHAIN_TABLE, b""))
        if not family or (family, table) in asleep or CHAIN_HOOK not in found:
            continue  # it is of bridges or ARP, or has no effect, or only other chains call it
        if hook := _hook(family, found[CHAIN_HOOK]):
            rules = int.from_bytes(found.get(CHAIN_USE, b""), "big")
            chain = text(found.get(CHAIN_NAME, b""))
            words.append(f"{family} {table} {chain} ({hook}, rules {rules})")
    return words


def _dormant(tables: list[bytes]) -> Iterator[tuple[str, str]]:
    for answer in tables:
        found = dict(attributes(answer[4:]))
        if int.from_bytes(found.get(TABLE_FLAGS, b""), "big") & DORMANT:
            yield FAMILIES.get(answer[0], ""), text(found.get(TABLE_NAME, b""))


def _hook(family: str, value: bytes) -> str:
    """`hook input, priority 0`; empty where packets of loopback do not pass."""
    found = dict(attributes(value))
    number, priority = (
        int.from_bytes(found.get(kind, bytes(4)), "big", signed=True)
        for kind in (HOOK_NUMBER, HOOK_PRIORITY)
    )
    devices = [found[HOOK_DEVICE]] if HOOK_DEVICE in found else []
    devices += [name for _, name in attributes(found.get(HOOK_DEVICES, b""))]
    if devices and LO not in map(text, devices):
        return ""
    name = (NETDEV_HOOKS if family == "netdev" else HOOKS).get(number)
    return f"hook {name}, priority {priority}" if name else ""


def _tables(path: str) -> list[str]:
    """The older kind's tables in this namespace: each has its hooks, even without rules."""
    try:
        return Path(path).read_text(encoding="ascii").split()
    except FileNotFoundError:
        return []  # its module is not loaded


def _conntrack() -> list[str]:
    """`active` where a new connection is tracked. Old entries outlive the rules that made them."""
    count = Path("/proc/sys/net/netfilter/nf_conntrack_count")
    if not count.exists():
        return []  # its module is not loaded
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()),
    ):
        port = f" dport={server.getsockname()[1]} "
        if count.read_text(encoding="ascii").strip() == "0":
            return []
        with Path("/proc/net/nf_conntrack").open(encoding="ascii") as tracked:
            return ["active"] if any(port in line for line in tracked) else []


def taps(listed: str) -> list[str]:
    """Packet sockets that see what passes lo: tcpdump, a DHCP client."""
    found = []
    for line in listed.splitlines():
        protocol, *device, function = line.split() or ("", "")
        if function.startswith(("packet_rcv", "tpacket_rcv")) and device in ([], [LO]):
            found.append(f"{protocol} {function}")
    return found


def _on_lo(request: int, size: int, read: Callable[[list[bytes], int], list[str]]) -> list[str]:
    """What `read` finds about lo in the answers for all devices: a body of zeros wants them all."""
    answers = dump(socket.NETLINK_ROUTE, request, bytes(size))
    return read(answers, socket.if_nametoindex(LO))


def qdiscs(answers: list[bytes], device: int) -> list[str]:
    """The kinds of queue on a device, without `noqueue`. Filters of tc(8) need `clsact`."""
    kinds = (
        text(dict(attributes(answer[TCMSG_SIZE:])).get(QDISC_KIND, b""))
        for answer in answers
        if struct.unpack_from("=i", answer, 4)[0] == device
    )
    return [kind for kind in kinds if kind != "noqueue"]


def xdp(answers: list[bytes], device: int) -> list[str]:
    """`attached` where a device has an XDP program, in any mode."""
    for answer in answers:
        if struct.unpack_from("=i", answer, 4)[0] == device:
            link = dict(attributes(answer[IFINFOMSG_SIZE:]))
            found = dict(attributes(link.get(LINK_XDP, b"")))
            return ["attached"] if any(found.get(XDP_ATTACHED, b"")) else []
    raise UnknownError("there is no device lo")


def _cgroup_bpf() -> list[str]:
    """Programs of our control group and of the groups above it: systemd's IPAddressAllow=, say."""
    if (folder := cgroup()) is None:
        return []
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return list(_programs(descriptor, CGROUP_HOOKS, programs.EFFECTIVE))
    finally:
        os.close(descriptor)


def _programs(target: int, hooks: dict[str, int], flags: int = 0) -> Iterator[str]:
    for words, hook in hooks.items():
        try:
            found = programs.attached(target, hook, flags)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            found = []  # this kernel has no such hook
        yield from (f"{words} {name}".rstrip() for name in found)


def cgroup() -> Path | None:
    """Our group's folder (cgroups(7)); None where this kernel has no unified hierarchy."""
    lines = _named("/proc/self/cgroup")
    ours = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), None)
    if ours is None:
        return None
    for line in _named("/proc/self/mounts"):
        _, mounted, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(mounted, ours)
    raise UnknownError("no cgroup2 file system is mounted")


def _named(path: str) -> list[str]:
    """The lines of a file with names of files, which are bytes and need not be UTF-8."""
    return os.fsdecode(Path(path).read_bytes()).splitlines()


def dump(protocol: int, request: int, body: bytes) -> list[bytes]:
    """All that the kernel answers by netlink(7), each message without its header. Raises OSError.

    This is what nft(8), tc(8) and ip(8) do.
    """
    found: list[bytes] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as kernel:
        kernel.settimeout(SECONDS)
        kernel.send(HEADER.pack(HEADER.size + len(body), request, REQUEST_DUMP, 1, 0) + body)
        done = False
        while not done:
            bodies, done = messages(kernel.recv(MOST))
            found += bodies
    return found


def messages(data: bytes) -> tuple[list[bytes], bool]:
    """The messages of one answer, and whether it is the last. Raises the OSError that it holds."""
    found: list[bytes] = []
    for kind, body in _parts(data, HEADER):
        if kind in (ERROR, DONE):
            code = int.from_bytes(body[:4], "little", signed=True)
            if code < 0:
                raise OSError(-code, os.strerror(-code))
            return found, True
        found.append(body)
    return found, False


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and value of each attribute (`enum nft_chain_attributes`, say), not of nested ones."""
    return ((kind & KIND, value) for kind, value in _parts(data, ATTRIBUTE))


def text(value: bytes) -> str:
    """The value of a string, up to its zero."""
    return value.partition(b"\0")[0].decode(errors="replace")


def _parts(data: bytes, header: struct.Struct) -> Iterator[tuple[int, bytes]]:
    """Type and value of each message, or of each attribute: both begin with length and type."""
    at = 0
    while at + header.size <= len(data):
        length, kind = header.unpack_from(data, at)[:2]
        yield kind, data[at + header.size : at + length]
        at += max(length + 3 & ~3, header.size)


LOOKS: dict[str, Callable[[], list[str]]] = {
    "nf_tables": _nf_tables,
    "iptables": lambda: _tables("/proc/net/ip_tables_names"),
    "ip6tables": lambda: _tables("/proc/net/ip6_tables_names"),
    "conntrack": _conntrack,
    "packet sockets": lambda: taps(PTYPE.read_text(encoding="utf-8", errors="replace")),
    "qdisc on lo": lambda: _on_lo(GETQDISC, TCMSG_SIZE, qdiscs),
    "XDP on lo": lambda: _on_lo(GETLINK, IFINFOMSG_SIZE, xdp),
    "tcx on lo": lambda: list(_programs(socket.if_nametoindex(LO), TCX_HOOKS)),
    "cgroup BPF": _cgroup_bpf,
}
