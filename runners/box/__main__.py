# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line of box.sh: make a box, prove that it works, make an emulator for it."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from pathlib import Path

from runners.box import disk, emulator, root
from runners.box.prove import prove
from runners.errors import RunError
from runners.guest.errors import GuestError
from runners.guest.process import find_program
from runners.invoker import invoker
from runners.options import DEFAULT_KERNEL
from runners.progress import Progress

DONE, FAILED, INTERRUPTED = 0, 1, 130
PROGRAMS = ("mmdebstrap", "mke2fs", "qemu-img", "tar")  # now, rather than after minutes


def main(argv: list[str]) -> int:
    """Exit status: 0 done, 1 failed, 2 asked for something impossible, 130 interrupted."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    parser = argparse.ArgumentParser(
        prog="box.sh", description="A Vagrant box for libvirt, and the proof that it works."
    )
    actions = parser.add_subparsers(dest="action", required=True)
    making = actions.add_parser("make", help="make a box of Debian 13 with all that pathcost needs")
    making.add_argument("box", type=Path, help="the file to write, e.g. pathcost.box")
    making.add_argument(
        "--guest",
        action="store_true",
        help="also the guest of --lane vm and --exact, for offline use",
    )
    proving = actions.add_parser("prove", help="boot a box by Vagrant and measure in it")
    proving.add_argument("box", type=Path)
    proving.add_argument("--out", type=Path, required=True, help="a new folder: transcript, report")
    proving.add_argument("--driver", choices=("kvm", "qemu"), help="default: kvm where it boots")
    proving.epilog = "Options after -- go to run.sh in the machine."
    emulating = actions.add_parser("emulator", help="QEMU 10 for libvirt, where KVM is missing")
    emulating.add_argument("folder", type=Path, help="a new folder, e.g. /opt/pathcost-qemu")
    end = argv.index("--") if "--" in argv else len(argv)
    given, options = parser.parse_args(argv[:end]), argv[end + 1 :]
    try:
        if given.action == "make":
            make(given.box.absolute(), given.guest)
        elif given.action == "emulator":
            progress = Progress()
            with progress.step("box: emulator"):
                made = emulator.install(given.folder.absolute(), invoker().cache, progress.say)
            progress.note(f"export PATHCOST_EMULATOR={made}")
        else:
            prove(given.box.absolute(), given.out.absolute(), given.driver, options)
    except (RunError, GuestError, OSError) as error:
        print(f"pathcost: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("pathcost: interrupted; nothing was kept.", file=sys.stderr)
        return INTERRUPTED
    return DONE


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def make(box: Path, with_guest: bool) -> None:
    """Write the box. Raises RunError, GuestError, OSError."""
    if os.geteuid() != 0:
        raise RunError("a box is an installed Debian, which only root can make: run it with sudo.")
    for program in PROGRAMS:
        find_program(program)
    who, progress = invoker(), Progress()
    # Beside the box: /tmp may have too little room, or no devices.
    with tempfile.TemporaryDirectory(prefix=".pathcost-box-", dir=box.parent) as folder:
        scratch = Path(folder)
        scratch.chmod(0o755)
        system = scratch / "root"
        with progress.step("box: root"):
            root.install(system, scratch, progress.say)
        if with_guest:
            with progress.step("box: guest"):
                root.add_guest(system, who.cache, DEFAULT_KERNEL, progress.say)
        with progress.step("box: disk"):
            disk.write_bootable(system, scratch / "disk.raw")
        with progress.step("box: packing"):
            disk.pack(scratch / "disk.raw", box, scratch)
    who.own(box)
    progress.note(f"{box}: {box.stat().st_size >> 20} MiB")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
