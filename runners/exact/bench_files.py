# SPDX-License-Identifier: GPL-2.0-or-later
"""A program of the user's, and all that it needs: the files of the exact guest that runs it.

What the user names by a relative path lies below BENCH_FOLDER in the guest, wherever it lies here:
so a count does not depend on where a clone is.
"""

import os
import re
import shlex
import shutil
import stat
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from probes.isa import Isa
from probes.messages import is_plain, shown
from runners.exact.elf import Elf, NotElfError, read_elf
from runners.exact.machine import Order
from runners.guest.image import strip_elf
from runners.process import REPOSITORY, UsageError, attempt, plain_environment

LAUNCH_PROGRAM = REPOSITORY / "runners/exact/launch/build/launch"
LAUNCH, BENCH_FOLDER, PACK = "/launch", "/bench", "/pack"
PACK_SIZE = 15 << 20  # of what init.c takes as one file
MOST_SIZE = 200 << 20  # half of the guest's memory, without the kernel
HEAD = struct.Struct("<4Q")  # of a file in a pack: see launch.c
# What programs read of a system; a --file of the user's takes the place of its own.
USUAL_FILES = {
    "/etc/passwd": b"root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "/etc/group": b"root:x:0:\nnogroup:x:65534:\n",
    "/etc/hosts": b"127.0.0.1 localhost\n",
    "/etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files\n",
}
USUAL_VARIABLES = {
    "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    "HOME": "/",
    "LC_ALL": "C",
    "PYTHONHASHSEED": "0",
}
KEPT = ("LD_LIBRARY_PATH",)  # by which a loader here finds what one there has to find
LOADER = re.compile(r"(/usr)?/lib[\w-]*/ld[\w.-]*")  # the programs that load libraries
FOUND_LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")


@dataclass(frozen=True)
class Bench:
    """A program in the guest, and perhaps a server beside it.

    `files` are all files (path in the guest → file here), `words` the program's path in the guest
    and its command line; so are the `server`'s.
    """

    words: tuple[str, ...]
    server: tuple[str, ...] = ()
    files: Mapping[str, Path] = field(default_factory=dict)

    @property
    def programs(self) -> list[Elf]:
        """Return all that can be executed or loaded."""
        elves = (_elf_of(file) for _, file in sorted(self.files.items()))
        return [elf for elf in elves if elf]

    def order(self, warm: bool) -> tuple[dict[str, bytes], Order]:
        """Return the files that come with the order, and its steps. Raises UsageError."""
        size = sum(file.stat().st_size for file in self.files.values())
        if size > MOST_SIZE:
            raise UsageError(
                f"the program and its files have {size >> 20} MiB, and the guest's memory has "
                f"room for {MOST_SIZE >> 20}: name fewer or smaller files with --file."
            )
        data = self._pack()
        parts = [data[at : at + PACK_SIZE] for at in range(0, len(data), PACK_SIZE)]
        packs = {f"{PACK}.{number}": part for number, part in enumerate(parts)}
        launch = ("run", LAUNCH, "warm" if warm else "once", *packs)
        hand = [("hand", f"/run/bench/{name}", name) for name in ("output",)]
        return {LAUNCH: strip_elf(LAUNCH_PROGRAM.read_bytes())} | packs, [launch, *hand]

    def _pack(self) -> bytes:
        """Return all files as one stream for the guest."""
        made = USUAL_FILES | {
            "/run/bench/words": _words(self.words),
            "/run/bench/folder": BENCH_FOLDER.encode(),
            "/run/bench/variables": _words([f"{n}={value}" for n, value in variables().items()]),
        }
        if self.server:
            made["/run/bench/server-words"] = _words(self.server)
        entries = [(path, data, 0o644, 0) for path, data in made.items() if path not in self.files]
        for path, file in sorted(self.files.items()):
            about = file.stat()
            mode = stat.S_IMODE(about.st_mode)
            entries.append((path, file.read_bytes(), mode, max(0, int(about.st_mtime))))
        return b"".join(
            HEAD.pack(len(path.encode()), len(data), mode, time) + path.encode() + data
            for path, data, mode, time in entries
        )


