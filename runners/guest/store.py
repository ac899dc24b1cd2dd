# SPDX-License-Identifier: GPL-2.0-or-later
"""The cache: entries that are made once, whole or not there; and what is listed and cleared of it.

An entry is a folder `<kind>-<key>`, where the key is a hash of everything that went into it. It is
made in a sibling `.partial` and renamed, so that an interrupted build never looks whole. One lock
covers all building: its holder may remove any `.partial`. An entry that lacks a file, or with which
a guest failed, is made anew. To have newer packages, remove the entry.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from probes.files import read_regular
from runners.process import RunError
from runners.store import hold

Say = Callable[[str], None]
FORMAT = 3  # of an entry: another one has other names
MANIFEST, FAILED = "manifest.json", "failed"
LOCKS = {"lock", "in-use", "set-up"}  # never removed: a lock holds for one file only
# Kind of entry → what it is, and how many stay: those that were used last.
KINDS = {
    "qemu": ("QEMU", 2),
    "kernel": ("guest's kernel", 16),
    "image": ("guest's root disk", 2),
    "tools": ("program for a knob", 16),
    "program": ("program to measure", 99),
    # Each change of kernel, options or programs makes another of these, of 64 MB and more.
    "snapshot": ("stored machine", 64),
    "symbols": ("kernel's symbols", 64),
    # Each change of the collector or of a script makes another of these, of 400 MB.
    "guest": ("stored guest", 2),
    "build": ("objects of a kernel", 8),
    "python": ("Python environment", 8),
}
# Other names of ours.
NAMES = {
    r"exact-kept": "finished cells",
    r"matplotlib-fonts": "Matplotlib's fonts",
    r"kvm-trials\.json": "whether KVM works",
    r"prices\.json": "prices of messages",
    r"tests-\d+": "the tests' own",
    r"python-.+\.partial": "unfinished environment",
    (
        r"(scratch|qemu|kernel|image|tools|program|snapshot|symbols|guest|kvm-trials|prices)"
        r"[-.].+\.partial"
    ): "unfinished",
}


class LackingError(RunError):
    """Something is not there, and cannot be made or must not be."""


def write_json(path: Path, value: object) -> None:
    """Write `value` whole or not at all. Raises OSError."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        fresh.write_text(json.dumps(value, sort_keys=True) + "\n", encoding="utf-8")
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def read_json(path: Path) -> Any:
    """The value in `path`; None where there is no such file, or no JSON in it."""
    with suppress(OSError, ValueError, RecursionError):
        return json.loads(read_regular(path))
    return None


def read_manifest(entry: Path) -> dict[str, Any]:
    """What is known of an entry."""
    manifest = read_json(entry / MANIFEST)
    return manifest if isinstance(manifest, dict) else {}


