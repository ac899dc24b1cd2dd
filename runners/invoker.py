# SPDX-License-Identifier: GPL-2.0-or-later
"""The user behind sudo. The workload runs as this user, and reports belong to this user."""

import os
import pwd
import re
from dataclasses import dataclass
from pathlib import Path

from probes.messages import shown
from runners.errors import UsageError
from runners.process import User


@dataclass(frozen=True)
class Invoker:
    """The user behind sudo, or ourselves. `drop` is the (uid, gid) to change to, if any."""

    uid: int
    gid: int
    home: Path
    drop: User | None

    @property
    def cache(self) -> Path:
        """The folder, outside the repository, for everything that can be made again."""
        if given := os.environ.get("PATHCOST_CACHE"):
            return Path(given).absolute()
        base = None if self.drop else os.environ.get("XDG_CACHE_HOME")
        return Path(base or self.home / ".cache") / "pathcost"

    def make(self, folder: Path) -> None:
        """Make `folder` and what is missing above it, for the user behind sudo."""
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for path in missing:
            self.own(path)

    def own(self, path: Path) -> None:
        """Give `path`, and all below it, to the user behind sudo."""
        if self.drop is not None:
            give(path, self.drop)


def give(path: Path, owner: User) -> None:
    """Give `path`, and all below it, to this user."""
    for entry in (path, *path.rglob("*")):
        os.chown(entry, *owner, follow_symlinks=False)


def invoker() -> Invoker:
    """Read SUDO_UID and SUDO_GID, which mean nothing unless we are root."""
    uid, gid = os.getuid(), os.getgid()
    drop = None
    if uid == 0 and os.environ.get("SUDO_UID", "0") != "0":
        named = os.environ["SUDO_UID"], os.environ.get("SUDO_GID", "")
        if not all(re.fullmatch("[0-9]{1,9}", number) for number in named):
            raise UsageError(
                f"SUDO_UID is {shown(named[0])} and SUDO_GID {shown(named[1])}, which are no user "
                "and group: unset both, or run it with sudo, which sets them."
            )
        drop = uid, gid = int(named[0]), int(named[1])
    try:
        home = Path(pwd.getpwuid(uid).pw_dir)
    except KeyError:
        home = Path(os.environ.get("HOME", "/"))
    return Invoker(uid, gid, home, drop)
