# SPDX-License-Identifier: GPL-2.0-or-later
"""setup.sh makes the Python environment once, and anew when a file of it is not as it was."""

import os
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from runners.host.session import need_libraries, why_set_up_failed
from runners.process import REPOSITORY, RunError
from tests.processes import captured, is_gone, running, wait_for

SETUP = REPOSITORY / "runners/environment.sh"
# Set-up's last part, with an installation of two files; PIP may have it fail or last.
SCRIPT = r"""
set -euo pipefail
source "$1"
install_lock() {
	words=$(become sh -ec "${PIP-:}" 2>&1) || return
	mkdir -p "$1/bin" "$1/lib" && ln -s /usr/bin/python3 "$1/bin/python"
	: >"$1/lib/py.typed"
	echo 'import numpy' >"$1/lib/pandas.py"
}
cd "$2"
make_environment python-0123456789ab "$1"
"""


def set_up(cache: Path, pip: str = ":") -> subprocess.CompletedProcess[str]:
    cache.mkdir(exist_ok=True)
    return captured(
        ["bash", "-c", SCRIPT, "bash", str(SETUP), str(cache)], env=os.environ | {"PIP": pip}
    )


def printed(done: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    made = set_up(tmp_path)
    assert printed(made) == (0, "making the Python environment\n", "")
    return tmp_path / "python-0123456789ab"


def _file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.touch()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "lib/pandas.py": lambda env: os.truncate(env / "lib/pandas.py", 0),
    "same size": lambda env: (env / "lib/pandas.py").write_text("import nympy\n"),
    "foreign list": lambda env: (env / "complete").write_bytes(b"\xff{}"),
    "environment is a file": _file,
}


def test_a_whole_environment_is_left_alone(environment: Path, tmp_path: Path) -> None:
    os.utime(environment / "complete", (0, 0))
    (environment / "lib/pandas.pyc").write_text("Python wrote this later")
    assert printed(set_up(tmp_path)) == (0, "", "")
    assert (environment / "lib/pandas.pyc").exists()
    assert (environment / "complete").stat().st_mtime > 0, "its last use is known"
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / environment.name).symlink_to(environment)
    assert printed(set_up(tmp_path / "linked")) == (0, "", "")


def test_watch_makes_no_environment(tmp_path: Path) -> None:
    script = ["bash", "-c", f"install=never here=/x; {SCRIPT}", "bash", SETUP, tmp_path]
    status, out, words = printed(captured(script, env=os.environ | {"PIP": ":"}))
    assert (status, out, list(tmp_path.iterdir())) == (1, "", [])
    assert words.endswith(": /x/setup.sh --analysis\n")


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_environment_is_made_anew(environment: Path, tmp_path: Path, damage: str) -> None:
    DAMAGES[damage](environment)
    done = set_up(tmp_path)
    assert (done.returncode, done.stdout) == (0, "making the Python environment\n")
    assert f"{environment} is damaged" in done.stderr
    assert (environment / "lib/pandas.py").read_text() == "import numpy\n"
    assert printed(set_up(tmp_path)) == (0, "", "")


def test_where_pip_fails_the_old_environment_serves(environment: Path, tmp_path: Path) -> None:
    (environment / "lib/py.typed").unlink()
    pip = "echo 'ERROR: No matching distribution'; exit 1"
    done = set_up(tmp_path, pip)
    assert done.returncode == 0
    assert "No matching distribution), and is used as it is" in done.stderr
    assert (environment / "lib/pandas.py").exists()
    assert not list(tmp_path.glob("*.partial"))
    (environment / "bin/python").unlink()
    done = set_up(tmp_path, pip)
    assert done.returncode == 1
    assert "cannot be installed" in done.stderr.splitlines()[-1]


def test_of_two_at_once_one_waits_and_finds_what_the_other_made(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        both = [*pool.map(lambda _: printed(set_up(tmp_path, "sleep 1")), range(2))]
    assert sorted(status for status, _, _ in both) == [0, 0]
    made, waited = sorted(out for _, out, _ in both)
    assert made == "making the Python environment\n"
    assert waited.startswith(f"waiting: another set-up makes the Python environment in {tmp_path}")


def test_what_a_killed_set_up_started_dies_and_is_removed(tmp_path: Path) -> None:
    pip = "mkdir python-0123456789ab.partial; echo $$ >pid; exec sleep 600"
    note, words = tmp_path / "pid", ("bash", "-c", SCRIPT, "bash", SETUP, tmp_path)
    with running(*words, stdout=subprocess.DEVNULL, env=os.environ | {"PIP": pip}):
        assert wait_for(lambda: note.exists() and note.read_text())
    assert is_gone(note.read_text().strip())
    assert printed(set_up(tmp_path)) == (0, "making the Python environment\n", "")
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.slow
def test_a_folder_with_any_name_compiles_to_the_same_bytes(tmp_path: Path) -> None:
    shutil.copy(REPOSITORY / "runners/c.mk", tmp_path)
    made = set()
    for name in ("plain", "sp ace, ü\"'$x`%"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "x.c").write_text("int main(void) { return 0; }\n")
        rules = "PROGRAMS = build/x\ninclude ../c.mk\nbuild/x: build/x.o\n"
        (folder / "Makefile").write_text(rules)
        captured(["make", "-C", folder], check=True)
        made.add((folder / "build/x").read_bytes())
    assert len(made) == 1


@pytest.mark.parametrize("script", ["run.sh", "setup.sh"])
@pytest.mark.parametrize("name", ["a:b", "a\nb"])
def test_a_checkout_that_no_search_path_can_name_is_refused(
    tmp_path: Path, script: str, name: str
) -> None:
    (folder := tmp_path / name / "runners").mkdir(parents=True)
    for needed in ("run.sh", "setup.sh", "environment.sh"):
        shutil.copy(REPOSITORY / "runners" / needed, folder)
    status, out, words = printed(captured([folder / script]))
    assert status in (1, 2) and out == "" and words.count("\n") == 1
    assert "has a colon or a line feed" in words


def test_a_cache_mounted_noexec_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noexec = SimpleNamespace(f_flag=os.ST_NOEXEC)
    monkeypatch.setattr(os, "statvfs", lambda _: noexec)
    with pytest.raises(RunError, match="noexec"):
        need_libraries(tmp_path / "not there yet")


@pytest.mark.parametrize(
    ("last", "sentence"),
    [
        ("pathcost: the disk is full.", "the disk is full."),
        ("/var/cache/pathcost", "set-up failed: /var/cache/pathcost"),
        ("", "set-up failed, and did not say why."),
    ],
)
def test_a_set_up_that_failed_is_told_in_a_sentence(last: str, sentence: str) -> None:
    assert why_set_up_failed(last) == sentence
