# SPDX-License-Identifier: GPL-2.0-or-later
"""Where a program runs: its directory, its ends, its packages, and the user that it runs as."""

import os
import pwd
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runners.process import RunError, User, command, free_port
from runners.programs import packages
from runners.programs.program import HERE, Case, Program, Values, values_of

TOOLS = HERE / "tools/build"
LONGEST_PATH = 107  # bytes of a socket's path: unix(7)
# For a command in a mount namespace that ends with it: the packages ($0) at a place of their own,
# and some of their folders over the machine's, whose files stay visible.
MOUNT = """
[ "$0" = "$1" ] || mount --bind "$0" "$1"
shift
while [ "$1" != -- ]; do
	mount -t overlay none -o "lowerdir=$0/$1:/$1" "/$1"
	shift
done
shift
exec "$@"
"""


class LiveValues(Values):
    """The values of a running server: ports that were free, sockets in its directory."""

    def __init__(self, program: Program, case: Case, transport: str, place: "Place") -> None:
        super().__init__(
            str(program.file),
            values_of(
                program, case, transport, directory=str(place.directory),
                root=str(place.root), tools=str(TOOLS),
            ),
        )  # fmt: skip
        self._place = place

    def end(self, name: str) -> str:
        if name not in self._place.ends:
            path = str(self._place.directory / name)
            self._place.ends[name] = str(free_port()) if name.startswith("port") else path
        return self._place.ends[name]

    def ends(self) -> dict[str, str]:
        """The ends that were asked for: name → port or path. Raises RunError."""
        found = {name: self.text(f"{{{name}}}") for name in sorted(self.asked)}
        for path in found.values():
            if (length := len(os.fsencode(path))) > LONGEST_PATH and not path.isdigit():
                raise RunError(
                    f"the socket's path {path} has {length} bytes, and {LONGEST_PATH} are possible."
                )
        return found


@dataclass
class Place:
    """What all commands of one start share. `packages`: where they are in the cache."""

    directory: Path
    packages: Path | None
    over: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    ends: dict[str, str] = field(default_factory=dict)

    @property
    def root(self) -> Path | None:
        """Where commands see the packages."""
        return self.directory / "root" if self.packages and run_as()[0] else self.packages

    def _seen(self, argv: list[str]) -> list[str]:
        """A command that sees them: nobody may not enter root's home, and some programs read files
        at a place that was fixed when they were compiled.
        """
        if self.packages is None or (self.root == self.packages and not self.over):
            return argv
        namespaces = ["--mount", *(["--map-root-user"] if self.root == self.packages else [])]
        places = [str(self.packages), str(self.root), *self.over]
        return ["unshare", *namespaces, "sh", "-ec", MOUNT, *places, "--", *argv]

    def wrapped(self, argv: Sequence[str], death: str = "KILL") -> list[str]:
        """A command as its user, with the program's own folders."""
        known = {
            **packages.environment(self.path, self.root),
            **{"HOME": str(self.directory), "TMPDIR": str(self.directory), "LC_ALL": "C.UTF-8"},
        }
        user, rights = run_as()
        words = ["env", *(f"{name}={value}" for name, value in known.items()), *argv]
        return self._seen(command(words, user, rights, death=death))


def run_as() -> tuple[User | None, tuple[str, ...]]:
    """The user of servers and clients, if not ourselves, and the rights that this user keeps: to
    find the clients in root's checkout.
    """
    if os.geteuid() != 0:
        return None, ()
    entry = pwd.getpwnam("nobody")
    return (entry.pw_uid, entry.pw_gid), ("dac_read_search",)


def answers(end: str) -> bool:
    """Whether somebody listens at a port or a path."""
    family, where = address(end)
    with socket.socket(family) as connection:
        return connection.connect_ex(where) == 0


def address(end: str) -> tuple[socket.AddressFamily, Any]:
    """What a socket needs to know of a port or a path."""
    return (socket.AF_INET, ("127.0.0.1", int(end))) if end.isdigit() else (socket.AF_UNIX, end)


def place_of(end: str) -> str:
    return f"port {end}" if end.isdigit() else f"the Unix socket {Path(end).name}"
