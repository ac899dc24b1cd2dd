# SPDX-License-Identifier: GPL-2.0-or-later
"""The user behind sudo. The workload runs as this user, and reports belong to this user."""

import os
import pwd
import re
from dataclasses import dataclass
from pathlib import Path

from probes.messages import shown
from runners.process import UsageError, User

NOBODY_AT_ALL = 0xFFFFFFFF  # to setresuid(2): do not change


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
        named = os.environ["SUDO_UID"], os.environ.get("SUDO_GID", "")
        if not all(re.fullmatch("[0-9]{1,10}", n) and int(n) < NOBODY_AT_ALL for n in named):
            raise UsageError(
                f"SUDO_UID is {shown(named[0])} and SUDO_GID {shown(named[1])}, which are no user "
                "and group: unset both, or run it with sudo, which sets them."
            )
        drop = int(named[0]), int(named[1])
        uid = drop[0]
    try:
        return Invoker(uid, Path(pwd.getpwuid(uid).pw_dir), drop, True)
    except KeyError:
        return Invoker(uid, Path(os.environ.get("HOME", "/")), drop, False)
