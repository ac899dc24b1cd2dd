# SPDX-License-Identifier: GPL-2.0-or-later
"""What a kernel's name means, and what is said about one that nobody offers."""

import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from probes.isa import ISAS
from runners.guest.kernels import check_booted, choose, own_kernel, prepare_kernel, write_sparse
from runners.guest.qemu import Qemu
from runners.guest.store import Cache
from runners.process import UsageError

PACKAGES = {
    "linux-image-5.10.0-45-cloud-amd64": "5.10.259-1",
    "linux-image-5.10.0-46-cloud-amd64": "5.10.262-1",
    "linux-image-6.1-cloud-amd64": "6.1.176-1~deb11u1",
    "linux-image-6.12.94+deb13-cloud-amd64": "6.12.94-1",
    "linux-image-6.12.107+deb13-cloud-amd64": "6.12.107-1",
    "linux-image-6.12.107+deb13-cloud-amd64-unsigned": "6.12.107-1",
    "linux-image-7.2.12+deb13-cloud-amd64": "7.2.12-1~bpo13+1",
    "linux-binary-7.2.12+deb13-cloud-amd64": "7.2.12-1~bpo13+1",
}


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("5.10", "linux-image-5.10.0-46-cloud-amd64"),
        ("5.10.259", "linux-image-5.10.0-45-cloud-amd64"),
        ("5.10.0-45-cloud-amd64", "linux-image-5.10.0-45-cloud-amd64"),
        ("6.12", "linux-image-6.12.107+deb13-cloud-amd64"),
        ("6.12.94", "linux-image-6.12.94+deb13-cloud-amd64"),
        ("6.12.94-1", "linux-image-6.12.94+deb13-cloud-amd64"),
        ("7.2", "linux-binary-7.2.12+deb13-cloud-amd64"),  # the image package has no kernel in it
        ("6.1", None),  # neither 6.12 nor a package without a release of its own
        ("6.12.9", None),
    ],
)
def test_a_name_is_a_series_a_release_or_a_version(name: str, package: str | None) -> None:
    offer = choose(PACKAGES, name)
    assert (offer.packages[0] if offer else None) == package


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("6.12", "cloud-arm64"),
        ("6.12-arm64", "arm64"),
        ("6.12-arm64-16k", "arm64-16k"),
        ("6.12.118+deb13-arm64-16k", "arm64-16k"),
        ("6.12.118-1-arm64", "arm64"),
        ("6.12-rt-arm64", None),  # exact mode was not tried on it
        ("6.12-arm64-64k", None),
        ("6.1-arm64-16k", None),
    ],
)
def test_a_name_may_end_with_a_kind_of_kernel(name: str, kind: str | None) -> None:
    kinds = ("cloud-arm64", "arm64", "arm64-16k", "rt-arm64", "arm64-64k")
    offered = {f"linux-image-6.12.118+deb13-{each}": "6.12.118-1" for each in kinds}
    offer = choose(offered, name, ISAS["arm64"])
    assert (offer.release if offer else None) == (f"6.12.118+deb13-{kind}" if kind else None)


def test_a_guest_refuses_a_kernel_whose_drivers_are_modules() -> None:
    check_booted("6.12", ISAS["arm64"])
    with pytest.raises(UsageError, match="arm64-16k kernels are modules"):
        check_booted("6.12-arm64-16k", ISAS["arm64"])


@pytest.mark.parametrize("name", ["4.19", "latest", ""])
def test_an_unknown_kernel_is_one_sentence_with_what_is_offered(tmp_path: Path, name: str) -> None:
    empty = SimpleNamespace(versions=lambda pattern: {})
    sources: Any = SimpleNamespace(archive=lambda suites: empty)
    with pytest.raises(UsageError, match=rf'kernel "{name}": take 5.10, 6.1, 6.12, 7.2'):
        prepare_kernel(Cache(tmp_path, print), sources, Qemu(tmp_path, "", ""), name)


def test_a_bzimage_of_ones_own_is_known_by_its_release(tmp_path: Path) -> None:
    image = bytearray(4096)
    image[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", image, 0x20E, 0x400)
    image[0x600:0x620] = b"6.9.0-mine (me@here) #1 SMP".ljust(32, b"\0")
    path = tmp_path / "bzImage"
    path.write_bytes(image)
    kernel = own_kernel(path)
    assert (kernel.file, kernel.release, kernel.version) == (path, "6.9.0-mine", None)


def test_what_is_no_whole_bzimage_is_refused_before_it_is_booted(tmp_path: Path) -> None:
    (tmp_path / "damaged").write_bytes(bytes(0x202) + b"HdrS" + b"\xff\x1b[31m" * 1000)
    (tmp_path / "vmlinux").write_bytes(b"\x7fELF")
    for path, why in {
        tmp_path / "damaged": "is a damaged bzImage: it names no kernel",
        tmp_path / "vmlinux": "is not a bzImage",
        tmp_path / "nothing": "No such file",
    }.items():
        with pytest.raises(UsageError, match=why):
            own_kernel(path)


def test_a_kernels_pages_of_zeros_take_no_room(tmp_path: Path) -> None:
    data = b"x" * 4096 + bytes(1 << 20) + b"x" + bytes(4095) + bytes(100)
    write_sparse(tmp_path / "kernel", data)
    assert (tmp_path / "kernel").read_bytes() == data
    assert (tmp_path / "kernel").stat().st_blocks * 512 < len(data) // 10
