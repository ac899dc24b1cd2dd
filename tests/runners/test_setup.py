# SPDX-License-Identifier: GPL-2.0-or-later
"""setup.sh makes the Python environment once, and again when a file of it is not as it was."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from runners.process import REPOSITORY

SETUP = REPOSITORY / "runners/setup.sh"
# The functions of setup.sh that look after the environment, with a pip that installs two files.
SCRIPT = r"""
set -euo pipefail
source <(sed -n '/^fail()/,/^}/p;/^files_of_environment()/,/^}/p;/^make_environment()/,/^}/p' "$1")
as_user() {
	case $2 in
	-m) mkdir -p "$environment/bin" && ln -s /usr/bin/python3 "$environment/bin/python" ;;
	--quiet)
		mkdir "$environment/lib" && : >"$environment/lib/py.typed"
		echo 'import numpy' >"$environment/lib/pandas.py"
		;;
	*) "$@" ;;
	esac
}
cache=$2 lock=$1
make_environment
echo "$environment"
"""


def set_up(cache: Path) -> tuple[list[str], list[str], Path]:
    """What is said on standard output, what on standard error, and the environment."""
    done = subprocess.run(
        ["bash", "-c", SCRIPT, "bash", str(SETUP), str(cache)],
        capture_output=True,
        text=True,
        check=True,
    )
    *said, environment = done.stdout.splitlines()
    return said, done.stderr.splitlines(), Path(environment)


def _replaced(path: Path, make: Callable[[Path], object]) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
    make(path)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "no interpreter": lambda env: (env / "bin/python").unlink(),
    "package gone": lambda env: (env / "lib/pandas.py").unlink(),
    "empty package": lambda env: os.truncate(env / "lib/pandas.py", 0),
    "folder for a file": lambda env: _replaced(env / "lib/pandas.py", Path.mkdir),
    "unfinished": lambda env: (env / "complete").unlink(),
    "empty list": lambda env: os.truncate(env / "complete", 0),
    "foreign list": lambda env: (env / "complete").write_bytes(b"\xff{}"),
    "list of nothing": lambda env: (env / "complete").write_text("\n"),
    "list is a folder": lambda env: _replaced(env / "complete", Path.mkdir),
    "environment is a file": lambda env: _replaced(env, Path.touch),
}


# What had become whole and is so no longer; the rest looks like a set-up that was interrupted.
NAMED = {
    *("no interpreter", "package gone", "empty package", "folder for a file"),
    *("foreign list", "list of nothing"),
}


def test_a_whole_environment_is_left_alone(tmp_path: Path) -> None:
    environment = set_up(tmp_path)[2]
    os.utime(environment / "complete", (0, 0))
    (environment / "lib/pandas.pyc").write_text("Python wrote this later")
    assert set_up(tmp_path) == ([], [], environment)
    assert (environment / "lib/pandas.pyc").exists()
    assert (environment / "complete").stat().st_mtime > 0, "its last use is known"


def test_an_environment_behind_a_link_is_whole(tmp_path: Path) -> None:
    environment = set_up(tmp_path / "real")[2]
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / environment.name).symlink_to(environment)
    assert set_up(tmp_path / "cache") == ([], [], tmp_path / "cache" / environment.name)


@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_environment_is_made_anew(tmp_path: Path, what: str) -> None:
    environment = set_up(tmp_path)[2]
    DAMAGES[what](environment)
    said, complaints, again = set_up(tmp_path)
    assert said == ["making the Python environment"]
    assert again == environment
    if what in NAMED:
        (sentence,) = complaints
        assert str(environment) in sentence
    assert (environment / "lib/pandas.py").read_text() == "import numpy\n"
    assert set_up(tmp_path) == ([], [], environment)
