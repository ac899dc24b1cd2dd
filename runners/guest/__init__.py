# SPDX-License-Identifier: GPL-2.0-or-later
"""Run a command under a kernel of your choice: a Debian 13 guest in QEMU, kept in a cache.

    guest = prepare(cache, "6.12", say)
    guest.run(input_tar, out, ["python3", "work.py"], timeout=60, on_line=print)

It needs neither root nor KVM, and changes nothing outside the cache.
"""

import platform
from collections.abc import Sequence
from pathlib import Path

from probes.transports import every_module, read_transports
from runners.guest.boot import DRIVER, Guest, kvm_boots
from runners.guest.cache import Cache, Say
from runners.guest.debian import PackageSources
from runners.guest.errors import LackingError
from runners.guest.image import prepare_image
from runners.guest.kernels import DEFAULT, SERIES, check_name, prepare_kernel
from runners.guest.modules import module_files
from runners.guest.qemu import prepare_qemu
from runners.process import RunError, UsageError

__all__ = [
    "SERIES",
    "Guest",
    "LackingError",
    "RunError",
    "UsageError",
    "check_name",
    "prepare",
]


def prepare(
    cache: Path,
    kernel: str = DEFAULT,
    say: Say = lambda _: None,
    *,
    note: Say | None = None,
    may_build: bool = True,
    transports: Sequence[str] = (),
    storable: bool = False,
) -> Guest:
    """A guest with this kernel (see `runners.guest.kernels`), from the cache or built there.

    `say` gets what is being done, `note` what was damaged and how much the cache holds.
    Needs no root, and for KVM the right to /dev/kvm. The guest gets the kernel modules of
    `transports`, and a `storable` one what `stored_guest` needs, but not under KVM, where it boots
    at once. Without `may_build` only what is cached already is used.
    Raises UsageError, LackingError, RunError.
    """
    if platform.machine() != "x86_64":
        raise RunError(f"guests are x86_64 only, and this machine is {platform.machine()}")
    with Cache(cache, say, note, may_build=may_build) as store, PackageSources(store) as sources:
        qemu = prepare_qemu(store, sources)
        chosen = prepare_kernel(store, sources, qemu, kernel)
        # A kernel of the user's must have them built in.
        paths = [read_transports()[name] for name in transports if chosen.version]
        wanted = [name for path in paths for name in path.modules]
        # Where the kernel comes without, the workload says what its transport lacks.
        modules = module_files(store, sources, chosen, wanted, every_module(), all_or_none=False)
        image = prepare_image(store, sources)
        works, why = kvm_boots(store, qemu, chosen, image)
        needed = [DRIVER] if storable and chosen.version and not works else []
        drivers = module_files(store, sources, chosen, needed, [DRIVER], all_or_none=False)
    return Guest(chosen, image, qemu, "kvm" if works else "tcg", why, modules, drivers)
