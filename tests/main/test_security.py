# SPDX-License-Identifier: GPL-2.0-or-later
"""A user who may run run.sh as root, from a checkout of root's, becomes root by no other way.

The user owns the cache, the place of --out and the folder of temporary files, and does there what
docs/security.md lists, to dummy targets of root's: S1 to S8.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from runners import guest
from runners.guest.kernels import DEFAULT
from runners.store.folders import invoker
from tests.build import environment, or_skip
from tests.processes import captured, repeating, running

pytestmark = pytest.mark.guest
USER = 12345
AS_USER = ("setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups", "--")
SHORT = (
    *("--transports", "unix", "--placements", "same-cpu", "--messages", "46", "--repeats", "1"),
    *("--instruments", "kernel"),
)
SECRET = "for root's eyes alone"

# Puts links to root's file in place of everything that somebody may make in a place of the user's,
# and a link to root's folder in place of the folder that the run fills.
ATTACK = """
import os, sys
from pathlib import Path
home, victim = Path(sys.argv[1]), Path(sys.argv[2])
names = ("samples", "plan.json", "collect.stderr", "payload.tar", "run.json", "lock", "in.tar")
while True:
    places = [Path("/run/pathcost"), home / "tmp"]
    folders = [entry for place in places for entry in (place, *place.glob("*"), *place.glob("*/*"))]
    for folder in folders:
        for name in names:
            try:
                os.symlink(victim / "secret", folder / name)
            except OSError:
                pass
    for partial in home.glob(".out.*"):
        try:
            partial.rename(home / f"moved-{os.urandom(4).hex()}")
            os.symlink(victim, partial)
        except OSError:
            pass
"""


@dataclass(frozen=True)
class Place:
    """Root's checkout, the user's folders, and root's with a file that nobody else may read."""

    tree: Path
    home: Path
    victim: Path

    @property
    def cache(self) -> Path:
        return self.home / "cache"

    @property
    def sudo(self) -> dict[str, str]:
        user = str(USER)
        return {"SUDO_UID": user, "SUDO_GID": user, "PATHCOST_CACHE": str(self.cache)}

    def run(self, *arguments: str, out: str = "out") -> subprocess.CompletedProcess[str]:
        """run.sh as sudo starts it."""
        return captured(
            [self.tree / "runners/run.sh", "--out", f"{self.home}/{out}", *arguments],
            stdin=subprocess.DEVNULL,
            env=os.environ | self.sudo | {"TMPDIR": str(self.home / "tmp")},
        )

    def listed(self, **sudo: str) -> str:
        """What `list` prints where tracefs is mounted, whose files are root's alone."""
        mounted = 'mount -t tracefs none /sys/kernel/tracing 2>/dev/null; exec "$0" list'
        argv = ["unshare", "--mount", "sh", "-c", mounted, str(self.tree / "runners/run.sh")]
        done = captured(argv, env=os.environ | sudo)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def check_untouched(self) -> None:
        """Root's folder is as it was, and no file of the user's has its contents."""
        for path in (self.victim, self.victim / "secret", self.victim / "folder.pathcost-01234567"):
            status = path.lstat()
            assert (status.st_uid, status.st_gid) == (0, 0), path
        assert (self.victim / "secret").read_text() == SECRET
        for path in self.home.rglob("*"):
            if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 20:
                assert SECRET.encode() not in path.read_bytes(), path


