# SPDX-License-Identifier: GPL-2.0-or-later
"""The cache: whole entries or none.

An entry is a folder `<kind>-<key>`, where the key is a hash of everything that went into it.
It is built in a sibling `<kind>-<key>.partial` and renamed when complete, so that an interrupted
build never looks whole. One lock covers all building: its holder may delete any `.partial`.
An entry that is no longer as it was built is built anew (see runners.guest.sealed).
To build an entry again, for newer packages say, delete it.
"""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Self

from runners.guest.contents import kept, remove_old, total
from runners.guest.errors import LackingError
from runners.guest.sealed import MANIFEST, damage, open_regular, read_manifest, remove, seal_entry
from runners.process import RunError
from runners.store import hold

__all__ = ["Cache", "Say", "hold", "read_manifest"]

Say = Callable[[str], None]
FORMAT = 2  # of an entry: another one has other names
MUCH = 100 << 20  # bytes: who builds as much is told what the cache holds


class Cache(AbstractContextManager["Cache"]):
    """A folder of entries that are built once. Several processes may use it at the same time.

    Use it in a `with` statement: a builder holds the lock to the end of the block.
    """

    def __init__(
        self, folder: Path, say: Say, note: Say | None = None, *, may_build: bool = True
    ) -> None:
        """`say` gets what is being done, `note` what the user should read even afterwards."""
        self.folder = folder.resolve()
        self.say = say
        self.note = note or say
        self._may_build = may_build
        self._lock: int | None = None
        self._built: list[Path] = []

    def __enter__(self) -> Self:
        """Others may read the cache meanwhile, and build in it, and may not clear it."""
        if self._may_build or self.folder.is_dir():
            with suppress(OSError):  # who may not write to it reads it all the same
                hold(self.folder, self.say)
        return self

    def find(self, kind: str, recipe: Mapping[str, object]) -> Path | None:
        """The whole entry for this recipe, None where there is none."""
        path = self._path(kind, recipe)
        if damage(path, recipe):
            return None
        with suppress(OSError):
            os.utime(path / MANIFEST)  # what nobody uses is removed in time
        return path

    def entry(
        self, kind: str, recipe: Mapping[str, object], build: Callable[[Path], Mapping[str, object]]
    ) -> Path:
        """The entry for this recipe; `build` fills the folder it is given if there is none yet.

        What `build` returns is stored as the entry's manifest, with the recipe; `what` in it tells
        a user what the entry is. A damaged entry is built anew.
        Raises LackingError where there is none and this cache may not build.
        """
        if found := self.find(kind, recipe):
            return found
        path = self._path(kind, recipe)
        if not self._may_build:
            lack = "whole" if os.path.lexists(path) else "there yet"
            raise LackingError(f"no {kind} is {lack} in {self.folder}")
        self.lock()
        if found := self.find(kind, recipe):  # another process built it while we waited
            return found
        if os.path.lexists(path):
            self.note(f"the cache's {path} is damaged ({damage(path, recipe)}): building it anew")
            remove(path)
        with self.scratch(path.name) as partial:
            manifest = {"recipe": dict(recipe), **build(partial)}
            seal_entry(partial, manifest)
            partial.rename(path)
        self._built.append(path)
        return path

    def holds(self, kind: str, recipe: Mapping[str, object]) -> bool:
        """Whether an entry has been built."""
        return self._path(kind, recipe).exists()

    @contextmanager
    def scratch(self, name: str) -> Iterator[Path]:
        """A folder to work in, gone afterwards unless it was renamed. The lock must be held."""
        partial = self.folder / f"{name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            yield partial
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def lock(self, *, wait: bool = True) -> None:
        """Take the sole right to build, until the block ends; remove what is old or unfinished.

        Raises RunError; BlockingIOError where another process has it and we do not `wait`.
        """
        if self._lock is not None:
            return
        lock = self.folder / "lock"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = open_regular(lock, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            where = error.filename or self.folder
            raise RunError(f"cannot write to the cache {where}: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                self._unlock()
                raise
            self.say(f"waiting: another run is building in {self.folder}")
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        remove_old(self.folder)

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __exit__(self, failed: object, *_: object) -> None:
        """Give the right to build back; what is old goes even if nothing was built."""
        try:
            if self._may_build and failed is None:
                with suppress(BlockingIOError, RunError):
                    self.lock(wait=False)
                everything = kept(self.folder)
                if sum(row.size for row in everything if row.path in self._built) > MUCH:
                    size = total(everything)
                    self.note(f"{self.folder} now holds {size} (see run.sh cache)")
        finally:
            self._unlock()

    def _path(self, kind: str, recipe: Mapping[str, object]) -> Path:
        text = json.dumps([FORMAT, recipe], sort_keys=True)
        return self.folder / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
