# SPDX-License-Identifier: GPL-2.0-or-later
"""A place where a run can do its worst: mounts, network and cache of its own, on this kernel.

/tmp, /run/pathcost and the network are private, so that a snapshot shows what our runs leave
and nothing of anybody else's. The checkout is seen at a second place, as it may lie in /tmp. The
cache is an overlay over a warm one, so that damage goes with it. What is left of the machine is
one for all: the kernel with its probes and tracers.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import os
import pwd
import shutil
import signal
import socket
import struct
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.faults.machine import Places, become_subreaper, descendants, libc

CHECKOUT = Path(__file__).resolve().parents[2]
INSIDE = "PATHCOST_FAULTS_INSIDE"
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40
# What a sudo without further settings leaves of the environment.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Entries that are expensive to make; a cache of our own starts with a copy of the user's.
EXPENSIVE = ("qemu-*", "kernel-*", "image-*", "modules-*", "tools-*", "kvm*.json")
USER = 65534


@dataclass
class Sandbox:
    """Paths of the campaign: all below one folder outside the checkout."""

    state: Path
    user: int
    shared: Path | None = None  # somebody's cache, which nothing may write to
    outside: int = -1  # the machine's own network, where the first run of a checkout downloads

    @property
    def cache(self) -> Path:
        return self.state / "cache"

    @property
    def warm(self) -> Path:
        return self.shared or self.state / "warm"

    @property
    def out(self) -> Path:
        return self.state / "out"

    @property
    def checkout(self) -> Path:
        return self.state / "checkout"

    @property
    def places(self) -> Places:
        return Places(self.cache, self.out, self.state / "tracefs")

    @property
    def with_network(self) -> list[str]:
        return ["nsenter", f"--net=/proc/{os.getpid()}/fd/{self.outside}", "--"]

    @property
    def environment(self) -> dict[str, str]:
        """As sudo gives it to root, for the invoking user."""
        kept = {name: os.environ[name] for name in os.environ if name.startswith("PIP_")}
        user = pwd.getpwuid(self.user)
        sudo = {"SUDO_UID": str(user.pw_uid), "SUDO_GID": str(user.pw_gid)} if self.user else {}
        names = {"HOME": "/root", "LANG": "C.UTF-8", "PATH": PATH}
        return kept | sudo | names | {"PATHCOST_CACHE": str(self.cache)}

    def fresh_out(self) -> None:
        """An empty folder of the user's for what runs write."""
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir()
        self.own(self.out)

    def fresh_cache(self) -> None:
        """The warm cache again, without what was written or damaged since."""
        subprocess.run(["umount", "--quiet", "--lazy", self.cache], check=False)
        upper, work = self.state / "upper", self.state / "work"
        for folder in (upper, work):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        self.own(upper)
        layers = f"lowerdir={self.warm},upperdir={upper},workdir={work}"
        subprocess.run(["mount", "-t", "overlay", "-o", layers, "overlay", self.cache], check=True)

    def warm_cache(self) -> None:
        """The warm cache itself: what a run adds stays in it, if it is ours."""
        if self.shared:
            self.fresh_cache()
            return
        subprocess.run(["umount", "--quiet", "--lazy", self.cache], check=False)
        subprocess.run(["mount", "--bind", self.warm, self.cache], check=True)

    def fill_warm(self, source: Path) -> None:
        """Compile, and copy to the warm cache what it lacks and `source` has."""
        made = subprocess.run(
            [CHECKOUT / "runners/setup.sh", "--exact", "--guest"],
            env=os.environ | {"PATHCOST_CACHE": str(source)},
            stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        self.warm.mkdir(exist_ok=True)
        found = [entry for glob in EXPENSIVE for entry in source.glob(glob)]
        entries = [entry for entry in found if "partial" not in entry.name]
        for entry in (Path(made.stdout.splitlines()[-1]), *entries):
            if not (self.warm / entry.name).exists():
                subprocess.run(["cp", "-a", "--", entry, self.warm], check=True)
        subprocess.run(["chown", "-R", f"{self.user}:{self.user}", self.warm], check=True)

    def own(self, path: Path) -> None:
        os.chown(path, self.user, pwd.getpwuid(self.user).pw_gid)


def enter(state: Path, user: int, source: Path, share: bool) -> Sandbox:
    """Start this command again in namespaces of its own, where it is not there already."""
    if os.geteuid() != 0:
        sys.exit("tests.faults: needs root: run it with sudo.")
    if INSIDE not in os.environ:
        state.mkdir(parents=True, exist_ok=True)
        if not share:
            Sandbox(state, user).fill_warm(source)
        again = [sys.executable, "-B", "-m", "tests.faults", *sys.argv[1:]]
        here = {INSIDE: "1", "PYTHONPATH": str(CHECKOUT)}
        apart = ["unshare", "--mount", "--propagation", "private", "--"]
        os.execvpe(apart[0], [*apart, *again], os.environ | here)
    os.chdir("/")
    del os.environ[INSIDE]
    sandbox = Sandbox(state, user, source if share else None)
    small = state / "small"
    for folder in (sandbox.cache, sandbox.places.tracefs, sandbox.checkout, small):
        folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "--bind", CHECKOUT, sandbox.checkout], check=True)
    Path("/run/pathcost").mkdir(exist_ok=True)
    for place, mode in (("/tmp", "1777"), ("/run/pathcost", "0755")):
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode={mode}", "own", place], check=True)
    subprocess.run(["mount", "-t", "tracefs", "tracefs", sandbox.places.tracefs], check=True)
    sandbox.outside = os.open("/proc/self/ns/net", os.O_RDONLY)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "no network namespace")
    raise_lo()
    become_subreaper()
    atexit.register(end_all)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    sandbox.fresh_out()
    return sandbox


def end_all() -> None:
    """A campaign that is ended takes its runs with it."""
    for process in descendants():
        with suppress(psutil.NoSuchProcess):
            process.kill()


def raise_lo() -> None:
    """A new network namespace has its lo down."""
    with socket.socket() as any_socket:
        request = struct.pack("16sh14x", b"lo", IFF_UP | IFF_RUNNING)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, request)
