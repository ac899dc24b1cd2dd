# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel that the guest boots: one of Debian's cloud kernels, or a file of the user's.

Debian's cloud kernels have NVMe, ext4 and the serial console built in, and so need neither modules
nor an initramfs. The kernel is unpacked here rather than in the guest, where it takes a second.
The modules that some transports and knobs need go in with the input, and are loaded before the
command starts. The user's own kernel must have them built in.
"""

import hashlib
import lzma
import re
import subprocess
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from probes.files import read_regular
from probes.isa import ISAS, USUAL, Isa
from probes.transports import every_module
from runners.guest.debian import TABLES, Archive, PackageSources
from runners.guest.qemu import NEEDS, Qemu
from runners.guest.store import Cache, LackingError, read_manifest
from runners.process import UsageError, command, plain_environment

DEFAULT = "6.12"
KERNEL_SUITES: Mapping[str, Sequence[str]] = TABLES["kernels"]
SERIES = tuple(KERNEL_SUITES)
PROBED = SERIES[1:]  # exact mode alone is tested on 5.10
KERNEL_PACKAGE = r"linux-(image|binary)-(\d+\.\d+\.\d+[^\s-]*(?:-\d+)?-({}))"  # with kinds
DRIVER = "virtio_blk"  # of disks that QEMU can store, as it cannot NVMe
# Modules of transports and of exact mode's knobs.
MODULES = (*every_module(), "nf_tables", "tcp_bbr", "tcp_dctcp", "tcp_vegas", "tcp_westwood")
PAGE = 4096
BUILT_IN = Path()  # of a module: it has no file
ZEROS = bytes(PAGE)
LARGEST_KERNEL = 1 << 28  # bytes of a bzImage
RELEASE = re.compile(r"\d+\.\d+[\w.+~-]*")
ELF, GZIP = b"\x7fELF", b"\x1f\x8b"
ZSTD, LZ4 = b"\x28\xb5\x2f\xfd", b"\x02\x21\x4c\x18"
DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")


@dataclass(frozen=True)
class Kernel:
    """A bootable kernel: `file` for QEMU's -kernel; `version` is its package's, None without.

    `isa` is its architecture. `orders` has the names of the modules to load for each of MODULES;
    None where it has none such.
    """

    file: Path
    release: str
    version: str | None
    key: str
    orders: Mapping[str, list[str] | None] = field(default_factory=dict)
    isa: Isa = USUAL

    @property
    def page(self) -> int:
        """Bytes of a page of its memory."""
        with self.file.open("rb") as opened:
            return self.isa.page_of(opened.read(PAGE))

    def modules(self, wanted: Sequence[str], *, all_or_none: bool = True) -> tuple[Path, ...]:
        """The files of the `wanted` modules and of all on which they depend, in loading order.

        Of names with a bar between them the first is meant that the kernel has. What is built into
        the kernel has no file. Where the caller wants `all_or_none`, a module that the kernel comes
        without raises LackingError.
        """
        files: dict[str, None] = {}
        for names in wanted:
            orders = [self.orders.get(name) for name in names.split("|")]
            order = next((order for order in orders if order is not None), None)
            if order is None and all_or_none:
                raise LackingError(f"kernel {self.release} comes without the module {names}")
            files |= dict.fromkeys(order or ())
        return tuple(self.file.parent / "modules" / f"{name}.ko" for name in files)


class Offer(NamedTuple):
    """A kernel of Debian's, and the packages with it and its modules."""

    version: str
    release: str
    packages: list[str]


