# SPDX-License-Identifier: GPL-2.0-or-later
"""Does KVM work here? Only a guest that boots can tell."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from runners.guest.cache import Cache
from runners.guest.errors import GuestError
from runners.guest.image import Image
from runners.guest.kernels import Kernel
from runners.guest.machine import Disk, User, command_line, explain, watch
from runners.guest.qemu import Qemu

DEVICE = Path("/dev/kvm")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
TRIAL_SECONDS = 8.0
SILENCE_SECONDS = 3.0  # a kernel under a working KVM prints its first line within half a second


def kvm_boots(
    cache: Cache, qemu: Qemu, kernel: Kernel, image: Image, user: User | None = None
) -> tuple[bool, str]:
    """Whether this kernel boots under KVM here, and how we know.

    One trial is enough for each boot of the host, kernel, image, QEMU and user: the cache keeps the
    answer.
    """
    if not DEVICE.exists():
        return False, f"there is no {DEVICE} here"
    whose = list(user or (os.geteuid(), os.getegid()))
    key = [BOOT_ID.read_text().strip(), kernel.key, image.key, qemu.key, whose]
    memory = cache.folder / "kvm.json"
    if (known := _recall(memory, key)) is not None:
        return known
    cache.say("guest: trying whether KVM works here")
    answer = try_boot(qemu, kernel, image, "kvm", user)
    _remember(cache, memory, key, answer)
    return answer


def try_boot(
    qemu: Qemu, kernel: Kernel, image: Image, accelerator: str, user: User | None = None
) -> tuple[bool, str]:
    """Boot as far as the first process; whether it got there, and what happened."""
    with image.file.open("rb") as root, Path(os.devnull).open("wb") as nowhere:
        disks = [Disk(root)]
        argv = command_line(qemu, kernel, accelerator, disks, options="pathcost=trial")
        try:
            ended = watch(
                argv, disks, TRIAL_SECONDS, lambda _: None, nowhere, user, SILENCE_SECONDS
            )
        except GuestError as error:
            return False, f"a trial boot failed: {error.sentence}"
    if "pathcost: trial" in ended.lines:
        return True, f"a trial boot took {ended.seconds:.1f} s"
    return False, f"a trial boot failed: {explain(ended).sentence}"


def _recall(memory: Path, key: Sequence[object]) -> tuple[bool, str] | None:
    try:
        for trial in json.loads(memory.read_text()):
            if trial["key"] == key:
                return bool(trial["boots"]), str(trial["why"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # there is none yet, or it is damaged: a new trial replaces it
    return None


def _remember(cache: Cache, memory: Path, key: Sequence[object], answer: tuple[bool, str]) -> None:
    cache.lock()
    try:
        trials = [t for t in json.loads(memory.read_text()) if t["key"][0] == key[0]]
    except (OSError, ValueError, KeyError, TypeError):
        trials = []
    trials.append({"key": list(key), "boots": answer[0], "why": answer[1]})
    fresh = memory.with_suffix(".new")
    fresh.write_text(json.dumps(trials, indent=1) + "\n")
    cache.give_away(fresh)
    fresh.replace(memory)
