# SPDX-License-Identifier: GPL-2.0-or-later
"""Where packages come from, what is written on disks, what is believed of what comes back."""

import io
import tarfile
from pathlib import Path

import pytest

from runners.guest.boot import order, unpack_output
from runners.guest.debian import URI_LINE, choose_mirror, source_line
from runners.process import RunError

MIRROR = "http://mirror.example/debian"


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


def test_the_machine_s_own_mirror_is_taken() -> None:
    sources = [
        ("cdrom:[Debian]/", "bookworm"),
        ("http://tools.example/apt", "stable-tools"),
        (MIRROR, "bookworm-updates"),
        (MIRROR, "bookworm"),
        ("http://security.example/x", "bookworm-security"),
    ]
    assert choose_mirror(sources[2:]) == {False: MIRROR, True: "http://security.example/x"}
    mirror = choose_mirror([sources[0], *sources[2:4]])
    assert mirror == {False: MIRROR, True: MIRROR + "-security"}
    assert not choose_mirror([("http://archive.example/ubuntu", "noble-security")])
    keys = "arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg"
    assert source_line(mirror, "trixie", "amd64") == f"deb [{keys}] {MIRROR} trixie main\n"
    late = f"deb [{keys} check-valid-until=no] {MIRROR}-security bullseye-security main\n"
    assert source_line(mirror, "bullseye-security", "amd64") == late


def test_package_lines_of_apt() -> None:
    text = (
        "Reading package lists...\n"
        f"'{MIRROR}/pool/main/t/tar/tar_1.35+dfsg-3.1_amd64.deb' "
        "tar_1.35+dfsg-3.1_amd64.deb 814968 SHA256:0123\n"
        f"'{MIRROR}/pool/main/p/procps/procps_4.0.4-9_amd64.deb' "
        "procps_2%3a4.0.4-9_amd64.deb 882088 SHA256:0123\n"
    )
    assert URI_LINE.findall(text) == [
        ("tar", "1.35+dfsg-3.1", "amd64", "814968"),
        ("procps", "2%3a4.0.4-9", "amd64", "882088"),
    ]
