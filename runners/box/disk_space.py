# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks that there is a place to write to, before minutes are spent on the contents."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runners.errors import UsageError

GIBI = 1 << 30


def check(folder: Path, least: int, what: str, instead: str) -> None:
    """Raises UsageError where `folder` does not exist, or has fewer than `least` bytes free."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}: make it, or {instead}.")
    free = shutil.disk_usage(folder).free
    if free < least:
        raise UsageError(
            f"{folder} has only {free / GIBI:.1f} GiB free, and {what} needs {least / GIBI:.1f}: "
            f"make room, or {instead}."
        )


@contextmanager
def written(folder: Path, instead: str) -> Iterator[None]:
    """Raises UsageError instead of OSError where nothing can be made in or at `folder`."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot write to {folder} ({error.strerror}): {instead}.") from error


def sentence(error: OSError) -> str:
    """What the system refused, where, and what to do."""
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list):  # of a whole tree
        *_, target, why = error.args[0][0]
        return f"cannot write {target} ({why}): is there room, and may root write there?"
    if error.errno == errno.ENOSPC:
        return f"no room left{f' at {error.filename}' if error.filename else ''}: make some."
    return f"{error.filename or 'the system'}: {error.strerror or error}."
