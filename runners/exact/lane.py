# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel made ready for exact mode: QEMU, the kernel, its stored machine, its symbols."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runners.exact.boot import Machine, boot
from runners.exact.snapshot import store
from runners.exact.symbols import Symbols, read_symbols
from runners.guest import GuestError
from runners.guest.cache import Cache, Say
from runners.guest.kernels import prepare_kernel
from runners.guest.machine import User
from runners.guest.package_sources import PackageSources
from runners.guest.qemu import prepare_qemu

BOOT_SECONDS = 300
SWITCH = "__switch_to_asm"
# A stored machine is some 70 MB, and every change of kernel, options or programs makes a new one.
UNUSED_DAYS = 7


@dataclass(frozen=True)
class Guest:
    """A kernel that is ready to be counted. `version` is what its /proc/version says.

    `stored` is its machine, quiet and about to read its order; `recipe` what that hangs on.
    `files` (path → contents) come with the order.
    """

    machine: Machine
    symbols: Symbols
    version: str
    stored: Path
    recipe: dict[str, Any]
    files: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def plugin(self) -> dict[str, str]:
        """What the recorder has to know of this kernel. Raises GuestError."""
        try:
            start, end = self.symbols.extent(SWITCH)
        except KeyError:
            raise GuestError(
                f"the kernel names no {SWITCH}, so its tasks cannot be told apart"
            ) from None
        return {"switch": f"{start:x}", "switch_end": f"{end:x}"}

    def environment(self) -> dict[str, Any]:
        """environment.json."""
        kernel = self.machine.kernel
        return {
            "kernel": kernel.release,
            "version": self.version,
            "package": kernel.version,
            "qemu": self.machine.qemu.version,
            "cpu": self.machine.cpu,
            "machine": self.machine.hardware,
            "command_line": self.machine.command_line,
            "sha256": self.recipe["programs"],
        }


def prepare(
    cache: Path,
    kernel: str,
    say: Say,
    user: User | None = None,
    *,
    cpus: int = 1,
    knobs: str = "",
    image: Mapping[str, Path] | None = None,
) -> Guest:
    """All that counting needs, from the cache or made there.

    `knobs` are more kernel options, `image` more files of the guest (path there → file here).

    A stored machine is found by everything that it hangs on, so an older one is never used.
    Raises GuestError.
    """
    with Cache(cache, say) as cached, PackageSources(cached) as sources:
        qemu = prepare_qemu(cached, sources)
        found = prepare_kernel(cached, sources, qemu, kernel)
        machine = Machine(qemu, found, cpus=cpus, knobs=knobs, image=image or {})
        recipe = machine.recipe()

        def store_once(partial: Path) -> dict[str, object]:
            say(f"exact: booting {machine.kernel.release} once, to store it")
            _forget_unused(cached.folder)
            with scratch(user) as folder:
                store(machine, folder / "state", BOOT_SECONDS, user)
                _keep(folder / "state", partial / "state")
            return {"kernel": machine.kernel.release}

        stored = cached.entry("snapshot", recipe, store_once)
        os.utime(stored / "manifest.json")

        def read_once(partial: Path) -> dict[str, object]:
            with scratch(user) as folder:
                order = [("symbols",)]
                boot(machine, order, folder, {}, BOOT_SECONDS, stored / "state", user)
                for name in ("symbols", "version"):
                    shutil.copyfile(folder / name, partial / name)
            return {"kernel": machine.kernel.release}

        entry = cached.entry("symbols", {"snapshot": stored.name}, read_once)
        version = (entry / "version").read_text(encoding="utf-8").strip()
        symbols = read_symbols(entry / "symbols")
        return Guest(machine, symbols, version, stored / "state", recipe)


def _keep(state: Path, target: Path) -> None:
    try:
        shutil.copyfile(state, target)
    except OSError as error:
        raise GuestError(
            f"cannot keep a stored machine of {state.stat().st_size >> 20} MB in "
            f"{target.parent.parent}: {error.strerror}; make room there, or set PATHCOST_CACHE "
            "to another folder"
        ) from error


def _forget_unused(cache: Path) -> None:
    """Remove stored machines that nobody has used for some days."""
    for manifest in cache.glob("snapshot-*/manifest.json"):
        if time.time() - manifest.stat().st_mtime > UNUSED_DAYS * 86400:
            shutil.rmtree(manifest.parent, ignore_errors=True)


@contextmanager
def scratch(user: User | None) -> Iterator[Path]:
    """A folder that the recorder may write to, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="pathcost-exact-") as name:
        if user is not None:
            os.chown(name, *user)
        yield Path(name)
