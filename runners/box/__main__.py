# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line of box.sh: make a box, or an emulator for it."""

import os
import pwd
import sys
from pathlib import Path

from runners.box import disk, emulator, root
from runners.guest.kernels import DEFAULT as DEFAULT_KERNEL
from runners.guest.process import find_program
from runners.process import DONE, STATUS, Parser, Progress, RunError, UsageError, run_main
from runners.store import invoker, scratch

PROGRAMS = ("mmdebstrap", "mke2fs", "qemu-img", "tar")  # check them now, not after minutes
# Bytes beside the box: root, disk, and their packed form.
SPACE, GUEST_SPACE = 5 << 30, 2 << 30


def main(argv: list[str]) -> int:
    """Carry out one action. Returns the exit status."""
    return run_main(lambda: _main(argv))


def _main(argv: list[str]) -> int:
    given = _parser().parse_args(argv)
    try:
        if given.action == "make":
            make(given.box.absolute(), given.guest)
        else:
            emulate(given.folder.absolute())
    except OSError as error:
        raise RunError(disk.refusal(error)) from error
    return DONE


def _parser() -> Parser:
    parser = Parser("box.sh", None, "A Vagrant box for libvirt, and an emulator for it.", STATUS)
    actions = parser.add_subparsers(dest="action", required=True)

    def action(name: str, what: str) -> Parser:
        added: Parser = actions.add_parser(name, help=what, description=what, epilog="")
        return added

    add = action("make", "make a box of Debian 13 with everything that pathcost needs").add_argument
    add("box", type=Path, help="the file to write, e.g. pathcost.box; replaced when complete")
    add(
        "--guest",
        action="store_true",
        help="with the guest of --target guest and --exact, for offline use",
    )
    add = action("emulator", "QEMU 10 for libvirt, for machines without KVM").add_argument
    add("folder", type=Path, help="a new folder, e.g. /opt/pathcost-qemu")
    return parser


def emulate(folder: Path) -> None:
    """Put QEMU where libvirt can start it. Raises UsageError, RunError, RunError, OSError."""
    emulator.check_reachable(folder, "name another folder, e.g. /opt/pathcost-qemu")
    progress = Progress()
    with progress.step("box: emulator"):
        made = emulator.install(folder, invoker().cache, progress.say)
    progress.note(f"export PATHCOST_EMULATOR={made}")


def make(box: Path, with_guest: bool) -> None:
    """Write the box. Raises UsageError, RunError, RunError, OSError."""
    instead = "name a box elsewhere"
    if box.is_dir():
        raise UsageError(f"{box} is a folder: name a file, e.g. {box.name}.box.")
    if os.geteuid() != 0:
        raise RunError("a box is an installed Debian, which only root can make: run it with sudo.")
    for program in PROGRAMS:
        find_program(program)
    disk.check_room(box.parent, SPACE + GUEST_SPACE * with_guest, "a box", instead)
    who, progress = invoker(), Progress()
    # Root's own cache: what lies in the user's may not be what it was.
    cache = who.cache if who.drop is None else Path(pwd.getpwuid(0).pw_dir, ".cache/pathcost")
    with scratch(progress.note) as folders:
        # Beside the box: /tmp may be too small, or allow no devices.
        with disk.written(box.parent, instead):
            made = folders.folder(box.parent, ".box")
        made.chmod(0o755)
        system = made / "root"
        with progress.step("box: root"):
            root.install(system, made, progress.say)
        if with_guest:
            with progress.step("box: guest"):
                root.add_guest(system, cache, DEFAULT_KERNEL, progress.say)
        with progress.step("box: disk"):
            disk.write_bootable(system, made / "disk.raw")
        with progress.step("box: packing"):
            disk.pack(made / "disk.raw", box, made)
    if who.drop:
        os.chown(box, *who.drop, follow_symlinks=False)
    progress.note(f"{box}: {box.stat().st_size >> 20} MiB")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
