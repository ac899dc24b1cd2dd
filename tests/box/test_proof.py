# SPDX-License-Identifier: GPL-2.0-or-later
"""The proof with stand-ins for Vagrant and libvirt: its deadlines, and what it leaves behind.

The stand-ins keep their state in a folder: `said` has each call, `list`, `net-list`, `pool-list`
and `vol-list` what libvirt would list; where `up` is, libvirt answers.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from runners.process import REPOSITORY
from tests.box.libvirt import NAME

pytestmark = pytest.mark.root

MACHINE = f"{NAME}_default"
VOLUME = f"{NAME}_vagrant_box_image_0_1_box.img"
LISTS = ("list", "net-list", "pool-list", "vol-list")
VIRSH = """\
state=$(dirname "$0")/state
[ "$1" = --version ] || shift 2 # --connect URI
echo "virsh $*" >>$state/said
drop() { sed -i "/^$2\\$/d" $state/$1; }
case $1 in
version) [ -e $state/up ] ;;
list | net-list | pool-list | vol-list) cat $state/$1 ;;
undefine) for last; do :; done; drop list $last ;;
net-undefine) drop net-list $2 ;;
pool-undefine) drop pool-list $2 ;;
vol-delete) drop vol-list $4 ;;
esac
"""
VAGRANT = f"""\
state=$(dirname "$0")/state
echo "vagrant $*" >>$state/said
case $1 in
--version) exit 0 ;;
up)
	echo "Linux version 0" >$state/console
	echo {MACHINE} >>$state/list
	echo {NAME} >>$state/net-list
	echo default >$state/pool-list
	printf '%s\\n' {VOLUME} {MACHINE}.img >>$state/vol-list
	echo "Waiting for machine to boot."
	. $state/boot
	;;
esac
[ "$1" = box ] # a machine that hangs is not destroyed, and does not go
"""
LIBVIRTD = """\
state=$(dirname "$0")/state
trap 'rm $state/up; exit' TERM
touch $state/up
while :; do sleep 0.1; done
"""
IP = """\
state=$(dirname "$0")/state
echo "ip $*" >>$state/said
[ "$1 $2" = "netns exec" ] && shift 3 && exec "$@"
exit 0
"""
# A lock of the test's own: a run may be measuring on this machine.
PROVE = """
import sys
from tests.box import __main__, prove
sys.argv.pop(1)
prove.CONSOLE = prove.Path(sys.argv.pop(1))
prove.REPOSITORY = prove.CONSOLE.parent  # nobody reads the checkout
sys.exit(__main__.main(sys.argv[1:]))
"""
HANGS = "touch $state/booting; exec sleep 600"
FAILS = "exit 3"


class Stage:
    """Stand-ins, a box, and a proof of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "bin/state"
        self.out = folder / "out"
        self.state.mkdir(parents=True)
        for name in LISTS:
            (self.state / name).touch()
        for name, text in (
            *(
                ("virsh", VIRSH),
                ("vagrant", VAGRANT),
                ("ip", IP),
                ("rsync", ""),
                ("qemu-system-x86_64", ""),
            ),
            *(("libvirtd", LIBVIRTD), ("virtlogd", "exec sleep 600")),
        ):
            program = folder / "bin" / name
            program.write_text(f"#!/bin/sh\n{text}", encoding="utf-8")
            program.chmod(0o755)
        with tarfile.open(folder / "a.box", "w"):
            pass

    def start(self, boot: str, *options: str, libvirt: bool = True) -> subprocess.Popen[str]:
        """A proof of the box, in which `vagrant up` goes on with `boot`."""
        (self.state / "boot").write_text(boot, encoding="utf-8")
        if libvirt:
            (self.state / "up").touch()
            (self.state / "pool-list").write_text("default\n", encoding="utf-8")
        return subprocess.Popen(
            [
                *(sys.executable, "-B", "-P", "-c", PROVE, f"{NAME}-{os.getpid()}"),
                str(self.state / "console"),
                *(str(self.folder / "a.box"), "--out", str(self.out), "--driver", "kvm"),
                *options,
            ],
            env=os.environ
            | {
                "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
                "PYTHONPATH": str(REPOSITORY),
                "PATHCOST_CACHE": str(self.folder / "cache"),
            },
            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def wait_for_boot(self, process: subprocess.Popen[str]) -> None:
        while not (self.state / "booting").exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)

    def said(self) -> list[str]:
        return (self.state / "said").read_text(encoding="utf-8").splitlines()

    def left(self) -> dict[str, str]:
        """What libvirt would list, and what lies about."""
        listed = {name: (self.state / name).read_text(encoding="utf-8") for name in LISTS}
        return {name: text for name, text in listed.items() if text} | {
            path.name: "" for path in self.folder.glob(".*")
        }


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


