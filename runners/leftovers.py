# SPDX-License-Identifier: GPL-2.0-or-later
"""What a run must not leave behind, and how the next one finds what a SIGKILL left.

Each run keeps a journal in the cache, `running/<pid>`, locked by flock(2) as long as it lives, with
the paths that it is going to create, written before they exist. A journal that nobody holds locked
belongs to a dead run: its paths are removed. Processes need no journal: the kernel kills them with
their parent (see runners.process), and eBPF programs and private mounts go with them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runners.collect import ftrace


class Journal:
    """The list of this run's temporary paths; all are removed when it is closed."""

    def __init__(self, file: Path) -> None:
        self._path = file
        self._file = file.open("a", encoding="utf-8")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._paths: list[Path] = []

    def add(self, path: Path) -> Path:
        """Note `path` before it is created."""
        self._paths.append(path)
        self._file.write(f"{path}\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        return path

    def close(self) -> None:
        _remove(self._paths)
        self._path.unlink(missing_ok=True)
        self._file.close()


@contextmanager
def journal(cache: Path) -> Iterator[Journal]:
    """This run's journal; what it names is gone afterwards."""
    folder = cache / "running"
    folder.mkdir(parents=True, exist_ok=True)
    one = Journal(folder / str(os.getpid()))
    try:
        yield one
    finally:
        one.close()


def sweep(cache: Path) -> list[str]:
    """Remove what dead runs left; the names of what was found."""
    found = []
    for file in sorted((cache / "running").glob("*")):
        with file.open(encoding="utf-8") as lines:
            try:
                fcntl.flock(lines, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            paths = [Path(line.rstrip("\n")) for line in lines if line.endswith("\n")]
        found += [str(path) for path in _remove(paths)]
        file.unlink(missing_ok=True)
    return found + ftrace.remove_stale()


def _remove(paths: list[Path]) -> list[Path]:
    present = [path for path in paths if path.is_symlink() or path.exists()]
    for path in present:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return present
