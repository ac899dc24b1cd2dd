# SPDX-License-Identifier: GPL-2.0-or-later
"""Facts about this kernel, by the programs of runners/checks.

Each program gets a private directory and runs as the workload's user, or as root if it insists. It
prints a line of JSON for each circumstance.
"""

import json
import sys
from pathlib import Path
from typing import Any

from runners.host.workload import private_directory
from runners.process import OVERDUE, User, attempt, last_words

SECONDS = 30  # a check takes milliseconds, but an emulated CPU may be busy
FOLDER = Path(__file__).parents[1] / "checks"
NEEDS_ROOT = 3  # the status of a check that has to be root


def run_check(name: str, user: User | None) -> list[dict[str, Any]]:
    """The lines that a check prints, with `error` null; or a line that says why there are none."""
    known = sorted(path.stem.replace("_", "-") for path in FOLDER.glob("[!_]*.py"))
    if name not in known:
        return [_nothing(name, f"there is no check {name}; there is {', '.join(known)}")]
    program = [sys.executable, "-B", "-m", "runners.checks", name]
    for who in (user, None):
        with private_directory(who) as directory:
            done = attempt([*program, directory], who, SECONDS, cwd=FOLDER.parents[1])
        if done.returncode == OVERDUE:
            return [_nothing(name, f"the check {name} did not end in {SECONDS} s")]
        if done.returncode != NEEDS_ROOT:
            break
    if done.returncode != 0:
        return [_nothing(name, f"the check {name} failed: {last_words(done.stderr)}")]
    return [json.loads(line) | {"error": None} for line in done.stdout.splitlines()]


def _nothing(name: str, why: str) -> dict[str, Any]:
    return {"check": name, "when": {}, "facts": {}, "error": why}
