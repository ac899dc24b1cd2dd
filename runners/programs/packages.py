# SPDX-License-Identifier: GPL-2.0-or-later
"""Unpacks the Debian packages of a program into the cache: nothing is installed or started.

They are Debian 12's on every host, so that a program has the same version everywhere. Its libraries
come along; only the C library is the host's, which is as new or newer.
"""

import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from runners.guest.debian import PackageSources
from runners.guest.store import Cache, Say
from runners.process import RunError, attempt, last_words
from runners.programs.program import Program, Values, symbolic

SUITES = ("bookworm", "bookworm-security")
MERGED = ("bin", "sbin", "lib", "lib64")  # links to the same below usr
# What servers depend on for their installation, and do not run; and the loader's own library.
LEFT_OUT = frozenset(
    {
        *("libc6", "libc-bin", "base-files", "base-passwd", "dpkg", "tar", "debconf", "cdebconf"),
        *("adduser", "passwd", "login", "init-system-helpers", "lsb-base", "sysvinit-utils"),
        *("perl", "perl-base", "perl-modules-5.36", "libperl5.36", "ucf", "sensible-utils"),
        *("coreutils", "findutils", "debianutils", "mawk", "sed", "grep", "bash", "dash", "gzip"),
        *("ssl-cert", "logrotate", "cron", "cron-daemon-common", "systemd", "util-linux"),
        *("libllvm14", "psmisc", "procps", "iproute2", "mount", "libpam-modules-bin"),
    }
)
# Of a package only what a program reads.
OPTIONS = tuple(
    f"--exclude=./usr/share/{name}" for name in ("doc", "man", "info", "locale", "lintian", "bug")
)
LIBRARIES = "usr/lib/x86_64-linux-gnu"
BUILD_SECONDS = 600


def unpacked(program: Program, cache: Path, say: Say, note: Say | None = None) -> Path | None:
    """The folder with the program's packages, from the cache or made now; None: it has none.

    Raises RunError.
    """
    if not program.packages and not program.build:
        return None
    recipe = {
        "packages": sorted(program.packages),
        "suites": SUITES,
        "build": program.build,
        "path": program.path,
        "sources": {
            str(path.relative_to(program.file.parent.absolute())): hashlib.sha256(
                path.read_bytes()
            ).hexdigest()
            for path in sources(program)
        },
    }

    def make(partial: Path) -> dict[str, object]:
        listed = ", ".join(program.packages) or "no package"
        (note or say)(
            f"{program.name}: unpacking Debian 12's {listed} into the cache; nothing is installed"
        )
        versions: dict[str, str] = {}
        if program.packages:
            for name in MERGED:
                (partial / "usr" / name).mkdir(parents=True)
                (partial / name).symlink_to(f"usr/{name}")
            left_out = LEFT_OUT - {*program.packages}
            versions = packages.archive(SUITES).unpack(
                program.packages, partial, program.name, tar_options=OPTIONS, left_out=left_out
            )
            _drop_privileges(partial)
        for command in program.build:
            _build(program, command, partial, say)
        return {"packages": versions, "what": program.name}

    with Cache(cache, say) as cached, PackageSources(cached) as packages:
        return cached.entry("program", recipe, make)


def sources(program: Program) -> list[Path]:
    """The files that its commands to build name, and those of the folders that they name."""
    words = {word for command in program.build for word in command}
    named = sorted(word.removeprefix("{here}/") for word in words if word.startswith("{here}/"))
    places = [program.file.parent.absolute() / name for name in named]
    found = (path for place in places for path in sorted([place, *place.glob("*")]))
    return [path for path in found if path.is_file()]


def environment(path: Sequence[str], root: Path | None) -> dict[str, str]:
    """What a command of the program finds its files by."""
    if root is None:
        return {}
    folders = [root / name for name in (*path, "bin", "usr/bin", "usr/sbin")]
    return {
        "PATH": ":".join([*map(str, folders), os.environ.get("PATH", "/usr/bin:/bin")]),
        "LD_LIBRARY_PATH": f"{root / LIBRARIES}:{root / 'usr/lib'}",
    }


def _drop_privileges(root: Path) -> None:
    """Take away set-user-ID and set-group-ID, which a package may have."""
    for folder, _, names in os.walk(root):
        for path in (Path(folder, name) for name in names):
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID):
                path.chmod(stat.S_IMODE(mode) & 0o777)


def _build(program: Program, command: Sequence[str], root: Path, say: Say) -> None:
    values = Values(
        str(program.file), symbolic(program, program.cases[0], "unix") | {"root": str(root)}
    )
    argv = values.command(command)
    say(f"{program.name}: building with {argv[0]}, which may take a minute or two")
    known = {**environment(program.path, root), "GOFLAGS": "-buildvcs=false -modcacherw"}
    done = attempt(
        ["env", *(f"{name}={value}" for name, value in known.items()), *argv],
        timeout=BUILD_SECONDS,
    )
    if done.returncode != 0:
        said = last_words(done.stderr or done.stdout)
        raise RunError(f"{program.name} cannot be built: {said}")
