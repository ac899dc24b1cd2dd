# SPDX-License-Identifier: GPL-2.0-or-later
"""Prove that the Vagrantfile works: boot a box of Debian 13 as a student does, and measure in it.

    sudo python3 -B -m tests.box.prove BOX --out FOLDER [--driver qemu] [-- option of run.sh …]
    sudo python3 -B -m tests.box.prove --emulator /opt/pathcost-qemu

BOX is a file, or the name of a public box. It needs vagrant-libvirt, a libvirt that runs, and some
minutes. With driver qemu libvirt starts the guest's own QEMU, as it does from the folder that
--emulator makes: QEMU 7.2 emulates cmpxchg16b wrongly, and kernels died under it.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from runners import guest
from runners.guest.debian import LIBRARIES
from runners.process import REPOSITORY, command
from runners.store.folders import invoker

NAME = "pathcost-proof"  # of box and folder, and so of machine and volumes
PROGRAM = "qemu-system-x86_64"
# Where QEMU finds this name beside its loader, it takes modules and firmware only from below it.
# Without it, QEMU would load the modules of the host's QEMU, of any release, and end.
BUNDLE = "qemu-bundle"
# libvirt starts a single program and adds options.
START = f"""\
#!/bin/sh
libraries=$(dirname "$(readlink -f "$0")")/root/{LIBRARIES}
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" \\
	"$libraries/{BUNDLE}/usr/bin/{PROGRAM}" "$@"
"""
LEFT_AT_HOME = (".git", "build", "__pycache__", ".*_cache", ".vagrant", "20*")
ABOUT = "uname -r; grep PRETTY /etc/os-release; systemd-detect-virt"
SSH = "vagrant ssh --no-tty -c"
SECONDS = 3600  # of a boot or a measurement: an emulated machine takes 68 and 191


def write_emulator(folder: Path) -> Path:
    """Put the guest's QEMU into the new `folder`: the program for libvirt, which starts it there.

    libvirt's own user must be able to traverse the folders above it.
    """
    qemu = guest.prepare(invoker().cache, say=print).qemu
    shutil.copytree(qemu.root, folder / "root", symlinks=True)
    (folder / "root" / LIBRARIES / BUNDLE).symlink_to("../../..")
    program = folder / PROGRAM
    program.write_text(START, encoding="ascii")
    for path in (folder, folder / "root", program):
        path.chmod(0o755)
    subprocess.run([program, "--version"], check=True)
    return program


def prove(box: str, out: Path, driver: str, options: list[str]) -> None:
    """Do what a student types; the transcript and the report are in the new folder `out`."""
    out.mkdir()
    with tempfile.TemporaryDirectory(prefix=f"{NAME}-", dir=out.parent) as name:
        home = Path(name)
        home.chmod(0o755)
        ignore = shutil.ignore_patterns(*LEFT_AT_HOME)
        checkout = Path(shutil.copytree(REPOSITORY, home / NAME, symlinks=True, ignore=ignore))
        own = {"VAGRANT_HOME": name, "VAGRANT_CHECKPOINT_DISABLE": "1", "PATHCOST_DRIVER": driver}
        if driver == "qemu":
            own["PATHCOST_EMULATOR"] = str(write_emulator(home / "qemu"))
        if Path(box).is_file():
            own |= {"PATHCOST_BOX": NAME, "PATHCOST_BOX_URL": str(Path(box).absolute())}
        else:
            own["PATHCOST_BOX"] = box
        measure = shlex.quote(shlex.join(["sudo", "/vagrant/runners/run.sh", *options]))
        try:
            for line in ("vagrant up --provider=libvirt", f"{SSH} '{ABOUT}'", f"{SSH} {measure}",
                         f"{SSH} 'tar -C /vagrant -c reports' | tar -x"):  # fmt: skip
                run(line, checkout, own, out)
            judge(checkout, out)
        finally:
            run("vagrant destroy --force", checkout, own, out)


def run(line: str, checkout: Path, own: dict[str, str], out: Path) -> None:
    """Run a line of bash; the terminal and the transcript get its output."""
    limit = ["timeout", "--signal=KILL", str(SECONDS), "bash", "-o", "pipefail", "-c"]
    text = f"{{ echo {shlex.quote(f'$ {line}')}; {line}; }} 2>&1 | tee -a {out}/transcript.txt"
    subprocess.run(command([*limit, text]), cwd=checkout, env=os.environ | own, check=True)


def judge(checkout: Path, out: Path) -> None:
    """Keep the report that came back, and check it."""
    (report,) = (checkout / "reports").glob("20*")
    manifest = json.loads((report / "run.json").read_text(encoding="utf-8"))
    assert {target["probe_level"] for target in manifest["targets"]} == {"function"}
    assert all((report / name).stat().st_size for name in ("report.html", "measurements.csv"))
    shutil.move(report, out / "run")
    print(f"passed: {manifest['targets'][0]['kernel']}, {manifest['seconds']} s")


def main(argv: list[str]) -> None:
    end = argv.index("--") if "--" in argv else len(argv)
    parser = argparse.ArgumentParser("python3 -B -m tests.box.prove", description=__doc__)
    parser.add_argument("box", nargs="?")
    parser.add_argument("--out", type=Path, help="a new folder: transcript and report")
    parser.add_argument("--driver", choices=("kvm", "qemu"), default="kvm")
    parser.add_argument("--emulator", type=Path, help="only make this folder")
    given = parser.parse_args(argv[:end])
    if given.emulator:
        print(f"export PATHCOST_EMULATOR={write_emulator(given.emulator.absolute())}")
    elif given.box and given.out:
        prove(given.box, given.out.absolute(), given.driver, argv[end + 1 :])
    else:
        parser.error("name a box, and --out")


if __name__ == "__main__":
    main(sys.argv[1:])
