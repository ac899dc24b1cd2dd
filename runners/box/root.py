# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes the box's root: Debian 13 installed by mmdebstrap, with everything that set-up fetches.

The guest's own image cannot serve as the root: its packages are unpacked and not installed, so it
has neither users nor services. Both take packages from the same mirror, and write disks alike.
"""

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

from runners import guest
from runners.guest.cache import Say
from runners.guest.debian import TRIXIE, find_mirror, kept_configuration
from runners.guest.image import DISK_ID
from runners.guest.process import SEARCH, environment, find_program
from runners.process import REPOSITORY, RunError, attempt, command
from runners.run import source_only

INSIDE = Path(__file__).parent / "inside.sh"
LOCK_READER = Path(__file__).parent / "lock.py"
PYTHON = "3.13"  # of Debian 13, whatever this machine has
# Beside the packages of runners/setup.sh: to boot, to be reached by Vagrant, to work with.
PACKAGES = (
    "ca-certificates", "dbus", "git", "grub-common", "grub-pc-bin", "iproute2", "kmod", "less",
    "linux-image-cloud-amd64", "nano", "openssh-server", "procps", "rsync", "sudo",
    "systemd-resolved", "systemd-sysv", "udev", "vim-tiny", "zstd",
)  # fmt: skip
LEFT_OUT = ("/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/man/*")
HOME_CACHE = Path("home/vagrant/.cache/pathcost")


def install(root: Path, scratch: Path, say: Say) -> None:
    """Fill the folder `root`. Needs root. Raises RunError, RunError."""
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
    """Copy what `--target guest` and `--exact` boot to the box's cache, for work offline."""
    machine = guest.prepare(cache, kernel, say)
    entries = (machine.image.file.parent, machine.kernel.file.parent, machine.qemu.root.parent)
    target = root / HOME_CACHE
    owner = target.stat()
    for entry in entries:
        shutil.copytree(entry, target / entry.name, symlinks=True)
        for path in (target / entry.name, *(target / entry.name).rglob("*")):
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _fetch_wheels(folder: Path) -> Path:
    """Fetch the Python packages as files, so that the box needs no certificates or pip settings."""
    setup = [REPOSITORY / "runners/setup.sh", "--analysis"]
    done = attempt(setup, stderr=None)
    if done.returncode != 0:
        raise RunError("set-up failed: see its output above.")
    python = Path(done.stdout.splitlines()[-1], "bin/python")
    wanted, lock = folder.with_suffix(".txt"), REPOSITORY / "runners/requirements.lock"
    choose = [str(python), "-B", str(LOCK_READER), str(lock), PYTHON]
    _run_with_log(choose, "read the lock file", wanted)
    download = [
        str(python), "-m", "pip", "--disable-pip-version-check", "download", "--quiet",
        "--require-hashes", "--no-deps", "--only-binary=:all:", "--python-version", PYTHON,
        "-r", str(wanted), "-d", str(folder),
    ]  # fmt: skip
    log = folder.with_suffix(".log")
    _run_with_log(download, "fetch the Python packages", log, dict(os.environ))
    return folder


def _run_with_log(
    argv: list[str], purpose: str, log: Path, env: dict[str, str] | None = None
) -> None:
    """Run a command with its output in `log`; if it fails, show the last lines."""
    with log.open("w") as words:
        status = subprocess.run(
            command(argv), stdin=subprocess.DEVNULL, stdout=words, stderr=words, check=False,
            env=env or environment(PATH=SEARCH, DEBIAN_FRONTEND="noninteractive"),
        ).returncode  # fmt: skip
    if status != 0:
        lines = [f"  | {line}" for line in log.read_text(errors="replace").strip().splitlines()]
        raise RunError("\n".join([f"cannot {purpose}: status {status}.", *lines[-12:]]))