def prepare_kernel(
    cache: Cache, sources: PackageSources, qemu: Qemu, name: str, isa: Isa = USUAL
) -> Kernel:
    """The kernel for `isa` called `name`, fetched first if need be.

    `name` is a series ("6.12"), a release or a package version of one of Debian's cloud kernels;
    the same with another kind of kernel at its end ("6.12-arm64-16k"), whose drivers are modules;
    or the path of a bzImage with what the guest needs built in.
    Raises UsageError if nobody offers it, RunError if it cannot be had.
    """
    if own := check_name(name, isa):
        return own

    def build(partial: Path) -> dict[str, object]:
        archive, offer = _find(sources, name, isa)
        release = offer.release
        with cache.scratch() as root:
            archive.unpack(offer.packages, root, f"kernel {release}", dependencies=False)
            image = next(root.rglob("vmlinuz*"))
            write_sparse(partial / "kernel", unpack_kernel(image.read_bytes(), qemu, isa))
            (partial / "modules").mkdir()
            tree = next(root.rglob(f"lib/modules/{release}"))
            files = {_module(path): path for path in tree.rglob("*.ko*")}
            builtin = (tree / "modules.builtin").read_text(encoding="utf-8").split()
            files |= dict.fromkeys((_module(Path(line)) for line in builtin), BUILT_IN)
            target = partial / "modules"
            names = {name: isa.modules.get(name, name) for name in (*MODULES, DRIVER)}
            orders = {name: _in_order(own, files, target) for name, own in names.items()}
        return {"release": release, "version": offer.version, "what": release, "orders": orders}

    recipe = {"version": 2, "name": name, "suites": KERNEL_SUITES, "modules": MODULES}
    if isa is not USUAL:
        recipe |= {"isa": isa.name, "instead": dict(isa.modules)}
    entry = cache.entry("kernel", recipe, build)
    made = read_manifest(entry)
    release, version, orders = (made[name] for name in ("release", "version", "orders"))
    return Kernel(entry / "kernel", release, version, entry.name, orders, isa)


def _find(sources: PackageSources, name: str, isa: Isa) -> tuple[Archive, Offer]:
    """The archive that offers a kernel. Raises UsageError."""
    package = KERNEL_PACKAGE.format("|".join(isa.kernels))
    series = re.match(r"\d+\.\d+", name)
    likely = KERNEL_SUITES.get(series[0]) if series else None
    for suites in sorted(KERNEL_SUITES.values(), key=lambda suites: suites != likely):
        archive = sources.archive(suites, isa)
        if offer := choose(archive.versions(package), name, isa):
            return archive, offer
    raise unknown(name)


def _module(path: Path) -> str:
    return path.name.partition(".ko")[0].replace("-", "_")


def _in_order(name: str, files: Mapping[str, Path], target: Path) -> list[str] | None:
    """Write a module and its dependencies to `target`, without compression, as the kernel loads it.

    Returns their names in loading order, None if one is missing. What is built in has no file.
    """
    if name not in files:
        return None
    if files[name] == BUILT_IN:
        return []
    data = files[name].read_bytes()
    if files[name].suffix == ".xz":
        data = lzma.decompress(data)
    (target / f"{name}.ko").write_bytes(data)
    match = DEPENDS.search(data)
    order: list[str] = []
    for needed in filter(None, (match[1].decode() if match else "").split(",")):
        before = _in_order(needed.replace("-", "_"), files, target)
        if before is None:
            return None
        order += before
    return list(dict.fromkeys([*order, name]))


def check_name(name: str, isa: Isa | None = None) -> Kernel | None:
    """The user's own kernel for `isa`, or any, where `name` is one; else None. Raises UsageError.

    Asks no archive: of Debian's kernels only what is older than the newest series is refused here,
    since only backports move on to another series, which is newer.
    """
    if "/" in name or Path(name).is_file():
        kernel = own_kernel(Path(name))
        if isa not in (None, kernel.isa):
            raise UsageError(
                f"{name} is a kernel for {kernel.isa.name}, and not for {isa.name}: "
                f"exact and gate count on it with --arch {kernel.isa.name}."
            )
        return kernel
    series = re.match(r"\d+\.\d+", name) if RELEASE.fullmatch(name) else None
    if series is None or (
        series[0] not in KERNEL_SUITES and _numbers(series[0]) < _numbers(SERIES[-1])
    ):
        raise unknown(name)
    return None


