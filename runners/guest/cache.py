# SPDX-License-Identifier: GPL-2.0-or-later
"""The cache: whole entries or none.

An entry is a folder `<kind>-<key>`, where the key is a hash of everything that went into it.
It is built in a sibling `<kind>-<key>.partial` and renamed when complete, so that an interrupted
build never looks whole. One lock covers all building: whoever holds it may delete any `.partial`.
To build an entry anew (say, for newer packages), delete it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from runners.guest.errors import GuestError

Say = Callable[[str], None]
Manifest = Mapping[str, object]


class Cache:
    """A folder of entries that are built once. Several processes may use it at the same time."""

    def __init__(self, folder: Path, say: Say) -> None:
        self.folder = folder.resolve()
        self.say = say
        self._locked = False

    def find(self, kind: str, recipe: Mapping[str, object]) -> Path | None:
        """The complete entry for this recipe, if there is one."""
        path = self._path(kind, recipe)
        return path if (path / "manifest.json").is_file() else None

    def entry(
        self, kind: str, recipe: Mapping[str, object], build: Callable[[Path], Manifest]
    ) -> Path:
        """The entry for this recipe; `build` fills the folder it is given if there is none yet.

        What `build` returns is stored as the entry's manifest.json, with the recipe.
        """
        if found := self.find(kind, recipe):
            return found
        with self.lock():
            if found := self.find(kind, recipe):  # another process built it while we waited
                return found
            path = self._path(kind, recipe)
            with self.scratch(path.name) as partial:
                manifest = {"recipe": dict(recipe), **build(partial)}
                text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
                (partial / "manifest.json").write_text(text)
                partial.chmod(0o755)
                shutil.rmtree(path, ignore_errors=True)
                partial.rename(path)
            return path

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

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Sole right to build. Clears what builders that were killed left behind."""
        if self._locked:
            yield
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            file = (self.folder / "lock").open("w")
        except OSError as error:
            raise GuestError(f"cannot write to the cache {self.folder}: {error.strerror}") from None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.say(f"waiting: another run is building in {self.folder}")
                fcntl.flock(file, fcntl.LOCK_EX)
            for stale in self.folder.glob("*.partial"):
                shutil.rmtree(stale, ignore_errors=True)
            self._locked = True
            try:
                yield
            finally:
                self._locked = False

    def _path(self, kind: str, recipe: Mapping[str, object]) -> Path:
        text = json.dumps(recipe, sort_keys=True)
        return self.folder / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def read_manifest(entry: Path) -> dict[str, object]:
    """What an entry says is in it."""
    manifest = json.loads((entry / "manifest.json").read_text())
    if not isinstance(manifest, dict):
        raise GuestError(f"{entry}/manifest.json is damaged: delete {entry}")
    return manifest
