# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest's own QEMU (runners/guest/qemu.py) in a folder where libvirt can start it.

For machines without KVM whose QEMU is older than 10: 7.2 emulates cmpxchg16b wrongly, and kernels
died under it while probes were attached.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from runners.collect.children import command
from runners.errors import RunError
from runners.guest.cache import Cache, Say
from runners.guest.process import environment
from runners.guest.qemu import LIBRARIES, Qemu, prepare_qemu
from runners.guest.workshop import workshop

MODULES = f"{LIBRARIES}/qemu"
PROGRAM = "qemu-system-x86_64"
# libvirt starts one program and adds options, so libraries, modules and firmware are named here.
START = f"""\
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")/root
export QEMU_MODULE_DIR="$here/{MODULES}"
exec "$here/{LIBRARIES}/ld-linux-x86-64.so.2" --library-path "$here/{LIBRARIES}" \\
	"$here/usr/bin/{PROGRAM}" -L "$here/usr/share/qemu" -L "$here/usr/share/seabios" "$@"
"""


def install(folder: Path, cache: Path, say: Say) -> Path:
    """Fill the new `folder`; what libvirt has to start. Raises RunError, GuestError, OSError.

    libvirt's own user starts it, so every folder above has to let others pass.
    """
    if folder.exists():
        raise RunError(f"{folder} is there already, and nothing in it was touched: name a new one.")
    with Cache(cache, say) as store, workshop(store) as shop:
        qemu = prepare_qemu(store, shop)
    folder.mkdir()
    try:
        return _write(qemu, folder)
    except BaseException:
        shutil.rmtree(folder)
        raise


def _write(qemu: Qemu, folder: Path) -> Path:
    shutil.copytree(qemu.root, folder / "root", symlinks=True)
    # A module that is not here QEMU seeks in the system's folder, and ends where it finds another
    # release's there, as soon as libvirt asks for all devices. An empty file is merely reported.
    for module in Path("/", MODULES).glob("*.so"):
        (folder / "root" / MODULES / module.name).touch()
    program = folder / PROGRAM
    program.write_text(START, encoding="ascii")
    program.chmod(0o755)
    done = subprocess.run(
        command([str(program), "--version"]), capture_output=True, text=True, env=environment()
    )
    if done.returncode != 0:
        raise RunError(f"the copied QEMU does not start: {done.stderr.strip()}.")
    return program