def check_booted(name: str, isa: Isa) -> None:
    """Raises UsageError where no guest boots this kernel: its drivers must be built in."""
    check_name(name, isa)
    if (kind := isa.kind_of(name)) != isa.kernels[0]:
        raise UsageError(
            f"a guest does not boot {name}: disk and file system of Debian's {kind} kernels are "
            "modules. exact and gate count on it."
        )


def unknown(name: str) -> UsageError:
    """The error for a kernel that nobody offers; it lists what is offered."""
    return UsageError(
        f'no Debian suite offers a kernel "{name}": '
        f"take {', '.join(KERNEL_SUITES)}, a release of theirs, or the path of a bzImage."
    )


def choose(versions: Mapping[str, str], name: str, isa: Isa = USUAL) -> Offer | None:
    """The newest kernel that `name` fits: a release, a package version, or the start of either.

    It is of the kind that ends `name` (`6.12-arm64-16k`), else of the architecture's usual kind.
    """
    kind = isa.kind_of(name)
    start = name.removesuffix(f"-{kind}")
    offers: dict[str, Offer] = {}
    package_of = re.compile(KERNEL_PACKAGE.format(kind))
    for package, version in sorted(versions.items()):  # where there is a binary, no image counts
        if match := package_of.fullmatch(package):
            what, release, _ = match.groups()
            more = [f"linux-modules-{release}", f"linux-base-{release}"] if what == "binary" else []
            offers.setdefault(release, Offer(version, release, [package, *more]))
    fits = re.compile(re.escape(start) + r"(?!\d)").match
    fitting = [offer for offer in offers.values() if fits(offer.release) or fits(offer.version)]
    return max(fitting, key=lambda offer: _numbers(offer.version), default=None)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def own_kernel(path: Path) -> Kernel:
    """The user's own kernel: a bzImage or its like. Raises UsageError if the file is none."""
    try:
        data = read_regular(path, LARGEST_KERNEL)
    except OSError as error:
        raise UsageError(f"cannot read the kernel {path}: {error.strerror}.") from None
    found = ((isa, isa.release_of(data)) for isa in ISAS.values())
    isa, release = next((pair for pair in found if pair[1] is not None), (USUAL, None))
    if release is None:
        others = [f"nor {isa.image_path}" for isa in ISAS.values() if isa is not USUAL]
        raise UsageError(
            f"{path} is not a {USUAL.image} ({USUAL.image_path} of a build with {NEEDS} built in), "
            f"{', '.join(others)}."
        )
    if not RELEASE.fullmatch(release):
        raise UsageError(f"{path} is a damaged {isa.image}: it names no kernel release.")
    key = hashlib.sha256(data).hexdigest()[:16]
    return Kernel(path.resolve(), release, None, key, isa=isa)


def write_sparse(file: Path, data: bytes) -> None:
    """Write a file with holes for its pages of zeros: a third of a kernel."""
    with file.open("wb") as out:
        for at in range(0, len(data), PAGE):
            if (page := data[at : at + PAGE]) != ZEROS:
                out.seek(at)
                out.write(page)
        out.truncate(len(data))


def unpack_kernel(image: bytes, qemu: Qemu, isa: Isa = USUAL) -> bytes:
    """The ELF kernel inside a kernel's file, or the file itself where it cannot be unpacked.

    QEMU boots the ELF directly.
    """
    inside = elf_kernel(image, qemu, isa)
    return inside if inside and isa.boots_directly(inside) else image


def elf_kernel(image: bytes, qemu: Qemu, isa: Isa = USUAL) -> bytes:
    """The ELF kernel inside a kernel's file; nothing where it cannot be unpacked."""
    if image[:4] == ELF:
        return image
    packed, size = isa.packed_kernel(image)
    if packed[:2] == GZIP:
        inside = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(packed)
        return inside if inside[:4] == ELF else b""
    program = {ZSTD: "zstd", LZ4: "lz4"}.get(packed[:4])
    if program is None:
        return b""
    inside = subprocess.run(
        command([*qemu.program(program), "-dc"]),
        input=packed,
        capture_output=True,
        env=plain_environment(),
        check=False,
    ).stdout
    return inside if len(inside) == size and inside[:4] == ELF else b""
