# SPDX-License-Identifier: GPL-2.0-or-later
"""Files that show whether they are whole: JSON with its own digest, and the cache's entries.

An entry's manifest.json names the sha256 of each of its files. To hash them takes a second, so a
thorough check leaves the files' sizes, inodes and change times in `checked`; while these are the
same, nobody has written to the entry. What changes a file without the kernel's knowledge, such as a
bit that the disk lost, shows only in the next thorough check: after a guest that failed.
"""

import errno
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from runners.guest.errors import DamagedError

MANIFEST, CHECKED = "manifest.json", "checked"
ENTRY = re.compile(r"(qemu|kernel|image|modules|tools|program|snapshot|guest|symbols)-[0-9a-f]{16}")


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a file: no link is followed, and no pipe is waited for. Raises OSError."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.lstat().st_mode):
            raise OSError(errno.EINVAL, "not a regular file, so remove it", str(path))
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # it became another one just now
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file, so remove it", str(path))
    return descriptor


def remove(path: Path) -> None:
    """Remove whatever stands at `path`, and no more than the link where it is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def write_sealed(path: Path, value: object) -> None:
    """Write `value` as JSON with its digest, whole or not at all. Raises OSError."""
    text = json.dumps(value, sort_keys=True)
    fresh = path.with_suffix(".partial")
    for name in (fresh, path):
        if name.is_dir() or name.is_symlink():
            remove(name)
    sealed = {"sha256": hashlib.sha256(text.encode()).hexdigest(), "value": value}
    try:
        fresh.write_text(json.dumps(sealed, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def read_sealed(path: Path) -> Any:
    """The value in `path`, None where there is no such file or it is not as it was written."""
    try:
        with open(open_regular(path), "rb") as file:
            sealed = json.load(file)
        text = json.dumps(sealed["value"], sort_keys=True)
        whole = sealed["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return sealed["value"] if whole else None


def seal_entry(entry: Path, manifest: Mapping[str, object]) -> None:
    """Write an entry's manifest and the digests of its files."""
    seal = _stamp(entry)
    write_sealed(entry / MANIFEST, {**manifest, "files": dict(_each(entry, _content))})
    (entry / CHECKED).write_text(seal)


def read_manifest(entry: Path) -> dict[str, Any]:
    """The manifest of an entry. Raises DamagedError."""
    manifest = read_sealed(entry / MANIFEST)
    if not isinstance(manifest, dict):
        raise DamagedError(f"{entry / MANIFEST} is damaged: run the same command again")
    return manifest


def damage(entry: Path, recipe: object = None, *, thorough: bool = False) -> str:
    """What is wrong with an entry, "" if nothing is. Not `thorough`, it hashes what was changed."""
    manifest = read_sealed(entry / MANIFEST)
    if not isinstance(manifest, dict) or "files" not in manifest:
        return f"its {MANIFEST} cannot be read"
    if recipe is not None and manifest.get("recipe") != json.loads(json.dumps(recipe)):
        return f"its {MANIFEST} is of another entry"
    try:
        found = _stamp(entry)
        if not thorough and _read(entry / CHECKED) == found:
            return ""
        content = dict(_each(entry, _content))
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    if differing := sorted({name for name, _ in content.items() ^ manifest["files"].items()}):
        more = f" and {len(differing) - 1} more files" if differing[1:] else ""
        return f"{differing[0]}{more} not as built"
    with suppress(OSError):  # a cache that may only be read is hashed each time
        remove(entry / CHECKED)
        (entry / CHECKED).write_text(found)
    return ""


def blame_cache(*files: Path) -> None:
    """After a guest that failed: raise DamagedError if it was made from a damaged entry.

    The entry is not removed here, where others may use it; the next use checks it thoroughly.
    """
    folders = {folder for file in files for folder in (file, *file.parents)}
    for entry in sorted(folder for folder in folders if ENTRY.fullmatch(folder.name)):
        if why := damage(entry, thorough=True):
            with suppress(OSError):
                (entry / CHECKED).unlink()
            raise DamagedError(
                f"{entry} is damaged ({why}): run the same command again, which builds it anew"
            )


def _stamp(entry: Path) -> str:
    def facts(path: Path) -> tuple[int, ...]:
        found = path.lstat()
        return found.st_mode, found.st_size, found.st_ino, found.st_ctime_ns

    return hashlib.sha256(repr(sorted(_each(entry, facts))).encode()).hexdigest()


def _content(path: Path) -> str:
    if path.is_symlink():
        return f"-> {path.readlink()}"
    with open(open_regular(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _each(entry: Path, of: Callable[[Path], Any]) -> Iterator[tuple[str, Any]]:
    """Each file and link of an entry by its name there, but for the two that describe it."""
    for folder, names, files in os.walk(entry):
        links = [name for name in names if Path(folder, name).is_symlink()]
        for path in (Path(folder, name) for name in (*files, *links)):
            if path not in (entry / MANIFEST, entry / CHECKED):
                yield str(path.relative_to(entry)), of(path)


def _read(path: Path) -> str:
    try:
        with open(open_regular(path), encoding="ascii") as file:
            return file.read()
    except (OSError, ValueError):
        return ""
