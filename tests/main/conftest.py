# SPDX-License-Identifier: GPL-2.0-or-later
"""Starting run.sh as a user does, and finding whatever it left on the machine."""

import fcntl
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from probes.callsite import TRACEFS
from probes.files import open_folder
from runners.host import ftrace
from runners.host.root import mount_tracing
from runners.process import REPOSITORY, ROOT
from runners.store.folders import invoker
from tests.build import make
from tests.docs.transcripts import clone
from tests.processes import living, wait_for


@dataclass
class RunSh:
    """A started run.sh. Its descendants are known by a word in their environment."""

    out: Path
    process: subprocess.Popen[str]
    word: str
    temporary: Path

    def descendants(self, name: str = "") -> list[int]:
        """Living processes that this run started, by a word of their command line."""
        return [pid for pid in living(self.word, name) if pid != self.process.pid]

    def wait_until_running(self, program: str) -> None:
        runs = self.descendants
        assert wait_for(lambda: runs(program) or self.process.poll() is not None), program
        assert self.process.poll() is None, self.process.communicate()

    def finish(self) -> tuple[int, str, str]:
        """Status, stdout, stderr."""
        output, complaint = self.process.communicate(timeout=240)
        return self.process.returncode, output, complaint

    def left_behind(self) -> list[str]:
        """Processes, temporary folders, tracing and half reports of this run."""
        found = [f"process {pid}" for pid in self.descendants()]
        found += map(str, self.temporary.iterdir())
        found += [str(path) for path in ROOT.glob("run.*") if not is_held(path)]
        found += map(str, ftrace.stale())
        found += map(str, self.out.parent.glob(f".{self.out.name}*"))
        return found


def is_held(folder: Path) -> bool:
    """Whether a living run has this folder: then it is not ours."""
    try:
        descriptor = open_folder(folder)
    except FileNotFoundError:  # it has just ended
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@pytest.fixture(scope="session")
def public_tree() -> Iterator[Path]:
    """A copy of the tree that is ours, and that every user can read: this one may lie in /root."""
    folder = Path(tempfile.mkdtemp(prefix="pathcost-test-", dir="/var/tmp"))
    clone(folder / "pathcost")
    subprocess.run(["chmod", "--recursive", "a+rX", folder], check=True)
    make(folder / "pathcost/runners/workload")
    yield folder / "pathcost"
    shutil.rmtree(folder)


@pytest.fixture
def run_sh(tmp_path: Path) -> Iterator[Callable[..., RunSh]]:
    """Start run.sh with `--out` and temporary files in folders of this test."""
    mount_tracing()  # to see what is left in tracefs
    started: list[RunSh] = []
    temporary = Path(tempfile.mkdtemp(prefix="pathcost-test-", dir="/tmp"))  # of a short name
    temporary.chmod(0o711)

    def start(*arguments: str, out: Path = tmp_path) -> RunSh:
        word = f"PATHCOST_TEST={uuid.uuid4()}"
        out = out / f"run{len(started)}"
        own = {"PATHCOST_CACHE": str(invoker().cache), "TMPDIR": str(temporary)}
        process = subprocess.Popen(
            [REPOSITORY / "runners/run.sh", *arguments, "--out", out],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | dict([word.split("=")]) | own,
        )  # fmt: skip
        started.append(RunSh(out, process, word, temporary))
        return started[-1]

    yield start
    for run in started:
        run.process.kill()
        run.process.wait()
    shutil.rmtree(temporary)


@pytest.fixture(scope="session")
def tracefs() -> None:
    if not (TRACEFS / "events").is_dir():
        mount_tracing()
    if not (TRACEFS / "events/sock/sock_send_length").is_dir():
        pytest.skip("this kernel has no tracepoint sock:sock_send_length (Linux 6.3)")
