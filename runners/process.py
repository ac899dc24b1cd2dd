# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs: how to start and end them, and what a run tells its user meanwhile.

Each program dies with us and holds no more privilege than it needs.
"""

import errno
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from probes.bcc.people import stat_fields
from probes.contract import UNTOLD
from probes.messages import CLONE, FOLDER, exit_status
from probes.messages import RunError as RunError
from probes.messages import UsageError as UsageError

REPOSITORY = Path(__file__).parent.parent
REPORTS = (REPOSITORY if CLONE else Path()) / FOLDER
ROOT = Path("/run/pathcost")  # root's own, where no other user can write
PROJECT = REPOSITORY / "pyproject.toml"
RUN_SH = REPOSITORY / "runners/run.sh"
WORKLOAD = REPOSITORY / "runners/workload/build/pathcost-workload"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
User = tuple[int, int]
# What compiles on an emulated or a crowded CPU works for minutes: it may take so many seconds more
# for each of its processor time, up to the most that it may use.
SECONDS_OF_WORK, LONGEST_WORK = 10, 600
TICKS = os.sysconf("SC_CLK_TCK")  # in a second
ANSWER_SECONDS = 30  # a program's word about itself; an emulated machine is slow
LONGEST_SECONDS = 900  # of what unpacks, or reads package lists: nobody waits for ever
PACKAGE_OF = {"dpkg-deb": "dpkg", "ip": "iproute2", "mke2fs": "e2fsprogs"}
SEARCH = f"{os.environ.get('PATH', '/usr/bin:/bin')}:/usr/local/sbin:/usr/sbin:/sbin"
OVERDUE = 124  # the status of what took longer, as of timeout(1)
# Set when the run ends early: every tool and QEMU then ends, whichever thread runs it.
stopping = threading.Event()
# Where this process leaves what it measures: each is whole or empty.
folders: list[Path] = []
LAST_BYTES = 1 << 16  # of a file of complaints: more than its last line has
SIGN_OF_LIFE_SECONDS = 15.0
SHORTEST_SECONDS = 0.05  # of a step that has a line


def version() -> str:
    """The version of pathcost, which pyproject.toml has."""
    return str(tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["version"])


class UntoldError(RunError):
    """A gate cannot tell; `git bisect run` takes its status for "skip this commit"."""

    status = UNTOLD


def run_main(work: Callable[[], object]) -> int:
    """Do the work. Every way out has an exit status, and every failure one sentence."""
    return exit_status(lambda: _interruptible(work))


def _interruptible(work: Callable[[], object]) -> object:
    """Do the work; a signal meanwhile raises KeyboardInterrupt, once, and nowhere else."""
    # SIGINT too: a shell that starts us in the background has it ignored, and Python keeps that.
    for number in SIGNALS:
        signal.signal(number, _interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # run.sh holds them back until here
    try:
        return work()
    except KeyboardInterrupt as interruption:
        whole = [path for path in folders if path.is_dir() and any(path.iterdir())]
        if str(interruption) or not whole:
            raise
        raise KeyboardInterrupt(f"interrupted; what was measured is in {whole[0]}.") from None
    finally:
        _let_signals_pass()  # what is done is done: its status stands


def _let_signals_pass() -> None:
    for number in SIGNALS:  # unlike SIG_IGN, programs that are started meanwhile do not inherit it
        signal.signal(number, lambda *_: None)


def _interrupt(*_: object) -> None:
    """The first signal ends the run; a second must not keep it from clearing up."""
    _let_signals_pass()
    raise KeyboardInterrupt


def command(
    argv: Sequence[str],
    user: User | None = None,
    capabilities: Sequence[str] = (),
    bounds: Sequence[str] | None = None,
    groups: str = "clear",
    death: str = "KILL",
) -> list[str]:
    """Wrap `argv`: run it as `user`, and let the kernel send it the signal `death` when we die.

    The new user keeps these `capabilities`, and of groups none, or his own with groups="init". With
    `bounds` the program and its children can never have any other capability (capabilities(7)).
    setpriv(1) does it in the right order: a change of user clears the death signal.
    """
    prefix = ["setpriv", "--pdeathsig", death]
    if bounds is not None:
        prefix += ["--bounding-set", ",".join(["-all", *(f"+{name}" for name in bounds)])]
    if user is not None:
        prefix += ["--reuid", str(user[0]), "--regid", str(user[1]), f"--{groups}-groups"]
        if capabilities:
            kept = ",".join(f"+{name}" for name in capabilities)
            prefix += ["--inh-caps", kept, "--ambient-caps", kept]
    return [*prefix, "--", *argv]


def attempt(
    argv: Sequence[object],
    user: User | None = None,
    timeout: float = LONGEST_SECONDS,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, without input: its status and what it printed.

    One that takes longer than `timeout` seconds is killed: OVERDUE, and stderr says so.
    """
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    words = command([str(word) for word in argv], user)
    how = streams | options
    try:
        return subprocess.run(words, text=True, errors="replace", timeout=timeout, **how)
    except subprocess.TimeoutExpired:
        why = f"{argv[0]} did not end within {timeout:g} s"
        return subprocess.CompletedProcess(words, OVERDUE, "", why)


def answer(argv: Sequence[object], **options: Any) -> str:
    """What a program prints about itself; empty where it hangs."""
    return attempt(argv, timeout=ANSWER_SECONDS, **options).stdout


def find_program(name: str) -> str:
    """The path of a program of this machine. Raises RunError, which names its package."""
    path = shutil.which(name, path=SEARCH)
    if path is None:
        package = PACKAGE_OF.get(name, name)
        raise RunError(f"{name} is missing on this machine: apt-get install {package}")
    return path


