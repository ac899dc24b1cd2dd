# SPDX-License-Identifier: GPL-2.0-or-later
"""A Python without the libraries ends in one sentence, which names the command to use."""

import subprocess
import sys

from runners.process import REPOSITORY


def test_a_python_without_the_libraries() -> None:
    # -S leaves out site-packages, where every library lies.
    argv = [sys.executable, "-S", "-m", "analysis", "a run"]
    done = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("pathcost: No module named")
    assert sentence.endswith("/bin/python -S -m analysis 'a run'")
