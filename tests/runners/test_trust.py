# SPDX-License-Identifier: GPL-2.0-or-later
"""What another user, or a file that is somebody else's, cannot make us do (docs/security.md)."""

import json
import os
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from analysis.report.output import write_all
from probes.cell import Plan
from probes.files import open_folder
from probes.messages import SentenceError
from runners.guest.store import Cache
from runners.host import root, session
from runners.host.__main__ import Collector
from runners.host.workload import Execution
from runners.options import Options
from runners.process import REPOSITORY, RunError, UsageError
from runners.programs import engine
from runners.programs.place import Place
from runners.programs.program import read
from runners.store import folders, locks, report
from runners.store.folders import Invoker, scratch
from tests.processes import captured, running

USER = (23456, 23456)
AS_USER = ("setpriv", "--reuid", "23456", "--regid", "23456", "--clear-groups", "--")
SUDO = {"SUDO_UID": "23456", "SUDO_GID": "23456"}
FLOCK_CANNOT_OPEN = 66  # EX_NOINPUT
PATH = {"PATH": os.environ["PATH"]}  # and no SUDO_UID
HOLD, SLEEP = ("flock", "--no-fork"), ("sh", "-c", "echo; exec sleep 600")
PROGRAM = """
about = "a file's name"
[client]
command = ["true"]
[[case]]
name = "one"
[unix]
word = "a"
[tcp]
word = "b"
[[process]]
command = ["true", "{word}"]
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder through which all users may pass, with a cache of the user's below."""
    folder = Path(tempfile.mkdtemp(prefix="pathcost-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    (folder / "cache").mkdir()
    os.chown(folder / "cache", *USER)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def victim(home: Path) -> Path:
    """A file of root's, where the lock of the user's set-up should be."""
    file = home / "victim"
    file.write_text("root's")
    file.chmod(0o600)
    (home / "cache/set-up").symlink_to(file)
    return file


@pytest.fixture
def channel(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The user's end of the channel to root's process, where sudo has kept PATHCOST_CACHE."""
    for name, value in {**SUDO, "PATHCOST_CACHE": str(home / "cache")}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(folders, "ROOT", home / "run")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    serving = Thread(target=root.Monitor(Invoker(USER[0], home, USER, False)).serve, args=(ours,))
    serving.start()
    yield theirs
    theirs.close()
    serving.join()
    ours.close()


def ask(channel: socket.socket, *request: str) -> dict[str, object]:
    """What root's process answers. Raises RunError."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    nowhere = os.open(os.devnull, os.O_RDWR)
    message = json.dumps(request).encode()
    with theirs:
        socket.send_fds(channel, [message], [theirs.fileno(), nowhere, nowhere, nowhere])
    os.close(nowhere)
    return root.read_answer(ours)


@pytest.mark.root
@pytest.mark.parametrize(
    "request_",
    [
        ("setup", "--environment", "--version", "--y"),
        ("setup", "--no-python", "--dev"),
        ("counting", "counts", "people"),
        ("pairs", "1", "1", "1", "1"),
        ("pairs", "1.2.3", "5"),
        ("preflight", "--help"),
    ],
)
def test_root_refuses_a_word_that_it_does_not_know(
    channel: socket.socket, victim: Path, request_: tuple[str, ...]
) -> None:
    with pytest.raises(RunError, match="root's process refuses"):
        ask(channel, *request_)
    assert victim.read_text() == "root's"


@pytest.mark.root
def test_root_makes_no_environment_for_a_user(home: Path, victim: Path) -> None:
    lock = str(REPOSITORY / "runners/requirements.lock")
    argv = [REPOSITORY / "runners/setup.sh", "--environment", lock, "yes"]
    done = captured(argv, env=os.environ | SUDO | {"PATHCOST_CACHE": str(home / "cache")})
    assert done.returncode == 1
    assert victim.read_text() == "root's"
    assert [path.name for path in (home / "cache").iterdir()] == ["set-up"]


@pytest.mark.root
def test_what_sudo_keeps_of_a_users_variables_gives_no_right(home: Path) -> None:
    """HOME with packages of the user's, and the number of a channel that the user has made up."""
    version = "python{}.{}".format(*sys.version_info[:2])
    packages = home / f".local/lib/{version}/site-packages"
    packages.mkdir(parents=True)
    note = f"import os; open({str(home / 'cache/uids')!r}, 'a').write(f'{{os.getuid()}} ')\n"
    (packages / "note.pth").write_text(note)
    (home / "roots/kvm-0123456789abcdef").mkdir(parents=True)
    kept = {"HOME": str(home), root.CHANNEL: "0", "PATHCOST_CACHE": str(home / "roots")}
    captured([REPOSITORY / "runners/run.sh", "cache", "--clear"], env=os.environ | SUDO | kept)
    assert (home / "roots/kvm-0123456789abcdef").is_dir()
    assert "0 " not in ((home / "cache/uids").read_text() if (home / "cache/uids").exists() else "")


@pytest.mark.root
def test_nobody_else_can_hold_a_lock_of_ours(home: Path) -> None:
    """Neither one that is new, nor one that was there and readable."""
    cache, said = home / "own", list[str]()
    cache.mkdir()
    for name in ("in-use", "set-up"):
        (cache / name).touch(0o644)
    script = (
        f"source {REPOSITORY}/runners/environment.sh; cd {cache}; install_lock() {{ false; }}; "
    )
    captured(["bash", "-c", f"{script} why() {{ :; }}; make_environment python-0 {__file__}"])
    entries, building = Cache(cache, said.append), list[Path]()
    with scratch() as folders, pytest.raises(RuntimeError):
        locked = [folders.folder(home, ".run"), cache / "in-use", cache / "set-up"]

        def build(partial: Path) -> dict[str, object]:
            building.append(partial)
            for path in (*locked, partial):
                done = captured([*AS_USER, "flock", "--nonblock", path, "true"])
                assert done.returncode == FLOCK_CANNOT_OPEN, (path, done.stderr)
            raise RuntimeError("tried them all")

        entries.entry("kind", {}, build)
    assert building


@pytest.mark.root
def test_nobody_else_holds_set_up_up() -> None:
    part = REPOSITORY / "runners/workload"
    with running(*AS_USER, *HOLD, part, *SLEEP, stdout=-1) as holds:
        if holds.stdout is None or not holds.stdout.readline():
            pytest.skip("the checkout lies in a folder that others cannot enter")
        argv = [REPOSITORY / "runners/setup.sh", "--no-install", "--no-python"]
        done = captured(argv, timeout=240)
    assert done.returncode == 0, done.stderr


@pytest.mark.root
def test_root_leaves_nothing_of_its_own_in_a_users_checkout(home: Path) -> None:
    part = home / "runners/workload"
    part.mkdir(parents=True)
    for name in ("setup.sh", "environment.sh", "packages.tsv", "c.mk"):
        shutil.copy(REPOSITORY / "runners" / name, home / "runners")
    (part / "Makefile").write_text("PROGRAMS = build/x\ninclude ../c.mk\nbuild/x: build/x.o\n")
    (part / "x.c").write_text("int main(void) { return 0; }\n")
    captured(["chown", "-R", "{}:{}".format(*USER), home / "runners"], check=True)
    done = captured([home / "runners/setup.sh", "--no-install", "--no-python"], env=PATH)
    assert done.returncode == 0 and (part / "build/x").exists(), done.stderr
    assert {path.stat().st_uid for path in part.rglob("*")} == {USER[0]}


def test_who_waits_in_vain_is_told_for_whom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "WAIT_SECONDS", 0.2, raising=False)
    said: list[str] = []
    with running(*HOLD, tmp_path, *SLEEP, stdout=-1) as holds:
        assert holds.stdout and holds.stdout.readline()
        descriptor = open_folder(tmp_path)
        with pytest.raises(RunError, match=rf"waiting: x .*process {holds.pid} \(\w+\) of user"):
            locks.lock(descriptor, "waiting: x", said.append)
        os.close(descriptor)
    assert f"process {holds.pid}" in said[0]


@pytest.mark.parametrize(
    "name", ["../out", "/tmp/pathcost-x", "a/b", "..", ".", "", "root", "0.log", "a\\u0000b"]
)
def test_a_programs_file_lies_in_its_own_directory(tmp_path: Path, name: str) -> None:
    file = tmp_path / "own.toml"
    file.write_text(f'{PROGRAM}[files]\n"{name}" = "text"\n')
    with pytest.raises(UsageError, match="is no name of a file"):
        read(file)


def test_no_link_leads_a_programs_file_elsewhere(tmp_path: Path) -> None:
    """Which a process of the same user may have made in the directory meanwhile."""
    (tmp_path / "own.toml").write_text(f'{PROGRAM}[files]\nname = "text"\n')
    program, target = read(tmp_path / "own.toml"), tmp_path / "target"
    target.write_text("kept")

    def arrange(directory: Path, packages: Path | None, program: object) -> Place:
        (directory / "name").symlink_to(target)
        return Place(directory, packages, read(tmp_path / "own.toml"))

    serving = engine.serving(program, program.cases[0], "unix", None, arrange)
    with pytest.raises((OSError, SentenceError)), serving:
        pass
    assert target.read_text() == "kept"


def test_a_stored_run_names_no_file_outside_its_report(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with pytest.raises(RunError, match="names a file"):
        write_all(tmp_path / "run", {"folded/../../../../out": "text"})
    assert [path.name for path in tmp_path.rglob("*")] == ["run"]


def test_what_is_measured_is_for_its_user_alone_until_it_is_whole(tmp_path: Path) -> None:
    Collector(Plan(()), Execution("workload"), tmp_path / "own/3")
    umask = os.umask(0o027)
    try:
        with scratch() as folders:
            run = report.RunFolder(tmp_path / "named", folders)
            for folder in (tmp_path / "own/3", run.path):
                assert stat.S_IMODE(folder.stat().st_mode) & 0o077 == 0, folder
            run.move()
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "named").stat().st_mode) == 0o750


def test_matplotlibs_settings_are_nobody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache is read only, and somebody made a folder of a name that could be guessed."""
    (tmp_path / "matplotlib-fonts").mkdir()
    for name, value in {"dont_write_bytecode": True, "pycache_prefix": None}.items():
        monkeypatch.setattr(sys, name, value)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("MPLBACKEND", "MPLCONFIGDIR", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with scratch():
        monkeypatch.setattr(os, "access", lambda *_: False)
        session.Session(Options(verb="report", no_install=True), root=None).set_up("--analysis")
        fonts = Path(os.environ["MPLCONFIGDIR"])
        assert fonts.parent != tmp_path
        assert stat.S_IMODE(fonts.parent.stat().st_mode) & 0o077 == 0
    assert not fonts.parent.exists()
