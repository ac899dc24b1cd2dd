# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line of box.sh: make a box, prove that it works, make an emulator for it."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from runners.box import disk, emulator, room, root
from runners.box.prove import PATIENCE_MINUTES, prove
from runners.errors import RunError, UsageError
from runners.guest.errors import GuestError
from runners.guest.kernels import DEFAULT as DEFAULT_KERNEL
from runners.guest.process import find_program
from runners.invoker import invoker
from runners.leftovers import journal, sweep
from runners.progress import Progress

DONE, FAILED, IMPOSSIBLE, INTERRUPTED = 0, 1, 2, 130
PROGRAMS = ("mmdebstrap", "mke2fs", "qemu-img", "tar")  # now, rather than after minutes
ROOM, GUEST_ROOM = 5 << 30, 2 << 30  # beside the box: root, disk, and what is packed from them
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Parser(argparse.ArgumentParser):
    """argparse, but a mistake is one sentence and not a page of usage."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see ./runners/box.sh --help).")


def main(argv: list[str]) -> int:
    """Exit status: 0 done, 1 failed, 2 asked for something impossible, 130 interrupted."""
    for number in SIGNALS:
        signal.signal(number, _interrupt)
    end = argv.index("--") if "--" in argv else len(argv)
    try:
        given = _parser().parse_args(argv[:end])
        if given.action == "make":
            make(given.box.absolute(), given.guest)
        elif given.action == "emulator":
            emulate(given.folder.absolute())
        else:
            box, out = given.box.absolute(), given.out.absolute()
            prove(box, out, given.driver, argv[end + 1 :], given.patience)
    except UsageError as error:
        return _complain(error, IMPOSSIBLE)
    except (RunError, GuestError) as error:
        return _complain(error, FAILED)
    except OSError as error:
        return _complain(room.sentence(error), FAILED)
    except KeyboardInterrupt as interruption:
        return _complain(str(interruption) or "interrupted; nothing was kept.", INTERRUPTED)
    return DONE


def _parser() -> Parser:
    parser = Parser(
        prog="box.sh", description="A Vagrant box for libvirt, and the proof that it works."
    )
    actions = parser.add_subparsers(dest="action", required=True)
    making = actions.add_parser("make", help="make a box of Debian 13 with all that pathcost needs")
    making.add_argument(
        "box",
        type=Path,
        help="the file to write, e.g. pathcost.box; replaced by the whole new one",
    )
    making.add_argument(
        "--guest",
        action="store_true",
        help="also the guest of --lane vm and --exact, for offline use",
    )
    proving = actions.add_parser("prove", help="boot a box by Vagrant and measure in it")
    proving.add_argument("box", type=Path)
    proving.add_argument(
        "--out", type=Path, required=True, help="a new folder: transcript, console, report"
    )
    proving.add_argument("--driver", choices=("kvm", "qemu"), help="default: kvm where it boots")
    proving.add_argument(
        "--patience", type=float, default=PATIENCE_MINUTES, metavar="MINUTES",
        help="a boot, or a run.sh, that takes longer hangs (default: %(default)g)",
    )  # fmt: skip
    proving.epilog = "Options after -- go to run.sh in the machine."
    emulating = actions.add_parser("emulator", help="QEMU 10 for libvirt, where KVM is missing")
    emulating.add_argument("folder", type=Path, help="a new folder, e.g. /opt/pathcost-qemu")
    return parser


def _interrupt(*_: object) -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # nobody else would clear up
    raise KeyboardInterrupt


def _complain(what: object, status: int) -> int:
    print(f"pathcost: {what}", file=sys.stderr)
    return status


def emulate(folder: Path) -> None:
    """Put QEMU where libvirt can start it. Raises UsageError, RunError, GuestError, OSError."""
    emulator.check_reachable(folder, "name another folder, e.g. /opt/pathcost-qemu")
    progress = Progress()
    with progress.step("box: emulator"):
        made = emulator.install(folder, invoker().cache, progress.say)
    progress.note(f"export PATHCOST_EMULATOR={made}")


def make(box: Path, with_guest: bool) -> None:
    """Write the box. Raises UsageError, RunError, GuestError, OSError."""
    instead = "name a box elsewhere"
    if box.is_dir():
        raise UsageError(f"{box} is a folder: name a file, e.g. {box.name}.box.")
    if os.geteuid() != 0:
        raise RunError("a box is an installed Debian, which only root can make: run it with sudo.")
    for program in PROGRAMS:
        find_program(program)
    room.check(box.parent, ROOM + GUEST_ROOM * with_guest, "a box", instead)
    who, progress = invoker(), Progress()
    who.make(who.cache / "running")
    with journal(who.cache) as notes:
        sweep(who.cache)
        # Beside the box: /tmp may have too little room, or no devices.
        scratch = notes.add(box.parent / f".pathcost-box-{os.getpid()}")
        with room.written(box.parent, instead):
            scratch.mkdir()
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
