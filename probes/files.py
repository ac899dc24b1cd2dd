# SPDX-License-Identifier: GPL-2.0-or-later
"""Reading files: our tables, and what others made, of which only regular files up to a limit."""

import csv
import errno
import os
import stat
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_type_hints

from probes.messages import UsageError

MOST_BYTES = 1 << 30  # bytes of a file of a stored run
MOST_TOML = 1 << 20
# A field's type → how a text becomes one; any other type takes the text as it is.
Readers = Mapping[Any, Callable[[str], Any]]
READ: Readers = {
    bool: bool,
    int: lambda text: int(text or 0),
    float: lambda text: float(text or 0),
    int | None: lambda text: int(text) if text else None,
    tuple[str, ...]: lambda text: tuple(text.split()),
    frozenset[str]: lambda text: frozenset(text.split()),
}


def read_regular(path: Path, most: int = MOST_BYTES) -> bytes:
    """The content of a regular file of at most so many bytes. Raises OSError."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        # Some files of the kernel's own grow while they are read, and have no size.
        if status.st_size > most or len(data := file.read(most + 1)) > most:
            raise OSError(errno.EFBIG, f"it has more than {most >> 20} MiB", str(path))
    return data


def read_toml(path: Path, name: str = "") -> dict[str, Any]:
    """A TOML file. Raises UsageError, which calls it by `name`."""
    name = name or str(path)
    try:
        return tomllib.loads(read_regular(path, MOST_TOML).decode())
    except OSError as error:
        raise UsageError(f"{name} cannot be read ({error.strerror}).") from None
    except (ValueError, RecursionError) as error:  # not UTF-8, a long number, deep brackets
        raise UsageError(f"{name} is not TOML: {error}.") from None


def read_rows(path: Path) -> list[dict[str, str]]:
    """Column → text for each row of a table of ours: tabs between columns, comments after `#`.

    An empty text stands where a row ends early.
    """
    with path.open(encoding="utf-8", newline="") as lines:
        rows = (line for line in lines if not line.startswith("#"))
        return list(csv.DictReader(rows, delimiter="\t", quoting=csv.QUOTE_NONE, restval=""))


def typed(kind: type, row: Mapping[str, str], readers: Readers = READ) -> dict[str, Any]:
    """The fields of a class, made of a row's texts as they are typed; where one lacks, of none."""
    hints = get_type_hints(kind)
    return {name: readers.get(hints[name], str)(row.get(name, "")) for name in hints}


def open_folder(path: Path | str, above: int | None = None) -> int:
    """Open a folder, and never what a link in its place leads to. Raises OSError."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
