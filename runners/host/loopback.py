# SPDX-License-Identifier: GPL-2.0-or-later
"""What a packet on loopback meets besides the network stack: firewalls, taps, queues, BPF.

Our network namespace and control group are the workload's too. Where a look would load a kernel
module there is nothing to find. Unix sockets send no packets and meet none of it.
"""

import errno
import json
import os
import shutil
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from probes import bpf
from runners.process import RunError, attempt, last_words

NETLINK_NETFILTER = "12"
# Whose chains packets of loopback pass: those of bridges and ARP are none, nor is hook `forward`.
FAMILIES = ("inet", "ip", "ip6", "netdev")
# A function of nf_tables that is never inlined: a kernel that has it need not load the module.
NF_TABLES = " nft_do_chain"
LO = "lo"
CGROUP_HOOKS = {"ingress": 0, "egress": 1, "sock_ops": 3}
TCX_HOOKS = {"ingress": 46, "egress": 47}


def loopback() -> dict[str, dict[str, Any]]:
    """`loopback` of environment.json: kind of obstacle → `found`, or why it is `unknown`."""
    return {name: _found(look) for name, look in LOOKS.items()}


def met(record: dict[str, dict[str, Any]]) -> str:
    """What is there, in words: `nf_tables: inet filter input (…); conntrack: active`."""
    obstacles = {name: answer["found"] for name, answer in record.items() if answer.get("found")}
    return "; ".join(f"{name}: {', '.join(names)}" for name, names in obstacles.items())


def not_known(record: dict[str, dict[str, Any]]) -> str:
    """What the kernel did not tell, with the reason."""
    why = {name: answer["unknown"] for name, answer in record.items() if "unknown" in answer}
    return "; ".join(f"{name} ({reason})" for name, reason in why.items())


def _found(look: Callable[[], list[str]]) -> dict[str, Any]:
    try:
        return {"found": look()}
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return {"unknown": f"{place}{error.strerror or error}"}
    except RunError as error:
        return {"unknown": str(error)}


def _lines(path: str) -> list[str]:
    """A file's lines, which may hold names of files: bytes. None where its module is not loaded."""
    try:
        return os.fsdecode(Path(path).read_bytes()).splitlines()
    except FileNotFoundError:
        return []


def _nf_tables() -> list[str]:
    """Nothing where it is not loaded: opening a netlink socket of its family would load it."""
    sockets = (line.split()[1] for line in _lines("/proc/net/netlink"))
    if NETLINK_NETFILTER not in sockets or not any(
        NF_TABLES in line for line in _lines("/proc/kallsyms")
    ):
        return []
    return chains(answer_of("nft", "-j", "list", "ruleset")["nftables"])


def answer_of(*words: str) -> Any:
    """What a program prints as JSON. Raises RunError."""
    if not shutil.which(words[0]):
        raise RunError(f"{words[0]} is not installed")
    done = attempt(words)
    if done.returncode != 0:
        raise RunError(f"{words[0]}: {last_words(done.stderr)}")
    return json.loads(done.stdout)


def chains(ruleset: list[dict[str, dict[str, Any]]]) -> list[str]:
    """Chains that packets of loopback go through: `inet filter input (hook input, …)`."""
    rules = Counter(
        (rule["family"], rule["table"], rule["chain"])
        for entry in ruleset
        if (rule := entry.get("rule"))
    )
    words = []
    for chain in (entry["chain"] for entry in ruleset if "hook" in entry.get("chain", ())):
        family, table, name, hook = (chain[key] for key in ("family", "table", "name", "hook"))
        devices = chain.get("dev", LO)
        elsewhere = LO not in ([devices] if isinstance(devices, str) else devices)
        if (
            family in FAMILIES
            and hook != "forward"
            and not elsewhere
            # nft's JSON does not tell before nftables 1.0.9 that a table is switched off.
            and "flags dormant" not in attempt(["nft", "list", "table", family, table]).stdout
        ):
            about = f"hook {hook}, priority {chain['prio']}, rules {rules[family, table, name]}"
            words.append(f"{family} {table} {name} ({about})")
    return words


def _conntrack() -> list[str]:
    """`active` where a new connection is tracked. Old entries outlive the rules that made them."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()),
    ):
        port = f" dport={server.getsockname()[1]} "
        if _lines("/proc/sys/net/netfilter/nf_conntrack_count") in ([], ["0"]):
            return []
        tracked = Path("/proc/net/nf_conntrack").read_text(errors="replace")
        return ["active"] if port in tracked else []


def taps(listed: list[str]) -> list[str]:
    """Packet sockets that see what passes lo: tcpdump, a DHCP client."""
    sockets = []
    for line in listed:
        protocol, *device, function = line.split() or ("", "")
        if function.startswith(("packet_rcv", "tpacket_rcv")) and device in ([], [LO]):
            sockets.append(f"{protocol} {function}")
    return sockets


def _qdiscs() -> list[str]:
    """The kinds of queue on lo, without `noqueue`. Filters of tc(8) need `clsact`."""
    kinds = (queue["kind"] for queue in answer_of("tc", "-j", "qdisc", "show", "dev", LO))
    return [kind for kind in kinds if kind != "noqueue"]


def _cgroup_bpf() -> list[str]:
    """Programs of our control group and of the groups above it: systemd's IPAddressAllow=, say."""
    if (folder := cgroup()) is None:
        return []
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return list(_programs(descriptor, CGROUP_HOOKS, bpf.EFFECTIVE))
    finally:
        os.close(descriptor)


def _programs(target: int, hooks: dict[str, int], flags: int = 0) -> Iterator[str]:
    for words, hook in hooks.items():
        try:
            names = bpf.attached(target, hook, flags)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            names = []  # this kernel has no such hook
        yield from (f"{words} {name}".rstrip() for name in names)


def cgroup() -> Path | None:
    """Our group's folder (cgroups(7)); None where this kernel has no unified hierarchy."""
    ours = [line[4:] for line in _lines("/proc/self/cgroup") if line.startswith("0::/")]
    mounts = (line.split() for line in _lines("/proc/self/mounts"))
    mounted = [place for _, place, kind, *_ in mounts if kind == "cgroup2"]
    if ours and not mounted:
        raise RunError("no cgroup2 file system is mounted")
    return Path(mounted[0], ours[0]) if ours else None


LOOKS: dict[str, Callable[[], list[str]]] = {
    "nf_tables": _nf_tables,
    # The older kind's tables in this namespace: each has its hooks, even without rules.
    "iptables": lambda: _lines("/proc/net/ip_tables_names"),
    "ip6tables": lambda: _lines("/proc/net/ip6_tables_names"),
    "conntrack": _conntrack,
    "packet sockets": lambda: taps(_lines("/proc/net/ptype")),
    "qdisc on lo": _qdiscs,
    # In any mode.
    "XDP on lo": lambda: [
        "attached" for link in answer_of("ip", "-j", "link", "show", "dev", LO) if "xdp" in link
    ],
    "tcx on lo": lambda: list(_programs(socket.if_nametoindex(LO), TCX_HOOKS)),
    "cgroup BPF": _cgroup_bpf,
}
