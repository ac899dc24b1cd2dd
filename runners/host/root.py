# SPDX-License-Identifier: GPL-2.0-or-later
"""Root's part of run.sh: it takes the lock, and starts the few programs that need root.

Under sudo run.sh is two processes (privilege separation, as in sshd). This one, the monitor, starts
the other, which is the user's own and does all the rest; so root opens nothing where a user can
write. The user's process asks for programs by name; its requests are not trusted.
"""

import ctypes
import itertools
import json
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from probes.callsite import TRACEFS
from probes.messages import UsageError, shown
from probes.scripts import PROBES
from runners.host import ftrace, instrument
from runners.process import REPOSITORY, SIGNALS, WORKLOAD, RunError, attempt, command, stop
from runners.store import LOCK, ROOT, Invoker, inherited, invoker, measuring, sweep, workspace

CHANNEL = "PATHCOST_MONITOR"  # in the environment of the user's process: the descriptor's number
LARGEST = 1 << 16  # bytes of a message
GONE = "root's process has ended, so nothing more can be measured."
PATIENCE = 20.0  # for a program that is to end: it detaches its probes first
NO_CHANGE = 127  # setpriv(1): it could not change user or capabilities
MODULE = (sys.executable, "-B", "-P", "-m")
# What it takes to attach probes, to read a checkout below a closed home, and to become the user
# (capabilities(7)). Before Linux 5.8 bpf(2) asks for sys_admin, and so does tracefs' first mount.
MEASURING = (
    "bpf", "chown", "dac_read_search", "ipc_lock", "kill", "net_admin", "perfmon", "setgid",
    "setpcap", "setuid", "sys_admin", "sys_nice", "sys_ptrace", "sys_resource", "syslog",
)  # fmt: skip
CLONE_NEWNS = 0x00020000
FIRST_PIDS = 0xEFFFFFFC  # the inode of the first PID namespace (linux/nsfs.h)
# File system type → where the tools look for it, and a file that is there once it is mounted.
MOUNTS = (("tracefs", TRACEFS, "events"), ("securityfs", TRACEFS.parent / "security", "lsm"))


def mount_tracing() -> None:
    """Mount what tracing needs in a mount namespace that ends with us. Raises RunError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise RunError(
            f"no private mount namespace ({reason}): in a container, run it with --privileged."
        )
    if Path("/proc/self/ns/pid").stat().st_ino != FIRST_PIDS:
        raise RunError(
            "probes see the machine's process numbers, and this container has its own: "
            "run it with --pid=host."
        )
    attempt(["mount", "--make-rslave", "/"])
    for kind, where, sign in MOUNTS:
        if where.is_dir() and not os.access(where / sign, os.F_OK):
            # Of a kernel without tracefs or securityfs, the preflight says more.
            attempt(["mount", "-t", kind, kind, where])


@dataclass
class RootProgram:
    """A program that root's process has started: what it prints, and what it is told."""

    answer: socket.socket
    stdin: IO[bytes]
    stdout: IO[bytes]

    def wait(self) -> tuple[int, Path | None]:
        """Its status, and the folder with its results, which is ours by now. Raises RunError."""
        self.stdin.close()
        self.stdout.close()
        answer = read_answer(self.answer)
        return answer["status"], Path(answer["out"]) if answer["out"] else None


def read_answer(channel: socket.socket) -> dict[str, Any]:
    """What root's process answers to a request, and keep its lock. Raises RunError."""
    with channel:
        message, descriptors, _, _ = socket.recv_fds(channel, LARGEST, 1)
    if not message:
        raise RunError(GONE)
    for descriptor in descriptors:  # the lock, which ends with the last process that measures
        os.environ[LOCK] = str(descriptor)
    answer: dict[str, Any] = json.loads(message)
    if "error" in answer:
        raise RunError(answer["error"])
    return answer


