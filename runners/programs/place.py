# SPDX-License-Identifier: GPL-2.0-or-later
"""Where a program runs: its packages, its directory, its ends, and the user that it runs as.

Packages are Debian 12's on every host, so a program has the same version everywhere. They are
unpacked into the cache: nothing is installed or started. Their libraries come along; only the C
library is the host's, which is as new or newer.
"""

import hashlib
import os
import pwd
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from probes.differences import differences
from probes.files import read_regular, read_rows
from probes.isa import HOST
from runners.guest.debian import LIBRARIES, PackageSources
from runners.guest.store import Cache, Say
from runners.orphans import ending_orphans
from runners.process import RunError, User, command, free_port, last_words
from runners.programs.printed import attempt_theirs
from runners.programs.program import HERE, Case, Program, Values

TOOLS_FOLDER = HERE / "tools/build"
REROUTED = ("unix", "look")  # modes of tools/reroute.c in which the port is a Unix socket
KEEP = (str(TOOLS_FOLDER / "keep"),)  # runs what comes to an end by itself
PROGRAM_SUITES = ("bookworm", "bookworm-security")
MERGED = ("bin", "sbin", "lib", "lib64")  # links to the same below usr
MOST_NOTED = 1 << 16  # bytes
LEFT_OUT = {row["package"] for row in read_rows(HERE / "left-out.tsv")}
# A program reads nothing below these. No file keeps the right to run as its owner.
TAR_OPTIONS = (
    *(f"--exclude=./usr/share/{name}" for name in ("doc", "man", "info", "locale", "lintian")),
    "--no-same-permissions",
)
BUILD_SECONDS = 600
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


