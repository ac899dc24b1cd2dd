# SPDX-License-Identifier: GPL-2.0-or-later
"""What a run may leave on a machine: a snapshot of it, and what is new since another one.

Processes are found as descendants of this process, which is a "child subreaper" (prctl(2)): a
process whose parent has died becomes our child, whatever its session, user or environment.
"""

import ctypes
import os
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil

PR_SET_CHILD_SUBREAPER = 36
# bpf(2): commands that give the next id, by kind; x86_64's number of the call.
SYS_BPF = 321
NEXT_ID = {"program": 11, "map": 12, "link": 31}
# What each process does, by the name of its program or of its Python module.
ROLES = {
    "pathcost-workload": "workload",
    "qemu-system-x86_64": "emulator",
    "runners.host": "collector",
    "bpftrace": "bpftrace",
    "perf": "perf",
    "bcc": "bcc",
    "setup.sh": "set-up",
    "runners.host.preflight": "preflight",
    "analysis": "analysis",
    "runners": "runner",
    "run.sh": "runner",
}
PROGRAM = 6  # so many words of a command line name the program; options come after

libc = ctypes.CDLL(None, use_errno=True)
Snapshot = frozenset[str]


def become_subreaper() -> None:
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")


def descendants(pid: int | None = None) -> list[psutil.Process]:
    """Living processes below `pid`, by default below us; a zombie is not alive."""
    alive = []
    with suppress(psutil.NoSuchProcess):
        for process in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if process.status() != psutil.STATUS_ZOMBIE:
                    alive.append(process)
    return alive


def reap() -> None:
    """Collect the dead processes that we inherited."""
    for child in psutil.Process().children():
        with suppress(ChildProcessError, psutil.NoSuchProcess):
            if child.status() == psutil.STATUS_ZOMBIE:
                os.waitpid(child.pid, os.WNOHANG)


def role(process: psutil.Process) -> str:
    """What a process does in a run."""
    try:
        words = process.cmdline()[:PROGRAM]
        root = process.uids().effective == 0
    except psutil.NoSuchProcess:
        return "gone"
    names = [Path(word).name for word in words]
    names += [Path(word).parent.name for word in words if word.endswith(".py")]
    name = next((ROLES[name] for name in names if name in ROLES), "other")
    return name if name != "runner" or root else "runner, not root"


def snapshot(cache: Path, above_out: Path, tracefs: Path) -> Snapshot:
    """What there is, a line for each thing; runs write to these places."""
    return frozenset(
        f"{kind}: {name}"
        for kind, names in {
            "process": (f"{process.pid} {role(process)}" for process in descendants()),
            "temporary": _names(Path("/tmp"), "*") | _names(Path("/dev/shm"), "**/*"),
            "run": _names(Path("/run"), "*") | _names(Path("/run/pathcost"), "**/*"),
            "cache": (name for name in _names(cache, "*") if "partial" in name or "tmp" in name),
            "beside --out": _names(above_out, ".*"),
            "bpf": _bpf(),
            "tracing": _tracing(tracefs),
            "mount": _mounts(),
        }.items()
        for name in names
    )


def settled(before: Snapshot, look: Callable[[], Snapshot]) -> list[str]:
    """What is still new after five seconds: BPF objects of other programs come and go."""
    deadline = time.monotonic() + 5
    while (new := look() - before) and time.monotonic() < deadline:
        time.sleep(0.2)
    return sorted(new)


def _names(folder: Path, pattern: str) -> set[str]:
    return {str(path) for path in folder.glob(pattern)}


def _bpf() -> Iterator[str]:
    """Programs, maps and links that the kernel holds."""
    for kind, command in NEXT_ID.items():
        number = 0
        while True:
            attributes = ctypes.create_string_buffer(struct.pack("=III", number, 0, 0), 12)
            if libc.syscall(SYS_BPF, command, attributes, 12) != 0:
                break
            number = struct.unpack_from("=I", attributes, 4)[0]
            yield f"{kind} {number}"


def _tracing(tracefs: Path) -> Iterator[str]:
    """Instances, and the lines that probes and tracers leave in the kernel's own trace."""
    yield from (f"instance {path.name}" for path in (tracefs / "instances").glob("*"))
    for name in ("kprobe_events", "uprobe_events", "current_tracer", "set_ftrace_pid"):
        with suppress(OSError):
            for line in (tracefs / name).read_text(encoding="utf-8").splitlines():
                yield f"{name}: {line}"


def _mounts() -> Iterator[str]:
    """Mounted file systems of our namespace: type and place."""
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        left, _, right = line.partition(" - ")
        yield f"{right.split()[0]} on {left.split()[4]}"
