# SPDX-License-Identifier: GPL-2.0-or-later
"""What this kernel allows, found by trying: the version of a cloud's kernel says little."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from probes.files import read_rows
from probes.isa import HOST
from probes.messages import named
from runners.host import bpftrace, ftrace, loopback
from runners.process import Patience, answer, command, run_main, stop

CPU_INFO = Path("/proc/cpuinfo")
TRY_SECONDS = 90  # without work; attaching takes 5 s in an emulated guest
ASK_SECONDS = 0.5
CPU_CHECK, KVM_CHECK = "CPU", "KVM"
BARE = "bare loopback"
ROWS = read_rows(Path(__file__).with_suffix(".tsv"))
LACKS = {row["name"]: named(row["lack"]) for row in ROWS}
REMEDIES = {row["name"]: named(row["remedy"]) for row in ROWS}
BPFTRACE_TRIES = {row["name"]: row["program"] for row in ROWS if row["program"]}
# Probe level → what it allows, as the end of "this kernel allows …".
ALLOWED = {
    "function": "function probes",
    "tracepoint": "tracepoints, and no function probes",
    "counters": "no probes, only its own counters",
}


FIRST_PIDS = 0xEFFFFFFC  # the inode of the first PID namespace (linux/nsfs.h)
# What a machine can do, by its name in preflight.tsv.
ABILITIES = {
    "times": "times",
    "host": "counts on the host",
    "guest": "counts in a guest",
    "exact": "exact counts",
    "watch": "watch",
}


@dataclass(frozen=True)
class Check:
    """One thing that was tried: what was seen, and what is lost without it."""

    name: str
    ok: bool
    detail: str
    lack: str = ""


def tried(name: str, ok: bool, detail: str) -> Check:
    """A thing of preflight.tsv; what is there lacks nothing."""
    return Check(name, ok, detail, "" if ok else LACKS[name])


def checks() -> list[Check]:
    """Try everything that needs no guest. Without root, every probe fails."""
    # Each bpftrace takes its time to start, and needs little CPU.
    with ExitStack() as started:
        tries = {name: _start(text, started) for name, text in BPFTRACE_TRIES.items()}
        limits = {name: Patience(each.pid, TRY_SECONDS) for name, each in tries.items() if each}
        root = tried("root", os.geteuid() == 0, f"effective uid {os.geteuid()}")
        before = [root, _process_numbers(), _btf(), _lockdown()]
        after = [_function_tracer(), cpu(), bare_loopback()]
        probes = [tried(name, *_attached(tries[name], limits.get(name))) for name in tries]
        return [*before, *probes, *after]


def probe_level(found: list[Check]) -> str:
    """The strongest kind of probe: `function`, `tracepoint` or `counters`."""
    lacking = {check.name for check in found if not check.ok}
    if {"tracepoints", "uprobes", "process numbers"} & lacking:
        return "counters"
    return "tracepoint" if "kprobes" in lacking else "function"


def blocked(found: list[Check]) -> dict[str, list[str]]:
    """Ability → the names of the checks that keep this machine from it: none where it can."""
    failed = {check.name for check in found if not check.ok}
    rows = [row for row in ROWS if row["name"] in failed]
    return {
        ability: [row["name"] for row in rows if ability in row["blocks"].split()]
        for ability in ABILITIES
    }


def abilities(found: list[Check]) -> str:
    """`This machine can: counts on the host (tracepoints, …), exact counts; not: watch (BCC)`."""
    kvm = any(check.name == KVM_CHECK and check.ok for check in found)
    how = {"host": ALLOWED[probe_level(found)], "guest": "under KVM" if kvm else "emulated"}
    can: list[str] = []
    cannot: list[str] = []
    for ability, why in blocked(found).items():
        words, more = ABILITIES[ability], ", ".join(why) or how.get(ability, "")
        (cannot if why else can).append(f"{words} ({more})" if more else words)
    more = f"; not: {', '.join(cannot)}" if cannot else ""
    return f"This machine can: {', '.join(can) or 'nothing'}{more}"


def emulated(found: list[Check]) -> bool:
    """Whether this kernel runs on an emulated CPU, whose times are not times."""
    return any(check.name == CPU_CHECK and not check.ok for check in found)


def why_not_function(found: list[Check]) -> str:
    """What keeps this kernel from the function probe level: `kprobes: …`, or nothing."""
    needed = ("tracepoints", "uprobes", "kprobes")
    return "; ".join(f"{c.name}: {c.detail}" for c in found if c.name in needed and not c.ok)


def on_loopback(found: list[Check]) -> str:
    """What TCP's figures will include besides the network stack: `nf_tables: …`, or nothing."""
    return "; ".join(check.detail for check in found if check.name == BARE and not check.ok)


