# SPDX-License-Identifier: GPL-2.0-or-later
"""Which tests can run here, and a reason for each that cannot."""

import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from analysis.__main__ import main as make_report
from analysis.analyse import analyse
from runners.store.folders import invoker, make_folder, sweep

# Fixtures that run make, and the fixture that analyses a run for each test.
SLOW = {"analysed", "program", "sanitized", "extended", "built", "answers",
        "reference_run"}  # fmt: skip

PR_SET_PDEATHSIG = 1
# A socket's address has 107 bytes, of which a test's own folder takes some 80.
LONGEST_TMPDIR = 24
TEMPORARY = Path("/tmp")


def pytest_configure_node(node: Any) -> None:
    """Tell pytest's workers whose they are."""
    node.workerinput["parent"] = os.getpid()


def pytest_configure(config: pytest.Config) -> None:
    """Let pytest's workers die with it, also where it has died just now.

    What nohup or a shell's `&` ignores stays ignored here, and not in what the tests start: they
    send it signals. (A program that is started gets back what its parent handles.)
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    settings.register_profile("any machine", deadline=None)  # as no test asserts how long it took
    settings.load_profile("any machine")
    # Under sudo what we start would act for its user, who may not enter pytest's folders of root's.
    os.environ["PATHCOST_CACHE"] = str(invoker().cache)
    os.environ.pop("SUDO_UID", None)
    if len(tempfile.gettempdir()) > LONGEST_TMPDIR:
        os.environ["TMPDIR"] = tempfile.tempdir = "/tmp"
    worker = getattr(config, "workerinput", None)
    if worker is None:
        own_temporary_folder(config)
    else:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != worker["parent"]:
            os._exit(1)


def own_temporary_folder(config: pytest.Config) -> None:
    """Have tests' temporary files in one folder: killed, we leave it to the next start.

    What pytest gives tests stays where it was, to be looked at after a failure.
    """
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    sweep(TEMPORARY)
    folder, lock = make_folder(TEMPORARY, "t", 0o700)
    folder.chmod(0o1777)  # tests also act as other users
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    config.add_cleanup(lambda: os.close(lock))
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that need root; mark as slow those that compile or analyse a whole run."""
    for item in items:
        function = getattr(item, "function", None)
        if SLOW & set(getattr(item, "fixturenames", ())) or (
            isinstance(function, FunctionType) and analyses(function)
        ):
            item.add_marker(pytest.mark.slow)
        if os.geteuid() == 0:
            continue
        if item.get_closest_marker("root") or item.get_closest_marker("guest"):
            item.add_marker(pytest.mark.skip(reason="needs root: run the tests with sudo"))


class Turns(LoadScopeScheduling):  # type: ignore[misc]
    """Under `--dist loadscope`, one worker runs in turn all that may disturb each other.

    Tests of other rooms measure, attach probes or look at what a run left. A guest counts the same
    whatever else runs; the tests that probe one share its boot.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = Path(nodeid.partition("::")[0])
        if file.parent.name == "guest":
            return "guests"
        return str(file) if file.parent.name in ("exact", "campaign") else "measures"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Turns | None:
    """Take our scheduler where tests are told to take turns."""
    return Turns(config, log) if config.getoption("dist") == "loadscope" else None


def analyses(function: FunctionType) -> bool:
    """Whether a test, or a function of the tests that it calls, analyses a whole run.

    An analysis takes a second, and a report three. Tests of the fixtures `plain` and
    `plain_report` share one of each, and are not slow.
    """
    calls = [function]
    looked_at: set[FunctionType] = set()
    while calls:
        caller = calls.pop()
        looked_at.add(caller)
        called = [caller.__globals__.get(name) for name in _names(caller.__code__)]
        if any(target is make_report or target is analyse for target in called):
            return True
        calls += [
            target
            for target in called
            if isinstance(target, FunctionType)
            and target.__module__.startswith("tests.")
            and target not in looked_at
        ]
    return False


def _names(code: CodeType) -> set[str]:
    """The names that a function's code mentions, in functions within it too."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*map(_names, inner))


@pytest.fixture(scope="session")
def reference_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reference run, analysed, at its place in a copy of the tree."""
    from tests.docs import reference

    return reference.complete(
        Path(__file__).parents[1] / reference.RUN, tmp_path_factory.mktemp("tree") / "pathcost"
    )


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree as a git repository: itself, or a copy where git takes it for none or another's."""
    from tests.docs.transcripts import clone

    here = Path(__file__).parents[1]
    if subprocess.run(["git", "log", "-1"], cwd=here, capture_output=True).returncode == 0:
        return here
    clone(copy := tmp_path_factory.mktemp("repository") / "pathcost")
    who = ["-c", "user.name=x", "-c", "user.email=x"]
    for words in (["init", "--quiet"], ["add", "--all"], [*who, "commit", "--quiet", "-m", "x"]):
        subprocess.run(["git", *words], cwd=copy, check=True)
    return copy


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """An empty folder with a short path, for sockets.

    The path of pytest's own folder grows with the test's name and with the number of sessions.
    """
    with tempfile.TemporaryDirectory(prefix="") as folder:
        yield Path(folder)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 120 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=120m", "tmpfs", disk], check=True)
    yield disk
    subprocess.run(["umount", disk], check=True)
