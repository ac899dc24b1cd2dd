# SPDX-License-Identifier: GPL-2.0-or-later
"""Does KVM work here? Only a guest that boots can tell."""

import os
from pathlib import Path

from runners.guest.cache import Cache
from runners.guest.errors import GuestError
from runners.guest.image import Image
from runners.guest.kernels import Kernel
from runners.guest.machine import Disk, command_line, explain, watch
from runners.guest.qemu import Qemu
from runners.guest.sealed import blame_cache, read_sealed, write_sealed

DEVICE = Path("/dev/kvm")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
TRIAL_SECONDS = 8.0
SILENCE_SECONDS = 3.0  # a kernel under a working KVM prints its first line within half a second


def kvm_boots(cache: Cache, qemu: Qemu, kernel: Kernel, image: Image) -> tuple[bool, str]:
    """Whether this kernel boots under KVM here, and how we know.

    One trial is enough for each boot of the host, kernel, image, QEMU and user: the cache keeps the
    answer.
    """
    if not DEVICE.exists():
        return False, f"there is no {DEVICE} here"
    boot = BOOT_ID.read_text().strip()
    key = " ".join(map(str, [boot, kernel.key, image.key, qemu.key, os.geteuid(), os.getegid()]))
    memory = cache.folder / "kvm-trials.json"
    if (known := _trials(memory).get(key)) is not None:
        return known
    cache.say("guest: trying whether KVM works here")
    answer = _try_boot(qemu, kernel, image)
    if not answer[0]:
        blame_cache(qemu.root, kernel.file, image.file)
    cache.lock()
    trials = {old: kept for old, kept in _trials(memory).items() if old.startswith(boot)}
    write_sealed(memory, trials | {key: answer})
    return answer


def _try_boot(qemu: Qemu, kernel: Kernel, image: Image) -> tuple[bool, str]:
    """Boot as far as the first process; whether it got there, and what happened."""
    with image.file.open("rb") as root, Path(os.devnull).open("wb") as nowhere:
        disks = [Disk(root)]
        argv = command_line(qemu, kernel, "kvm", disks, options="pathcost=trial")
        try:
            ended = watch(argv, disks, TRIAL_SECONDS, lambda _: None, nowhere, SILENCE_SECONDS)
        except GuestError as error:
            return False, f"a trial boot failed: {error.sentence}"
    if "pathcost: trial" in ended.lines:
        return True, f"a trial boot took {ended.seconds:.1f} s"
    return False, f"a trial boot failed: {explain(ended).sentence}"


def _trials(memory: Path) -> dict[str, tuple[bool, str]]:
    """Key → whether that guest booted, and how we know. A damaged file is as good as none."""
    return {key: (boots, why) for key, (boots, why) in (read_sealed(memory) or {}).items()}
