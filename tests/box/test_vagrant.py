# SPDX-License-Identifier: GPL-2.0-or-later
"""The Vagrantfile and the box, as far as they go without booting: `prove.py` does that."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from runners.box import disk, emulator, root
from runners.guest.image import DISK_ID, MEBI, SECTOR
from runners.process import REPOSITORY
from runners.store import invoker
from tests.box.libvirt import NAME
from tests.box.prove import write_vagrantfiles

VAGRANT = shutil.which("vagrant")
needs_vagrant = pytest.mark.skipif(VAGRANT is None, reason="vagrant is not installed")
needs_mke2fs = pytest.mark.skipif(
    shutil.which("mke2fs", path="/usr/sbin:/sbin") is None, reason="mke2fs is not installed"
)
LINUX = 0x83  # the partition's type


def validate(
    home: Path, *, proof: bool = False, **choices: str
) -> subprocess.CompletedProcess[str]:
    """`vagrant validate` of our Vagrantfile for libvirt, with a home of its own, or the proof's."""
    (home / NAME).mkdir()
    shutil.copy(REPOSITORY / "Vagrantfile", home / NAME)
    if proof:
        write_vagrantfiles(home)
    own = {
        "VAGRANT_HOME": str(home),
        "VAGRANT_CHECKPOINT_DISABLE": "1",
        "VAGRANT_DEFAULT_PROVIDER": "libvirt",
    }
    return subprocess.run(
        ["vagrant", "validate"],
        cwd=home / NAME, env=os.environ | own | choices,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@needs_vagrant
@pytest.mark.parametrize(("driver", "proof"), [("", False), ("kvm", True), ("qemu", True)])
def test_vagrant_takes_the_vagrantfile(driver: str, proof: bool, tmp_path: Path) -> None:
    choices = {"PATHCOST_BOX": "own", "PATHCOST_CPUS": "4", "PATHCOST_DRIVER": driver}
    done = validate(tmp_path, proof=proof, **choices)
    if "provider 'libvirt' could not be found" in done.stderr:
        pytest.skip("vagrant is here without vagrant-libvirt")
    assert "validated successfully" in done.stdout, done.stderr
    assert done.returncode == 0


@needs_vagrant
def test_a_wrong_number_is_one_sentence(tmp_path: Path) -> None:
    done = validate(tmp_path, PATHCOST_MEMORY="4G")
    assert done.returncode == 1
    assert done.stderr == "PATHCOST_MEMORY '4G' is not a whole number of 1 or more.\n"


@needs_vagrant
def test_the_box_lets_vagrants_first_key_in() -> None:
    places = (Path("/usr/share/rubygems-integration"), Path("/opt/vagrant"))
    found = [key for place in places for key in place.glob("**/vagrant-*/keys/vagrant.pub")]
    if not found:
        pytest.skip("this vagrant's key file is somewhere else")
    (key, *_) = found[0].read_text(encoding="ascii").splitlines()
    assert key in root.INSIDE.read_text(encoding="ascii")


@pytest.fixture(scope="module")
def bootable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A disk made from a root with nothing in it but GRUB's two files."""
    folder = tmp_path_factory.mktemp("box")
    for name, data in (
        ("usr/lib/grub/i386-pc/boot.img", b"B" * SECTOR),
        ("boot/grub/core.img", b"C" * 3000),
    ):
        path = folder / "root" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
    disk.write_bootable(folder / "root", folder / "disk.raw")
    return folder / "disk.raw"


@needs_mke2fs
def test_boot_code_leaves_the_partition_table_whole(bootable: Path) -> None:
    with bootable.open("rb") as file:
        record, core = file.read(SECTOR), file.read(3001)
    assert record[: disk.BOOT_CODE] == b"B" * disk.BOOT_CODE
    number, kind, start, sectors, mark = struct.unpack_from("<I6xB3xII48xH", record, disk.BOOT_CODE)
    assert (number, kind, mark) == (DISK_ID, LINUX, 0xAA55)
    assert (start + sectors) * SECTOR == bootable.stat().st_size
    assert core == b"C" * 3000 + b"\0"


@needs_mke2fs
def test_the_file_system_behind_it_is_valid_and_has_room(bootable: Path) -> None:
    done = subprocess.run(
        ["/usr/sbin/e2fsck", "-fn", f"{bootable}?offset={MEBI}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert bootable.stat().st_size > disk.SIZE * MEBI
    assert bootable.stat().st_blocks * SECTOR < bootable.stat().st_size / 10


@pytest.mark.emulated
def test_the_emulator_answers_all_that_libvirt_asks_and_loads_nothing_of_the_hosts(
    tmp_path: Path,
) -> None:
    """To list its types, QEMU loads all modules that it finds: the host's modules would end it."""
    program = emulator.install(tmp_path / "qemu", invoker().cache, lambda _: None)
    commands = [{"execute": name} for name in ("qmp_capabilities", "qom-list-types", "quit")]
    done = subprocess.run(
        [
            *("strace", "-f", "-e", "trace=%file", "-o", tmp_path / "opened"),
            *(program, "-nodefaults", "-nographic", "-machine", "none", "-qmp", "stdio"),
        ],
        input="".join(map(json.dumps, commands)), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert '"name": "EPYC-x86_64-cpu"' in done.stdout
    opened = re.findall(r'"(/[^"]*/qemu/[^"]*[.]so)"', (tmp_path / "opened").read_text("utf-8"))
    modules = f"{program.parent}/root/"
    own_upgrade = "/var/run/qemu/"  # where Debian keeps the modules of this very build
    assert any(path.startswith(modules) for path in opened)
    assert [path for path in opened if not path.startswith((modules, own_upgrade))] == []