ONLY_THE_POOL = {"pool-list": "default\n"}


def test_a_machine_that_hangs_is_ended_and_removed(stage: Stage) -> None:
    process = stage.start(HANGS, "--patience", "0.02")
    _, words = process.communicate()
    assert process.returncode == 1
    assert words.startswith("pathcost: 'vagrant up --provider=libvirt' hangs: it has not ended")
    assert words.endswith("give it more time with --patience.\n")
    assert stage.left() == ONLY_THE_POOL


def test_a_machine_that_fails_says_where_to_look(stage: Stage) -> None:
    process = stage.start(FAILS)
    _, words = process.communicate()
    assert process.returncode == 1
    assert words == (
        "pathcost: the box does not pass: 'vagrant up --provider=libvirt' ended with 3: see "
        f"{stage.out}/transcript.txt and the machine's console, {stage.out}/console.log.\n"
    )
    assert (stage.out / "console.log").read_text(encoding="utf-8") == "Linux version 0\n"
    assert "Waiting for machine" in (stage.out / "transcript.txt").read_text(encoding="utf-8")
    assert stage.left() == ONLY_THE_POOL


def test_an_interrupted_proof_leaves_nothing(stage: Stage) -> None:
    process = stage.start(HANGS)
    stage.wait_for_boot(process)
    process.send_signal(signal.SIGTERM)
    _, words = process.communicate()
    assert process.returncode == 130
    assert words == (
        f"pathcost: interrupted; the machine is removed, and what was printed is in {stage.out}.\n"
    )
    assert stage.left() == ONLY_THE_POOL


def test_what_a_killed_proof_leaves_the_next_one_removes(stage: Stage) -> None:
    process = stage.start(HANGS)
    stage.wait_for_boot(process)
    process.kill()
    process.communicate()
    assert stage.left()["list"] == f"{MACHINE}\n"
    assert any(name.startswith(f".{NAME}") for name in stage.left())
    (stage.state / "said").unlink()
    stage.out = stage.folder / "next"
    stage.start(FAILS).communicate()
    assert stage.said().index(f"virsh destroy {MACHINE}") < stage.said().index(
        "vagrant up --provider=libvirt"
    )
    assert stage.left() == ONLY_THE_POOL


def test_a_libvirt_of_our_own_goes_with_all_that_it_made(stage: Stage) -> None:
    stage.start(FAILS, libvirt=False).communicate()
    said = stage.said()
    assert f"ip netns add {NAME}" in said
    assert any(f"exec {NAME}" in line and "vagrant up" in line for line in said)
    assert said[-1] == f"ip netns delete {NAME}"
    assert stage.left() == {}  # the pool neither: Vagrant has made it
    assert not (stage.state / "up").exists()


def test_two_proofs_at_once_would_remove_each_others_machine(stage: Stage) -> None:
    first = stage.start(HANGS)
    stage.wait_for_boot(first)
    stage.out = stage.folder / "second"
    try:
        _, words = stage.start(FAILS).communicate()
        assert words.startswith(
            f"pathcost: another run is measuring on this machine (process {first.pid}"
        )
        assert not stage.out.exists()
        assert stage.left()["list"] == f"{MACHINE}\n"
    finally:
        first.terminate()
        first.communicate()