class Root:
    """The channel to root's process."""

    def __init__(self, descriptor: int) -> None:
        self._channel = socket.socket(fileno=descriptor)
        self._channel.set_inheritable(False)

    @classmethod
    def from_environment(cls) -> "Root | None":
        """Root's process, where one has started us."""
        number = os.environ.pop(CHANNEL, "")
        try:
            return cls(int(number)) if number else None
        except (OSError, ValueError):
            raise UsageError(f"unset {CHANNEL}: {shown(number)} is no socket") from None

    def close(self) -> None:
        """Let root's process end what it still runs for us."""
        self._channel.close()

    def mounts(self) -> None:
        """Mount what tracing needs, for root's programs. Raises RunError."""
        read_answer(self._ask("mounts"))

    def lock(self) -> list[str]:
        """Take the lock until the end; what dead runs had left and is removed. Raises RunError."""
        removed: list[str] = read_answer(self._ask("lock"))["removed"]
        return removed

    def start(
        self, name: str, words: Sequence[str] = (), stderr: int = subprocess.DEVNULL
    ) -> RootProgram:
        """Start a program of PROGRAMS. Raises RunError, and so does its end if it did not start."""
        (stdin, to_program), (from_program, stdout) = os.pipe(), os.pipe()
        errors = os.open(os.devnull, os.O_WRONLY) if stderr == subprocess.DEVNULL else stderr
        try:
            answer = self._ask(name, words, (stdin, stdout, errors))
        finally:
            for descriptor in {stdin, stdout, errors} - {stderr}:
                os.close(descriptor)
        return RootProgram(answer, os.fdopen(to_program, "wb"), os.fdopen(from_program, "rb"))

    def _ask(
        self, name: str, words: Sequence[str] = (), descriptors: Sequence[int] = ()
    ) -> socket.socket:
        """Send a request, with a socket of its own for the answer."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            message = json.dumps([name, *words]).encode()
            try:
                socket.send_fds(self._channel, [message], [theirs.fileno(), *descriptors])
            except OSError as error:
                raise RunError(GONE) from error
        return ours


def _number(word: str) -> str:
    if not re.fullmatch(r"[0-9.]{1,12}", word):
        raise ValueError(f"'{word}' is no number")
    return word


# Name → what root runs, by the user, the folder for results and the words of the request.
PROGRAMS: dict[str, Callable[[Invoker, Path, list[str]], list[str]]] = {
    "setup": lambda who, out, words: [
        str(REPOSITORY / "runners/setup.sh"),
        *(word for word in words if re.fullmatch(r"--[a-z-]+", word)),
    ],
    "preflight": lambda *_: [*MODULE, "runners.host.preflight"],
    "collect": lambda who, out, words: [
        *(*MODULE, "runners.host", str(out), "--workload", str(WORKLOAD)),
        *(["--user", "{}:{}".format(*who.drop)] if who.drop else []),
    ],
    "watch": lambda who, out, words: [
        *(*MODULE, "runners.programs.counting", str(who.uid)),
        *(word for word in words if re.fullmatch(r"[a-z]+", word)),
    ],
    # For how many seconds, and at what cost.
    "pairs": lambda who, out, words: [
        *(instrument.PYTHON, "-B", "-P", str(PROBES / "bcc/pairs.py"), *map(_number, words[:2])),
    ],
}
# apt-get needs all of root's rights. What belongs to the user it makes as the user.
UNBOUND = "setup"


class Running(NamedTuple):
    """A program that the user's process has asked for, and the socket for the answer."""

    process: subprocess.Popen[bytes]
    out: Path
    answer: socket.socket


