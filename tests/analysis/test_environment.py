# SPDX-License-Identifier: GPL-2.0-or-later
"""A Python without the libraries ends in one sentence, which names the command to use."""

import sys

from runners.process import REPOSITORY
from tests.processes import captured


def test_a_python_without_the_libraries() -> None:
    # -S leaves out site-packages, where every library lies.
    argv = [sys.executable, "-S", "-m", "analysis", "a run"]
    done = captured(argv, cwd=REPOSITORY)
    assert (done.returncode, done.stdout) == (1, "")
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("pathcost: No module named")
    assert sentence.endswith("/bin/python -S -m analysis 'a run'")
