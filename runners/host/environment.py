# SPDX-License-Identifier: GPL-2.0-or-later
"""The conditions of a figure: kernel, CPU, tools, settings; what else a cell's CPUs did."""

import gzip
import os
import platform
import re
import resource
import shutil
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from probes.files import read_rows
from runners.host.loopback import loopback
from runners.process import answer

SETTINGS = Path(__file__).with_name("settings.tsv")
SYSTEM_ROOT = Path("/")  # of their paths
ALL_GROUPS = "cgroup:[4026531835]"  # the namespace in which the first control group is `/`
VERSION_COMMANDS = {
    "bpftrace": ("bpftrace", "--version"),
    "bcc": ("/usr/bin/python3", "-c", "import bcc; print('bcc', bcc.__version__)"),
    "perf": ("perf", "--version"),
}


def environment() -> dict[str, Any]:
    """`environment.json` of docs/run-folder.md, for this kernel."""
    uname = os.uname()
    name = re.search(r'^PRETTY_NAME="?(.*?)"?$', _read(Path("/etc/os-release")) or "", re.M)
    return {
        "kernel": uname.release,
        "version": uname.version,
        "machine": uname.machine,
        "cpu": cpu_model(),
        "cpus": os.cpu_count(),
        "distribution": name and name[1],
        # After " -- " it is for init, and may be private.
        "command_line": (_read(Path("/proc/cmdline")) or "").partition(" -- ")[0],
        "tools": {"python3": platform.python_version()} | _tool_versions(),
        "settings": _settings(),
        "loopback": loopback(),
    }


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _settings() -> dict[str, str | None]:
    """Path → text, or null where this kernel has no such file; a last `*` stands for all files.

    Of `cpu*` each group of CPUs that share something is there once: `0,64 1,65 …`.
    """
    found: dict[str, str | None] = {}
    for path in (row["path"] for row in read_rows(SETTINGS)):
        if path.startswith("CONFIG_"):
            found[path] = _configured(path)
            continue
        texts = {str(file): _read(file) for file in sorted(SYSTEM_ROOT.glob(path[1:]))}
        if "/cpu*/" in path:
            groups = filter(None, {*texts.values()})
            in_order = sorted(groups, key=lambda group: int(re.split("[,-]", group)[0]))
            found[path] = " ".join(in_order) or None
        else:
            found |= texts if path.endswith("*") else {path: texts.get(path)}
    return found


def _configured(name: str) -> str | None:
    """What the kernel was configured with: `y`, `m`, a number; `n` if it is not set.

    None where nobody kept the configuration.
    """
    boot = SYSTEM_ROOT / "boot" / f"config-{os.uname().release}"
    kept = boot, SYSTEM_ROOT / "proc/config.gz"
    for path in kept:
        try:
            data = path.read_bytes()
        except OSError:
            continue
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode(errors="replace")
        value = re.search(rf"^{name}=(.*)$", text, re.MULTILINE)
        return value[1] if value else "n"
    return None


def cpu_model() -> str | None:
    line = re.search(r"^model name\s*:(.*)", _read(Path("/proc/cpuinfo")) or "", re.MULTILINE)
    return line[1].strip() if line else None


def in_memory_group() -> bool:
    """Whether the kernel charges this process's memory to a control group, as in each service.

    The first group of all is charged for nothing. A container sees its own group as `/`.
    """
    process = SYSTEM_ROOT / "proc/self"
    try:
        if str((process / "ns/cgroup").readlink()) != ALL_GROUPS:
            return True
    except OSError:  # no control groups
        return False
    groups: dict[str, str] = {}
    for line in (_read(process / "cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        groups |= dict.fromkeys(controllers.split(","), path)
    if "memory" in groups:  # cgroup v1
        return groups["memory"] != "/"
    children_have = _read(SYSTEM_ROOT / "sys/fs/cgroup/cgroup.subtree_control") or ""
    return groups.get("", "/") != "/" and "memory" in children_have.split()


def _tool_versions() -> dict[str, str]:
    """`perf version 6.1.187`, `bpftrace v0.23.2`; nothing where a tool does not run."""
    programs = {name: argv for name, argv in VERSION_COMMANDS.items() if shutil.which(argv[0])}
    with ThreadPoolExecutor() as pool:  # under emulation each takes seconds to start
        printed = dict(zip(programs, pool.map(answer, programs.values()), strict=True))
    return {name: text.split()[-1] for name, text in printed.items() if text.strip()}


STEP_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")  # the unit of /proc/stat
IDLE, IOWAIT, STEAL = 3, 4, 7  # its columns
INTERRUPTS = Path("/proc/interrupts")
FREQUENCY = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq"


@dataclass(frozen=True)
class CpuCounters:
    """The counters at one moment; a dict has an entry for each CPU that is online."""

    wall_ns: int
    own_ns: int  # CPU time of this process and of its children that have ended
    ticks: dict[int, list[int]]
    interrupts: dict[int, int]

    @classmethod
    def now(cls) -> Self:
        usage = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        own = sum(used.ru_utime + used.ru_stime for used in usage)
        return cls(time.monotonic_ns(), int(own * 1e9), _ticks(), _interrupts())


def disturbance(before: CpuCounters, pinned: Iterable[int] | None) -> dict[str, Any]:
    """`disturbance` of docs/run-folder.schema.json from `before` to now; not pinned: every CPU."""
    after = CpuCounters.now()
    cpus = sorted(set(before.ticks.keys() & after.ticks.keys() if pinned is None else pinned))
    return {
        "wall_ns": after.wall_ns - before.wall_ns,
        "step_ns": STEP_NS,
        "own_ns": after.own_ns - before.own_ns,
        "load": os.getloadavg()[0],
        "cpus": {str(cpu): _cpu(cpu, before, after) for cpu in cpus},
    }


def _cpu(cpu: int, before: CpuCounters, after: CpuCounters) -> dict[str, int | None]:
    ticks = zip(before.ticks[cpu], after.ticks[cpu], strict=True)
    # An idle CPU's time may be counted back by a step when it wakes up.
    grown = [max(0, last - first) * STEP_NS for first, last in ticks]
    frequency = Path(FREQUENCY.format(cpu))
    return {
        "idle_ns": grown[IDLE] + grown[IOWAIT],
        "steal_ns": grown[STEAL],
        "interrupts": after.interrupts[cpu] - before.interrupts[cpu] if after.interrupts else None,
        "khz": int(frequency.read_text()) if frequency.exists() else None,
    }


def _ticks() -> dict[int, list[int]]:
    """The lines `cpu0 …` of /proc/stat; the first is the sum."""
    lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    rows = (line.removeprefix("cpu").split() for line in lines[1:] if line.startswith("cpu"))
    return {int(cpu): [int(ticks) for ticks in row] for cpu, *row in rows}


def _interrupts() -> dict[int, int]:
    """All interrupts of each CPU; empty where containers hide /proc/interrupts."""
    try:
        head, *lines = INTERRUPTS.read_text(errors="replace").splitlines()
    except (OSError, ValueError):
        return {}
    cpus = [int(name.removeprefix("CPU")) for name in head.split()]
    rows = (line.split()[1 : len(cpus) + 1] for line in lines)
    counts = [list(map(int, row)) for row in rows if len(row) == len(cpus) and row[-1].isdigit()]
    return {cpu: sum(row[place] for row in counts) for place, cpu in enumerate(cpus)}
