# SPDX-License-Identifier: GPL-2.0-or-later
"""The machine of a target in words, and what lies on its loopback's path besides the stack."""

import re
from collections.abc import Iterator

from analysis.raw.run import Run, Target
from analysis.wording import EXACT, listed
from probes.isa import ISAS, USUAL

CONGESTION = "/proc/sys/net/ipv4/tcp_congestion_control"
CPU, VIRTUAL = "CPU", "virtual: "  # the preflight check, and how its detail begins in a VM
MOST_HOOKS = 3  # firewalls, taps and the like in the sentence; the environment names all
IPV6 = ("ip6tables", "nf_tables ip6 ")  # begins what TCP over IPv4 does not meet
GUESTS = {"tcg": "emulated", "kvm": "VM, kvm", None: ""}


def machine_text(run: Run, kind: str, kernel: str) -> str:
    """`guest 6.12.117 (emulated, TCP with cubic)`, `host 6.18.44 (VM, kvm, TCP with bbr)`.

    `kind` and `kernel` as in the tidy table. What the run did not record is left out.
    """
    if kind in EXACT:
        return f"exact mode's {kernel} (emulated, {EXACT[kind]})"
    words = f"{kind} {kernel}"
    for target in run.targets:
        if (target.kind, target.kernel) == (kind, kernel):
            name = target.environment.settings.get(CONGESTION)
            facts = filter(None, [_hardware(run, target), name and f"TCP with {name}"])
            words += f" ({text})" if (text := ", ".join(facts)) else ""
    return words


def target_text(kind: str, kernel: str) -> str:
    """`guest 6.12.117`, `exact mode (SCHED_FIFO) 6.12.117`: a machine by its name alone."""
    return f"exact mode ({EXACT[kind]}) {kernel}" if kind in EXACT else f"{kind} {kernel}"


def kernel_text(kernel: str) -> str:
    """`Linux 6.12.117` of 6.12.117+deb13-cloud-amd64; another architecture is named.

    And so is an unusual kind of Debian's kernels: `Linux 6.12.117-arm64-16k`.
    """
    number = re.match(r"\d+(\.\d+)*", kernel)
    text = f"Linux {number[0] if number else kernel}"
    for name, isa in ISAS.items():
        kind = isa.kind_of(kernel)
        if kind != isa.kernels[0]:
            return f"{text}-{kind}"
        if isa is not USUAL and name in kernel:
            return f"{text} for {name}"
    return text


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


def loopback_words(target: Target) -> dict[str, str]:
    """What was checked → what was found, for a comparison."""
    return {
        f"loopback: {name}": ", ".join(answer.found) or "none"
        if answer.unknown is None
        else f"unknown: {answer.unknown}"
        for name, answer in (target.environment.loopback or {}).items()
    }


def loopback_row(target: Target) -> str:
    """All of it in one line; empty of an older run."""
    answers = loopback_words(target).items()
    return "; ".join(f"{name.removeprefix('loopback: ')}: {words}" for name, words in answers)


def loopback_sentences(run: Run) -> Iterator[str]:
    """One for each target whose packets met something."""
    for target in run.targets:
        transports = " ".join(cell.transport for cell in target.cells)
        unseen = () if "tcp6" in transports else IPV6
        answers = (target.environment.loopback or {}).items()
        met = [
            _named(name, items)
            for name, answer in answers
            if (items := [i for i in answer.found if not f"{name} {i}".startswith(unseen)])
        ]
        if met and re.search("tcp|udp", transports):
            yield (
                f"On their way TCP's packets also met {listed(met)} ({target.kind}): TCP's times "
                "and counts include that; a Unix socket's have none of it."
            )


def _named(name: str, items: list[str]) -> str:
    """Without hooks and priorities: `nf_tables (inet filter input, inet nat output and 3 more)`."""
    if items in (["active"], ["attached"]):
        return name
    names = [item.partition(" (")[0] for item in items]
    if more := names[MOST_HOOKS:]:
        names[MOST_HOOKS:] = [f"{len(more)} more"]
    return f"{name} ({listed(names)})"
