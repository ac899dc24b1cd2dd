# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest's root: Debian 13 with bpftrace, BCC, perf and Python, as a disk image.

Packages are unpacked, not installed: nothing in the guest needs a package's set-up script.
The image is one partition, because `root=PARTUUID=` finds it under any name that the disk's driver
gives it. It has an ext4 without a journal, which is only mounted read-only.

A guest's whole file system can also be in memory, as a cpio archive in the `newc` format. Every
field that could vary (times, owners, inodes) is fixed, so equal files make equal bytes. What
depends on where a program was built is stripped.
"""

import shutil
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from probes.isa import HOST, USUAL, Isa
from runners.guest.debian import LIBRARIES, TRIXIE, PackageSources, packages
from runners.guest.qemu import Qemu
from runners.guest.store import Cache
from runners.process import plain_environment, run_tool

IMAGE_PACKAGES, IMAGE_UNUSED = packages("image")
INIT_SCRIPT = Path(__file__).parent / "init"
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

FOLDER, PROGRAM = 0o040755, 0o100755
DEVICE = 0o020600
CONSOLE_DEVICE = (5, 1)
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")  # of a 64-bit ELF file
SEGMENT = struct.Struct("<IIQQQQQQ")
LOAD, NOTE = 1, 4


@dataclass(frozen=True)
class Image:
    """A root disk; `key` names this build. `busybox` is one of its programs, static."""

    file: Path
    key: str

    @property
    def busybox(self) -> Path:
        return self.file.with_name("busybox")


def prepare_image(
    cache: Cache, sources: PackageSources, qemu: Callable[[], Qemu], isa: Isa = USUAL
) -> Image:
    """The root image for `isa` from the cache; it is built there first if need be. Raises RunError.

    `qemu` returns QEMU, which packs the image, once it is there.
    """
    unused = [path.replace(USUAL.libraries, isa.libraries) for path in IMAGE_UNUSED]
    init = INIT_SCRIPT.read_text().replace(USUAL.libraries, isa.libraries)
    recipe = {
        "version": 4,
        "suites": TRIXIE,
        "packages": IMAGE_PACKAGES,
        "unused": unused,
        "init": init,
        "files": list(FILES.values()),
    }
    if isa is not USUAL:
        recipe["isa"] = isa.name

    def build(partial: Path) -> dict[str, object]:
        with cache.scratch() as root:
            left_out = [f"--exclude={path}" for path in unused]
            archive = sources.archive(TRIXIE, isa)
            versions = archive.unpack(
                IMAGE_PACKAGES, root, "the guest's root", tar_options=left_out
            )
            for name in ("dev", "proc", "sys", "run", "tmp", "etc", "usr/lib/pathcost"):
                (root / name).mkdir(parents=True, exist_ok=True)
            # What the guest needs of the packages' set-up scripts.
            for name, text in {**FILES, INIT_PATH: init}.items():
                (root / name).write_text(text)
            (root / INIT_PATH).chmod(0o755)
            shutil.copyfile(root / "usr/bin/busybox", partial / "busybox")
            with _runnable_root(root, isa, cache, sources) as ours:
                _compile_python(root, ours)
            cache.say("writing the guest's root")
            write_disk(root, partial / "root.img", qemu())
        return {"packages": versions, "what": f"Debian 13, {isa.name}"}

    entry = cache.entry("image", recipe, build)
    return Image(entry / "root.img", entry.name)


@contextmanager
def _runnable_root(root: Path, isa: Isa, cache: Cache, sources: PackageSources) -> Iterator[Path]:
    """Yield a root whose programs run here, with the same Python: `root` itself, where they do."""
    if isa is HOST:
        yield root
        return
    with cache.scratch() as ours:
        sources.archive(TRIXIE, HOST).unpack(["python3"], ours, "Python of this architecture")
        yield ours


def _compile_python(root: Path, ours: Path) -> None:
    """Compile the library here: under emulation each larger import would take a second longer.

    The Python of the root `ours` compiles it.
    """
    libraries = ours / LIBRARIES
    python = next(iter(sorted((root / "usr/lib").glob("python3.*"))))
    run_tool(
        [
            str(libraries / Path(HOST.loader).name), "--library-path", str(libraries),
            str(ours / "usr/bin" / python.name), "-S", "-m", "compileall", "-q",
            "-s", str(root), "-p", "/", "--invalidation-mode", "unchecked-hash", str(python),
        ],
        "compile the guest's Python library",
        plain_environment(PYTHONHOME=str(ours / "usr")),
    )  # fmt: skip


def write_disk(root: Path, file: Path, qemu: Qemu) -> None:
    """Write a packed disk image whose only partition holds `root`, and little free space."""
    raw = file.with_suffix(".raw")
    nodes = [entry.lstat() for entry in root.rglob("*")]
    blocks = sum(-(-node.st_size // 4096) for node in nodes)
    size = -(-(blocks * 4096 * 21 // 20 + len(nodes) * 512 + 16 * MEBI) // MEBI)
    run_tool(
        [
            "mke2fs", "-q", "-t", "ext4", "-O", "^has_journal",
            "-b", "4096", "-m", "0", "-N", str(len(nodes) + 1024),
            "-E", f"offset={MEBI},root_owner=0:0", "-d", str(root), str(raw), f"{size}M",
        ],
        "write the guest's root image",
        plain_environment(MKE2FS_SYNC="0"),
    )  # fmt: skip
    with raw.open("r+b") as disk:
        disk.write(partition_table(MEBI // SECTOR, size * MEBI // SECTOR))
        disk.truncate((size + 1) * MEBI)
    words = ["convert", "-c", "-W", "-f", "raw", "-O", "qcow2", "-o", "compression_type=zstd"]
    convert = [*qemu.program("qemu-img"), *words, str(raw), str(file)]
    run_tool(convert, "pack the guest's root image", plain_environment())
    raw.unlink()


def partition_table(start: int, sectors: int) -> bytes:
    """A master boot record with one Linux partition."""
    entry = struct.pack("<B3xB3xII", 0, 0x83, start, sectors)
    return struct.pack("<440xIxx16s48xH", DISK_ID, entry, 0xAA55)


def initramfs(files: Mapping[str, bytes]) -> bytes:
    """`files` (path → contents) as an initramfs, with the console that a first process needs."""
    parents = {str(parent) for name in files for parent in PurePosixPath(name).parents}
    folders = sorted(parents - {".", "dev"})  # a folder sorts before its contents
    entries = [
        _entry("dev", FOLDER, 1),
        _entry("dev/console", DEVICE, 2, device=CONSOLE_DEVICE),
        *(_entry(name, FOLDER, number) for number, name in enumerate(folders, start=3)),
        *(
            _entry(name, PROGRAM, number, data)
            for number, (name, data) in enumerate(files.items(), start=3 + len(folders))
        ),
        _entry("TRAILER!!!", 0, 0),
    ]
    return _padded(b"".join(entries), 512)


def _entry(
    name: str, mode: int, inode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)
) -> bytes:
    path = name.encode() + b"\0"
    fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(path), 0)
    head = b"070701" + b"".join(b"%08x" % field for field in fields)
    return _padded(head + path, 4) + _padded(data, 4)


def _padded(data: bytes, to: int) -> bytes:
    return data + bytes(-len(data) % to)


def strip_elf(program: bytes) -> bytes:
    """The loaded part of an ELF program, with blank notes and without sections.

    Debug information holds the path of the sources, and the build id is a hash of it. Both would
    change the guest's memory, then the times of its ticks, and in the end its counts.
    """
    fields = list(HEADER.unpack_from(program))
    start, size, count = fields[5], fields[9], fields[10]
    data = bytearray(program)
    end = 0
    for number in range(count):
        kind, _, offset, _, _, length, _, _ = SEGMENT.unpack_from(program, start + number * size)
        if kind == LOAD:
            end = max(end, offset + length)
        elif kind == NOTE:
            data[offset : offset + length] = bytes(length)
    fields[6] = fields[12] = fields[13] = 0  # the section table: its place, length and names
    data[: HEADER.size] = HEADER.pack(*fields)
    return bytes(data[:end])
