# SPDX-License-Identifier: GPL-2.0-or-later
"""The Vagrantfile, as far as Vagrant goes without booting: `prove.py` boots it."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from runners.process import REPOSITORY
from tests.box.prove import write_emulator
from tests.processes import captured

# Set-up does not bring it: 71 packages of Ruby, for one command.
needs_vagrant = pytest.mark.skipif(shutil.which("vagrant") is None, reason="needs vagrant")


def validate(home: Path, **choices: str) -> subprocess.CompletedProcess[str]:
    """`vagrant validate` of our Vagrantfile for libvirt."""
    own = {"VAGRANT_HOME": str(home), "VAGRANT_CHECKPOINT_DISABLE": "1"}
    own["VAGRANT_DEFAULT_PROVIDER"] = "libvirt"
    shutil.copy(REPOSITORY / "Vagrantfile", home)
    return captured(["vagrant", "validate"], cwd=home, env=os.environ | own | choices)


@needs_vagrant
@pytest.mark.parametrize("driver", ["", "qemu"])
def test_vagrant_takes_the_vagrantfile_and_a_wrong_number_is_one_sentence(
    driver: str, tmp_path: Path
) -> None:
    done = validate(tmp_path, PATHCOST_BOX="own", PATHCOST_CPUS="4", PATHCOST_DRIVER=driver)
    if "provider 'libvirt' could not be found" in done.stderr:
        pytest.skip("vagrant is here without vagrant-libvirt")
    assert done.returncode == 0, done.stderr
    done = validate(tmp_path, PATHCOST_MEMORY="4G")
    assert done.returncode == 1
    assert done.stderr == "PATHCOST_MEMORY '4G' is not a whole number of 1 or more.\n"


@pytest.mark.emulated
@pytest.mark.matrix
def test_the_emulator_answers_all_that_libvirt_asks_and_loads_nothing_of_the_hosts(
    tmp_path: Path,
) -> None:
    """To list its types, QEMU loads all modules that it finds: the host's modules would end it."""
    program = write_emulator(tmp_path / "qemu")
    commands = [{"execute": name} for name in ("qmp_capabilities", "qom-list-types", "quit")]
    done = captured(
        [
            *("strace", "-f", "-e", "trace=%file", "-o", tmp_path / "opened"),
            *(program, "-nodefaults", "-nographic", "-machine", "none", "-qmp", "stdio"),
        ],
        input="".join(map(json.dumps, commands)),
    )
    assert done.returncode == 0, done.stderr
    assert '"name": "EPYC-x86_64-cpu"' in done.stdout
    opened = re.findall(r'"(/[^"]*/qemu/[^"]*[.]so)"', (tmp_path / "opened").read_text("utf-8"))
    modules = f"{program.parent}/root/"
    own_upgrade = "/var/run/qemu/"  # where Debian keeps the modules of this very build
    assert any(path.startswith(modules) for path in opened)
    assert [path for path in opened if not path.startswith((modules, own_upgrade))] == []
