# SPDX-License-Identifier: GPL-2.0-or-later
"""What a kernel's name means, and what is said about one that nobody offers."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import cast

import pytest

from runners.guest.debian import PackageSources
from runners.guest.kernels import choose, own_kernel, prepare_kernel
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


class NoArchive:
    """The archive of a suite that offers nothing."""

    def versions(self, pattern: str) -> dict[str, str]:
        return {}


class NoSources:
    """Sources whose archives are empty."""

    def archive(self, suites: object) -> NoArchive:
        return NoArchive()


@pytest.mark.parametrize("name", ["4.19", "latest", ""])
def test_an_unknown_kernel_is_one_sentence_with_what_is_offered(tmp_path: Path, name: str) -> None:
    sources = cast(PackageSources, NoSources())
    cache = Cache(tmp_path, lambda _: None)
    with pytest.raises(UsageError) as error:
        prepare_kernel(cache, sources, Qemu(tmp_path, "", ""), name)
    assert str(error.value) == (
        f'no Debian suite offers a kernel "{name}": '
        "take 5.10, 6.1, 6.12, 7.2, a release of theirs, or the path of a bzImage."
    )


def test_a_bzimage_of_ones_own_is_known_by_its_release(tmp_path: Path) -> None:
    image = bytearray(4096)
    image[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", image, 0x20E, 0x400)
    image[0x600:0x620] = b"6.9.0-mine (me@here) #1 SMP".ljust(32, b"\0")
    path = tmp_path / "bzImage"
    path.write_bytes(image)
    kernel = own_kernel(path)
    assert (kernel.file, kernel.release, kernel.version) == (path, "6.9.0-mine", None)


def test_a_damaged_bzimage_is_refused_before_it_is_booted(tmp_path: Path) -> None:
    path = tmp_path / "bzImage"
    path.write_bytes(bytes(0x202) + b"HdrS" + b"\xff\x1b[31m" * 1000)
    with pytest.raises(UsageError, match="is a damaged bzImage: it names no kernel"):
        own_kernel(path)


def test_what_is_not_a_bzimage_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "vmlinux"
    path.write_bytes(b"\x7fELF")
    with pytest.raises(UsageError, match="is not a bzImage"):
        own_kernel(path)
    with pytest.raises(UsageError, match="no regular file"):
        own_kernel(Path("/dev/zero"))
    with pytest.raises(UsageError, match="No such file"):
        own_kernel(tmp_path / "nothing")
