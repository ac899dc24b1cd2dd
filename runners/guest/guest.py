# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest that is ready to boot: QEMU, a root image, a kernel, and the accelerator that works."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from runners.guest import boot
from runners.guest.accel import kvm_boots
from runners.guest.boot import OUTPUT_SIZE, Result
from runners.guest.cache import Cache, Say
from runners.guest.errors import GuestError
from runners.guest.image import Image, prepare_image
from runners.guest.kernels import DEFAULT, Kernel, prepare_kernel
from runners.guest.machine import User
from runners.guest.qemu import Qemu, prepare_qemu
from runners.guest.workshop import workshop


@dataclass(frozen=True)
class Guest:
    """Everything a boot needs. `accelerator` is `kvm` or `tcg`, and `why` says how we know."""

    kernel: Kernel
    image: Image
    qemu: Qemu
    accelerator: str
    why: str

    @property
    def release(self) -> str:
        """The kernel's release, as `uname -r` prints it in the guest."""
        return self.kernel.release

    def run(
        self,
        input_tar: Path,
        out: Path,
        command: Sequence[str],
        *,
        timeout: float,
        on_line: Callable[[str], None],
        console: Path | None = None,
        memory: int = 1536,
        cpus: int = 2,
        output_size: int = OUTPUT_SIZE,
        user: User | None = None,
    ) -> Result:
        """Boot and run `command` on the files of `input_tar`: see `runners.guest.boot.run`.

        Raises CommandError, GuestError.
        """
        return boot.run(
            self.kernel,
            self.image,
            self.qemu,
            self.accelerator,
            input_tar,
            out,
            command,
            timeout,
            on_line,
            console,
            memory,
            cpus,
            output_size,
            user,
        )


def prepare(
    cache: Path,
    kernel: str = DEFAULT,
    say: Say = lambda _: None,
    user: User | None = None,
    *,
    may_build: bool = True,
) -> Guest:
    """A guest with this kernel, from the cache or built there: see `runners.guest.kernels`.

    Needs no root. `user` is who will run QEMU, and so whose right to KVM counts.
    Without `may_build` only what is cached already is used.
    Raises UnknownKernelError, NotCachedError, GuestError.
    """
    if platform.machine() != "x86_64":
        raise GuestError(f"guests are x86_64 only, and this machine is {platform.machine()}")
    with Cache(cache, say, may_build=may_build) as store, workshop(store) as shop:
        qemu = prepare_qemu(store, shop)
        chosen = prepare_kernel(store, shop, qemu, kernel)
        image = prepare_image(store, shop)
        works, why = kvm_boots(store, qemu, chosen, image, user)
    return Guest(chosen, image, qemu, "kvm" if works else "tcg", why)