def sees_all_processes() -> bool:
    """Whether process numbers here are those that probes see: the first PID namespace's."""
    return Path("/proc/self/ns/pid").stat().st_ino == FIRST_PIDS


def _process_numbers() -> Check:
    own = not sees_all_processes()
    return tried("process numbers", not own, "this container's own" if own else "the machine's")


def _btf() -> Check:
    path = Path("/sys/kernel/btf/vmlinux")
    size = path.stat().st_size if path.exists() else 0
    return tried("BTF", size > 0, f"{size >> 10} KiB of types" if size else f"no {path}")


def _lockdown() -> Check:
    try:
        text = Path("/sys/kernel/security/lockdown").read_text(encoding="ascii").strip()
    except OSError:
        return tried("lockdown", True, "not built in, or securityfs cannot be read")
    mode = text.partition("[")[2].partition("]")[0]
    return tried("lockdown", mode == "none", f"mode {mode}")


def _start(program: str, started: ExitStack) -> subprocess.Popen[bytes] | None:
    """A bpftrace that attaches a probe and exits at once; None where there is none."""
    if not shutil.which("bpftrace"):
        return None
    maps = os.fsdecode(Path("/proc/self/maps").read_bytes()).split()
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


def _attached(process: subprocess.Popen[bytes] | None, limit: Patience | None) -> tuple[bool, str]:
    """Whether it has attached its probe, within its limit, and what was seen."""
    if process is None or limit is None:
        return False, "bpftrace is not installed"
    output = None
    while output is None:
        try:
            output = process.communicate(timeout=ASK_SECONDS)[0]
        except subprocess.TimeoutExpired:
            if limit.is_over():
                return False, f"not attached in {limit.seconds:.0f} s"
    text = output.decode(errors="replace")
    if process.returncode == 0 and bpftrace.NOTIFY in text:
        return True, "attached"
    lines = [line.strip() for line in text.splitlines() if "ERROR" in line]
    return False, lines[-1] if lines else f"status {process.returncode}"


def _function_tracer() -> Check:
    try:
        os.close(ftrace.switch_on())
        ftrace.remove_instance(ftrace.instance())
        return tried("function tracer", True, "switched on in an instance of its own")
    except OSError as error:
        return tried("function tracer", False, f"it cannot be set up: {error}")


def cpu() -> Check:
    """Whether QEMU emulates this CPU. A virtual CPU is real enough; systemd reads CPUID."""
    if not shutil.which("systemd-detect-virt"):
        return tried(CPU_CHECK, True, "taken for real: there is no systemd-detect-virt to ask")
    kind = answer(["systemd-detect-virt", "--vm"]).strip()
    # systemd-detect-virt(1): "software virtualization, without KVM". On arm64 it cannot tell.
    if kind == "qemu" and HOST.emulated_by(CPU_INFO.read_text(encoding="utf-8")):
        return tried(CPU_CHECK, False, "emulated by QEMU, without KVM")
    return tried(CPU_CHECK, True, f"virtual: {kind}" if kind not in ("", "none") else "real")


def bare_loopback() -> Check:
    """Whether nothing but the network stack is on the path of packets on lo."""
    record = loopback.loopback()
    met, unknown = loopback.met(record), loopback.not_known(record)
    nothing = "no firewall, packet socket, queue or BPF program on it"
    words = (met or nothing) + (f"; not known: {unknown}" if unknown else "")
    return tried(BARE, not met, words)


if __name__ == "__main__":
    sys.exit(run_main(lambda: print(json.dumps([asdict(check) for check in checks()]))))
