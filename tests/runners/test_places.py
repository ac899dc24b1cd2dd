# SPDX-License-Identifier: GPL-2.0-or-later
"""The tests pass wherever the tree lies, whoever owns it, and whatever a shell has set.

A suite passed where it was written, and failed on a new machine, three times. What differed is here
at once: no .git, a path that a shell or a compiler takes apart, no HOME, an umask that keeps others
out, signals that a shell's `&` ignores, a folder for temporary files in which no socket can lie.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners.process import REPOSITORY
from tests.build import make
from tests.docs.transcripts import clone
from tests.processes import captured

USER = 65534
AS_WHOM = {
    "root": [],
    "a user": [f"--reuid={USER}", f"--regid={USER}", "--clear-groups"],
}
FAST = "not (slow or matrix or root or guest or emulated)"  # as test.sh --fast


def test_a_suite_fails_with_its_first_part() -> None:
    """Of `test.sh`: bash ignores -e in what stands before `||`, and goes on to the next line."""
    text = (REPOSITORY / "runners/test.sh").read_text(encoding="utf-8")
    functions = re.findall(r"^(?:bound|start)\(\) \{.*?\}$", text, re.MULTILINE | re.DOTALL)
    script = "\n".join([*functions, "running= status=0; bound false || status=$?; exit $status"])
    assert len(functions) == 2
    assert captured(["bash", "-euc", script]).returncode == 1


@pytest.fixture
def above() -> Iterator[Path]:
    """A folder that a user can be given: pytest's own lie in one of root's."""
    with tempfile.TemporaryDirectory(prefix="pathcost-test-", dir="/var/tmp") as name:
        yield Path(name)


@pytest.mark.root
@pytest.mark.matrix
@pytest.mark.parametrize("whom", AS_WHOM)
def test_the_fast_tests_pass(whom: str, above: Path) -> None:
    tree, packages, temporary = above / "a b, ü", above / "cache/python", above / ("t" * 80)
    for folder in (packages.parent, temporary):
        folder.mkdir()
    clone(tree)
    make(tree / "runners/workload")
    subprocess.run(["cp", "--archive", sys.prefix, packages], check=True)
    if whom != "root":
        subprocess.run(["chown", "--recursive", f"{USER}:{USER}", above], check=True)
    shell = ["sh", "-c", 'umask 077; trap "" HUP INT QUIT; exec setpriv "$@"', "sh"]
    ours = [*AS_WHOM[whom], "--pdeathsig=KILL", "--"]  # it dies with us
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--numprocesses", "auto", "-m", FAST]
    done = captured(
        [*shell, *ours, packages / "bin/python", *tests],
        cwd=tree,
        env={"PATH": os.environ["PATH"], "TMPDIR": temporary, "PATHCOST_CACHE": packages.parent},
    )
    assert done.returncode == 0, done.stdout[-9000:] + done.stderr[-999:]
