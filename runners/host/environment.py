# SPDX-License-Identifier: GPL-2.0-or-later
"""The conditions of a figure: kernel, CPU, tools and settings."""

import os
import platform
import re
import shutil
from itertools import chain
from pathlib import Path
from typing import Any

from probes.tables import read_rows
from runners.host.loopback import loopback
from runners.process import answer

SETTINGS = Path(__file__).with_name("settings.tsv")
# Which CPUs share a core, a cache, a socket: what "across CPUs" means here.
CPUS = Path("/sys/devices/system/cpu")
TOPOLOGY = (
    "topology/core_cpus_list",
    "topology/package_cpus_list",
    "cache/index2/shared_cpu_list",
    "cache/index3/shared_cpu_list",
)
TOOLS = {
    "bpftrace": ("bpftrace", "--version"),
    "bcc": ("/usr/bin/python3", "-c", "import bcc; print('bcc', bcc.__version__)"),
    "perf": ("perf", "--version"),
}


def environment() -> dict[str, Any]:
    """`environment.json` of docs/run-folder.md, for this kernel."""
    uname = os.uname()
    return {
        "kernel": uname.release,
        "version": uname.version,
        "machine": uname.machine,
        "cpu": cpu_model(),
        "cpus": os.cpu_count(),
        "distribution": _distribution(),
        # What follows " -- " is for init, and may be private.
        "command_line": (_read(Path("/proc/cmdline")) or "").partition(" -- ")[0],
        "tools": {"python3": platform.python_version()} | _tool_versions(),
        "settings": _settings() | _topology(),
        "loopback": loopback(),
    }


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _settings() -> dict[str, str | None]:
    """Path → text, or null where this kernel has no such file; `*` stands for all of a folder."""
    paths = [Path(row["path"]) for row in read_rows(SETTINGS)]
    found = [sorted(path.parent.glob("*")) if path.name == "*" else [path] for path in paths]
    return {str(path): _read(path) for path in chain.from_iterable(found)}


def cpu_model() -> str | None:
    found = re.search(r"^model name\s*:(.*)", _read(Path("/proc/cpuinfo")) or "", re.MULTILINE)
    return found[1].strip() if found else None


def _distribution() -> str | None:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return None


def _topology() -> dict[str, str | None]:
    """Each group of CPUs that share something, once, with blanks between them: `0,64 1,65 …`."""
    found: dict[str, str | None] = {}
    for name in TOPOLOGY:
        groups = {_read(path) for path in CPUS.glob(f"cpu[0-9]*/{name}")} - {None, ""}
        ordered = sorted(map(str, groups), key=lambda group: int(re.split("[,-]", group)[0]))
        found[f"{CPUS}/cpu*/{name}"] = " ".join(ordered) or None
    return found


def _tool_versions() -> dict[str, str]:
    versions = {}
    for name, argv in TOOLS.items():
        # `perf version 6.1.187`, `bpftrace v0.23.2`; nothing where it does not run.
        if shutil.which(argv[0]) and (words := answer(argv).split()):
            versions[name] = words[-1]
    return versions
