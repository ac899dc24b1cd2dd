# SPDX-License-Identifier: GPL-2.0-or-later
"""What a run leaves on disk goes; one run measures at a time; root gives away only its own."""

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners.host import root, unprivileged, workload
from runners.process import REPOSITORY, RunError, UsageError
from runners.store import folders, locks, report
from runners.store.folders import Invoker, scratch, sweep
from runners.store.locks import measuring
from tests.processes import captured

USER = (12345, 12345)
DIES = """
import os, pathlib, signal, sys
from runners.store.folders import scratch
with scratch() as folders:
    folders.folder(pathlib.Path(sys.argv[1]), ".run")
    os.kill(os.getpid(), signal.SIGKILL)
"""
HOLDS = """
import subprocess, sys, time
from pathlib import Path
from runners.store.locks import inherited, measuring
with measuring(Path(sys.argv[1]), Path(sys.argv[2])):
    child = subprocess.Popen(["sleep", sys.argv[3]], pass_fds=inherited())
    print(child.pid, flush=True)
    time.sleep(60)
"""
# Puts a link to root's folder in the place of a sub-folder as soon as the folder above is its own.
EXCHANGES = """
import ctypes, os, sys
folder, victim = sys.argv[1:]
print("ready", flush=True)
while True:
    try:
        os.symlink(victim, f"{folder}/link")
    except PermissionError:
        continue
    names = f"{folder}/link".encode(), f"{folder}/sub".encode()
    ctypes.CDLL(None).renameat2(-100, names[0], -100, names[1], 2)  # RENAME_EXCHANGE
    break
"""


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder for temporary files, of this process and its children, with a short name."""
    folder = Path(tempfile.mkdtemp(prefix="pathcost-"))
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield folder
    shutil.rmtree(folder)


def test_a_run_removes_its_own_and_keeps_what_was_moved(tmp_path: Path, temporary: Path) -> None:
    with scratch() as folders:
        (folders.folder(tmp_path, ".run") / "deep").mkdir()
        folders.folder(tmp_path, ".report").rename(tmp_path / "report")
        assert sweep(tmp_path) == sweep(temporary) == [], "it lives"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report"]
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("elsewhere", [False, True], ids=["at the same place", "elsewhere"])
def test_what_sigkill_leaves_goes_at_the_next_start(
    tmp_path: Path, temporary: Path, elsewhere: bool
) -> None:
    """What a killed run left beside its --out is found by a start with another --out, too."""
    subprocess.run([sys.executable, "-c", DIES, tmp_path], check=False)
    left = {*temporary.glob("run.*"), *tmp_path.glob(".run.*")}
    assert len(left) == 2
    said: list[str] = []
    with scratch(said.append) as folders:
        if not elsewhere:
            folders.folder(tmp_path, ".run")
        assert not any(path.exists() for path in left)
    assert all(str(path) in "".join(said) for path in left)


@pytest.mark.parametrize("name", ["long" * 15, "a:b", "a b", "a,b", "\u00fc"])
def test_below_the_temporary_folder_is_room_for_a_socket(
    temporary: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (temporary / name).mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary / name))
    with scratch(), workload.private_directory() as directory, socket.socket(socket.AF_UNIX) as end:
        end.bind(str(directory / "a-rather-long-name"))
        assert not set(str(directory)) & {":", " ", ",", "\u00fc"}
    assert not directory.exists() and list((temporary / name).iterdir()) == []


def test_without_room_for_a_socket_nothing_begins(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where /tmp is read-only, and TMPDIR lies deep."""
    monkeypatch.setattr("runners.store.folders.OTHERS", (temporary / "absent",))
    (deep := temporary / ("long" * 15)).mkdir()
    monkeypatch.setenv("TMPDIR", str(deep))
    with pytest.raises(RunError, match="Set TMPDIR to a shorter path"), scratch():
        pass
    assert list(deep.iterdir()) == []


def test_what_killed_tests_left_goes_at_their_next_start() -> None:
    dead = Path("/tmp/t.pathcost-fedcba98")
    dead.mkdir()
    own = Path(tempfile.gettempdir())
    assert folders.OURS.fullmatch(own.name)
    chosen = ["-q", "--collect-only", "-p", "no:cacheprovider", REPOSITORY / "tests/test_names.py"]
    captured([sys.executable, "-m", "pytest", *chosen], cwd=REPOSITORY, check=True)
    assert not dead.exists() and own.exists()


def test_what_a_program_of_ours_leaves_goes_with_the_runs_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    printing = root.RootCommand(lambda *_: ["sh", "-c", "echo $TMPDIR"])
    monkeypatch.setitem(root.ROOT_COMMANDS, "collect", printing)
    with scratch():
        program = unprivileged.Unprivileged(folders.invoker()).start("collect")
        assert program.stdout.read().decode().strip() == tempfile.gettempdir()
        program.wait()


