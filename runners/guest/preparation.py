# SPDX-License-Identifier: GPL-2.0-or-later
"""From a kernel's name to a guest that is ready to boot."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

from runners.guest.accel import kvm_boots
from runners.guest.boot import Guest
from runners.guest.cache import Cache, Say
from runners.guest.errors import GuestError
from runners.guest.image import prepare_image
from runners.guest.kernels import DEFAULT, prepare_kernel
from runners.guest.machine import User
from runners.guest.modules import prepare_modules
from runners.guest.package_sources import PackageSources
from runners.guest.qemu import prepare_qemu


def prepare(
    cache: Path,
    kernel: str = DEFAULT,
    say: Say = lambda _: None,
    user: User | None = None,
    *,
    may_build: bool = True,
    transports: Sequence[str] = (),
) -> Guest:
    """A guest with this kernel (see `runners.guest.kernels`), from the cache or built there.

    Needs no root. QEMU will run as `user`, who needs the right to KVM. The guest gets the kernel
    modules of `transports`. Without `may_build` only what is cached already is used.
    Raises UnknownKernelError, NotCachedError, GuestError.
    """
    if platform.machine() != "x86_64":
        raise GuestError(f"guests are x86_64 only, and this machine is {platform.machine()}")
    with Cache(cache, say, may_build=may_build) as store, PackageSources(store) as sources:
        qemu = prepare_qemu(store, sources)
        chosen = prepare_kernel(store, sources, qemu, kernel)
        modules = prepare_modules(store, sources, chosen, transports)
        image = prepare_image(store, sources)
        works, why = kvm_boots(store, qemu, chosen, image, user)
    return Guest(chosen, image, qemu, "kvm" if works else "tcg", why, modules)
