# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest's own QEMU (runners/guest/qemu.py) in a folder where libvirt can start it.

For machines without KVM whose QEMU is older than 10: 7.2 emulates cmpxchg16b wrongly, and kernels
died under it while probes were attached.
"""

from __future__ import annotations

import shutil
import stat
import subprocess
from pathlib import Path

from runners.box import room
from runners.errors import RunError, UsageError
from runners.guest.cache import Cache, Say
from runners.guest.process import environment
from runners.guest.qemu import LIBRARIES, Qemu, prepare_qemu
from runners.guest.workshop import workshop
from runners.process import command

PROGRAM = "qemu-system-x86_64"
# Where QEMU finds this name beside its program (here: beside the loader), it takes modules and
# firmware from below it alone. Else it would load the modules of the host's QEMU, whatever release
# that is or becomes, as soon as libvirt asks for all devices, and end.
BUNDLE = "qemu-bundle"
# libvirt starts one program and adds options.
START = f"""\
#!/bin/sh
libraries=$(dirname "$(readlink -f "$0")")/root/{LIBRARIES}
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" \\
	"$libraries/{BUNDLE}/usr/bin/{PROGRAM}" "$@"
"""
ROOM = 1 << 30  # 96 MB, and the cache may have to make it first


def install(folder: Path, cache: Path, say: Say) -> Path:
    """Fill the new `folder`; what libvirt has to start. It depends on nothing of this machine.

    Raises UsageError, RunError, GuestError, OSError.
    """
    instead = "name another folder"
    if folder.exists():
        raise UsageError(f"{folder} is there already, and nothing in it was touched: {instead}.")
    room.check(folder.parent, ROOM, "QEMU", instead)
    with room.written(folder.parent, instead):
        folder.mkdir()
    try:
        with Cache(cache, say) as store, workshop(store) as shop:
            qemu = prepare_qemu(store, shop)
        return _write(qemu, folder)
    except BaseException:
        shutil.rmtree(folder)
        raise


def check_reachable(folder: Path, instead: str) -> None:
    """Raises UsageError where libvirt's own user could not start what lies in `folder`."""
    for above in folder.parents:
        if above.is_dir() and not above.stat().st_mode & stat.S_IXOTH:
            raise UsageError(
                f"{above} lets no other user pass, and libvirt's own has to start QEMU below it: "
                f"{instead}."
            )


def _write(qemu: Qemu, folder: Path) -> Path:
    shutil.copytree(qemu.root, folder / "root", symlinks=True)
    (folder / "root" / LIBRARIES / BUNDLE).symlink_to("../../..")
    for one in (folder, folder / "root"):
        one.chmod(0o755)  # whatever our umask: others start it
    program = folder / PROGRAM
    program.write_text(START, encoding="ascii")
    program.chmod(0o755)
    done = subprocess.run(
        command([str(program), "--version"]), capture_output=True, text=True, env=environment()
    )
    if done.returncode != 0:
        raise RunError(f"the copied QEMU does not start: {done.stderr.strip()}.")
    return program
