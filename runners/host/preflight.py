# SPDX-License-Identifier: GPL-2.0-or-later
"""What this kernel allows, found by trying: the version of a cloud's kernel says little."""

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from runners.host import bpftrace, ftrace, loopback
from runners.process import answer, command, run_main, stop

TRY_SECONDS = 90  # for all that are tried together; attaching takes 5 s in an emulated guest
EMULATED = "a guest is emulated, some twenty times slower; its counts are the same"
CPU = "CPU"
BARE = "bare loopback"
# What to try, a program that attaches it and exits, what is lost without it.
BPFTRACE_TRIES = (
    ("tracepoints", "tracepoint:sched:sched_switch { exit(); }",
     "no switches, wake-ups and packets from this kernel, only its counters"),
    ("uprobes", "uprobe:LIBC:getpid { } BEGIN { exit(); }",
     "the window's markers cannot be seen, so no probe knows when to count"),
    ("kprobes", "kprobe:tcp_sendmsg { } BEGIN { exit(); }",
     "kernel functions cannot be counted here; function counts come from a guest"),
    ("fentry", "kfunc:tcp_sendmsg { } BEGIN { exit(); }",
     "nothing that kprobes do not give, at a higher cost an event"),
)  # fmt: skip
# Probe level → what it allows, as the end of "this kernel allows …".
ALLOWED = {
    "function": "function probes",
    "tracepoint": "tracepoints, and no function probes",
    "counters": "no probes, only its own counters",
}


@dataclass(frozen=True)
class Check:
    """One thing that was tried: what was seen, and what is lost without it."""

    name: str
    ok: bool
    detail: str
    lack: str = ""


def checks() -> list[Check]:
    """Try everything that needs no guest. Without root, every probe fails."""
    # Each bpftrace takes its time to start, and needs little CPU.
    with ExitStack() as started:
        tries = [_start(program, started) for _, program, _ in BPFTRACE_TRIES]
        deadline = time.monotonic() + TRY_SECONDS
        before = [_root(), _btf(), _lockdown()]
        after = [_function_tracer(), cpu(), bare_loopback()]
        probes = [
            Check(name, *(seen := _attached(process, deadline)), "" if seen[0] else lack)
            for (name, _, lack), process in zip(BPFTRACE_TRIES, tries, strict=True)
        ]
        return [*before, *probes, *after]


def probe_level(found: list[Check]) -> str:
    """The strongest kind of probe: `function`, `tracepoint` or `counters`."""
    lacking = {check.name for check in found if not check.ok}
    if {"tracepoints", "uprobes"} & lacking:
        return "counters"
    return "tracepoint" if "kprobes" in lacking else "function"


def emulated(found: list[Check]) -> bool:
    """Whether this kernel runs on an emulated CPU, whose times are not times."""
    return any(check.name == CPU and not check.ok for check in found)


def why_not_function(found: list[Check]) -> str:
    """What keeps this kernel from the function probe level: `kprobes: …`, or nothing."""
    needed = ("tracepoints", "uprobes", "kprobes")
    return "; ".join(f"{c.name}: {c.detail}" for c in found if c.name in needed and not c.ok)


def on_loopback(found: list[Check]) -> str:
    """What TCP's figures will include besides the network stack: `nf_tables: …`, or nothing."""
    return "; ".join(check.detail for check in found if check.name == BARE and not check.ok)


def _root() -> Check:
    lack = "no probe can be attached; run it with sudo"
    return Check("root", os.geteuid() == 0, f"effective uid {os.geteuid()}", lack)


def _btf() -> Check:
    path = Path("/sys/kernel/btf/vmlinux")
    size = path.stat().st_size if path.exists() else 0
    lack = "scripts that read kernel structures do not load; CONFIG_DEBUG_INFO_BTF has it"
    return Check("BTF", size > 0, f"{size >> 10} KiB of types" if size else f"no {path}", lack)


def _lockdown() -> Check:
    try:
        text = Path("/sys/kernel/security/lockdown").read_text(encoding="ascii").strip()
    except OSError:
        return Check("lockdown", True, "not built in, or securityfs cannot be read")
    mode = text.partition("[")[2].partition("]")[0]
    lack = "kprobes and the function tracer are refused; function counts come from a guest"
    return Check("lockdown", mode == "none", f"mode {mode}", lack)


def _start(program: str, started: ExitStack) -> subprocess.Popen[bytes] | None:
    """A bpftrace that attaches a probe and exits at once; None where there is none."""
    if not shutil.which("bpftrace"):
        return None
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").split()
    libc = next((word for word in maps if "libc.so" in word), "libc.so.6")
    process = subprocess.Popen(
        command(["bpftrace", "-e", program.replace("LIBC", libc)]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {bpftrace.NOTIFY: "1"},
    )
    started.callback(stop, process)
    return process


def _attached(process: subprocess.Popen[bytes] | None, deadline: float) -> tuple[bool, str]:
    """Whether it has attached its probe, until the deadline of all, and what was seen."""
    if process is None:
        return False, "bpftrace is not installed"
    try:
        output = process.communicate(timeout=max(0.5, deadline - time.monotonic()))[0]
    except subprocess.TimeoutExpired:
        return False, f"not attached in {TRY_SECONDS} s"
    text = output.decode(errors="replace")
    if process.returncode == 0 and bpftrace.NOTIFY in text:
        return True, "attached"
    lines = [line.strip() for line in text.splitlines() if "ERROR" in line]
    return False, lines[-1] if lines else f"status {process.returncode}"


def _function_tracer() -> Check:
    lack = "the functions on the path cannot all be listed here; they come from a guest"
    try:
        os.close(ftrace.switch_on())
        ftrace.remove_instance(ftrace.instance())
        return Check("function tracer", True, "switched on in an instance of its own")
    except OSError as error:
        return Check("function tracer", False, f"it cannot be set up: {error}", lack)


def cpu() -> Check:
    """Whether QEMU emulates this CPU. A virtual CPU is real enough; systemd reads CPUID."""
    if not shutil.which("systemd-detect-virt"):
        return Check(CPU, True, "taken for real: there is no systemd-detect-virt to ask")
    kind = answer(["systemd-detect-virt", "--vm"]).strip()
    if kind == "qemu":  # systemd-detect-virt(1): "software virtualization, without KVM"
        lack = "an emulated CPU's times are not times: none are kept; its counts are the same"
        return Check(CPU, False, "emulated by QEMU, without KVM", lack)
    return Check(CPU, True, f"virtual: {kind}" if kind not in ("", "none") else "real")


def bare_loopback() -> Check:
    """Whether nothing but the network stack is on the path of packets on lo."""
    record = loopback.loopback()
    met, unknown = loopback.met(record), loopback.not_known(record)
    nothing = "no firewall, packet socket, queue or BPF program on it"
    return Check(
        BARE,
        not met,
        (met or nothing) + (f"; not known: {unknown}" if unknown else ""),
        "TCP's times and counts include what that costs, a Unix socket's do not. Rules: nft list "
        "ruleset. A network namespace of its own has none: sudo unshare --net sh -c 'ip link set "
        "lo up; ./runners/run.sh'",
    )


if __name__ == "__main__":
    sys.exit(run_main(lambda: print(json.dumps([asdict(check) for check in checks()]))))
