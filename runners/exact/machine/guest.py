# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel made ready for exact mode: QEMU, the kernel, its stored machine, its symbols."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runners.exact.machine.boot import EmulatedMachine, boot
from runners.exact.machine.snapshot import store
from runners.exact.machine.symbols import Symbols, read_symbols
from runners.guest import GuestError
from runners.guest.cache import Cache, Say
from runners.guest.debian import PackageSources
from runners.guest.errors import SilentError
from runners.guest.kernels import prepare_kernel
from runners.guest.qemu import prepare_qemu

SWITCH = "__switch_to_asm"
# Kernel options that nobody reads. Two emulated CPUs whose clock counts instructions may both go to
# sleep at boot and stay so, always at the same instruction; a longer command line shifts it.
BOOTS = ("", *(f"pathcost.boot={'1' * length}" for length in (3, 4, 5, 6, 1, 2)))
# A stored machine has some 70 MB, and each change of kernel, options or programs makes another.
UNUSED_DAYS = 7


@dataclass(frozen=True)
class ExactGuest:
    """A kernel that is ready to be counted. `version` is the text of its /proc/version.

    `stored` is its machine, quiet and about to read its order; `recipe` is what decided its state.
    `files` (path → contents) come with the order.
    """

    machine: EmulatedMachine
    symbols: Symbols
    version: str
    stored: Path
    recipe: dict[str, Any]
    files: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def plugin(self) -> dict[str, str]:
        """What the recorder has to know about this kernel. Raises GuestError."""
        try:
            start, end = self.symbols.extent(SWITCH)
        except ValueError:
            raise GuestError(
                f"the kernel has no symbol {SWITCH}, so its tasks cannot be told apart"
            ) from None
        return {"switch": f"{start:x}", "switch_end": f"{end:x}"}

    def environment(self) -> dict[str, Any]:
        """The contents of environment.json."""
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


def prepare_guest(
    cache: Path,
    kernel: str,
    say: Say,
    cpus: int = 1,
) -> ExactGuest:
    """Everything that counting needs, from the cache or made and put there. Raises GuestError."""
    with Cache(cache, say) as cached, PackageSources(cached) as sources:
        qemu = prepare_qemu(cached, sources)
        found = prepare_kernel(cached, sources, qemu, kernel)
        return ready_guest(cached, EmulatedMachine(qemu, found, cpus=cpus))


def ready_guest(cache: Cache, machine: EmulatedMachine) -> ExactGuest:
    """The first boot of BOOTS that does not hang. Raises as `_ready` does."""
    shifted = [replace(machine, knobs=f"{machine.knobs} {word}".strip()) for word in BOOTS]
    known = [found for found in shifted if cache.holds("snapshot", found.recipe())]
    for tried in known or shifted[: 1 if machine.cpus == 1 else None]:
        try:
            return _ready(cache, tried)
        except SilentError as error:
            silent = error
    raise silent


def _ready(cache: Cache, machine: EmulatedMachine) -> ExactGuest:
    """The machine, stored when its kernel is quiet, and its symbols.

    A stored machine is found by everything that decides its state, so an outdated machine is never
    used. Raises GuestError, and UnknownCpuError where QEMU does not emulate the machine's CPU.
    """
    recipe = machine.recipe()

    def store_once(partial: Path) -> dict[str, object]:
        cache.say(f"exact: booting {machine.kernel.release} once, to store it")
        for manifest in cache.folder.glob("snapshot-*/manifest.json"):
            if is_unused(manifest):
                shutil.rmtree(manifest.parent, ignore_errors=True)
        with scratch() as folder:
            store(machine, folder / "state")
            size = (folder / "state").stat().st_size >> 20
            with room_in_cache(f"a stored machine of {size} MB", cache.folder):
                shutil.copyfile(folder / "state", partial / "state")
        return {"kernel": machine.kernel.release}

    stored = cache.entry("snapshot", recipe, store_once)
    os.utime(stored / "manifest.json")

    def read_once(partial: Path) -> dict[str, object]:
        with scratch() as folder:
            boot(machine, [("symbols",)], folder, {}, stored / "state")
            for name in ("symbols", "version"):
                shutil.copyfile(folder / name, partial / name)
        return {"kernel": machine.kernel.release}

    entry = cache.entry("symbols", {"snapshot": stored.name}, read_once)
    version = (entry / "version").read_text(encoding="utf-8").strip()
    symbols = read_symbols(entry / "symbols")
    return ExactGuest(machine, symbols, version, stored / "state", recipe)


@contextmanager
def room_in_cache(what: str, folder: Path) -> Iterator[None]:
    """Raises GuestError where `what` cannot be written to the cache."""
    try:
        yield
    except OSError as error:
        raise GuestError(
            f"cannot keep {what} in {folder}: {error.strerror}; make room there, or set "
            "PATHCOST_CACHE to another folder"
        ) from error


def is_unused(path: Path) -> bool:
    """Whether nobody has used this file of the cache for some days."""
    return time.time() - path.stat().st_mtime > UNUSED_DAYS * 86400


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder to which the recorder may write; it is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="pathcost-exact-") as name:
        yield Path(name)
