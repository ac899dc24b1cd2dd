# SPDX-License-Identifier: GPL-2.0-or-later
"""What pathcost keeps in its cache, how much it is, and what goes.

A name in the cache is ours if it fits a pattern here; everything else is left alone.
"""

import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runners.guest.sealed import MANIFEST, read_sealed, remove

DAY = 86400


@dataclass(frozen=True)
class Kind:
    """Entries of one kind: how their names look, and after how many unused days they go.

    The last entry of a kind that `stays` never goes: to make it again takes a network. Of entries
    that are large and soon made again only the `most` that were used last stay. Of a folder that
    others name alike, only what fits `inside` is ours.
    """

    what: str
    name: str
    days: int | None = None
    stays: bool = False
    inside: str = ""
    most: int = 1 << 30


KINDS = (
    Kind("QEMU", r"qemu-[0-9a-f]{16}", 30, stays=True),
    Kind("guest's kernel", r"kernel-[0-9a-f]{16}", 30, stays=True),
    Kind("guest's root disk", r"image-[0-9a-f]{16}", 30, stays=True),
    Kind("kernel modules", r"modules-[0-9a-f]{16}", 30, stays=True),
    Kind("program for a knob", r"tools-[0-9a-f]{16}", 30, stays=True),
    Kind("program to measure", r"program-[0-9a-f]{16}", 30, stays=True),
    # Each change of kernel, options or programs makes another of these, of 64 MB and more.
    Kind("stored machine", r"snapshot-[0-9a-f]{16}", 7),
    # Each change of the collector or of a script makes another of these, of 400 MB.
    Kind("stored guest", r"guest-[0-9a-f]{16}", 7, most=2),
    Kind("kernel's symbols", r"symbols-[0-9a-f]{16}", 7),
    Kind("Python environment", r"python-[0-9a-f]{12}", 30, stays=True),
    Kind("objects of a kernel", r"build-[0-9a-f]{16}", 7),
    Kind("finished cells", r"exact-kept", inside=r"[0-9a-f]{32}\.(json|partial)"),
    Kind("Matplotlib's fonts", r"matplotlib", inside=r"fontlist-.*\.json"),
    Kind("the tests' own", r"tests-\d+", inside=r"bytecode|mypy|pytest|checks\.log"),
    Kind("whether KVM works", r"kvm-trials\.(json|partial)"),
    Kind("prices of messages", r"prices\.(json|partial)"),
    Kind(
        "unfinished",
        r"((qemu|kernel|image|modules|tools|program|snapshot|guest|symbols|apt|python)-.+)\.partial",
        0,
    ),
)
LOCKS = {"lock", "in-use", "set-up"}  # ours, and never removed: a lock holds for one file only


@dataclass(frozen=True)
class Kept:
    """Something of ours in the cache; `used` is when it was last used."""

    path: Path
    kind: Kind
    used: float

    @property
    def parts(self) -> list[Path]:
        """What to remove."""
        inside = self.kind.inside
        if not inside or self.path.is_symlink():
            return [self.path]
        return [path for path in self.path.iterdir() if re.fullmatch(inside, path.name)]

    @property
    def size(self) -> int:
        """The bytes that it takes on the disk."""
        return sum(_size(path) for path in self.parts)

    @property
    def purpose(self) -> str:
        """Which kernel, program or version it is."""
        manifest = read_sealed(self.path / MANIFEST)
        return str(manifest.get("what", "")) if isinstance(manifest, dict) else ""

    def remove(self) -> bool:
        """Remove it; whether it is gone."""
        for part in self.parts:
            remove(part)
        if self.kind.inside and self.path.is_dir() and not any(self.path.iterdir()):
            self.path.rmdir()
        return not os.path.lexists(self.path) or not self.parts


def kept(folder: Path) -> list[Kept]:
    """All that is ours in a cache, by kind, the last used first."""
    found = [(kind, path) for path in folder.glob("*") if (kind := _kind(path))]
    rows = [Kept(path, kind, last_use(path)) for kind, path in found]
    return sorted(
        (row for row in rows if row.parts), key=lambda row: (KINDS.index(row.kind), -row.used)
    )


def foreign(folder: Path) -> list[str]:
    """The names in a cache that are not ours."""
    return sorted(p.name for p in folder.glob("*") if p.name not in LOCKS and not _kind(p))


def remove_old(folder: Path) -> None:
    """Remove what killed builders left and what nobody has used for long. The lock must be held."""
    seen: Counter[Kind] = Counter()
    for row in kept(folder):
        seen[row.kind] += 1
        stays = row.kind.stays and seen[row.kind] == 1
        old = row.kind.days is not None and unused(row.path, row.kind.days)
        if (old and not stays) or seen[row.kind] > row.kind.most:
            row.remove()


def unused(path: Path, days: int) -> bool:
    """Whether the last use lies so many days back."""
    return not days or time.time() - last_use(path) >= days * DAY


def total(rows: list[Kept]) -> str:
    """The size of all of these."""
    return megabytes(sum(row.size for row in rows))


def megabytes(size: int) -> str:
    """A size in the unit that fits it."""
    if size < 1e6:
        return f"{size / 1e3:.0f} kB"
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def _kind(path: Path) -> Kind | None:
    fitting = (kind for kind in KINDS if re.fullmatch(kind.name, path.name))
    return next((kind for kind in fitting if not kind.inside or path.is_dir()), None)


def last_use(path: Path) -> float:
    """Each use of an entry touches its manifest, of a Python environment its list of files."""
    for sign in (path / MANIFEST, path / "complete", path):
        with suppress(OSError):
            return sign.lstat().st_mtime
    return time.time()  # somebody has just removed it


def _size(path: Path) -> int:
    size = 0
    for each in _tree(path):
        with suppress(OSError):
            size += 512 * each.lstat().st_blocks
    return size


def _tree(path: Path) -> Iterator[Path]:
    yield path
    if path.is_dir() and not path.is_symlink():
        for folder, names, files in os.walk(path):
            yield from (Path(folder, name) for name in (*names, *files))