def plain_environment(**extra: str) -> dict[str, str]:
    """A small environment without a language; it keeps proxies and pathcost's variables."""
    kept = re.compile(".*_proxy|PATHCOST_.*", re.IGNORECASE)
    own = {name: value for name, value in os.environ.items() if kept.fullmatch(name)}
    return {"PATH": SEARCH, "LC_ALL": "C.UTF-8", "HOME": "/nonexistent", **own, **extra}


def run_tool(
    argv: Sequence[str], purpose: str, env: Mapping[str, str] | None = None, **options: Any
) -> str:
    """What a program of this machine printed. Raises RunError, with its complaint, if it fails."""
    words = [find_program(argv[0]), *argv[1:]]
    stop_if_told()
    done = attempt(words, env=env or plain_environment(), **options)
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("E: ")] or lines[-1:]
        causes = [line for line in lines if line[2:].startswith(" Failed to fetch")]  # apt's, best
        why = [*causes, *reversed(errors), f"status {done.returncode}"][0]
        raise RunError(f"cannot {purpose}: {argv[0]} failed: {re.sub('^[EW]: ', '', why)}", lines)
    return done.stdout


def last_words(text: str, otherwise: str = "it gave no reason") -> str:
    """The last line of a complaint, without its full stop."""
    lines = text.strip().splitlines()
    return lines[-1].strip().removeprefix("pathcost: ").rstrip(".") if lines else otherwise


def last_line(complaints: IO[bytes]) -> str:
    """What a program of ours said last on stderr, a file; empty where it said nothing."""
    complaints.seek(max(0, complaints.seek(0, os.SEEK_END) - LAST_BYTES))
    *_, line = ["", *complaints.read().decode(errors="replace").strip().splitlines()]
    # Python's own word, where a signal came before the program could answer it.
    return "" if line == "KeyboardInterrupt" else line.removeprefix("pathcost: ")


def stop_if_told() -> None:
    """What takes seconds asks here: raises KeyboardInterrupt once the run ends early."""
    if stopping.is_set():
        raise KeyboardInterrupt


def stop(process: subprocess.Popen[bytes] | subprocess.Popen[str], patience: float = 5.0) -> int:
    """Have `process` end, and kill it after `patience` seconds; return its status."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()


def free_port() -> int:
    """A TCP port of the loopback that nobody was using a moment ago. Raises RunError."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            return int(server.getsockname()[1])
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise RunError(
            "no port of 127.0.0.1 is free, so no server can be started: widen"
            " net.ipv4.ip_local_port_range, or end what holds its ports (ss -tan)."
        ) from None


class Progress:
    """Prints to stderr: one line that changes on a terminal, plain lines elsewhere.

    Threads may each be in a step of their own.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._terminal = sys.stderr.isatty()
        self._width = shutil.get_terminal_size().columns
        self._lock = threading.Lock()
        self._steps: dict[int, tuple[str, str, float]] = {}  # by thread: name, text, began

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """A named piece of work; `seconds` keeps how long it took."""
        done, thread, began = threading.Event(), threading.get_ident(), time.monotonic()
        self._steps[thread] = name, "", began
        ticker = threading.Thread(target=self._tick, args=(done, thread), daemon=True)
        ticker.start()
        try:
            yield
        finally:
            done.set()
            ticker.join()
            del self._steps[thread]
            spent = time.monotonic() - began
            self.seconds[name] = round(self.seconds.get(name, 0.0) + spent, 2)
            if spent >= SHORTEST_SECONDS:
                self._line(f"{name}: {spent:.1f} s", final=True)

    def say(self, text: str) -> None:
        """Set what this thread's step is doing now."""
        if step := self._steps.get(thread := threading.get_ident()):
            self._steps[thread] = step[0], text, step[2]

    def count(self, done: int, total: int, text: str) -> None:
        """Set what the step is doing, how far it is, and about how long it will go on."""
        left = ""
        if done and (step := self._steps.get(threading.get_ident())):
            left = f"about {(time.monotonic() - step[2]) * (total - done) / done:.0f} s left, "
        self.say(f"[{done}/{total}] {left}{text}")

    def note(self, text: str) -> None:
        """Print a line that stays."""
        self._line(text, final=True)

    def _tick(self, done: threading.Event, thread: int) -> None:
        spoke = time.monotonic()
        while not done.wait(0.5):
            now = time.monotonic()
            name, text, began = self._steps[thread]
            line = f"{name}: {text} ({now - began:.0f} s)"
            if self._terminal and thread == max(self._steps, key=lambda each: self._steps[each][2]):
                self._line(line, final=False)
            elif not self._terminal and now - spoke >= SIGN_OF_LIFE_SECONDS:
                spoke = now
                self._line(line, final=True)

    def _line(self, text: str, *, final: bool) -> None:
        # Where nobody reads, or the disk is full, the work goes on.
        with self._lock, suppress(OSError):
            if self._terminal:
                line = text + "\n" if final else text[: self._width - 1]
                sys.stderr.write(f"\r\x1b[K{line}")
            elif final:
                sys.stderr.write(text + "\n")
            sys.stderr.flush()


class Patience:
    """A limit of `seconds` on a process, and more as long as it works."""

    def __init__(self, pid: int, seconds: float) -> None:
        self._pid, self._limit = pid, seconds
        self._began, self._before = time.monotonic(), self._used()

    def _used(self) -> float:
        """Its processor time so far."""
        return sum(map(int, stat_fields(self._pid)[11:15])) / TICKS

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.monotonic() - self._began

    def is_over(self) -> bool:
        """Whether it has had its time."""
        worked = self._used() - self._before
        return worked > LONGEST_WORK or self.seconds > self._limit + SECONDS_OF_WORK * worked
