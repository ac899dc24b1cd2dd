# SPDX-License-Identifier: GPL-2.0-or-later
"""runners/setup.sh as a child: it installs and builds, and its last line is for us."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from runners.errors import RunError
from runners.process import command
from runners.targets import REPOSITORY

COMPILER_LINES = 6  # of a complaint: what a compiler said last
Say = Callable[[str], None]


def set_up(
    *arguments: str,
    install: bool,
    cache: Path,
    say: Say = lambda _: None,
    note: Say = lambda _: None,
) -> Path:
    """Run it; the Python of the analysis, whose environment it names in its last line.

    `say` gets each line, `note` the lines before the last one of a complaint. Raises RunError.
    """
    options = [] if install else ["--no-install"]
    process = subprocess.Popen(
        command([str(REPOSITORY / "runners/setup.sh"), *options, *arguments]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"PATHCOST_CACHE": str(cache)},
    )
    assert process.stdout is not None
    line = ""
    try:
        for line in process.stdout:
            say(line.strip())
        complaint = process.communicate()[1].strip().splitlines()
    finally:
        process.kill()
    if process.returncode != 0:
        for earlier in complaint[-COMPILER_LINES:-1]:
            note(earlier)
        raise RunError(complaint[-1].removeprefix("pathcost: ") if complaint else "set-up failed.")
    return Path(line.rstrip("\n"), "bin/python")
