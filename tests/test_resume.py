# SPDX-License-Identifier: GPL-2.0-or-later
"""`test.sh --matrix` goes on where it ended, and its table counts both runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runners.process import REPOSITORY

pytestmark = pytest.mark.slow
TESTS = """
import os, pytest

@pytest.mark.parametrize("kernel", ["5.10", "6.12"])
def test_it(kernel):
    assert kernel in os.environ["WORKS"]
"""


def run_tests(folder: Path, works: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.resume", "--rootdir", folder, folder],
        cwd=folder, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY), "WORKS": works, "PYTEST_ADDOPTS": ""},
    ).stdout  # fmt: skip


def test_what_has_passed_is_not_run_again(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a"]
    (tmp_path / "test_it.py").write_text(TESTS)
    for words in (["init", "--quiet"], ["add", "test_it.py"], ["commit", "--quiet", "-m", "it"]):
        subprocess.run([*git, *words], check=True)
    assert "1 failed, 1 passed" in run_tests(tmp_path, "5.10")
    again = run_tests(tmp_path, "6.12")
    assert "1 passed, 1 deselected" in again
    for kernel in ("5.10", "6.12"):
        assert f"| test_it.py | {kernel} | 1 | 0 | 0 |" in again
    with (tmp_path / "test_it.py").open("a") as file:
        file.write("# another state of the tree\n")
    assert "2 passed" in run_tests(tmp_path, "5.10 6.12")
