# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel modules from Debian's package of the guest's kernel.

The guest's image has no modules: what every cell needs is built into the kernel. Modules go in with
the input, and are loaded before the command starts. The user's own kernel must have them built in.
"""

import lzma
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from runners.guest.cache import Cache, read_manifest
from runners.guest.debian import PackageSources, unpack
from runners.guest.errors import LackingError
from runners.guest.kernels import PACKAGE, SUITES, Kernel, read_offers
from runners.process import RunError

DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")


def module_files(
    cache: Cache, sources: PackageSources, kernel: Kernel, wanted: Sequence[str],
    offered: Sequence[str], *, all_or_none: bool = True,
) -> tuple[Path, ...]:  # fmt: skip
    """The files of the `wanted` modules and of all on which they depend, in loading order.

    Of names with a bar between them the first is meant that the kernel has.
    What is built into the kernel has no file. All the `offered` modules are unpacked together.
    A kernel may come without a wanted module: where the caller wants `all_or_none`, that raises
    LackingError. Raises RunError.
    """
    if not wanted:
        return ()
    if kernel.version is None:
        raise LackingError("it needs kernel modules, and a bzImage comes without")

    def build(partial: Path) -> dict[str, object]:
        packages = _packages(sources, kernel)
        cache.say(f"guest: unpacking modules of {kernel.release}")
        with cache.scratch("modules-packages") as root:
            unpack(packages, root, ["--wildcards", "*/lib/modules/*"])
            tree = next(root.rglob(f"lib/modules/{kernel.release}"))
            found = {_name(path): path for path in tree.rglob("*.ko*")}
            builtin = (tree / "modules.builtin").read_text(encoding="utf-8").split()
            inside = {_name(Path(line)) for line in builtin}
            orders = {name: _in_order(name, found, inside, partial) for name in offered}
        return {"what": kernel.release, "orders": orders}

    recipe = {"version": 1, "kernel": kernel.key, "modules": offered}
    entry = cache.entry("modules", recipe, build)
    orders = read_manifest(entry)["orders"]
    files: dict[str, None] = {}
    for names in wanted:
        order = next(
            (found for name in names.split("|") if (found := orders[name]) is not None), None
        )
        if order is None and all_or_none:
            raise LackingError(f"kernel {kernel.release} comes without the module {names}")
        files |= dict.fromkeys(order or ())
    return tuple(entry / f"{name}.ko" for name in files)


def _packages(sources: PackageSources, kernel: Kernel) -> list[Path]:
    """The packages with the kernel's modules and the list of what is built in: the image's package,
    or two others where that is split.
    """
    series = ".".join(kernel.release.split(".")[:2])
    for suites in [SUITES[series]] if series in SUITES else SUITES.values():
        archive = sources.archive(suites)
        for offer in read_offers(archive.versions(PACKAGE)):
            if (offer.release, offer.version) == (kernel.release, kernel.version):
                split = offer.package.startswith("linux-binary-")
                parts = [f"linux-{part}-{offer.release}" for part in ("modules", "base")]
                names = parts if split else [offer.package]
                return archive.fetch(names, f"guest: modules of {offer.release}", False)[0]
    raise RunError(
        f"no Debian suite offers {kernel.release} {kernel.version} any more, so its modules "
        f"cannot be had: delete {kernel.file.parent} to take a newer one"
    )


def _name(path: Path) -> str:
    return path.name.partition(".ko")[0].replace("-", "_")


def _in_order(
    name: str, found: Mapping[str, Path], inside: set[str], target: Path
) -> list[str] | None:
    """Write a module and its dependencies to `target`, without compression, as the kernel loads it.

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
