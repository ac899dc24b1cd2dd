# SPDX-License-Identifier: GPL-2.0-or-later
"""A git series over Debian's kernel source, some of whose changes cost instructions.

    python -m tests.kernel.series DIR

DIR holds linux-source-6.1, unpacked, and becomes a git tree. The commit before the series has the
tag `base`; each commit that costs something has a tag of its own.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

SERIES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["commit"]


def make(tree: Path) -> None:
    """Commit the series. Raises ValueError where the source is another one."""
    _git(tree, "init", "--quiet", "--initial-branch=series")
    _git(tree, "add", "--force", ".")
    _git(tree, "commit", "--quiet", "--message=base")
    _git(tree, "tag", "base")
    for planted in SERIES:
        file, parts = tree / planted["file"], [planted["added"], planted["at"]]
        before = file.read_text(encoding="utf-8")
        if before.count(planted["at"]) != 1:
            raise ValueError(f"{file} has not just once: {planted['at']!r}")
        new = "".join(parts[::-1] if planted.get("after") else parts)
        file.write_text(before.replace(planted["at"], new), encoding="utf-8")
        _git(tree, "commit", "--quiet", "--all", f"--message={planted['subject']}")
        if tag := planted.get("tag"):
            _git(tree, "tag", tag)


def _git(tree: Path, *words: str) -> None:
    who = ("-c", "user.name=pathcost", "-c", "user.email=pathcost@localhost")
    fast = ("-c", "core.looseCompression=0")
    subprocess.run(["git", "-C", str(tree), *who, *fast, *words], check=True)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
