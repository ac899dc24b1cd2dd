# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel made ready for exact mode: QEMU, the kernel, its stored machine, its symbols."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runners.exact.machine.boot import (
    IDLE_SECONDS,
    READY,
    EmulatedMachine,
    Order,
    boot,
    digest,
    run_qemu,
)
from runners.exact.machine.snapshot import WORK, store
from runners.exact.machine.symbols import Symbols, read_symbols
from runners.exact.machine.tree import build_tree, is_tree
from runners.guest.cache import Cache, Say
from runners.guest.debian import PackageSources
from runners.guest.errors import HangError
from runners.guest.kernels import prepare_kernel
from runners.guest.qemu import Limits, prepare_qemu
from runners.guest.sealed import blame_cache
from runners.process import RunError

SWITCH = "__switch_to_asm"
# Kernel options that nobody reads. Two emulated CPUs whose clock counts instructions may both go to
# sleep at boot and stay so, always at the same instruction; a longer command line shifts it.
BOOTS = ("", *(f"pathcost.boot={'1' * length}" for length in (3, 4, 5, 6, 1, 2)))

# Options with which a kernel that printed nothing is booted once more. All its messages come within
# three seconds of processor time; after the last one it is given LOUD_WORK more.
LOUD, LOUD_SECONDS, LOUD_WORK = "ignore_loglevel earlyprintk=ttyS0", 120.0, 6.0
CONSOLE, FIRST_PROGRAM = "console [ttyS0] enabled", "Run /init as init process"


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

    def blame_cache(self) -> None:
        """After a failure: raise DamagedError if an entry of the cache is to blame."""
        _blame_cache(self.machine, self.stored)

    @property
    def plugin(self) -> dict[str, str]:
        """What the recorder has to know about this kernel. Raises RunError."""
        try:
            start, end = self.symbols.extent(SWITCH)
        except ValueError:
            raise RunError(
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
    *,
    note: Say | None = None,
    cpus: int = 1,
) -> ExactGuest:
    """Everything that counting needs, from the cache or made and put there. Raises RunError."""
    with Cache(cache, say, note) as cached, PackageSources(cached) as sources:
        qemu = prepare_qemu(cached, sources)
        name = str(build_tree(cached.folder, Path(kernel), say)) if is_tree(kernel) else kernel
        found = prepare_kernel(cached, sources, qemu, name)
        return ready_guest(cached, EmulatedMachine(qemu, found, cpus=cpus))


def ready_guest(cache: Cache, machine: EmulatedMachine) -> ExactGuest:
    """The first boot of BOOTS that does not hang. Raises as `_ready` does."""
    shifted = [replace(machine, knobs=f"{machine.knobs} {word}".strip()) for word in BOOTS]
    known = [found for found in shifted if cache.holds("snapshot", found.recipe())]
    for tried in known or shifted[: 1 if machine.cpus == 1 else None]:
        try:
            return _ready(cache, tried)
        except HangError as error:
            hung = error
    lines = list(hung.console) or last_words(machine)
    if READY in lines:  # it is slow: its messages came, one after the other
        return _ready(cache, machine, work=None)
    said = "\n".join(lines)
    if FIRST_PROGRAM in said and CONSOLE not in said:
        why = "its first program runs, but has no console: CONFIG_SERIAL_8250_CONSOLE"
        raise type(hung)(f"the guest's kernel lacks an option: {why}", lines)
    raise type(hung)(str(hung), lines)


def last_words(machine: EmulatedMachine) -> list[str]:
    """The console of a machine that printed nothing, booted once more with every message on it."""
    lines: list[str] = []
    loud = replace(machine, knobs=f"{machine.knobs} {LOUD}".strip())
    with suppress(RunError):
        run_qemu(
            *(loud, []), on_line=lines.append,
            limits=Limits(LOUD_SECONDS, LOUD_SECONDS, IDLE_SECONDS, LOUD_WORK),
        )  # fmt: skip
    return lines


def _ready(cache: Cache, machine: EmulatedMachine, work: float | None = WORK) -> ExactGuest:
    """The machine, stored when its kernel is quiet, and its symbols.

    A stored machine is found by everything that decides its state, so an outdated machine is never
    used. Raises RunError, and UsageError where QEMU does not emulate the machine's CPU.
    """
    recipe = machine.recipe()
    cpus = "1 CPU" if machine.cpus == 1 else f"{machine.cpus} CPUs"
    what = " ".join([machine.kernel.release, cpus, machine.knobs]).rstrip()

    def store_once(partial: Path) -> dict[str, object]:
        cache.say(f"exact: booting {machine.kernel.release} once, to store it")
        with scratch() as folder:
            store(machine, folder / "state", work)
            size = (folder / "state").stat().st_size >> 20
            with room_in_cache(f"a stored machine of {size} MB", cache.folder):
                shutil.copyfile(folder / "state", partial / "state")
        return {"what": what}

    used: list[Path] = []
    try:
        stored = cache.entry("snapshot", recipe, store_once)
        used.append(stored)
        entry = symbols_entry(cache, machine, stored / "state")
        used.append(entry)
        version = (entry / "version").read_text(encoding="utf-8").strip()
        symbols = read_symbols(entry / "symbols")
    except (RunError, ValueError):
        _blame_cache(machine, *used)
        raise
    return ExactGuest(machine, symbols, version, stored / "state", recipe)


def symbols_entry(
    cache: Cache,
    machine: EmulatedMachine,
    stored: Path,
    steps: Order = (),
    files: Mapping[str, bytes] | None = None,
) -> Path:
    """The folder with `symbols` and `version` of a stored machine, after `steps` that load modules.

    No cell reads them itself: half a second of an emulated CPU, and the same each time. Raises
    RunError.
    """

    def read_once(partial: Path) -> dict[str, object]:
        with scratch() as folder:
            boot(machine, [*steps, ("symbols",)], folder, {}, stored, files)
            for name in ("symbols", "version"):
                shutil.copyfile(folder / name, partial / name)
        words = [word for step in steps for word in step]
        return {"what": " ".join([machine.kernel.release, *words])}

    brought = {path: digest(data) for path, data in (files or {}).items()}
    recipe = {"snapshot": stored.parent.name, "steps": steps, "files": brought}
    return cache.entry("symbols", recipe, read_once)


def _blame_cache(machine: EmulatedMachine, *used: Path) -> None:
    blame_cache(machine.qemu.root, machine.kernel.file, *machine.image.values(), *used)


@contextmanager
def room_in_cache(what: str, folder: Path) -> Iterator[None]:
    """Raises RunError where `what` cannot be written to the cache."""
    try:
        yield
    except OSError as error:
        raise RunError(
            f"cannot keep {what} in {folder}: {error.strerror}; make room there, or set "
            "PATHCOST_CACHE to another folder"
        ) from error


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder to which the recorder may write; it is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="pathcost-exact-") as name:
        yield Path(name)
