# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel made ready for exact mode: its stored machine, its symbols, and what a cell needs there.

A transport and a knob may need kernel options, another CPU, files: Debian's programs and the
kernel's modules, from packages that a private apt unpacks into the cache and does not install.
"""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from probes.files import read_rows
from probes.isa import USUAL, Isa
from probes.transports import Transport
from runners.exact.elf import read_elf
from runners.exact.kernel_tree import MINIMAL_BUILD, TreeConfig, build_tree, is_tree
from runners.exact.knobs import KNOB, NOTHING, TEXT, Knob
from runners.exact.machine import (
    EmulatedMachine,
    Order,
    boot,
    built_for,
    cpu_option,
    digest,
    scratch,
    store,
    tool_for,
)
from runners.exact.symbols import Symbols, read_modules, read_symbols
from runners.guest.debian import TRIXIE, PackageSources
from runners.guest.image import strip_elf
from runners.guest.kernels import prepare_kernel
from runners.guest.qemu import HangError, prepare_qemu
from runners.guest.store import Cache, Say, read_manifest, suspect
from runners.process import REPOSITORY, RunError, run_tool

KNOB_PROGRAM = REPOSITORY / "runners/exact/knob/build/knob"
# Kernel options that nobody reads. Two emulated CPUs whose clock counts instructions may both go to
# sleep at boot and stay so, always at the same instruction; a longer command line shifts it.
BOOTS = ("", *(f"pathcost.boot={'1' * length}" for length in (3, 4, 5, 6, 1, 2)))
GUEST_PROGRAMS = {
    row["program"]: (row["package"], row["path"])
    for row in read_rows(Path(__file__).with_name("programs.tsv"))
}
# What a boot hands over of itself: its symbols, and where it put the modules that it has loaded.
READ_SYMBOLS = ("symbols",)
READ_MODULES = ("hand", "/proc/modules", "modules")


@dataclass(frozen=True)
class ExactGuest:
    """A kernel that is ready to be counted. `version` is the text of its /proc/version.

    `stored` is its machine, quiet and about to read its order; `names` is a copy of its
    /proc/kallsyms; `programs` are the digests of its first file system. `files` (path → contents)
    come with the order, whose first `steps` make it ready for the cell.
    """

    machine: EmulatedMachine
    symbols: Symbols
    version: str
    stored: Path
    names: Path
    programs: dict[str, str]
    files: Mapping[str, bytes] = field(default_factory=dict)
    steps: Order = ()
    loads: bool = False  # whether the steps load modules
    knob: Knob = NOTHING

    @property
    def plugin(self) -> dict[str, str]:
        """Return what the recorder has to know about this kernel. Raises RunError."""
        try:
            start, end = self.symbols.extent(switch := self.machine.isa.switch)
        except ValueError:
            raise RunError(
                f"the kernel has no symbol {switch}, so its tasks cannot be told apart"
            ) from None
        return {"switch": f"{start:x}", "switch_end": f"{end:x}"}

    def boot(
        self,
        order: Order,
        out: Path,
        stored: Path | None,
        settings: Mapping[str, str] | None = None,
        /,
        **limits: float,
    ) -> None:
        """Carry out `order` here: see machine.boot(). The recorder gets `settings` too."""
        plugin = {**self.plugin, **(settings or {})}
        if self.loads:  # after the cell, whose window is as it was without it
            order = [*order, READ_MODULES]
        boot(self.machine, order, out, plugin, stored, self.files, **limits)

    def symbols_in(self, folder: Path) -> Symbols:
        """Return the symbols of the boot that wrote to `folder`. Raises RunError."""
        now = folder / "symbols"  # a knob may have brought functions that the stored machine lacks
        if now.exists():
            return read_symbols(self.machine.isa, now)
        if self.loads:
            return self.symbols.with_modules_at(read_modules(folder / "modules"))
        return self.symbols

    def environment(self) -> dict[str, Any]:
        """Return the contents of environment.json."""
        machine = self.machine
        return {
            "kernel": machine.kernel.release,
            "version": self.version,
            "package": machine.kernel.version,
            "qemu": machine.qemu.version,
            "cpu": machine.cpu or machine.isa.cpu,
            "arch": machine.isa.name,
            "machine": machine.hardware,
            "command_line": machine.command_line,
            "memory_groups": self.symbols.has("mem_cgroup_from_task"),
            "sha256": self.programs,
        }


def prepare_guest(
    cache: Path,
    kernel: str,
    say: Say,
    *,
    cpus: int = 1,
    how: TreeConfig = MINIMAL_BUILD,
    isa: Isa = USUAL,
) -> ExactGuest:
    """Everything that counting on `isa` needs, from the cache or made and put there.

    `how` a kernel that is a source tree is configured. Raises RunError.
    """
    cached = Cache(cache, say)
    with PackageSources(cached) as sources:
        qemu = prepare_qemu(cached, sources, isa)
        name = kernel
        if is_tree(kernel):
            name = str(build_tree(cached.folder, Path(kernel), say, isa, how))
        prepared = prepare_kernel(cached, sources, qemu, name, isa)
        return ready_guest(cached, EmulatedMachine(qemu, prepared, isa, cpus=cpus))


def ready_guest(cache: Cache, machine: EmulatedMachine) -> ExactGuest:
    """Return the first boot of BOOTS that does not hang. Raises as `_ready` does."""
    shifted = [replace(machine, knobs=f"{machine.knobs} {word}".strip()) for word in BOOTS]
    known = [tried for tried in shifted if cache.find("snapshot", tried.recipe())]
    for tried in known or shifted[: 1 if machine.cpus == 1 else None]:
        try:
            return _ready(cache, tried)
        except HangError as error:
            hung = error
    raise hung


def _ready(cache: Cache, machine: EmulatedMachine) -> ExactGuest:
    """Return the machine, stored when its kernel is quiet, and its symbols.

    A stored machine is found by everything that decides its state, so an outdated machine is never
    used. Raises RunError, and UsageError where QEMU does not emulate the machine's CPU.
    """
    release, used = machine.kernel.release, list[Path]()

    def store_once(partial: Path) -> dict[str, object]:
        cache.say(f"exact: booting {release} once, to store it")
        store(machine, partial / "state")
        return {"what": f"{release}, CPUs: {machine.cpus} {machine.knobs}".rstrip()}

    try:
        used.append(stored := cache.entry("snapshot", machine.recipe(), store_once))
        used.append(entry := symbols_entry(cache, machine, stored / "state"))
        version = (entry / "version").read_text(encoding="utf-8").strip()
        symbols = read_symbols(machine.isa, entry / "symbols")
    except (RunError, ValueError):
        suspect(*used)
        raise
    return ExactGuest(
        machine,
        symbols,
        version,
        stored / "state",
        entry / "symbols",
        machine.digests(),
    )


def symbols_entry(
    cache: Cache,
    machine: EmulatedMachine,
    stored: Path,
    steps: Order = (),
    files: Mapping[str, bytes] | None = None,
) -> Path:
    """The folder with `symbols` and `version` of a stored machine, after `steps` that load modules.

    With steps it has `modules` too: where that boot has put them. No cell reads its symbols itself,
    which takes half a second of an emulated CPU; its modules it does. Raises RunError.
    """
    reading = [*steps, READ_SYMBOLS]
    names = ["symbols", "version"]
    if steps:
        reading.append(READ_MODULES)
        names.append("modules")

    def read_once(partial: Path) -> dict[str, object]:
        with scratch() as folder:
            boot(machine, reading, folder, {}, stored, files)
            for name in names:
                shutil.copyfile(folder / name, partial / name)
        words = [word for step in steps for word in step]
        return {"what": " ".join([machine.kernel.release, *words])}

    digests = {path: digest(data) for path, data in (files or {}).items()}
    recipe = {"snapshot": stored.parent.name, "steps": steps, "files": digests, "names": names}
    return cache.entry("symbols", recipe, read_once)


def guest_for(
    cache: Path,
    base: ExactGuest,
    path: Transport,
    knob: Knob = NOTHING,
    say: Say = lambda _: None,
) -> ExactGuest:
    """Return the guest in which cells of a transport with a knob are counted; `base` has neither.

    Raises RunError, and LackingError where this kernel cannot give what they need.
    """
    cached, isa = Cache(cache, say), base.machine.isa
    with PackageSources(cached) as sources:
        kernel = base.machine.kernel
        theirs = path.modules if kernel.version else ()  # a user's kernel has them built in
        files = lean_modules(kernel.modules((*theirs, *knob.modules)), isa)
        load: Order = [("run", KNOB, "load", *files)] if files else []
        for name in (*knob.programs, *path.programs):
            found = program_files(cached, sources, name, isa).items()
            files |= {place: file.read_bytes() for place, file in found}
        image: dict[str, Path] = {}
        for name in knob.image:
            image |= program_files(cached, sources, name, isa)
        guest = base
        if knob.command_line or knob.cpu or image:
            cpu = cpu_option(isa, knob.cpu) if knob.cpu else base.machine.cpu
            machine = replace(base.machine, knobs=knob.command_line, image=image, cpu=cpu)
            guest = ready_guest(cached, machine)
        steps = [*load, *knob.steps]
        if any(KNOB in step for step in steps):
            files[KNOB] = strip_elf(built_for(isa, KNOB_PROGRAM).read_bytes())
        if load:
            entry = symbols_entry(cached, guest.machine, guest.stored, load, files)
            symbols = read_symbols(isa, entry / "symbols", entry / "modules")
            guest = replace(guest, symbols=symbols, names=entry / "symbols", loads=True)
    if knob.text:
        files[TEXT] = knob.text.encode()
    return replace(guest, files=files, steps=steps, knob=knob)


def lean_modules(modules: Sequence[Path], isa: Isa) -> dict[str, bytes]:
    """Return the path in the guest → kernel module, without its signature and its types (BTF).

    An emulated CPU takes longer to check and to read these than to do all else at loading.
    """
    if not modules:
        return {}
    with tempfile.TemporaryDirectory(prefix="pathcost-modules-") as name:
        copies = [Path(shutil.copy(module, name)) for module in modules]
        words = [tool_for(isa, "strip"), "--strip-debug", "--remove-section=.BTF"]
        run_tool([*words, *map(str, copies)], "strip the kernel's modules")
        return {f"/modules/{copy.name}": copy.read_bytes() for copy in copies}


def program_files(
    cache: Cache, sources: PackageSources, name: str, isa: Isa = USUAL
) -> dict[str, Path]:
    """Return a program and all that it loads: path in the guest → file. Raises RunError."""
    package, path = GUEST_PROGRAMS[name]

    def build(partial: Path) -> dict[str, object]:
        with cache.scratch() as root:
            versions = sources.archive(TRIXIE, isa).unpack([package], root, package)
            loader = f"{isa.libraries}/{Path(isa.loader).name}"
            needed = [path, loader, *libraries_of(root, path, isa)]
            for file in needed:
                target = partial / "root" / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(root / file, target)
        return {"packages": versions, "needed": needed, "what": name}

    recipe = {"version": 2, "program": GUEST_PROGRAMS[name], "suites": TRIXIE}
    if isa is not USUAL:
        recipe["isa"] = isa.name
    entry = cache.entry("tools", recipe, build)
    program, loader, *libraries = read_manifest(entry)["needed"]
    places = {f"/{isa.loader}": loader, f"/{name}": program, f"/{loader}": loader}
    places |= {f"/{library}": library for library in libraries}
    return {place: entry / "root" / file for place, file in places.items()}


def libraries_of(root: Path, program: str, isa: Isa) -> list[str]:
    """Return the libraries that a program in `root` needs, and those that they need.

    Nothing of it runs: it may be of another architecture.
    """
    found: set[str] = set()
    left = [program]
    while left:
        for name in read_elf(root / left.pop()).needed:
            library = f"{isa.libraries}/{name}"
            if library not in found and name != Path(isa.loader).name:
                found.add(library)
                left.append(library)
    return sorted(found)
