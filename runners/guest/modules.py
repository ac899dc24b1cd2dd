# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel modules that a transport needs, from Debian's package of the guest's kernel.

The guest's image has no modules: what every cell needs is built into the kernel. Modules go in with
the input, and are loaded before the command starts. The user's own kernel must have them built in.
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Sequence
from pathlib import Path

from runners.guest.cache import Cache, read_manifest
from runners.guest.debian import unpack
from runners.guest.errors import GuestError
from runners.guest.kernels import PACKAGE, SUITES, Kernel, read_offers
from runners.guest.package_sources import PackageSources

# By transport, in the order in which they depend on each other.
NEEDED = {"vsock": ("vsock", "vmw_vsock_virtio_transport_common", "vsock_loopback")}


def prepare_modules(
    cache: Cache, sources: PackageSources, kernel: Kernel, transports: Sequence[str]
) -> tuple[Path, ...]:
    """The files of the modules that these transports need, in order. Raises GuestError."""
    names = [name for transport in transports for name in NEEDED.get(transport, ())]
    if not names or kernel.version is None:
        return ()

    def build(partial: Path) -> dict[str, object]:
        with cache.scratch("module-package") as root:
            unpack(
                module_packages(sources, kernel), root, ["--wildcards", "*/kernel/net/vmw_vsock/*"]
            )
            for name in names:
                _store(root, name, partial)
        return {"release": kernel.release, "modules": names}

    recipe = {"version": 1, "release": kernel.release, "package": kernel.version, "modules": names}
    entry = cache.entry("modules", recipe, build)
    found = read_manifest(entry)["modules"]
    assert isinstance(found, list)
    return tuple(entry / f"{name}.ko" for name in found)


def module_packages(sources: PackageSources, kernel: Kernel) -> list[Path]:
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
                plan = archive.plan(parts if split else [offer.package], dependencies=False)
                return archive.fetch(plan, f"guest: modules of {offer.release}")
    raise GuestError(
        f"no Debian suite offers {kernel.release} {kernel.version} any more, so its modules "
        "cannot be had: delete the kernel from the cache to take a newer one"
    )


def _store(root: Path, name: str, folder: Path) -> None:
    """Store a module without compression, as the kernel loads it."""
    found = [path for path in root.rglob("*.ko*") if re.fullmatch(rf"{name}\.ko(\.xz)?", path.name)]
    if not found:
        raise GuestError(f"the kernel's package holds no module {name}")
    data = found[0].read_bytes()
    plain = lzma.decompress(data) if found[0].suffix == ".xz" else data
    (folder / f"{name}.ko").write_bytes(plain)
