# SPDX-License-Identifier: GPL-2.0-or-later
"""Selects a lock file's entries for another Python: pip evaluates markers only for its own.

    python lock.py requirements.lock 3.13

prints them without markers. It runs in the environment of the analysis, which has `packaging`.
"""

import re
import sys
from pathlib import Path

from packaging.requirements import Requirement


def entries_for(lock: str, python: str) -> list[str]:
    """Requirements with their hashes, in the format of the lock file."""
    chosen = []
    for entry in re.split(r"\n(?=\w)", lock.strip()):
        head, *hashes = entry.split(" \\\n")
        wanted = Requirement(head)
        about = {"python_version": python, "python_full_version": f"{python}.0"}
        if wanted.marker is None or wanted.marker.evaluate(about):
            chosen.append(" \\\n".join([f"{wanted.name}{wanted.specifier}", *hashes]))
    return chosen


if __name__ == "__main__":
    print("\n".join(entries_for(Path(sys.argv[1]).read_text(encoding="utf-8"), sys.argv[2])))
