# SPDX-License-Identifier: GPL-2.0-or-later
"""Run a command under a kernel of your choice: a Debian 13 guest in QEMU, kept in a cache.

    guest = prepare(cache, "6.12", say)
    guest.run(input_tar, out, ["python3", "work.py"], timeout=60, on_line=print)

It needs neither root nor KVM, and changes nothing outside the cache.
"""

import platform
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from probes.isa import HOST, ISAS, USUAL, Isa
from probes.transports import read_transports
from runners.guest.boot import Guest, kvm_boots
from runners.guest.debian import PackageSources
from runners.guest.image import prepare_image
from runners.guest.kernels import (
    DEFAULT,
    DRIVER,
    PROBED,
    SERIES,
    check_booted,
    check_name,
    prepare_kernel,
)
from runners.guest.qemu import prepare_qemu
from runners.guest.store import Cache, LackingError, Say
from runners.process import RunError

__all__ = ["PROBED", "SERIES", "Guest", "LackingError", "check_booted", "check_name", "prepare"]


def prepare(
    cache: Path,
    kernel: str = DEFAULT,
    say: Say = lambda _: None,
    *,
    may_build: bool = True,
    transports: Sequence[str] = (),
    storable: bool = False,
    isa: Isa = USUAL,
) -> Guest:
    """A guest with this kernel (see `runners.guest.kernels`), from the cache or built there.

    `isa` is its architecture. `say` gets what is being done. Needs no root, and for KVM the right
    to /dev/kvm. The guest gets the kernel modules of `transports`, and a `storable` one what
    `stored_guest` needs, but not under KVM, where it boots at once. Without `may_build` only what
    is cached already is used.
    Raises UsageError for an unknown kernel, LackingError, RunError.
    """
    if platform.machine() != HOST.machine:
        known = " and ".join(isa.name for isa in ISAS.values())
        raise RunError(f"QEMU is run on {known} here, and this machine is {platform.machine()}")
    store = Cache(cache, say, may_build=may_build)
    with PackageSources(store) as sources, ThreadPoolExecutor(2) as pool:
        emulator = pool.submit(prepare_qemu, store, sources, isa)
        root = pool.submit(prepare_image, store, sources, emulator.result, isa)
        qemu = emulator.result()
        chosen = prepare_kernel(store, sources, qemu, kernel, isa)
        works, why = kvm_boots(store, qemu, chosen)
        say("the guest's root: unpacking packages")
        image = root.result()
    # Where the kernel comes without a module, the workload says what its transport lacks.
    wanted = [name for transport in transports for name in read_transports()[transport].modules]
    modules = chosen.modules(wanted, all_or_none=False)
    drivers = chosen.modules([DRIVER] if storable and not works else [], all_or_none=False)
    return Guest(chosen, image, qemu, "kvm" if works else "tcg", why, modules, drivers)
