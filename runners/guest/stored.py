# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests that are stored while their command waits, so that a run starts in its middle.

Such a command does first what is the same in each run, and takes long under emulation. It then
prints WAITING, and reads from the disk $PATHCOST_DISK, at byte ORDER_SIZE and past the page cache,
until something is there (`Guest.run`'s `late`). A stored guest has read nothing of a run.
"""

import hashlib
import os
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from runners.guest import initramfs
from runners.guest.boot import IDLE_SECONDS, INITRAMFS, STATE, Guest, order
from runners.guest.cache import Cache
from runners.guest.machine import explain, watch
from runners.guest.monitor import monitored
from runners.host.late import WAITING

DRIVER = "virtio_blk"  # of disks that QEMU can store, as it cannot NVMe
SECONDS = 300  # for booting and attaching, on a busy machine
FIRST = Path(__file__).with_name("initramfs-init")


def can_be_stored(guest: Guest) -> bool:
    """Whether `prepare` gave it virtio's driver: without that its disks are NVMe."""
    return bool(guest.drivers)


def stored_guest(
    cache: Cache,
    guest: Guest,
    input_tar: Path,
    command: Sequence[str],
    *,
    memory: int,
    cpus: int = 2,
) -> Path:
    """The folder of the guest, from the cache or booted and stored there.

    Raises GuestError, OSError.
    """

    def build(partial: Path) -> dict[str, object]:
        cache.say(f"guest: booting {guest.release} once, to store it")
        files = enumerate(guest.drivers)
        drivers = {f"{number}.ko": file.read_bytes() for number, file in files}
        first = {"init": FIRST.read_bytes(), "bin/busybox": guest.image.busybox.read_bytes()}
        (partial / INITRAMFS).write_bytes(initramfs.archive(first | drivers))
        _store(guest, input_tar, command, partial, memory, cpus)
        return {"what": guest.release}

    recipe = {
        "version": 1,
        "machine": guest.command_line([], memory, cpus, Path(INITRAMFS)),
        "made from": [guest.qemu.key, guest.kernel.key, guest.image.key, FIRST.read_text()],
        "input": _digest(input_tar),
        "command": list(command),
    }
    return cache.entry("guest", recipe, build)


def _store(
    guest: Guest, input_tar: Path, command: Sequence[str], folder: Path, memory: int, cpus: int
) -> None:
    saved = False

    def on_line(line: str) -> None:
        nonlocal saved
        if line == WAITING:
            monitor.save(folder / STATE, stop=True)
            saved = True

    with (
        tempfile.TemporaryDirectory(prefix="pathcost-") as scratch,
        guest.disks(input_tar, Path(scratch, "disk"), order(command)) as disks,
        Path(os.devnull).open("wb") as nowhere,
        monitored() as monitor,
    ):
        line = guest.command_line(disks, memory, cpus, folder / INITRAMFS)
        ended = watch(
            [*line, *monitor.options], disks, SECONDS, on_line, nowhere,
            descriptors=monitor.descriptors, idle_timeout=IDLE_SECONDS,
        )  # fmt: skip
    if not saved:
        raise explain(ended)


def _digest(file: Path) -> str:
    """Of a tar's files and their names: not of their times."""
    digest = hashlib.sha256()
    with tarfile.open(file) as tar:
        for member in tar:
            content = tar.extractfile(member)
            digest.update(f"{member.name} {member.mode} {member.size}\n".encode())
            digest.update(content.read() if content else b"")
    return digest.hexdigest()
