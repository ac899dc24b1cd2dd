# SPDX-License-Identifier: GPL-2.0-or-later
"""The cache: entries that are made once, whole or not there; and what is listed and cleared of it.

An entry is a folder `<kind>-<key>`, where the key is a hash of everything that went into it. It is
made in a folder of another name and renamed, so that an interrupted build never looks whole. The
lock on that folder keeps others from making the same entry; without a holder it is a dead run's.
An entry that lacks a file, or with which a guest failed, is made anew. To have newer packages,
remove the entry.
"""

import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from probes.files import open_folder, read_regular, read_rows
from runners.process import RunError
from runners.store.folders import OURS, make_folder, publish, sweep
from runners.store.locks import hold, lock

Say = Callable[[str], None]
FORMAT = 3  # of an entry: another one has other names
MANIFEST, FAILED = "manifest.json", "failed"
KEPT_TABLE = Path(__file__).with_name("kept.tsv")
# In kept.tsv: the digest of a recipe, and a folder of ours that is being filled.
PATTERNS = {"KEY": "[0-9a-f]{12,16}", "OURS": OURS.pattern}
_making: defaultdict[Path, threading.Lock] = defaultdict(threading.Lock)  # by threads of ours


class LackingError(RunError):
    """Something is not there, and cannot be made or must not be."""


def write_json(path: Path, value: object) -> None:
    """Write `value` whole or not at all. Raises OSError."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        fresh.write_text(json.dumps(value) + "\n", encoding="utf-8")
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


class Cache:
    """A folder of entries. Several processes and threads may use it at the same time.

    From now on to the end of our process others may build in it, and may not clear it.
    """

    def __init__(self, folder: Path, say: Say, *, may_build: bool = True) -> None:
        self.folder = folder.resolve()
        self.say = say
        self._may_build = may_build
        if may_build or self.folder.is_dir():
            with suppress(OSError):  # who may not write to it reads it all the same
                hold(self.folder, say)
        if may_build:
            prune(self.folder)

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
        a user what the entry is. Raises LackingError where this cache may not build, RunError.
        """
        path = self._path(kind, recipe)
        with _making[path]:
            if entry := self.find(kind, recipe):
                return entry
            if not self._may_build:
                raise LackingError(f"no whole {kind} is in {self.folder} yet")
            with self._alone(path) as fresh:
                if entry := self.find(kind, recipe):  # another run made it while we waited
                    return entry
                if os.path.lexists(path):
                    self.say(f"{path} is damaged, and is made anew")
                manifest = {"recipe": recipe, **build(fresh)}
                write_json(fresh / MANIFEST, {**manifest, "files": _sizes(fresh)})
                remove(path)
                publish(fresh)
                fresh.rename(path)
        return path

    @contextmanager
    def _alone(self, entry: Path) -> Iterator[Path]:
        """Yield an empty folder in which nobody else makes this entry. Raises RunError."""
        folder = entry.with_name(f"{entry.name}.pathcost-{entry.name[-8:]}")
        try:
            held = locked_folder(folder, f"waiting: another run makes {folder.stem}", self.say)
        except OSError as error:
            raise RunError(f"cannot write to the cache: {error}") from None
        try:
            for left in folder.iterdir():  # by a killed builder
                remove(left)
            yield folder
        except OSError as error:
            raise RunError(f"cannot make {entry.name} in the cache: {error}") from error
        finally:
            if _is_at(folder, held):
                remove(folder)
            os.close(held)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder to work in, gone afterwards."""
        folder, lock = make_folder(self.folder, "scratch", 0o700)
        try:
            yield folder
        finally:
            remove(folder)
            os.close(lock)

    def _path(self, kind: str, recipe: Mapping[str, object]) -> Path:
        text = json.dumps([FORMAT, recipe], sort_keys=True)
        return self.folder / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def locked_folder(folder: Path, taken: str, say: Say) -> int:
    """Make a folder of the cache, or wait for who has it; the descriptor holds its lock.

    As long as it does, nobody removes the folder. Raises OSError, RunError.
    """
    while True:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # another start has removed it before we could
            os.utime(folder)  # the last use
            held = open_folder(folder)
            os.fchmod(held, 0o700)  # no other user can open it, and so hold its lock
            lock(held, taken, say)
            if _is_at(folder, held):
                return held
            os.close(held)


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether this open folder still has that name."""
    with suppress(OSError):
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    return False


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


class Kept(NamedTuple):
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
    for row in read_rows(KEPT_TABLE):
        name = re.sub("|".join(PATTERNS), lambda match: PATTERNS[match[0]], row["name"])
        most = int(row["most"] or sys.maxsize)
        for path in folder.glob("*"):
            if re.fullmatch(name, path.name):
                rows.append(Kept(path, row["kind"], most, _last_use(path)))
    return sorted(rows, key=lambda row: (row.kind, -row.used))


def prune(folder: Path) -> None:
    """Remove what killed builders left, and all but the last used of each kind."""
    sweep(folder)
    seen: Counter[str] = Counter()
    for row in kept(folder):
        seen[row.kind] += 1
        if seen[row.kind] > row.most:
            _remove_unused(row.path)


def _remove_unused(path: Path) -> None:
    """Remove an entry unless a run holds its lock. What is removed in part has another name."""
    try:
        held = open_folder(path)
    except OSError:  # a file, a link, or another start was faster
        remove(path)
        return
    try:
        with suppress(OSError):  # a run holds it, or it is another user's
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            going = path.with_name(f"{path.name}.pathcost-{secrets.token_hex(4)}")
            path.rename(going)
            remove(going)
    finally:
        os.close(held)


def _last_use(path: Path) -> float:
    """Each use of an entry touches its manifest, of a Python environment its list of files."""
    for sign in (path / MANIFEST, path / "complete", path):
        with suppress(OSError):
            return sign.lstat().st_mtime
    return 0.0
