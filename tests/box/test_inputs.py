# SPDX-License-Identifier: GPL-2.0-or-later
"""box.sh and the proof refuse what cannot be done: one sentence, and nothing is made."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import tarfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from runners.box import __main__ as box
from runners.box import disk
from runners.guest import process
from tests.box import __main__ as proof
from tests.box import prove

pytestmark = pytest.mark.usefixtures("root", "handlers", "cache")


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refused before anything is written needs no real root."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)


@pytest.fixture
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in proof.SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATHCOST_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a box, a file that is none, and a folder that holds something."""
    with tarfile.open(tmp_path / "a.box", "w"):
        pass
    (tmp_path / "text").write_text("no box", encoding="utf-8")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/kept").touch()
    tmp_path.chmod(0o700)
    return tmp_path


WRONG = {
    "": "the following arguments are required: action (see ./runners/box.sh --help).",
    "make": "the following arguments are required: box (see ./runners/box.sh make --help).",
    "make {}/full": "{}/full is a folder: name a file, e.g. full.box.",
    "make {}/none/a.box": "there is no folder {}/none: make it, or name a box elsewhere.",
    "prove {}/b.box --out {}/new": "there is no box {}/b.box: make one with box.sh make.",
    "prove {}/text --out {}/new": "{}/text is no box, which is a tar file: make one with "
    "box.sh make.",
    "prove {}/a.box --out {}/full": "--out {}/full holds files already: name a new or an empty "
    "folder.",
    "prove {}/a.box --out {}/text": "--out {}/text is not a folder: name a new or an empty one.",
    "prove {}/a.box --out {}/none/new": "cannot write to {}/none/new (No such file or directory): "
    "choose another place with --out.",
    "prove {}/a.box --out {}/new --patience nan": "--patience nan is no number of minutes above 0, "
    "up to a week.",
    "emulator {}/new": "{} lets no other user pass, and libvirt's own has to start QEMU below it: "
    "name another folder, e.g. /opt/pathcost-qemu.",
}


def main(line: str) -> int:
    """The exit status of box.sh, or of the proof."""
    action, *words = line.split() or [""]
    return proof.main(words) if action == "prove" else box.main(line.split())


@pytest.mark.parametrize("line", WRONG)
def test_the_impossible_is_one_sentence_and_status_2(
    line: str,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(box, "find_program", str)
    monkeypatch.setattr(prove, "find_program", str)
    # Other tests measure meanwhile.
    monkeypatch.setattr(prove, "measuring", nullcontext)
    before = sorted(place.rglob("*"))
    assert main(line.replace("{}", str(place))) == 2
    assert capsys.readouterr().err == f"pathcost: {WRONG[line].replace('{}', str(place))}\n"
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize("line", ["make {}/b.box", "prove {}/a.box --out {}/new"])
def test_without_root_it_says_so(
    line: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert main(line.replace("{}", str(place))) == 1
    assert capsys.readouterr().err.endswith(": run it with sudo.\n")


def test_a_missing_program_is_named_with_its_package(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mmdebstrap", "mke2fs", "vagrant", "virsh"):
        (place / "full" / name).touch(0o755)
    monkeypatch.setattr(process, "SEARCH", str(place / "full"))
    assert main(f"make {place}/b.box") == 1
    assert main(f"prove {place}/a.box --out {place}/new") == 1
    assert capsys.readouterr().err.splitlines() == [
        "pathcost: qemu-img is missing on this machine: apt-get install qemu-utils",
        "pathcost: libvirtd is missing: apt-get install vagrant vagrant-libvirt "
        "libvirt-daemon-system libvirt-clients rsync iproute2.",
    ]


def test_an_emulator_takes_no_folder_that_is_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert box.main(["emulator", "/usr"]) == 2
    said = "pathcost: /usr is there already, and nothing in it was touched: name another folder.\n"
    assert capsys.readouterr().err.endswith(said)


@pytest.mark.root
def test_a_full_disk_is_seen_before_the_work(
    small_disk: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(box, "find_program", str)
    assert box.main(["make", str(small_disk / "a.box")]) == 2
    assert capsys.readouterr().err == (
        f"pathcost: {small_disk} has only 0.1 GiB free, and a box needs 5.0: make room, or name a "
        "box elsewhere.\n"
    )


def test_what_the_system_refuses_is_a_sentence() -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/x")
    assert disk.refusal(full) == "no room left at /x: make some."
    tree = shutil.Error([("/a", "/b", "[Errno 28] No space left on device")])
    assert disk.refusal(tree) == (
        "cannot write /b ([Errno 28] No space left on device): is there room, and may root write "
        "there?"
    )
    assert disk.refusal(PermissionError(errno.EACCES, "Permission denied", "/x")) == (
        "/x: Permission denied."
    )
