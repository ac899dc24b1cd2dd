# SPDX-License-Identifier: GPL-2.0-or-later
"""A Python without the libraries ends in one sentence, which names the command to use."""

import subprocess
import sys

import pytest

from runners.process import REPOSITORY


@pytest.mark.parametrize("program", ["analysis", "analysis.claims.rejudge"])
def test_a_python_without_the_libraries(program: str) -> None:
    # -S leaves out site-packages, where every library lies.
    argv = [sys.executable, "-S", "-m", program, "a run"]
    done = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True)
    (said,) = done.stderr.splitlines()
    assert done.returncode == 1
    assert done.stdout == ""
    assert said.startswith("pathcost: the analysis needs its Python environment: run $(./runners/")
    assert said.endswith(f"/bin/python -S -m {program} 'a run'")
