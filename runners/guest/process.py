# SPDX-License-Identifier: GPL-2.0-or-later
"""Host programs: found, run to the end, and failing in one sentence."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from runners import process
from runners.process import RunError

PACKAGE_OF = {
    "apt-cache": "apt",
    "apt-config": "apt",
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
    "ip": "iproute2",
    "libvirtd": "libvirt-daemon-system",
    "mke2fs": "e2fsprogs",
    "qemu-img": "qemu-utils",
}
SEARCH = f"{os.environ.get('PATH', '/usr/bin:/bin')}:/usr/local/sbin:/usr/sbin:/sbin"


def find_program(name: str) -> str:
    """The path of a host program. Raises RunError naming its package when it is missing."""
    path = shutil.which(name, path=SEARCH)
    if path is None:
        package = PACKAGE_OF.get(name, name)
        raise RunError(f"{name} is missing on this machine: apt-get install {package}")
    return path


def environment(**extra: str) -> dict[str, str]:
    """A small, language-neutral environment, so that messages parse the same everywhere.

    It keeps our proxies, and the variables for pathcost.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.lower().endswith("_proxy") or name.startswith("PATHCOST_")
    }
    return {"PATH": SEARCH, "LC_ALL": "C.UTF-8", "HOME": "/nonexistent", **kept, **extra}


def run(
    argv: Sequence[str], purpose: str, env: Mapping[str, str] | None = None, cwd: str | None = None
) -> str:
    """What a host program printed. Raises RunError, with its last message, if it fails."""
    done = attempt([find_program(argv[0]), *argv[1:]], env, cwd)
    if done.returncode != 0:
        raise failed(argv[0], purpose, done.returncode, done.stderr)
    return done.stdout


def attempt(
    argv: Sequence[str], env: Mapping[str, str] | None = None, cwd: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a host program, which may fail, to its end."""
    return process.attempt(argv, env=environment() if env is None else env, cwd=cwd)


def failed(program: str, purpose: str, status: int, stderr: str) -> RunError:
    """The error for a program that failed: its purpose and what it complained of last."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("E: ")] or lines[-1:]
    causes = [line for line in lines if line[2:].startswith(" Failed to fetch")]  # apt's, best
    because = [*causes, *reversed(errors), f"status {status}"][0]
    return RunError(f"cannot {purpose}: {program} failed: {re.sub('^[EW]: ', '', because)}", lines)
