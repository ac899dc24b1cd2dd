# SPDX-License-Identifier: GPL-2.0-or-later
"""QEMU of Debian 13 on any host: unpacked, not installed, and started through its own ld.so.

The version is the same everywhere, so that a guest behaves alike on every machine; older versions
corrupt newer kernels under `-cpu max`. The folder also holds zstd and lz4, which unpack kernels.
"""

from dataclasses import dataclass
from pathlib import Path

from runners.guest.cache import Cache, read_manifest
from runners.guest.debian import TRIXIE, PackageSources, unpack
from runners.guest.errors import GuestError
from runners.guest.process import attempt

PACKAGES = ("qemu-system-x86", "zstd", "lz4")
UNUSED = (
    "./etc", "./var", "./usr/sbin", "./usr/share/doc", "./usr/share/man", "./usr/share/info",
    "./usr/share/locale", "./usr/share/lintian", "./usr/share/bug", "./usr/share/icons",
    "./usr/share/applications", "./usr/share/zoneinfo", "./usr/share/bash-completion",
    "./usr/share/common-licenses", "./usr/share/perl5", "./usr/share/debconf",
    "./usr/share/qemu/keymaps", "./usr/share/qemu/*.lid", "./usr/share/qemu/openbios-*",
    "./usr/share/qemu/slof.bin", "./usr/lib/ipxe", "./usr/bin/qemu-system-i386",
    "./usr/bin/qemu-system-x86_64-microvm", "./usr/lib/x86_64-linux-gnu/gconv",
    "./usr/lib/x86_64-linux-gnu/perl*", "./usr/lib/x86_64-linux-gnu/security",
)  # fmt: skip
RECIPE = {"version": 1, "suites": TRIXIE, "packages": PACKAGES, "unused": UNUSED}
LIBRARIES = "usr/lib/x86_64-linux-gnu"


@dataclass(frozen=True)
class Qemu:
    """An unpacked QEMU: `version` is its package's, `key` names this build."""

    root: Path
    version: str
    key: str

    def program(self, name: str) -> list[str]:
        """How to start a program of this folder, whichever libraries the host has."""
        libraries = self.root / LIBRARIES
        loader = libraries / "ld-linux-x86-64.so.2"
        return [str(loader), "--library-path", str(libraries), str(self.root / "usr/bin" / name)]

    @property
    def argv(self) -> list[str]:
        """The start of every QEMU command line."""
        share = self.root / "usr/share"
        folders = ["-L", str(share / "qemu"), "-L", str(share / "seabios")]
        return [*self.program("qemu-system-x86_64"), *folders]


def prepare_qemu(cache: Cache, sources: PackageSources) -> Qemu:
    """QEMU from the cache; it is unpacked there first if need be. Raises GuestError."""

    def build(partial: Path) -> dict[str, object]:
        packages, versions = sources.archive(TRIXIE).fetch(PACKAGES, "guest: QEMU")
        cache.say("guest: unpacking QEMU")
        unpack(packages, partial / "root", [f"--exclude={path}" for path in UNUSED])
        qemu = Qemu(partial / "root", "", "")
        for program in (qemu.argv, qemu.program("zstd"), qemu.program("lz4")):
            done = attempt([*program, "--version"])
            if done.returncode != 0:
                raise GuestError(f"the unpacked QEMU does not start: {done.stderr.strip()}")
        return {"packages": versions, "what": versions["qemu-system-x86"]}

    entry = cache.entry("qemu", RECIPE, build)
    version = read_manifest(entry)["packages"]["qemu-system-x86"]
    return Qemu(entry / "root", version, entry.name)
