# SPDX-License-Identifier: GPL-2.0-or-later
"""What a run must not leave behind, and how the next run finds what is left after a SIGKILL.

Each run keeps a journal in the cache, `running/<pid>`, and holds a flock(2) on it as long as it
lives. It writes each path into the journal before it creates it. A journal without a lock belongs
to a dead run, so its paths are removed. Processes need no journal: the kernel kills them with their
parent (see runners.process), and eBPF programs and private mounts go with them.
"""

import fcntl
import os
import shutil
from contextlib import AbstractContextManager, closing
from pathlib import Path

from runners.collect import ftrace


class Journal:
    """The list of this run's temporary paths; `close` removes them all."""

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


def journal(cache: Path) -> AbstractContextManager[Journal]:
    """This run's journal, closed at the end."""
    folder = cache / "running"
    folder.mkdir(parents=True, exist_ok=True)
    return closing(Journal(folder / str(os.getpid())))


def sweep(cache: Path) -> list[str]:
    """Remove what dead runs left; return the names of what was removed."""
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
