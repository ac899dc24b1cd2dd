# SPDX-License-Identifier: GPL-2.0-or-later
"""Facts about this kernel, by the programs of runners/checks.

Each program gets a private directory and runs as the workload's user, or as root if it insists. It
prints a line of JSON for each circumstance.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from runners.collect.workload import private_directory
from runners.process import User, command

SECONDS = 30  # a check takes milliseconds, but an emulated CPU may be busy
NEEDS_ROOT = 3  # the status of a check that has to be root


def run_check(folder: Path, name: str, user: User | None) -> list[dict[str, Any]]:
    """The lines that a check prints, with `error` null; or a line that says why there are none."""
    program = folder / name
    if not program.exists():
        there = (path for path in folder.glob("*") if not path.suffix and os.access(path, os.X_OK))
        known = ", ".join(sorted(path.name for path in there))
        return [_nothing(name, f"there is no check {name}; there is {known}")]
    for who in (user, None):
        with private_directory(who) as directory:
            try:
                done = subprocess.run(
                    command([str(program), str(directory)], who), stdin=subprocess.DEVNULL,
                    capture_output=True, text=True, timeout=SECONDS, check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return [_nothing(name, f"the check {name} did not end in {SECONDS} s")]
        if done.returncode != NEEDS_ROOT:
            break
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return [_nothing(name, f"the check {name} failed: {said}")]
    return [json.loads(line) | {"error": None} for line in done.stdout.splitlines()]


def _nothing(name: str, why: str) -> dict[str, Any]:
    return {"check": name, "when": {}, "facts": {}, "error": why}
