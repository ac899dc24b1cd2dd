# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel built from its source tree, with what exact mode's cells need and no more.

The objects stay in the cache, one folder for each tree, so that a changed file costs seconds. No
date, user or host is in the kernel: equal sources make equal files.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from runners.guest.store import Say, remove
from runners.process import REPOSITORY, SEARCH, RunError, command

CONFIG = REPOSITORY / "runners/kernel/minimal.config"
IMAGE = Path("arch/x86/boot/bzImage")
UNFINISHED = ".pathcost-unfinished"  # among the objects of a build that was ended
PREFIX = "build-"
MINUTES = 30  # of a build from nothing: five on two idle processors
MOST_BYTES = 4 << 30  # of all trees' objects; those of one take 300 MB
PROGRAMS = ("make", "gcc", "flex", "bison", "bc")  # each in the package of its name
COMPLAINT_LINES = 8
FIXED = {
    "KBUILD_BUILD_TIMESTAMP": "2026-01-01",
    "KBUILD_BUILD_USER": "pathcost",
    "KBUILD_BUILD_HOST": "pathcost",
    "KBUILD_BUILD_VERSION": "1",
    "LOCALVERSION": "",
}


class BuildError(RunError):
    """The tree does not build; `console` has the compiler's last lines."""


class EndedError(BuildError):
    """The build took too long, and was ended."""


def is_tree(name: str) -> bool:
    """Whether a kernel's name is the path of a source tree."""
    return (Path(name) / "Kconfig").is_file()


def build_tree(cache: Path, tree: Path, say: Say) -> Path:
    """The bzImage of a source tree, built if need be. Raises BuildError."""
    tree = tree.resolve()
    if lacking := [name for name in PROGRAMS if shutil.which(name, path=SEARCH) is None]:
        names = " ".join([*lacking, "libelf-dev"])
        raise BuildError(f"to build {tree}, these are missing: apt-get install {names}")
    folder = cache / f"{PREFIX}{hashlib.sha256(os.fsencode(tree)).hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        bound(cache, keep=folder)
    except OSError as error:
        raise BuildError(f"{tree} cannot be built in {folder}: {error.strerror}") from None
    with alone(folder, lambda: say(f"waiting: {tree} is being built")) as lock:
        say(f"building {tree}")
        # Without this the kernel would be the last one that did build.
        (folder / IMAGE).unlink(missing_ok=True)
        _make(tree, folder, lock, "allnoconfig", f"KCONFIG_ALLCONFIG={CONFIG}")
        _make(tree, folder, lock, f"-j{len(os.sched_getaffinity(0))}", "bzImage")
    return folder / IMAGE


@contextmanager
def alone(folder: Path, waiting: Callable[[], None]) -> Iterator[int]:
    """No other build has these objects meanwhile, nor what is left of one that was ended.

    make tells by times what has changed: an object that it finishes after the source became another
    commit's is taken for that commit's. So a build that was ended leaves UNFINISHED behind, and the
    next one begins from nothing. make inherits the lock, which lasts until it has really ended.
    """
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / UNFINISHED).exists():
            for left in folder.iterdir():
                remove(left)
        (folder / UNFINISHED).touch()
        try:
            yield lock
        except EndedError:
            raise
        except BuildError:  # make came to its own end
            (folder / UNFINISHED).unlink()
            raise
        (folder / UNFINISHED).unlink()
    finally:
        os.close(lock)


def bound(cache: Path, keep: Path) -> None:
    """Remove the objects of the trees that were built longest ago, until they are few enough."""
    built = sorted(cache.glob(f"{PREFIX}*"), key=lambda path: -path.stat().st_mtime)
    total = 0
    for folder in built:
        total += sum(file.lstat().st_size for file in folder.rglob("*"))
        if total > MOST_BYTES and folder != keep:
            shutil.rmtree(folder, ignore_errors=True)


def _make(tree: Path, folder: Path, lock: int, *words: str) -> None:
    """Run make, niced. Raises BuildError."""
    compiler = ["CC=ccache gcc"] if shutil.which("ccache", path=SEARCH) else []
    argv = ["nice", "-n", "10", "make", "-C", str(tree), f"O={folder}", *compiler, *words]
    kept = {name: os.environ[name] for name in ("HOME", "CCACHE_DIR") if name in os.environ}
    # Whatever ends us, make is told to end, and tells its children: killed, it would leave them.
    with subprocess.Popen(
        command(argv, death="TERM"),
        env={"PATH": SEARCH, "LC_ALL": "C.UTF-8", **kept, **FIXED},
        pass_fds=(lock,),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        try:
            output, _ = process.communicate(timeout=60 * MINUTES)
        except subprocess.TimeoutExpired:
            process.terminate()
            raise EndedError(f"{tree} is not built in {MINUTES} minutes") from None
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        lines = output.strip().splitlines()
        errors = [line for line in lines if "error:" in line or "***" in line or "ERROR" in line]
        why = (errors or lines or ["make said nothing"])[0].strip()
        raise BuildError(f"{tree} does not build: {why}", lines[-COMPLAINT_LINES:])
