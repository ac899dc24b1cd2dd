# SPDX-License-Identifier: GPL-2.0-or-later
"""The user behind sudo. The workload runs as this user, and reports belong to this user."""

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from runners.process import User


@dataclass(frozen=True)
class Invoker:
    """The user behind sudo, or ourselves. `drop` is the (uid, gid) to change to, if any.

    `named`: the user has an entry in passwd(5), and so perhaps further groups.
    """

    uid: int
    home: Path
    drop: User | None
    named: bool

    @property
    def cache(self) -> Path:
        """The folder, outside the repository, for everything that can be made again."""
        if given := os.environ.get("PATHCOST_CACHE"):
            return Path(given).absolute()
        base = None if self.drop else os.environ.get("XDG_CACHE_HOME")
        return Path(base or self.home / ".cache") / "pathcost"

    def own(self, path: Path) -> None:
        """Give `path`, and all below it, to the user behind sudo.

        Only for what lies where no other user can write: else a link might take its place.
        """
        if self.drop is not None:
            for entry in (path, *path.rglob("*")):
                os.chown(entry, *self.drop, follow_symlinks=False)


def invoker() -> Invoker:
    """Read SUDO_UID and SUDO_GID, which mean nothing unless we are root."""
    uid, drop = os.getuid(), None
    if uid == 0 and os.environ.get("SUDO_UID", "0") != "0":
        drop = int(os.environ["SUDO_UID"]), int(os.environ["SUDO_GID"])
        uid = drop[0]
    try:
        return Invoker(uid, Path(pwd.getpwuid(uid).pw_dir), drop, True)
    except KeyError:
        return Invoker(uid, Path(os.environ.get("HOME", "/")), drop, False)
