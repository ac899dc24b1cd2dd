# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest's root: Debian 13 with bpftrace, BCC, perf and Python, as a disk image.

Packages are unpacked, not installed: nothing in the guest needs a package's set-up script.
The image is one partition, because `root=PARTUUID=` finds it under any name that the disk's driver
gives it. It has an ext4 without a journal, which is only mounted read-only.
"""

import shutil
import struct
from dataclasses import dataclass
from pathlib import Path

from runners.guest.cache import Cache
from runners.guest.debian import TRIXIE, PackageSources, unpack
from runners.guest.process import environment, run

PACKAGES = (
    "base-files", "bpftrace", "busybox-static", "coreutils", "dash", "findutils", "grep",
    "bpfcc-tools", "iproute2", "kmod", "linux-perf", "nftables", "procps", "python3",
    "python3-bpfcc", "sed", "tar", "util-linux",
)  # fmt: skip
UNUSED = (
    "./usr/share/doc", "./usr/share/man", "./usr/share/info", "./usr/share/locale",
    "./usr/share/lintian", "./usr/share/bug", "./usr/share/zoneinfo", "./usr/share/perl*",
    "./usr/share/bash-completion", "./usr/share/common-licenses", "./usr/share/debconf",
    "./usr/lib/x86_64-linux-gnu/perl*", "./usr/lib/x86_64-linux-gnu/gconv",
    "./usr/lib/python3*/ensurepip", "./usr/lib/python3*/idlelib", "./usr/lib/python3*/lib2to3",
    "./usr/lib/python3*/pydoc_data", "./usr/lib/python3*/test", "./usr/lib/python3*/turtle.py",
    "./usr/lib/python3*/venv", "./usr/lib/python3*/config-3*",
)  # fmt: skip
INIT = Path(__file__).parent / "init"
INIT_PATH = "usr/lib/pathcost/init"
FILES = {
    "etc/passwd": "root:x:0:0:root:/run:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/hosts": "127.0.0.1 localhost pathcost\n",
}

DISK_ID = 0x70617468  # of our choice: with it the kernel finds the root by PARTUUID
ROOT_OPTION = f"root=PARTUUID={DISK_ID:08x}-01"
MEBI = 1 << 20
SECTOR = 512
INODES_PER_MEBI = 64  # as mke2fs counts by itself


@dataclass(frozen=True)
class Image:
    """A root disk; `key` names this build. `busybox` is one of its programs, static."""

    file: Path
    key: str

    @property
    def busybox(self) -> Path:
        return self.file.with_name("busybox")


def prepare_image(cache: Cache, sources: PackageSources) -> Image:
    """The root image from the cache; it is built there first if need be. Raises RunError."""
    recipe = {
        "version": 2,
        "suites": TRIXIE,
        "packages": PACKAGES,
        "unused": UNUSED,
        "init": INIT.read_text(),
        "files": list(FILES.values()),
    }

    def build(partial: Path) -> dict[str, object]:
        packages, versions = sources.archive(TRIXIE).fetch(PACKAGES, "guest: image")
        cache.say("guest: unpacking Debian 13")
        with cache.scratch("image-root") as root:
            options = [f"--exclude={path}" for path in UNUSED]
            base = [file for file in packages if file.name.startswith("base-files_")]
            unpack(base, root, options)  # first: it makes /bin, /lib, … links into /usr
            unpack([file for file in packages if file not in base], root, options)
            for name in ("dev", "proc", "sys", "run", "tmp", "etc", "usr/lib/pathcost"):
                (root / name).mkdir(parents=True, exist_ok=True)
            # What the guest needs of the packages' set-up scripts.
            for name, text in {**FILES, INIT_PATH: INIT.read_text()}.items():
                (root / name).write_text(text)
            (root / INIT_PATH).chmod(0o755)
            shutil.copyfile(root / "usr/bin/busybox", partial / "busybox")
            _compile_python(root)
            cache.say("guest: writing the image")
            write_disk(root, partial / "root.img")
        return {"packages": versions, "what": "Debian 13"}

    entry = cache.entry("image", recipe, build)
    return Image(entry / "root.img", entry.name)


def _compile_python(root: Path) -> None:
    """Compile the library here: under emulation each larger import would take a second longer."""
    libraries = root / "usr/lib/x86_64-linux-gnu"
    python = next(iter(sorted((root / "usr/lib").glob("python3.*"))))
    run(
        [
            str(libraries / "ld-linux-x86-64.so.2"), "--library-path", str(libraries),
            str(root / "usr/bin" / python.name), "-S", "-m", "compileall", "-q",
            "-s", str(root), "-p", "/", "--invalidation-mode", "unchecked-hash", str(python),
        ],
        "compile the guest's Python library",
        environment(PYTHONHOME=str(root / "usr")),
    )  # fmt: skip


def write_disk(root: Path, file: Path, room: int = 0) -> None:
    """Write a disk image whose only partition holds `root`, and `room` MiB of free space.

    A disk with free space is to be written to, so it has a journal.
    """
    nodes = [entry.lstat() for entry in root.rglob("*")]
    blocks = sum(-(-node.st_size // 4096) for node in nodes)
    size = -(-(blocks * 4096 * 21 // 20 + len(nodes) * 512 + 16 * MEBI) // MEBI) + room
    run(
        [
            "mke2fs", "-q", "-t", "ext4", "-O", "has_journal" if room else "^has_journal",
            "-b", "4096", "-m", "0", "-N", str(len(nodes) + 1024 + room * INODES_PER_MEBI),
            "-E", f"offset={MEBI},root_owner=0:0", "-d", str(root), str(file), f"{size}M",
        ],
        "write the guest's root image",
        environment(MKE2FS_SYNC="0"),
    )  # fmt: skip
    with file.open("r+b") as disk:
        disk.write(partition_table(MEBI // SECTOR, size * MEBI // SECTOR))
        disk.truncate((size + 1) * MEBI)


def partition_table(start: int, sectors: int) -> bytes:
    """A master boot record with one Linux partition."""
    entry = struct.pack("<B3xB3xII", 0, 0x83, start, sectors)
    return struct.pack("<440xIxx16s48xH", DISK_ID, entry, 0xAA55)
