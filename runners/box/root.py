# SPDX-License-Identifier: GPL-2.0-or-later
"""The box's root: Debian 13 installed by mmdebstrap, with everything that set-up would fetch.

The guest's own image is no root for this: its packages are unpacked and not installed, so it has
neither users nor services. What both share is where packages come from, and how disks are written.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

from runners import guest
from runners.errors import RunError
from runners.guest.cache import Say
from runners.guest.debian import find_mirror, kept_configuration
from runners.guest.image import DISK_ID
from runners.guest.process import SEARCH, environment, find_program
from runners.guest.workshop import TRIXIE
from runners.lanes import REPOSITORY, source_only
from runners.process import command

INSIDE = Path(__file__).parent / "inside.sh"
LOCK_READER = Path(__file__).parent / "lock.py"
PYTHON = "3.13"  # Debian 13's, whatever this machine has
# Beside what runners/setup.sh installs: a machine that boots, that Vagrant reaches, to work in.
PACKAGES = (
    "ca-certificates", "dbus", "git", "grub-common", "grub-pc-bin", "iproute2", "kmod", "less",
    "linux-image-cloud-amd64", "nano", "openssh-server", "procps", "rsync", "sudo",
    "systemd-resolved", "systemd-sysv", "udev", "vim-tiny", "zstd",
)  # fmt: skip
LEFT_OUT = ("/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/man/*")
HOME_CACHE = Path("home/vagrant/.cache/pathcost")


def install(root: Path, scratch: Path, say: Say) -> None:
    """Fill `root`. Needs root. Raises RunError, GuestError."""
    say("box: fetching the Python packages")
    wheels = _fetch_wheels(scratch / "wheels")
    payload = scratch / "payload.tar"
    with tarfile.open(payload, "w") as tar:
        for folder in ("runners", "probes"):
            tar.add(REPOSITORY / folder, f"pathcost/repository/{folder}", filter=source_only)
        tar.add(wheels, "pathcost/wheels")
    say("box: installing Debian 13, and what runners/setup.sh asks for")
    mirror = find_mirror()
    hooks = [
        f"tar-in {payload} /",
        'chroot "$1" sh /pathcost/repository/runners/box/inside.sh ' + f"{DISK_ID:08x}-01",
    ]
    _run_with_log(
        [
            find_program("mmdebstrap"), "--mode=root", "--variant=minbase", "--skip=check/qemu",
            f"--include={','.join(PACKAGES)}",
            *(f"--aptopt={line}" for line in kept_configuration()),
            *(f"--dpkgopt=path-exclude={path}" for path in LEFT_OUT),
            *(f"--customize-hook={hook}" for hook in hooks),
            "trixie", str(root), *(mirror.line(suite) for suite in TRIXIE),
        ],
        "install Debian 13 for the box", scratch / "mmdebstrap.log",
    )  # fmt: skip


def add_guest(root: Path, cache: Path, kernel: str, say: Say) -> None:
    """Put what `--lane vm` and `--exact` boot into the box's cache, so that both work offline."""
    machine = guest.prepare(cache, kernel, say)
    entries = (machine.image.file.parent, machine.kernel.file.parent, machine.qemu.root.parent)
    target = root / HOME_CACHE
    owner = target.stat()
    for entry in entries:
        shutil.copytree(entry, target / entry.name, symlinks=True)
        for path in (target / entry.name, *(target / entry.name).rglob("*")):
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _fetch_wheels(folder: Path) -> Path:
    """The Python packages as files, so that neither certificates nor pip's settings of this machine
    have to go into the box.
    """
    done = subprocess.run(
        command([str(REPOSITORY / "runners/setup.sh"), "--analysis"]),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RunError("set-up failed; its own words stand above.")
    python = Path(done.stdout.splitlines()[-1], "bin/python")
    wanted, lock = folder.with_suffix(".txt"), REPOSITORY / "runners/requirements.lock"
    choose = [str(python), "-B", str(LOCK_READER), str(lock), PYTHON]
    _run_with_log(choose, "read the lock file", wanted)
    download = [
        str(python), "-m", "pip", "--disable-pip-version-check", "download", "--quiet",
        "--require-hashes", "--no-deps", "--only-binary=:all:", "--python-version", PYTHON,
        "-r", str(wanted), "-d", str(folder),
    ]  # fmt: skip
    _run_with_log(
        download, "fetch the Python packages", folder.with_suffix(".log"), dict(os.environ)
    )
    return folder


def _run_with_log(
    argv: list[str], purpose: str, log: Path, env: dict[str, str] | None = None
) -> None:
    """Run it with its words in `log`; where it fails, the last of them are shown."""
    with log.open("w") as words:
        status = subprocess.run(
            command(argv), stdin=subprocess.DEVNULL, stdout=words, stderr=words, check=False,
            env=env or environment(PATH=SEARCH, DEBIAN_FRONTEND="noninteractive"),
        ).returncode  # fmt: skip
    if status != 0:
        last = log.read_text(errors="replace").strip().splitlines()[-12:]
        raise RunError(
            "\n".join([f"cannot {purpose}: status {status}.", *(f"  | {line}" for line in last)])
        )
