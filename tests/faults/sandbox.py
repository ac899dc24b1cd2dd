# SPDX-License-Identifier: GPL-2.0-or-later
"""A place where a run can do its worst: mounts, network and cache of its own, on this kernel.

/tmp, /run/pathcost and the network are private, so that a snapshot shows what our runs leave
and nothing of anybody else's. The cache is an overlay over the user's, so that damage goes with
it; what undisturbed runs add to it lies in a layer between, and stays. What is left of the machine
is one for all: the kernel with its probes and tracers.
"""

import atexit
import os
import pwd
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.faults.machine import Snapshot, become_subreaper, descendants, snapshot

CHECKOUT = Path(__file__).resolve().parents[2]
INSIDE = "PATHCOST_FAULTS_INSIDE"
# What a sudo without further settings leaves of the environment.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
FOLDERS = ("cache", "checkout", "made", "out", "small", "tracefs", "upper", "warm", "work")
# The cache and the checkout may lie below /tmp, so they are seen at a second place first.
MOUNTS = """
mount --bind "$CACHE" "$STATE/warm"
mount --bind "$CHECKOUT" "$STATE/checkout"
mkdir -p /run/pathcost
mount -t tmpfs -o mode=1777 own /tmp
mount -t tmpfs -o mode=0755 own /run/pathcost
mount -t tracefs tracefs "$STATE/tracefs"
ip link set lo up
cd /
exec "$@"
"""


@dataclass
class Sandbox:
    """Paths of the campaign: all below one folder outside the checkout and /tmp."""

    state: Path
    user: int
    outside: int = -1  # the machine's own network, where the first run of a checkout downloads

    @property
    def cache(self) -> Path:
        return self.state / "cache"

    @property
    def out(self) -> Path:
        return self.state / "out"

    @property
    def checkout(self) -> Path:
        return self.state / "checkout"

    @property
    def with_network(self) -> list[str]:
        return ["nsenter", f"--net=/proc/{os.getpid()}/fd/{self.outside}", "--"]

    def environment(self, cache: Path) -> dict[str, str]:
        """As sudo gives it to root, for the invoking user."""
        kept = {name: os.environ[name] for name in os.environ if name.startswith("PIP_")}
        user = pwd.getpwuid(self.user)
        sudo = {"SUDO_UID": str(user.pw_uid), "SUDO_GID": str(user.pw_gid)} if self.user else {}
        names = {"HOME": "/root", "LANG": "C.UTF-8", "PATH": PATH}
        return kept | sudo | names | {"PATHCOST_CACHE": str(cache)}

    def look(self) -> Snapshot:
        return snapshot(self.cache, self.out, self.state / "tracefs")

    def fresh_out(self) -> None:
        """An empty folder of the user's for what runs write."""
        self._empty("out")

    def fresh_cache(self, *, keep: bool = False) -> None:
        """The cache without what was written or damaged since; to `keep` what is written now."""
        subprocess.run(["umount", "--quiet", "--lazy", self.cache], check=False)
        if keep:
            lower, upper = str(self.state / "warm"), "made"
        else:
            lower, upper = f"{self.state}/made:{self.state}/warm", "upper"
            self._empty("upper")
        self._empty("work")
        layers = f"lowerdir={lower},upperdir={self.state / upper},workdir={self.state / 'work'}"
        subprocess.run(["mount", "-t", "overlay", "-o", layers, "overlay", self.cache], check=True)

    def _empty(self, name: str) -> None:
        shutil.rmtree(self.state / name, ignore_errors=True)
        (self.state / name).mkdir()
        os.chown(self.state / name, self.user, pwd.getpwuid(self.user).pw_gid)


def enter(state: Path, cache: Path) -> Sandbox:
    """Start this command again in namespaces of its own, where it is not there already."""
    if os.geteuid() != 0:
        sys.exit("The fault campaign needs root: run it with sudo.")
    if INSIDE not in os.environ:
        _fill_and_start(state, cache)
    os.chdir("/")
    sandbox = Sandbox(state, *map(int, os.environ.pop(INSIDE).split()))
    become_subreaper()
    atexit.register(_end_all)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    sandbox.fresh_out()
    return sandbox


def _fill_and_start(state: Path, cache: Path) -> None:
    """Fill the user's cache with what needs a network, and go in."""
    cache.mkdir(parents=True, exist_ok=True)
    sandbox = Sandbox(state, cache.stat().st_uid)
    for name in FOLDERS:
        (state / name).mkdir(parents=True, exist_ok=True)
    os.chown(state / "made", sandbox.user, pwd.getpwuid(sandbox.user).pw_gid)
    set_up = [str(CHECKOUT / "runners/setup.sh"), "--exact", "--guest"]
    subprocess.run(set_up, env=sandbox.environment(cache), stdout=subprocess.DEVNULL, check=True)
    python = Path(sys.executable)
    if python.is_relative_to(cache):
        python = state / "warm" / python.relative_to(cache)
    outside = os.open("/proc/self/ns/net", os.O_RDONLY)
    os.set_inheritable(outside, True)
    here = {"STATE": str(state), "CACHE": str(cache), "CHECKOUT": str(CHECKOUT)}
    here |= {INSIDE: f"{sandbox.user} {outside}", "PYTHONPATH": str(sandbox.checkout)}
    apart = ["unshare", "--mount", "--net", "--propagation", "private"]
    again = [
        *apart,
        "--",
        "sh",
        "-ec",
        MOUNTS,
        "sh",
        str(python),
        "-B",
        "-m",
        "tests.faults.campaign",
    ]
    os.execvpe(again[0], [*again, *sys.argv[1:]], os.environ | here)


def _end_all() -> None:
    """A campaign that is ended takes its runs with it."""
    for process in descendants():
        with suppress(psutil.NoSuchProcess):
            process.kill()
