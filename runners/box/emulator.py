# SPDX-License-Identifier: GPL-2.0-or-later
"""Puts the guest's own QEMU (runners/guest/qemu.py) in a folder where libvirt can start it.

This is for machines without KVM whose QEMU is older than 10: QEMU 7.2 emulates cmpxchg16b wrongly,
and kernels died under it while probes were attached.
"""

import shutil
import stat
from pathlib import Path

from runners.box import disk
from runners.guest.cache import Cache, Say
from runners.guest.debian import PackageSources
from runners.guest.process import attempt
from runners.guest.qemu import LIBRARIES, Qemu, prepare_qemu
from runners.process import RunError, UsageError

PROGRAM = "qemu-system-x86_64"
# Where QEMU finds this name beside its program (here: beside the loader), it takes modules and
# firmware only from below it. Without it, QEMU would load the modules of the host's QEMU, of any
# release, as soon as libvirt lists all devices, and end.
BUNDLE = "qemu-bundle"
# libvirt starts a single program and adds options.
START = f"""\
#!/bin/sh
libraries=$(dirname "$(readlink -f "$0")")/root/{LIBRARIES}
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" \\
	"$libraries/{BUNDLE}/usr/bin/{PROGRAM}" "$@"
"""
SPACE = 1 << 30  # QEMU has 96 MB, and the cache may have to make it first


def install(folder: Path, cache: Path, say: Say) -> Path:
    """Fill the new `folder`. Returns the program for libvirt, which needs nothing of this machine.

    Raises UsageError, RunError, RunError, OSError.
    """
    instead = "name another folder"
    if folder.exists():
        raise UsageError(f"{folder} is there already, and nothing in it was touched: {instead}.")
    disk.check_room(folder.parent, SPACE, "QEMU", instead)
    with disk.written(folder.parent, instead):
        folder.mkdir()
    try:
        with Cache(cache, say) as store, PackageSources(store) as sources:
            qemu = prepare_qemu(store, sources)
        return _write(qemu, folder)
    except BaseException:
        shutil.rmtree(folder)
        raise


def check_reachable(folder: Path, instead: str) -> None:
    """Raises UsageError where libvirt's own user could not start programs in `folder`."""
    for above in folder.parents:
        if above.is_dir() and not above.stat().st_mode & stat.S_IXOTH:
            raise UsageError(
                f"{above} lets no other user pass, and libvirt's own has to start QEMU below it: "
                f"{instead}."
            )


def _write(qemu: Qemu, folder: Path) -> Path:
    shutil.copytree(qemu.root, folder / "root", symlinks=True)
    (folder / "root" / LIBRARIES / BUNDLE).symlink_to("../../..")
    program = folder / PROGRAM
    program.write_text(START, encoding="ascii")
    for path in (folder, folder / "root", program):
        path.chmod(0o755)  # whatever our umask is: other users start it
    done = attempt([str(program), "--version"])
    if done.returncode != 0:
        raise RunError(f"the copied QEMU does not start: {done.stderr.strip()}.")
    return program
