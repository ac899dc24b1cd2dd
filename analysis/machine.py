# SPDX-License-Identifier: GPL-2.0-or-later
"""Whose a figure is: the machine of a target, in a few words."""

import re

from analysis.raw.run import Run, Target

CONGESTION = "/proc/sys/net/ipv4/tcp_congestion_control"
CPU, VIRTUAL = "CPU", "virtual: "  # the preflight check, and how its detail begins in a VM
EXACT = {"exact-fifo": "SCHED_FIFO", "exact-other": "default scheduler"}
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


def is_virtual(run: Run) -> bool:
    """Whether the host is a virtual machine with a CPU of its own."""
    return _cpu(run).startswith(VIRTUAL)


def _hardware(run: Run, target: Target) -> str:
    if target.kind == "guest" or target.accelerator:
        return GUESTS[target.accelerator]
    if is_virtual(run):
        return f"VM, {_cpu(run).removeprefix(VIRTUAL)}"
    return "bare metal" if _cpu(run) == "real" else ""


def _cpu(run: Run) -> str:
    return next((check.detail for check in run.manifest.preflight if check.name == CPU), "")


def _congestion(target: Target) -> str:
    name = target.environment.settings.get(CONGESTION)
    return f"TCP with {name}" if name else ""