def remove(path: Path) -> None:
    """Remove whatever is at `path`, and no more than the link where it is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _open_lock(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)


class Cache(AbstractContextManager["Cache"]):
    """A folder of entries. Several processes may use it at the same time.

    Use it in a `with` statement: a builder holds the lock to the end of the block.
    """

    def __init__(self, folder: Path, say: Say, *, may_build: bool = True) -> None:
        self.folder = folder.resolve()
        self.say = say
        self._may_build = may_build
        self._lock: int | None = None

    def __enter__(self) -> Self:
        """Others may read the cache meanwhile, and build in it, and may not clear it."""
        if self._may_build or self.folder.is_dir():
            with suppress(OSError):  # who may not write to it reads it all the same
                hold(self.folder, self.say)
        return self

    def find(self, kind: str, recipe: Mapping[str, object]) -> Path | None:
        """The whole entry for this recipe, None where there is none."""
        path = self._path(kind, recipe)
        if read_manifest(path).get("files") != _sizes(path):
            return None
        with suppress(OSError):
            os.utime(path / MANIFEST)  # the last use
        return path

    def entry(
        self, kind: str, recipe: Mapping[str, object], build: Callable[[Path], Mapping[str, object]]
    ) -> Path:
        """The entry for this recipe; `build` fills the folder it is given if there is none yet.

        What `build` returns is stored as the entry's manifest, with the recipe; `what` in it tells
        a user what the entry is. Raises LackingError where this cache may not build.
        """
        if entry := self.find(kind, recipe):
            return entry
        path = self._path(kind, recipe)
        if not self._may_build:
            raise LackingError(f"no whole {kind} is in {self.folder} yet")
        self.lock()
        if entry := self.find(kind, recipe):  # another process built it while we waited
            return entry
        if os.path.lexists(path):
            self.say(f"{path} is damaged, and is made anew")
        with self.scratch(path.name) as partial:
            manifest = {"recipe": recipe, **build(partial)}
            write_json(partial / MANIFEST, {**manifest, "files": _sizes(partial)})
            remove(path)
            partial.rename(path)
        return path

    @contextmanager
    def scratch(self, name: str) -> Iterator[Path]:
        """A folder to work in, gone afterwards unless it was renamed. The lock must be held."""
        partial = self.folder / f"{name}.partial"
        remove(partial)
        partial.mkdir(parents=True)
        try:
            yield partial
        finally:
            remove(partial)

    def lock(self, *, wait: bool = True) -> None:
        """Take the sole right to build, until the block ends; remove what is old or unfinished.

        Raises RunError; BlockingIOError where another process has it and we do not `wait`.
        """
        if self._lock is not None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = _open_lock(self.folder / "lock")
        except OSError as error:
            raise RunError(f"cannot write to the cache: {error}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                os.close(lock)
                raise
            self.say(f"waiting: another run is building in {self.folder}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        self._lock = lock
        prune(self.folder)

    def __exit__(self, failed: object, *_: object) -> None:
        """Give the right to build back; what is old goes even if nothing was built."""
        if self._may_build and failed is None:
            with suppress(BlockingIOError, RunError):
                self.lock(wait=False)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _path(self, kind: str, recipe: Mapping[str, object]) -> Path:
        text = json.dumps([FORMAT, recipe], sort_keys=True)
        return self.folder / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def suspect(*entries: Path) -> None:
    """Have entries with which a guest failed made anew at their next use. Others may use them."""
    for entry in entries:
        with suppress(OSError):
            (entry / FAILED).touch()


def _sizes(entry: Path) -> dict[str, int]:
    """The size of each file and link of an entry, by its name there."""
    return {
        str(path.relative_to(entry)): path.lstat().st_size
        for folder, names, files in os.walk(entry)
        for path in (Path(folder, name) for name in (*names, *files))
        if (path.is_symlink() or not path.is_dir()) and path != entry / MANIFEST
    }


@dataclass(frozen=True)
class Kept:
    """Something of ours in a cache: what it is, how many such stay, and when it was last used."""

    path: Path
    kind: str
    most: int
    used: float

    @property
    def purpose(self) -> str:
        """Which kernel, program or version it is."""
        return str(read_manifest(self.path).get("what", ""))

    @property
    def size(self) -> int:
        """The bytes that it takes on the disk."""
        size = 0
        for path in (self.path, *(self.path.rglob("*") if not self.path.is_symlink() else ())):
            with suppress(OSError):
                size += 512 * path.lstat().st_blocks
        return size


def kept(folder: Path) -> list[Kept]:
    """All that is ours in a cache, by kind, the last used first."""
    rows = []
    for path in folder.glob("*"):
        if entry := re.fullmatch(rf"({'|'.join(KINDS)})-[0-9a-f]{{12,16}}", path.name):
            rows.append(Kept(path, *KINDS[entry[1]], _last_use(path)))
        elif kinds := [kind for name, kind in NAMES.items() if re.fullmatch(name, path.name)]:
            most = 0 if kinds[0] == "unfinished" else 99
            rows.append(Kept(path, kinds[0], most, _last_use(path)))
    return sorted(rows, key=lambda row: (row.kind, -row.used))


def foreign(folder: Path) -> list[str]:
    """The names in a cache that are not ours."""
    ours = {row.path for row in kept(folder)}
    return sorted(
        path.name for path in folder.glob("*") if path not in ours and path.name not in LOCKS
    )


def prune(folder: Path) -> None:
    """Remove what killed builders left, and all but the last used of each kind. Hold the lock."""
    seen: Counter[str] = Counter()
    for row in kept(folder):
        seen[row.kind] += 1
        if seen[row.kind] > row.most:
            remove(row.path)


def _last_use(path: Path) -> float:
    """Each use of an entry touches its manifest, of a Python environment its list of files."""
    for sign in (path / MANIFEST, path / "complete", path):
        with suppress(OSError):
            return sign.lstat().st_mtime
    return 0.0
