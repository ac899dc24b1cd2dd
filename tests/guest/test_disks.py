# SPDX-License-Identifier: GPL-2.0-or-later
"""What is written on the guest's disks, and what is believed of what comes back on them."""

from __future__ import annotations

import io
import struct
import tarfile
from pathlib import Path

import pytest

from runners.guest.boot import order, unpack_output
from runners.guest.image import DISK_ID, ROOT_OPTION, partition_table
from runners.process import RunError


def disk(*members: tuple[str, bytes], kind: bytes = tarfile.REGTYPE, link: str = "") -> io.BytesIO:
    """An output disk: a tar, and then the zeros of a sparse file."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size, info.type, info.linkname, info.mode = len(content), kind, link, 0o4777
            tar.addfile(info, io.BytesIO(content))
    file.write(bytes(1 << 20))
    file.seek(0)
    return file


def test_files_come_back(tmp_path: Path) -> None:
    source = disk(("out/a", b"1"), ("out/deep/b", b"22"), ("stderr", b"oh\n"), ("status", b"0\n"))
    assert unpack_output(source, tmp_path) == {"stderr": "oh\n", "status": "0\n"}
    assert (tmp_path / "a").read_bytes() == b"1"
    assert (tmp_path / "deep/b").read_bytes() == b"22"
    assert not (tmp_path / "a").stat().st_mode & 0o7111  # neither set-uid nor executable


@pytest.mark.parametrize("name", ["../evil", "out/../../evil", "/evil"])
def test_nothing_comes_out_beside_the_folder(tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(RunError, match="impossible name"):
        unpack_output(disk((name, b"x")), out)
    assert list(tmp_path.rglob("evil")) == []


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE])
def test_links_and_devices_stay_in_the_guest(tmp_path: Path, kind: bytes) -> None:
    unpack_output(disk(("out/link", b""), kind=kind, link="/etc/passwd"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_tar_that_was_cut_off_has_no_status(tmp_path: Path) -> None:
    whole = disk(("out/a", b"1" * 5000), ("status", b"0\n")).getvalue()
    for length in range(512, 6 * 512, 512):
        cut = io.BytesIO(whole[:length].ljust(1 << 16, b"\0"))
        assert "status" not in unpack_output(cut, tmp_path)


def test_the_order_keeps_odd_arguments_whole() -> None:
    assert order(["echo", "a b", "it's"]) == b"#pathcost\nset -- echo 'a b' 'it'\"'\"'s'\n"


def test_the_root_is_found_by_its_partition() -> None:
    table = partition_table(2048, 4096)
    assert len(table) == 512
    assert table[510:] == b"\x55\xaa"
    assert struct.unpack_from("<I", table, 440) == (DISK_ID,)
    assert struct.unpack_from("<II", table, 446 + 8) == (2048, 4096)
    assert f"root=PARTUUID={DISK_ID:08x}-01" == ROOT_OPTION
