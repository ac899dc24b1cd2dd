# SPDX-License-Identifier: GPL-2.0-or-later
"""Gets the files that a knob needs in the guest: Debian's programs, and the kernel's modules.

Both come from Debian's packages through a private apt, unpacked into the cache and not installed.
"""

from __future__ import annotations

import lzma
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from runners.exact.knobs import module_names
from runners.guest import GuestError
from runners.guest.cache import Cache, read_manifest
from runners.guest.debian import unpack
from runners.guest.kernels import Kernel
from runners.guest.modules import module_packages
from runners.guest.package_sources import TRIXIE, PackageSources
from runners.guest.process import environment
from runners.guest.qemu import LIBRARIES
from runners.process import command

# Program → its package, and its path in the package.
PROGRAMS = {
    "nft": ("nftables", "usr/sbin/nft"),
    "auditctl": ("auditd", "usr/sbin/auditctl"),
    "bpftrace": ("bpftrace", "usr/bin/bpftrace"),
    "bin/sh": ("dash", "usr/bin/dash"),  # bpftrace runs clang through it, and fails without it
}
LOADER = "lib64/ld-linux-x86-64.so.2"
DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")


class LackingError(GuestError):
    """This kernel cannot give what a knob needs."""


def program_files(cache: Cache, sources: PackageSources, name: str) -> dict[str, Path]:
    """A program and all that it loads: path in the guest → file. Raises GuestError."""
    package, path = PROGRAMS[name]

    def build(partial: Path) -> dict[str, object]:
        archive = sources.archive(TRIXIE)
        plan = archive.plan([package])
        packages = archive.fetch(plan, f"exact: {package}")
        with cache.scratch("tools-packages") as root:
            unpack(packages, root)
            needed = _closure(root, path)
            for file in needed:
                target = partial / "root" / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(root / file, target)
        return {"packages": {p.name: p.version for p in plan}, "needed": needed}

    entry = cache.entry("tools", {"version": 2, "program": PROGRAMS[name], "suites": TRIXIE}, build)
    needed = read_manifest(entry)["needed"]
    assert isinstance(needed, list)
    root = entry / "root"
    program, *libraries = needed
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
    done = subprocess.run(
        command([str(word) for word in listing]), capture_output=True, text=True, env=environment()
    )
    if done.returncode != 0:
        raise GuestError(f"{program} does not load: {done.stderr.strip()}")
    found = re.findall(r"=> (\S+) \(", done.stdout)
    inside = [f"{LIBRARIES}/{Path(path).name}" for path in found if str(root) in path]
    return [program, f"{LIBRARIES}/{loader.name}", *sorted(set(inside))]


def module_files(
    cache: Cache, sources: PackageSources, kernel: Kernel, wanted: Sequence[str]
) -> list[Path]:
    """The files of the `wanted` modules and of those on which they depend, in loading order.

    What is built into the kernel has no file. Raises LackingError, GuestError.
    """
    if not wanted:
        return []
    if kernel.version is None:
        raise LackingError("it needs kernel modules, and a bzImage comes without")
    names = module_names()

    def build(partial: Path) -> dict[str, object]:
        packages = module_packages(sources, kernel)
        cache.say(f"exact: unpacking modules of {kernel.release}")
        with cache.scratch("modules-packages") as root:
            unpack(packages, root, ["--wildcards", "*/lib/modules/*"])
            tree = next(root.rglob(f"lib/modules/{kernel.release}"))
            found = {_name(path): path for path in tree.rglob("*.ko*")}
            builtin = (tree / "modules.builtin").read_text(encoding="utf-8").split()
            inside = {_name(Path(line)) for line in builtin}
            orders = {name: _in_order(name, found, inside, partial) for name in names}
        return {"release": kernel.release, "orders": orders}

    recipe = {"version": 1, "kernel": kernel.key, "modules": names}
    entry = cache.entry("modules", recipe, build)
    orders = read_manifest(entry)["orders"]
    assert isinstance(orders, dict)
    files: dict[str, None] = {}
    for name in wanted:
        if orders[name] is None:
            raise LackingError(f"kernel {kernel.release} comes without the module {name}")
        files |= dict.fromkeys(orders[name])
    return [entry / f"{name}.ko" for name in files]


def _name(path: Path) -> str:
    return path.name.partition(".ko")[0].replace("-", "_")


def _in_order(
    name: str, found: Mapping[str, Path], inside: set[str], target: Path
) -> list[str] | None:
    """Write a module and its dependencies to `target`.

    Returns their names in loading order, None if one is missing.
    """
    if name in inside:
        return []
    if name not in found:
        return None
    data = found[name].read_bytes()
    if found[name].suffix == ".xz":
        data = lzma.decompress(data)
    (target / f"{name}.ko").write_bytes(data)
    match = DEPENDS.search(data)
    order: list[str] = []
    for needed in filter(None, (match[1].decode() if match else "").split(",")):
        before = _in_order(needed.replace("-", "_"), found, inside, target)
        if before is None:
            return None
        order += before
    return list(dict.fromkeys([*order, name]))
