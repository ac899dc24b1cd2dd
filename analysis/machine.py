# SPDX-License-Identifier: GPL-2.0-or-later
"""The machine of a target in words, and what lies on its loopback's path besides the stack."""

import re

from analysis.raw.run import Loopback, Run, Target
from analysis.wording import listed

CONGESTION = "/proc/sys/net/ipv4/tcp_congestion_control"
CPU, VIRTUAL = "CPU", "virtual: "  # the preflight check, and how its detail begins in a VM
EXACT = {"exact-fifo": "SCHED_FIFO", "exact-other": "default scheduler"}
MOST_NAMED = 3  # firewalls, taps and the like in the sentence; the environment names all
IPV6 = ("ip6tables", "ip6 ")  # begins what TCP over IPv4 does not meet
GUESTS = {"tcg": "emulated", "kvm": "VM, kvm", None: ""}


def machine_text(run: Run, kind: str, kernel: str) -> str:
    """`guest 6.12.117 (emulated, TCP with cubic)`, `host 6.18.44 (VM, kvm, TCP with bbr)`.

    `kind` and `kernel` as in the tidy table. What the run did not record is left out.
    """
    if kind in EXACT:
        return f"exact mode's {kernel} (emulated, {EXACT[kind]})"
    target = next((t for t in run.targets if (t.kind, t.kernel) == (kind, kernel)), None)
    facts = [_hardware(run, target), _congestion(target)] if target else []
    said = ", ".join(filter(None, facts))
    return f"{kind} {kernel} ({said})" if said else f"{kind} {kernel}"


def target_text(kind: str, kernel: str) -> str:
    """`guest 6.12.117`, `exact mode (SCHED_FIFO) 6.12.117`: a machine by its name alone."""
    return f"exact mode ({EXACT[kind]}) {kernel}" if kind in EXACT else f"{kind} {kernel}"


def kernel_text(kernel: str) -> str:
    """`Linux 6.12.117` of 6.12.117+deb13-cloud-amd64."""
    number = re.match(r"\d+(\.\d+)*", kernel)
    return f"Linux {number[0] if number else kernel}"


def counter_text(run: Run, kind: str, kernel: str, cpu: str, one_cpu: bool) -> str:
    """`counted on one emulated qemu64 CPU, default scheduler`; `cpu` is exact mode's."""
    if kind in EXACT:
        return f"counted on {'one' if one_cpu else 'an'} emulated {cpu} CPU, {EXACT[kind]}"
    target = next((t for t in run.targets if (t.kind, t.kernel) == (kind, kernel)), None)
    hardware = _hardware(run, target) if target else ""
    where = "in a guest" if kind == "guest" else "on this machine"
    return ", ".join(filter(None, (f"counted {where}", hardware)))


def _hardware(run: Run, target: Target) -> str:
    if target.kind == "guest" or target.accelerator:
        return GUESTS[target.accelerator]
    cpu = next((check.detail for check in run.manifest.preflight if check.name == CPU), "")
    if cpu.startswith(VIRTUAL):
        return f"VM, {cpu.removeprefix(VIRTUAL)}"
    return "bare metal" if cpu == "real" else ""


def _congestion(target: Target) -> str:
    name = target.environment.settings.get(CONGESTION)
    return f"TCP with {name}" if name else ""


def loopback_words(target: Target) -> dict[str, str]:
    """What was checked → what was found, for a comparison."""
    return {
        f"loopback: {name}": f"unknown: {answer.unknown}"
        if answer.unknown is not None
        else ", ".join(answer.found) or "none"
        for name, answer in _answers(target).items()
    }


def loopback_row(target: Target) -> str:
    """All of it in one line; empty of an older run."""
    answers = loopback_words(target).items()
    return "; ".join(f"{name.removeprefix('loopback: ')}: {words}" for name, words in answers)


def loopback_sentences(run: Run) -> tuple[str, ...]:
    """One for each target whose packets met something."""
    return tuple(
        (
            f"On their way TCP's packets also met {listed(found)} ({target.kind}): TCP's times "
            "and counts include that; a Unix socket's have none of it."
        )
        for target in run.targets
        if (found := _on_the_path(target))
    )


def _on_the_path(target: Target) -> list[str]:
    """What packets of this target's transports met."""
    transports = {cell.transport for cell in target.cells}
    if not any("tcp" in name or name == "udp" for name in transports):
        return []
    also_ipv6 = "tcp6" in transports
    return [
        _named(name, items)
        for name, answer in _answers(target).items()
        if also_ipv6 or not name.startswith(IPV6)
        if (items := [item for item in answer.found if also_ipv6 or not item.startswith(IPV6)])
    ]


def _named(name: str, items: list[str]) -> str:
    """Without hooks and priorities: `nf_tables (inet filter input, inet nat output and 3 more)`."""
    if items in (["active"], ["attached"]):
        return name
    names = [item.partition(" (")[0] for item in items]
    more = len(names) - MOST_NAMED
    if more > 0:
        names[MOST_NAMED:] = [f"{more} more"]
    return f"{name} ({listed(names)})"


def _answers(target: Target) -> dict[str, Loopback]:
    return target.environment.loopback or {}
