# SPDX-License-Identifier: GPL-2.0-or-later
"""Building this repository's programs from tests, of which several may run at once."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def make(folder: Path, *targets: str) -> None:
    """`make` in this folder when nobody else does: two would write the same files.

    Raises subprocess.CalledProcessError.
    """
    jobs = len(os.sched_getaffinity(0))
    lock = ["flock", str(folder)]
    subprocess.run(
        [*lock, "make", "--silent", f"-j{jobs}", "-C", str(folder), *targets], check=True
    )
