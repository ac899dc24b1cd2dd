# SPDX-License-Identifier: GPL-2.0-or-later
"""Prepares the guest for a transport and a knob: the machine with its kernel options, its files.

These are Debian's programs and the kernel's modules, from packages that a private apt unpacks into
the cache and does not install.
"""

import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from probes.paths import every_module
from runners.exact.knobs import KNOB, TEXT, Knob, module_names
from runners.exact.machine.boot import Order, cpu_option, digest
from runners.exact.machine.guest import ExactGuest, ready_guest, symbols_entry
from runners.exact.machine.symbols import read_symbols
from runners.guest.cache import Cache, Say, read_manifest
from runners.guest.debian import TRIXIE, PackageSources, unpack
from runners.guest.initramfs import strip_elf
from runners.guest.modules import module_files
from runners.guest.process import attempt, run
from runners.guest.qemu import LIBRARIES
from runners.process import REPOSITORY, RunError

PROGRAM = REPOSITORY / "runners/exact/knob/build/knob"
# Program → its package, and its path in the package.
PROGRAMS = {
    "nft": ("nftables", "usr/sbin/nft"),
    "bin/nft": ("nftables", "usr/sbin/nft"),
    "bin/ip": ("iproute2", "usr/bin/ip"),
    "auditctl": ("auditd", "usr/sbin/auditctl"),
    "bpftrace": ("bpftrace", "usr/bin/bpftrace"),
    "bin/sh": ("dash", "usr/bin/dash"),  # bpftrace runs clang through it, and fails without it
}
LOADER = "lib64/ld-linux-x86-64.so.2"


def guest_with_knob(
    cache: Path, base: ExactGuest, knob: Knob, say: Say, note: Say | None = None,
    modules: Sequence[str] = (), programs: Sequence[str] = (),
) -> tuple[ExactGuest, Knob]:  # fmt: skip
    """The guest in which cells with `knob` are counted, and the knob with all its steps.

    `base` is the guest without the knob; the transport needs `modules` and `programs`. Raises
    RunError, and LackingError where this kernel cannot give what the knob needs.
    """
    with Cache(cache, say, note) as cached, PackageSources(cached) as sources:
        kernel = base.machine.kernel
        theirs = modules if kernel.version else ()  # a kernel of the user's has them built in
        needed = module_files(cached, sources, kernel, theirs, every_module())
        needed += module_files(cached, sources, kernel, knob.modules, module_names())
        files = lean_modules(needed)
        load = (("run", KNOB, "load", *files),) if needed else ()
        knob = replace(knob, steps=(*load, *knob.steps))
        paths: dict[str, Path] = {}
        for name in (*knob.programs, *programs):
            paths |= program_files(cached, sources, name)
        image: dict[str, Path] = {}
        for name in knob.image:
            image |= program_files(cached, sources, name)
        files |= {path: file.read_bytes() for path, file in paths.items()}
        guest = base
        if knob.command_line or knob.cpu or image:
            machine = replace(base.machine, knobs=knob.command_line, image=image)
            if knob.cpu:
                machine = replace(machine, cpu=cpu_option(knob.cpu))
            guest = ready_guest(cached, machine)
        if any(KNOB in step for step in knob.steps):
            files[KNOB] = strip_elf(PROGRAM.read_bytes())
        if load:
            guest = _with_loaded_symbols(cached, replace(guest, files=files), load)
    if knob.text:
        files[TEXT] = knob.text.encode()
    brought = {path: digest(data) for path, data in files.items()}
    return replace(guest, files=files, recipe=guest.recipe | {"files": brought}), knob


def lean_modules(modules: Sequence[Path]) -> dict[str, bytes]:
    """Path in the guest → kernel module, without its signature and its types (BTF).

    An emulated CPU takes longer to check and to read these than to do all else at loading.
    """
    if not modules:
        return {}
    with tempfile.TemporaryDirectory(prefix="pathcost-modules-") as name:
        copies = [Path(shutil.copy(module, name)) for module in modules]
        words = ["strip", "--strip-debug", "--remove-section=.BTF", *map(str, copies)]
        run(words, "strip the kernel's modules")
        return {f"/modules/{copy.name}": copy.read_bytes() for copy in copies}


def _with_loaded_symbols(cache: Cache, guest: ExactGuest, load: Order) -> ExactGuest:
    """The guest with the functions of the modules that `load` brings. Raises RunError."""
    try:
        entry = symbols_entry(cache, guest.machine, guest.stored, load, guest.files)
    except RunError:
        guest.blame_cache()
        raise
    return replace(guest, symbols=read_symbols(entry / "symbols"))


def program_files(cache: Cache, sources: PackageSources, name: str) -> dict[str, Path]:
    """A program and all that it loads: path in the guest → file. Raises RunError."""
    package, path = PROGRAMS[name]

    def build(partial: Path) -> dict[str, object]:
        packages, versions = sources.archive(TRIXIE).fetch([package], f"exact: {package}")
        with cache.scratch("tools-packages") as root:
            unpack(packages, root)
            needed = _closure(root, path)
            for file in needed:
                target = partial / "root" / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(root / file, target)
        return {"packages": versions, "needed": needed, "what": name}

    entry = cache.entry("tools", {"version": 2, "program": PROGRAMS[name], "suites": TRIXIE}, build)
    program, *libraries = read_manifest(entry)["needed"]
    root = entry / "root"
    return {
        f"/{LOADER}": root / LIBRARIES / Path(LOADER).name,
        f"/{name}": root / program,
        **{f"/{library}": root / library for library in libraries},
    }


def _closure(root: Path, program: str) -> list[str]:
    """A program and the libraries that its own loader finds for it, as paths below `root`."""
    libraries = root / LIBRARIES
    loader = libraries / Path(LOADER).name
    listing = [loader, "--library-path", libraries, "--list", root / program]
    done = attempt([str(word) for word in listing])
    if done.returncode != 0:
        raise RunError(f"{program} does not load: {done.stderr.strip()}")
    found = re.findall(r"=> (\S+) \(", done.stdout)
    inside = [f"{LIBRARIES}/{Path(path).name}" for path in found if str(root) in path]
    return [program, f"{LIBRARIES}/{loader.name}", *sorted(set(inside))]