class Monitor:
    """Serves one process of the user's until that ends."""

    def __init__(self, who: Invoker) -> None:
        self._who = who
        self._folder: Path | None = None
        self._held = ExitStack()
        self._numbers = itertools.count(1)
        self._running: dict[int, Running] = {}

    def serve(self, channel: socket.socket) -> None:
        """Answer requests until the other end is closed; then end what still runs."""
        with self._held, selectors.DefaultSelector() as selector:
            selector.register(channel, selectors.EVENT_READ)
            try:
                while True:
                    for key, _ in selector.select():
                        if key.fileobj is not channel:
                            selector.unregister(key.fd)
                            self._finish(key.fd)
                        elif (ended := self._obey(channel)) is not None:
                            selector.register(ended, selectors.EVENT_READ)
            except (IndexError, KeyError, TypeError, ValueError):
                pass  # the other end is closed, or it is no process of ours
            finally:
                for running in self._running.values():
                    stop(running.process, PATIENCE)
                    with suppress(ProcessLookupError):  # of a shell's children
                        os.killpg(running.process.pid, signal.SIGKILL)

    def _obey(self, channel: socket.socket) -> int | None:
        """Do what one request says; of a program that it started, what tells its end."""
        message, descriptors, _, _ = socket.recv_fds(channel, LARGEST, 4)
        streams = descriptors[1:]
        try:
            # Without a message the other end is closed, and there is no descriptor either.
            answer = socket.socket(fileno=descriptors[0])
            try:
                name, *words = json.loads(message)
                if name not in ("mounts", "lock"):
                    return self._start(name, [str(word) for word in words], streams, answer)
                if name == "mounts":
                    mount_tracing()
                    _send(answer, {})
                else:
                    self._workspace()
                    self._held.enter_context(measuring())
                    _send(answer, {"removed": sweep(ROOT) + ftrace.remove_stale()}, inherited())
            except (RunError, OSError) as error:
                _send(answer, {"error": str(error)})
        finally:
            for descriptor in streams:
                os.close(descriptor)
        return None

    def _workspace(self) -> Path:
        """Our folder, which --help and the like do not need."""
        if self._folder is None:
            self._folder = self._held.enter_context(workspace())
        return self._folder

    def _start(
        self, name: str, words: list[str], streams: Sequence[int], answer: socket.socket
    ) -> int:
        argv, bound = PROGRAMS[name], name != UNBOUND
        # A number of ours: the folder of an earlier one belongs to the user by now.
        out = self._workspace() / str(next(self._numbers))
        stdin, stdout, stderr = streams
        process = subprocess.Popen(
            command(argv(self._who, out, words), bounds=MEASURING if bound else None),
            stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True,
            cwd=REPOSITORY, env=os.environ | {"TMPDIR": str(self._workspace())},
            # Not to set-up, whose compilers may leave a server behind.
            pass_fds=inherited() if bound else (),
        )  # fmt: skip
        ended = os.pidfd_open(process.pid)
        self._running[ended] = Running(process, out, answer)
        return ended

    def _finish(self, ended: int) -> None:
        """Tell the status of a program that has ended, and give its results to the user."""
        os.close(ended)
        process, out, answer = self._running.pop(ended)
        if there := out.is_dir():
            self._who.own(out)
        _send(answer, {"status": process.wait(), "out": str(out) if there else None})


def _send(channel: socket.socket, answer: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    with channel, suppress(OSError):  # it is gone, or no socket: the next read tells
        socket.send_fds(channel, [json.dumps(answer).encode()], descriptors)


def main(argv: list[str]) -> int:
    """Start the user's process, and serve it; its exit status. Raises UsageError, RunError."""
    who = invoker()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    own = {"PATHCOST_CACHE": str(who.cache), CHANNEL: str(theirs.fileno())}
    environment = os.environ | own | ({"HOME": str(who.home)} if who.drop else {})
    umask = os.umask(0o022)  # the user's own holds for what the user's process makes
    with ours:
        with theirs:
            # It answers signals when it is ready to: see runners.__main__.
            signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
            words, groups = [*MODULE, "runners", *argv], "init" if who.named else "clear"
            process = subprocess.Popen(
                command(words, who.drop, groups=groups),
                env=environment, pass_fds=[theirs.fileno()], umask=umask,
            )  # fmt: skip
        for number in SIGNALS:
            signal.signal(number, lambda number, _: process.send_signal(number))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        try:
            Monitor(who).serve(ours)
        finally:
            ours.close()
            status = process.wait()
    if status == NO_CHANGE and who.drop:
        raise RunError(
            f"root may not become user {who.uid} here, who is to run everything but probes: "
            "start it as root without sudo, or with CAP_SETUID, CAP_SETGID and CAP_SETPCAP."
        )
    if status < 0:
        raise RunError(f"the run was killed ({signal.Signals(-status).name}); nothing was kept.")
    return status
