# SPDX-License-Identifier: GPL-2.0-or-later
"""What a run must not leave in the user's folders, and how the next one finds it after a SIGKILL.

Each run keeps a journal in the cache, `running/<pid>`, and holds a flock(2) on it as long as it
lives. It writes each path into the journal before it creates it. A journal without a lock belongs
to a dead run, so its paths are removed, if their names are ones that only this module makes.
Processes need no journal: the kernel kills them with their parent (see runners.process), and eBPF
programs and private mounts go with them. Root has no journal, but runners.workspace.
"""

import fcntl
import json
import os
import re
import secrets
import shutil
import stat
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path

LARGEST = 1 << 16  # bytes of a journal: it has some lines
OURS = re.compile(r".*\.pathcost-[0-9a-f]{8}")


class Journal:
    """The list of this run's temporary paths; `close` removes them all."""

    def __init__(self, file: Path) -> None:
        self._path = file
        self._file = os.fdopen(_open(file, os.O_RDWR | os.O_CREAT | os.O_TRUNC), "w")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._paths: list[Path] = []

    def add(self, folder: Path, name: str = "") -> Path:
        """A path in `folder` that nobody else has, noted before it is created."""
        path = folder / f"{name}.pathcost-{secrets.token_hex(4)}"
        self._paths.append(path)
        self._file.write(json.dumps(os.fspath(path)) + "\n")
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
    if not folder.is_dir():  # whatever else has the name
        folder.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    return closing(Journal(folder / str(os.getpid())))


def sweep(cache: Path) -> list[str]:
    """Remove what dead runs left; return the names of what was removed."""
    found = []
    for file in sorted((cache / "running").glob("*")):
        try:
            descriptor = _open(file, os.O_RDONLY)
        except OSError:
            continue  # no journal: a link, or another user's
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            text = (
                os.read(descriptor, LARGEST) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
            )
            found += [str(path) for path in _remove(_paths(text.decode(errors="replace")))]
            file.unlink(missing_ok=True)
        except OSError:
            continue  # it lives, or it is a folder
        finally:
            os.close(descriptor)
    return found


def _open(file: Path, flags: int) -> int:
    """Follows no link, and waits for nobody to write into a pipe."""
    return os.open(file, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)


def _paths(text: str) -> list[Path]:
    """The paths that a journal names, and that such a run can have made."""
    paths = []
    for line in text.splitlines():
        with suppress(ValueError):  # cut in the middle, or no journal
            name = json.loads(line)
            if isinstance(name, str) and OURS.fullmatch(Path(name).name):
                paths.append(Path(name))
    return paths


def _remove(paths: list[Path]) -> list[Path]:
    # Path.exists raises for a name that is too long, and then nothing else would be removed.
    present = [path for path in paths if os.path.lexists(path)]
    for path in present:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return present
