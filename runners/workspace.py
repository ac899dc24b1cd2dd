# SPDX-License-Identifier: GPL-2.0-or-later
"""Root's own folder below /run, in which no other user can write, and what dead runs left there.

Each run has a folder of its own in it, and holds a flock(2) on that as long as it lives. A folder
without a lock belongs to a dead run.
"""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from runners.process import RunError

ROOT = Path("/run/pathcost")


@contextmanager
def workspace() -> Iterator[Path]:
    """A new folder that others may traverse but not list. Raises RunError."""
    _prepare()
    folder, descriptor = _made()
    try:
        folder.chmod(0o711)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # follows no link, whoever owns what is below
        os.close(descriptor)


def _made() -> tuple[Path, int]:
    """A folder, and the descriptor that holds it. A sweep may take it before we hold it."""
    while True:
        folder = Path(tempfile.mkdtemp(dir=ROOT))
        with suppress(FileNotFoundError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if folder.exists():
                return folder, descriptor
            os.close(descriptor)


def _prepare() -> None:
    try:
        ROOT.mkdir(mode=0o711, exist_ok=True)
        found = ROOT.lstat()
    except OSError as error:
        raise RunError(f"{ROOT} cannot be made ({error.strerror}): probes need it.") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != 0 or found.st_mode & 0o022:
        raise RunError(f"{ROOT} is not a folder in which only root can write: remove it.")


def sweep() -> list[str]:
    """Remove the folders of dead runs; return the names of what was removed."""
    removed = []
    for folder in sorted(ROOT.iterdir()):
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue  # no run's folder
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(str(folder))
        except BlockingIOError:
            pass
        finally:
            os.close(descriptor)
    return removed
