# SPDX-License-Identifier: GPL-2.0-or-later
"""Building this repository's programs from tests, of which several may run at once."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from runners.process import REPOSITORY, RunError
from runners.programs.place import unpacked
from runners.programs.program import find
from runners.store.folders import invoker
from runners.store.locks import lock, open_lock
from tests.processes import captured

T = TypeVar("T")


def make(folder: Path, *targets: str) -> None:
    """`make` in this folder when nobody else does: two would write the same files.

    Root makes them as the folder's owner, whose they are. Raises subprocess.CalledProcessError.
    """
    jobs = len(os.sched_getaffinity(0))
    held = open_lock(folder / ".lock")  # set-up's
    lock(held, f"waiting: another process makes {folder}", print)
    owner, become = folder.stat(), list[str]()
    if os.geteuid() == 0:
        ids = [f"--reuid={owner.st_uid}", f"--regid={owner.st_gid}"]
        become = ["setpriv", *ids, "--clear-groups", "--"]
        os.fchown(held, owner.st_uid, owner.st_gid)
    words = ["make", "--silent", f"-j{jobs}", "-C", str(folder), *targets]
    subprocess.run([*become, *words], check=True, pass_fds=[held])
    os.close(held)


def environment() -> Path:
    """The analysis's Python environment. The cache may hold others, of older locks."""
    done = captured([REPOSITORY / "runners/setup.sh", "--analysis"], check=True)
    return Path(done.stdout.splitlines()[-1])


def pip(*words: object) -> subprocess.CompletedProcess[str]:
    """The distribution's pip: the environment of the tests has none."""
    (wheel,) = Path("/usr/share/python-wheels").glob("pip-*.whl")
    # Our path would hide the environment from it.
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return captured([sys.executable, wheel / "pip", *words], env=alone)


def or_skip(make: Callable[[], T]) -> T:
    """What `make` makes; where it cannot be had, the test is skipped with the reason."""
    try:
        return make()
    except RunError as error:
        pytest.skip(str(error))


def packages_or_skip(name: str) -> Path | None:
    """The program's packages, unpacked; without a package mirror the test is skipped."""
    if shutil.which("apt-get") is None:
        pytest.skip("there is no apt-get here")
    make(REPOSITORY / "runners/programs/tools")
    return or_skip(lambda: unpacked(find(name), invoker().cache, lambda _: None))