@pytest.mark.parametrize("name", ["a:b", "a\nb", "a\udcff"])
def test_a_cache_that_nothing_can_name_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATHCOST_CACHE", str(tmp_path / name))
    with pytest.raises(UsageError, match="name another with PATHCOST_CACHE"):
        assert folders.invoker().cache


def test_what_no_run_made_is_left_alone(tmp_path: Path, temporary: Path) -> None:
    """Links and files in place of folders, and links to folders with other names."""
    dead, kept = temporary / "run.pathcost-01234567", tmp_path / "kept"
    for folder in (dead, kept, tmp_path / "a\nb.pathcost-01234567/kept"):
        folder.mkdir(parents=True)
    (dead / "link1").symlink_to(kept)
    (dead / "link2").symlink_to(tmp_path / "a\nb.pathcost-01234567/kept")
    (dead / "link3").symlink_to(tmp_path / f"{255 * 'n'}.pathcost-01234567")
    (temporary / "run.pathcost-00000000").symlink_to(kept)
    os.mkfifo(temporary / "run.pathcost-00000001")
    assert sweep(temporary) == [str(dead)]
    assert kept.is_dir() and (tmp_path / "a\nb.pathcost-01234567/kept").is_dir()


@pytest.mark.root
def test_who_is_given_a_folder_gets_nothing_else() -> None:
    """The new owner of a folder exchanges what is in it while root still changes owners below."""
    home = Path(tempfile.mkdtemp(prefix="pathcost-test-", dir="/var/tmp"))
    try:
        home.chmod(0o755)
        folder, victim = home / "folder", home / "victim"
        for sub in (folder / "sub", victim):
            sub.mkdir(parents=True)
            for number in range(2000):
                (sub / str(number)).touch()
        (folder / "sub/link").symlink_to(victim / "0")
        attack = ["/usr/bin/python3", "-c", EXCHANGES, str(folder), str(victim)]
        with subprocess.Popen(
            attack, stdout=subprocess.PIPE, user=USER[0], group=USER[1], extra_groups=[]
        ) as attacker:
            assert attacker.stdout and attacker.stdout.readline()
            Invoker(USER[0], home, USER, named=False).own(folder)
            attacker.wait()
        assert {path.lstat().st_uid for path in (victim, *victim.iterdir())} == {0}
        assert {path.lstat().st_uid for path in folder.rglob("*")} == {USER[0]}
    finally:
        shutil.rmtree(home)


def test_a_package_writes_below_the_current_folder_by_a_whole_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """QEMU, with a working directory of its own, opens files there."""
    monkeypatch.setattr(report, "REPORTS", Path("pathcost-reports"))
    assert report.place(None).parent == Path.cwd() / "pathcost-reports"


@pytest.fixture(params=["tracefs", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder to lock, or one without what tracefs has."""
    folder = tmp_path / "tracing"
    folder.mkdir()
    if request.param == "tracefs":
        (folder / "instances").mkdir()
    return folder


def hold(place: Path, notes: Path, child_seconds: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", HOLDS, str(place), str(notes), child_seconds]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout and process.stdout.readline()
    return process


@pytest.fixture
def holder(place: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = hold(place, tmp_path, "0")
    yield process
    process.kill()
    process.wait()


def test_one_run_measures_until_it_ends_or_is_killed(
    holder: subprocess.Popen[str], place: Path, tmp_path: Path
) -> None:
    for _ in range(2):
        with pytest.raises(RunError, match=f"process {holder.pid}"), measuring(place, tmp_path):
            pass
    holder.kill()
    holder.wait()
    with measuring(place, tmp_path):
        pass


def test_the_lock_lasts_as_long_as_any_process_that_measures(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed run's probes may still be there."""
    monkeypatch.setattr(locks, "FREE_SECONDS", 0)
    killed = hold(place, tmp_path, "60")
    children = Path(f"/proc/{killed.pid}/task/{killed.pid}/children").read_text().split()
    killed.kill()
    killed.wait()
    with pytest.raises(RunError, match=f"process {killed.pid}"), measuring(place, tmp_path):
        pass
    os.kill(int(children[0]), 9)
    monkeypatch.setattr(locks, "FREE_SECONDS", 20)
    with measuring(place, tmp_path):
        pass


def test_a_holder_in_another_container_is_not_the_last_one_here(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container has notes of its own, and tracefs is the same."""
    with measuring(place, tmp_path):
        pass
    instances = place / "instances"
    elsewhere = instances if instances.is_dir() else tmp_path / locks.HOLDER
    descriptor = os.open(elsewhere, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    who = f"process {os.getpid()} "  # as a PID namespace of its own it would not be listed
    with pytest.raises(RunError, match=who), measuring(place, tmp_path):
        pass
    monkeypatch.setattr(locks, "holder_of", lambda _: "")
    with pytest.raises(RunError, match="in another container"), measuring(place, tmp_path):
        pass
    os.close(descriptor)