@pytest.fixture(scope="module")
def base() -> Iterator[Path]:
    """A folder with a cache of the user's, which each place gets as links."""
    cache = invoker().cache
    or_skip(lambda: guest.prepare(cache, DEFAULT))
    folder = Path(tempfile.mkdtemp(prefix="pathcost-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    (folder / "cache").mkdir()
    entries = [path for name in ("qemu-*", "kernel-*", "image-*") for path in cache.glob(name)]
    copy = ["cp", "--archive", "--sparse=always"]
    subprocess.run([*copy, *entries, environment(), folder / "cache"], check=True)
    subprocess.run(["chown", "-R", f"{USER}:{USER}", folder / "cache"], check=True)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def place(base: Path, public_tree: Path) -> Iterator[Place]:
    home, victim = base / "home", base / "root"
    home.mkdir()
    subprocess.run(["cp", "--archive", "--link", base / "cache", home / "cache"], check=True)
    for folder in (home / "tmp", victim / "folder.pathcost-01234567"):
        folder.mkdir(parents=True)
    for folder in (home, home / "tmp"):
        os.chown(folder, USER, USER)
    (victim / "secret").write_text(SECRET)
    (victim / "secret").chmod(0o600)
    yield Place(public_tree, home, victim)
    shutil.rmtree(home)
    shutil.rmtree(victim)


def test_no_package_of_the_cache_is_imported_by_root(place: Place) -> None:
    """S1. They plan claims before the measuring, and make the report after it.

    And the workload has no right of root's: no file that the run leaves has another owner.
    """
    (package,) = place.cache.glob("python-*/lib/python3*/site-packages/pandas/__init__.py")
    notes, text = place.home / "importers", package.read_text()
    package.unlink()  # a link to the file of the cache that all places have
    note = f"import os\nwith open({str(notes)!r}, 'a') as notes: print(os.getuid(), file=notes)\n"
    package.write_text(text + note)
    os.chown(package, USER, USER)
    complete = package.parents[4] / "complete"  # set-up then compares the environment with a file
    complete.write_text(complete.read_text().splitlines()[0] + "\n")
    done = place.run("--claims", "latency-3-to-5", "--target", "host", "--repeats", "1")
    assert done.returncode == 0, done.stderr
    assert set(notes.read_text().split()) == {str(USER)}
    assert [path for path in place.home.rglob("*") if path.lstat().st_uid != USER] == []


def test_the_caches_qemu_never_runs_as_root(place: Place) -> None:
    """S1."""
    notes = place.home / "qemu.uids"
    for loader in place.cache.glob("qemu-*/root/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"):
        kept = loader.with_name("real-ld.so")
        shutil.copy2(loader.resolve(), kept)
        loader.unlink()
        loader.write_text(f'#!/bin/sh\nid -u >>"{notes}"\nexec "{kept}" "$@"\n')
        loader.chmod(0o755)
        os.chown(loader, USER, USER)
    place.run("--target", "guest", *SHORT)
    assert not notes.exists() or set(notes.read_text().split()) == {str(USER)}
    place.check_untouched()


def test_no_path_of_the_users_leads_root_elsewhere(place: Place) -> None:
    """S2, S3, S4, S5, S8, all at once, in a run that ends well or in a sentence."""
    dead = place.home / "tmp/run.pathcost-01234567"
    theirs = f"mkdir {dead}; ln -s {place.victim}/folder.pathcost-01234567 {dead}/link1; "
    theirs += f"mkfifo {place.home}/tmp/run.pathcost-01234568"
    subprocess.run([*AS_USER, "sh", "-ec", theirs], check=True)
    with socket.socket(socket.AF_UNIX) as holder:
        holder.bind("\0pathcost-is-measuring")
        holder.listen()
        with running(*AS_USER, sys.executable, "-c", ATTACK, place.home, place.victim):
            done = place.run("--target", "host", *SHORT)
    assert "Traceback" not in done.stderr
    assert "another run is measuring" not in done.stderr
    place.check_untouched()


def test_the_workload_of_others_is_not_counted(place: Place) -> None:
    """They start the file to which the probes of a run would be attached."""
    workload = place.tree / "runners/workload/build/pathcost-workload"
    words = ["--transport", "unix", "--messages", "4000", "--dir", place.home / "tmp"]
    with repeating(lambda: captured([*AS_USER, workload, *words])):
        done = place.run(
            *("--target", "host", "--transports", "unix", "--placements", "same-cpu"),
            *("--messages", "400", "--repeats", "2", "--instruments", "bpftrace"),
        )
    assert done.returncode == 0, done.stderr


def test_a_path_with_a_control_character_is_refused(place: Place) -> None:
    """S7. What a SIGKILL leaves is noted by its path."""
    (place.home / "mine").mkdir()
    done = place.run("--target", "host", out=f"x\n{place.home}/mine")
    assert done.returncode == 2
    assert (place.home / "mine").is_dir()


def test_a_user_is_told_what_root_is_told(place: Place) -> None:
    """Of what is possible here: each transport is tried as a run would."""
    assert "tcp-sockmap" in place.listed()
    assert place.listed(**place.sudo) == place.listed()