def unpacked(program: Program, cache: Path, say: Say, note: Say | None = None) -> Path | None:
    """Return the folder with the program's packages, from the cache or made now; None: no packages.

    Raises RunError.
    """
    if not program.packages and not program.build:
        return None
    here = program.file.parent.absolute()
    recipe = {
        "packages": sorted(program.packages),
        "suites": PROGRAM_SUITES,
        "build": program.build,
        "path": program.path,
        "sources": {
            str(path.relative_to(here)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sources(program)
        },
    }

    def make(partial: Path) -> dict[str, object]:
        listed = ", ".join(program.packages) or "no package"
        (note or say)(f"{program.name}: unpacking Debian 12's {listed} into the cache")
        versions: dict[str, str] = {}
        if program.packages:
            for name in MERGED:
                (partial / "usr" / name).mkdir(parents=True)
                (partial / name).symlink_to(f"usr/{name}")
            left_out = LEFT_OUT - {*program.packages}
            versions = packages.archive(PROGRAM_SUITES, HOST).unpack(
                program.packages, partial, program.name, tar_options=TAR_OPTIONS, left_out=left_out
            )
        for words in program.build:
            argv = Values(program, program.cases[0], "unix", root=partial).command(words)
            say(f"{program.name}: building with {argv[0]}, which may take a minute or two")
            env = [*environment(program.path, partial), "GOFLAGS=-buildvcs=false -modcacherw"]
            with ending_orphans():
                done = attempt_theirs(ending_all(["env", *env, *argv]), BUILD_SECONDS)
            if done.returncode != 0:
                why = last_words(done.stderr or done.stdout)
                raise RunError(f"{program.name} cannot be built: {why}")
        return {"packages": versions, "what": program.name}

    cached = Cache(cache, say)
    with PackageSources(cached) as packages:
        return cached.entry("program", recipe, make)


def sources(program: Program) -> list[Path]:
    """The files that its commands to build name, and those of the folders that they name."""
    here = str(program.file.parent.absolute())
    words = {word for command in program.build for word in command if word.startswith("{here}/")}
    named = [Path(word.replace("{here}", here)) for word in sorted(words)]
    paths = [path for name in named for path in sorted([name, *name.glob("*")])]
    return [path for path in paths if path.is_file()]


def environment(path: Sequence[str], root: Path | None) -> list[str]:
    """What a command of the program finds its files by, as words of env(1)."""
    if root is None:
        return []
    folders = [root / name for name in (*path, "bin", "usr/bin", "usr/sbin")]
    searched = ":".join([*map(str, folders), os.environ.get("PATH", "/usr/bin:/bin")])
    return [f"PATH={searched}", f"LD_LIBRARY_PATH={root / LIBRARIES}:{root / 'usr/lib'}"]


@dataclass
class Place:
    """What all commands of one start share.

    `packages`: where they are in the cache. `mode`: of tools/reroute.c, which runs each command.
    """

    directory: Path
    packages: Path | None
    program: Program
    ends: dict[str, str] = field(default_factory=dict)
    mode: str = ""

    @property
    def cwd(self) -> Path:
        """Where commands run."""
        return self.directory

    @property
    def environment(self) -> Mapping[str, str] | None:
        """The variables of commands; None: ours."""
        return None

    @property
    def rerouted(self) -> Path:
        """With what the paths of the sockets begin that take the port's place."""
        return self.directory / "rerouted"

    def met(self) -> set[str]:
        """The differences that tools/reroute.c has noted, by their names in differences.tsv."""
        noted = self.rerouted.with_name(f"{self.rerouted.name}-met")
        if not noted.exists():
            return set()
        return {
            *read_regular(noted, MOST_NOTED).decode(errors="replace").split()
        } & differences().keys()

    def answers(self, end: str) -> bool:
        """Whether our server listens at an end."""
        if self.mode in REROUTED and end == self.end("port"):
            return any(map(answers, map(str, self.directory.glob(f"{self.rerouted.name}*"))))
        return answers(end)

    def end(self, name: str) -> str:
        """The port or path of an end; a port that was free, or a socket in the directory."""
        if name not in self.ends:
            is_port = name.startswith("port")
            self.ends[name] = str(free_port() if is_port else self.directory / name)
        return self.ends[name]

    def values(self, case: Case, transport: str) -> Values:
        """The values of the placeholders of a running server."""
        folders = {"directory": self.directory, "root": self.root, "tools": TOOLS_FOLDER}
        return Values(self.program, case, transport, self.end, **folders)

    @property
    def root(self) -> Path | None:
        """Where commands see the packages: nobody may not enter root's home."""
        return self.directory / "root" if self.packages and run_as()[0] else self.packages

    def through(self, role: str) -> list[str]:
        """The words before a command that is rerouted."""
        if not self.mode:
            return []
        where = self.end("port"), str(self.rerouted)
        return [str(TOOLS_FOLDER / "reroute"), self.mode, *where, role]

    def client(self, argv: Sequence[str]) -> list[str]:
        """The command of a client, which need not use the port: it may speak to a front."""
        return self.wrapped(argv)

    def wrapped(
        self, argv: Sequence[str], keeper: Sequence[str] = KEEP, role: str = "caller"
    ) -> list[str]:
        """A command as its user, with the program's own folders, and below its `keeper`."""
        own = [f"HOME={self.directory}", f"TMPDIR={self.directory}", "LC_ALL=C.UTF-8"]
        env = ["env", *environment(self.program.path, self.root), *own]
        words = [*env, *keeper, *self.through(role), *argv]
        words = command(words, *run_as(), death="TERM")  # the keeper ends what it keeps
        if self.packages is None or (self.root == self.packages and not self.program.over):
            return words
        # Some programs read files at a place that was fixed when they were compiled.
        namespaces = ["--mount"]
        if self.root == self.packages:
            namespaces.append("--map-root-user")
        places = [str(self.packages), str(self.root), *self.program.over]
        return ["unshare", *namespaces, "sh", "-ec", MOUNT, *places, "--", *words]


def ending_all(argv: Sequence[str]) -> list[str]:
    """A command that ends with us, and ends all that it has started."""
    return command([*KEEP, *argv], death="TERM")


def run_as() -> tuple[User | None, tuple[str, ...]]:
    """The user of servers and clients, if not ourselves, and the rights that this user keeps: to
    find the clients in root's checkout. PostgreSQL and MariaDB refuse root.
    """
    if os.geteuid() != 0:
        return None, ()
    entry = pwd.getpwnam("nobody")
    return (entry.pw_uid, entry.pw_gid), ("dac_read_search",)


def answers(end: str) -> bool:
    """Whether somebody listens at a port or a path."""
    family, address = socket_address(end)
    with socket.socket(family) as connection:
        return connection.connect_ex(address) == 0


def socket_address(end: str) -> tuple[socket.AddressFamily, Any]:
    return (socket.AF_INET, ("127.0.0.1", int(end))) if end.isdigit() else (socket.AF_UNIX, end)