def find_bench(
    command: Sequence[str], server: str | None, files: Sequence[Path], isa: Isa
) -> Bench:
    """Find what the guest needs. Raises UsageError where the program could never run there."""
    found: dict[str, Path] = {}
    words = _add_program(found, command, isa)
    server_words = _add_program(found, split_words(server), isa) if server else ()
    for file in files:
        for inside in _all_files(file):
            if not is_plain(str(inside)):
                raise UsageError(
                    f"--file: {shown(str(inside))} has a control character: rename it."
                )
            found[guest_path(inside)] = inside
            if (elf := _elf_of(inside)) and elf.is_program and elf.machine == isa.elf_machine:
                _add_libraries(found, inside, elf.loader or f"/{isa.loader}")
    return Bench(words, server_words, found)


def split_words(line: str) -> list[str]:
    """Split a command line as a shell does. Raises UsageError."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"--with {shown(line)} is no command: {error}.") from None
    if not words:
        raise UsageError("--with has no command: name the server's program and its arguments.")
    return words


def guest_path(path: Path) -> str:
    """Return where a file of the user's lies in the guest."""
    place = os.path.normpath(path)
    if place.startswith("../"):
        return os.path.normpath(Path.cwd() / path)
    return place if place.startswith("/") else f"{BENCH_FOLDER}/{place}"


def _add_program(found: dict[str, Path], command: Sequence[str], isa: Isa) -> tuple[str, ...]:
    """Add a program and its libraries: its path in the guest and its words. Raises UsageError."""
    name = command[0]
    program = Path(name) if "/" in name else Path(shutil.which(name) or "")
    if program == Path():
        raise UsageError(f"there is no program {shown(name)} in PATH.")
    if not program.is_file():
        raise UsageError(f"there is no file {shown(name)}: name the program's file.")
    try:
        elf = read_elf(program)
    except OSError as error:
        raise UsageError(f"{shown(name)} cannot be read ({error.strerror}).") from None
    except NotElfError as error:
        raise UsageError(f"{shown(name)} {error}") from None
    if elf.machine != isa.elf_machine:
        raise UsageError(
            f"{shown(name)} is of another architecture: the exact machine is {isa.name}, so build "
            "the program for that."
        )
    if not elf.is_program:
        raise UsageError(f"{shown(name)} is no program but an object file: link it first.")
    if not os.access(program, os.X_OK):
        raise UsageError(f"{shown(name)} may not be executed: chmod +x it.")
    place = guest_path(program)
    found[place] = program
    if elf.loader:
        _add_libraries(found, program, elf.loader)
    return (place, *command)


def _add_libraries(found: dict[str, Path], program: Path, loader: str) -> None:
    """Add what the loader of a program or library would load. Raises UsageError.

    The loader is run here, and it is the file that names it: it has to be one of the system's.
    """
    if not LOADER.fullmatch(loader):
        raise UsageError(f"{shown(str(program))} names {shown(loader)} as its loader: not run.")
    if not Path(loader).is_file():
        raise UsageError(f"{shown(str(program))} needs {loader}, which is not here.")
    found[loader] = Path(loader)
    done = attempt(
        [loader, "--list", program.absolute()], env=plain_environment(**kept_variables())
    )
    lacking = [line.split()[0] for line in done.stdout.splitlines() if "not found" in line]
    if lacking:
        raise UsageError(f"{shown(str(program))} needs {', '.join(lacking)}, which is not here.")
    for path in FOUND_LIBRARY.findall(done.stdout):
        found[path] = Path(path)


def _all_files(path: Path) -> Iterator[Path]:
    """Yield the file, or all files below the folder. Raises UsageError."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        if not files:
            raise UsageError(f"--file {shown(str(path))} is a folder without a file.")
        yield from files
    elif path.is_file():
        yield path
    else:
        raise UsageError(f"--file {shown(str(path))}: there is no such file.")


def variables() -> dict[str, str]:
    """Return the environment of programs in the guest: few variables are the user's."""
    return USUAL_VARIABLES | kept_variables()


def kept_variables() -> dict[str, str]:
    return {name: os.environ[name] for name in KEPT if name in os.environ}


def _elf_of(file: Path) -> Elf | None:
    """Return a file as ELF; None where it is none, or of another class."""
    try:
        return read_elf(file)
    except NotElfError:
        return None


def _words(words: Sequence[str]) -> bytes:
    return b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in words)
