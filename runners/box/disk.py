# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes a box from a root folder: a disk that boots by itself, and the files that Vagrant expects.

Also checks that there is a place to write to, before minutes are spent on the contents.

To make a disk, nothing is mounted and no loop device is needed: mke2fs fills the file system from
the folder, and GRUB is written right behind the master boot record, where its first sector looks
for it.
"""

import errno
import json
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runners.guest.image import MEBI, SECTOR, write_disk
from runners.guest.process import run
from runners.process import RunError, UsageError

BOOT_CODE = 440  # bytes of the master boot record before the disk's number and the partitions
SIZE = 8192  # MiB for runs and packages; the file is sparse
GIBI = 1 << 30


def write_bootable(root: Path, file: Path) -> None:
    """Write a disk with `root` on it, which a BIOS boots through the GRUB installed there."""
    write_disk(root, file, SIZE)
    boot = (root / "usr/lib/grub/i386-pc/boot.img").read_bytes()
    core = (root / "boot/grub/core.img").read_bytes()
    if len(core) > MEBI - SECTOR:
        raise RunError(f"GRUB has {len(core)} bytes and does not fit before the first partition.")
    with file.open("r+b") as disk:
        disk.write(boot[:BOOT_CODE])
        # boot.img loads sector 1; grub-mkimage has written there how many sectors follow.
        disk.seek(SECTOR)
        disk.write(core)


def pack(disk: Path, box: Path, scratch: Path) -> None:
    """Write the box: the compressed disk and its description. `box` is complete or absent."""
    image = scratch / "box.img"
    convert = ["qemu-img", "convert", "-c", "-O", "qcow2", "-o", "compression_type=zstd"]
    run([*convert, str(disk), str(image)], "compress the box's disk")
    size = -(-disk.stat().st_size // GIBI)
    about = {"provider": "libvirt", "format": "qcow2", "virtual_size": size}
    (scratch / "metadata.json").write_text(json.dumps(about) + "\n", encoding="utf-8")
    partial = box.with_name(box.name + ".partial")
    try:
        with tarfile.open(partial, "w") as tar:
            for name in ("metadata.json", "box.img"):
                tar.add(scratch / name, name)
        partial.replace(box)
    finally:
        partial.unlink(missing_ok=True)


def check_room(folder: Path, least: int, what: str, instead: str) -> None:
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


def refusal(error: OSError) -> str:
    """What the system refused, where, and what to do."""
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list):  # of a whole tree
        *_, target, why = error.args[0][0]
        return f"cannot write {target} ({why}): is there room, and may root write there?"
    if error.errno == errno.ENOSPC:
        return f"no room left{f' at {error.filename}' if error.filename else ''}: make some."
    return f"{error.filename or 'the system'}: {error.strerror or error}."
