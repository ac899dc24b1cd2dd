# SPDX-License-Identifier: GPL-2.0-or-later
"""The cache: whole entries or none.

An entry is a folder `<kind>-<key>`, where the key is a hash of everything that went into it.
It is built in a sibling `<kind>-<key>.partial` and renamed when complete, so that an interrupted
build never looks whole. One lock covers all building: its holder may delete any `.partial`.
To build an entry again, for newer packages say, delete it.
"""

import fcntl
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any

from runners.guest.errors import GuestError, NotCachedError

Say = Callable[[str], None]


class Cache(AbstractContextManager["Cache"]):
    """A folder of entries that are built once. Several processes may use it at the same time.

    Use it in a `with` statement: a builder holds the lock to the end of the block.
    """

    def __init__(self, folder: Path, say: Say, *, may_build: bool = True) -> None:
        self.folder = folder.resolve()
        self.say = say
        self._may_build = may_build
        self._lock: IO[str] | None = None

    def find(self, kind: str, recipe: Mapping[str, object]) -> Path | None:
        """The complete entry for this recipe, None where there is none."""
        path = self._path(kind, recipe)
        return path if (path / "manifest.json").is_file() else None

    def entry(
        self, kind: str, recipe: Mapping[str, object], build: Callable[[Path], Mapping[str, object]]
    ) -> Path:
        """The entry for this recipe; `build` fills the folder it is given if there is none yet.

        What `build` returns is stored as the entry's manifest.json, with the recipe.
        Raises NotCachedError where there is none and this cache may not build.
        """
        if found := self.find(kind, recipe):
            return found
        if not self._may_build:
            raise NotCachedError(f"there is no {kind} in {self.folder} yet")
        self.lock()
        if found := self.find(kind, recipe):  # another process built it while we waited
            return found
        path = self._path(kind, recipe)
        with self.scratch(path.name) as partial:
            manifest = {"recipe": dict(recipe), **build(partial)}
            text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
            (partial / "manifest.json").write_text(text)
            shutil.rmtree(path, ignore_errors=True)
            partial.rename(path)
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

    def lock(self) -> None:
        """Take the sole right to build, until the block ends; remove what killed builders left."""
        if self._lock is not None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / "lock").open("w")
        except OSError as error:
            raise GuestError(f"cannot write to the cache {self.folder}: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.say(f"waiting: another run is building in {self.folder}")
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        for stale in self.folder.glob("*.partial"):
            shutil.rmtree(stale, ignore_errors=True)

    def __exit__(self, *_: object) -> None:
        """Give the right to build back."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _path(self, kind: str, recipe: Mapping[str, object]) -> Path:
        text = json.dumps(recipe, sort_keys=True)
        return self.folder / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def read_manifest(entry: Path) -> dict[str, Any]:
    """The manifest of an entry."""
    manifest = json.loads((entry / "manifest.json").read_text())
    if not isinstance(manifest, dict):
        raise GuestError(f"{entry}/manifest.json is damaged: delete {entry}")
    return manifest
