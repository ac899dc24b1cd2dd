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
import shutil
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
from runners.host import ftrace, instrument, preflight
from runners.orphans import adopt, adopts, end_orphans
from runners.process import REPOSITORY, ROOT, SIGNALS, WORKLOAD, RunError, attempt, command, stop
from runners.store.folders import Invoker, invoker, sweep, workspace
from runners.store.locks import LOCK_VARIABLE, inherited, measuring

CHANNEL = "PATHCOST_MONITOR"  # in the environment of the user's process: the descriptor's number
LARGEST_MESSAGE = 1 << 16  # bytes of a message
ROOT_ENDED = "root's process has ended, so nothing more can be measured."
END_SECONDS = 20.0  # for a program that is to end: it detaches its probes first
NO_CHANGE = 127  # setpriv(1): it could not change user or capabilities
# -s: where sudo keeps HOME, the user's own packages would be root's.
MODULE = (sys.executable, "-B", "-P", "-s", "-m")
# What it takes to attach probes, to read a checkout below a closed home, and to become the user
# (capabilities(7)). Before Linux 5.8 bpf(2) asks for sys_admin, and so does tracefs' first mount;
# /proc/kcore, of which probes/callsite.py reads the kernel's code, asks for sys_rawio.
MEASURING = (
    "bpf", "chown", "dac_read_search", "ipc_lock", "kill", "net_admin", "perfmon", "setgid",
    "setpcap", "setuid", "sys_admin", "sys_nice", "sys_ptrace", "sys_rawio", "sys_resource",
    "syslog",
)  # fmt: skip
# What root's programs may have of a user's environment. PATH is sudo's own (secure_path).
KEPT_VARIABLES = re.compile(
    "PATH|PYTHONPATH|LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|SUDO_[A-Z]+|PATHCOST_[A-Z_]+|[A-Za-z]+_(proxy|PROXY)"
)
CLONE_NEWNS = 0x00020000
PR_CAPBSET_READ, CAP_SETPCAP = 23, 8
# File system type → where the tools look for it, and a file that is there once it is mounted.
MOUNTS = (("tracefs", TRACEFS, "events"), ("securityfs", TRACEFS.parent / "security", "lsm"))


def is_confined() -> bool:
    """Whether root is no more than a user here, as in a container without any capability.

    Root's process has to bound what it starts (CAP_SETPCAP), and needs a folder of root's own.
    """
    if os.environ.get("SUDO_UID", "0") != "0":
        return False  # the user behind sudo runs the rest: root's process says what it lacks
    may_bound = ctypes.CDLL(None).prctl(PR_CAPBSET_READ, CAP_SETPCAP, 0, 0, 0) == 1
    return not may_bound or not os.access(ROOT if ROOT.is_dir() else ROOT.parent, os.W_OK)


def mount_tracing() -> None:
    """Mount what tracing needs in a mount namespace that ends with us. Raises RunError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise RunError(
            f"root may not mount tracefs here ({reason}): start the container with --privileged."
        )
    if not preflight.sees_all_processes():
        raise RunError(
            "probes see the machine's process numbers, and this container has its own: "
            "start it with --pid=host."
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
        message, descriptors, _, _ = socket.recv_fds(channel, LARGEST_MESSAGE, 1)
    if not message:
        raise RunError(ROOT_ENDED)
    for descriptor in descriptors:  # the lock, which ends with the last process that measures
        os.environ[LOCK_VARIABLE] = str(descriptor)
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
        """Start one of ROOT_COMMANDS. Raises RunError; its end does, too, if it did not start."""
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
                raise RunError(ROOT_ENDED) from error
        return ours


# What a number of a request looks like: digits, with a fraction or without.
NUMBER = re.compile(r"[0-9]{1,7}(\.[0-9]{1,6})?", re.ASCII)


@dataclass(frozen=True)
class RootCommand:
    """What root runs by a name. `argv`: its command, by the user and the folder for results.

    A request may add words from `words` to it, or has `numbers` of them; any other is refused.
    """

    argv: Callable[[Invoker, Path], list[str]]
    words: frozenset[str] = frozenset()
    numbers: int = 0

    def take(self, name: str, words: Sequence[str]) -> Sequence[str]:
        """The words of a request, all of which we know. Raises RunError."""
        if self.numbers and len(words) != self.numbers:
            raise RunError(f"root's process refuses {name}: it takes {self.numbers} numbers.")
        for word in words:
            if not (NUMBER.fullmatch(word) if self.numbers else word in self.words):
                known = ", ".join(sorted(self.words)) or ("numbers" if self.numbers else "no word")
                raise RunError(f"root's process refuses {name} {shown(word)}: it takes {known}.")
        return words


# Without --environment and --build, by which set-up does what belongs to the user as the user.
SETUP_WORDS = frozenset(
    (
        "--no-install",
        "--unprobed",
        "--no-python",
        "--guest",
        "--claims",
        "--programs",
        "--tools",
        "--exact",
        "--arm64",
        "--analysis",
        "--watch",
        "--campaign",
    )
)


def collect_command(who: Invoker, out: Path) -> list[str]:
    """The collector, which runs the workload as the user behind sudo."""
    words = [*MODULE, "runners.host", str(out), "--workload", str(WORKLOAD)]
    if who.drop:
        words += ["--user", "{}:{}".format(*who.drop)]
    return words


ROOT_COMMANDS: dict[str, RootCommand] = {
    "setup": RootCommand(lambda who, out: [str(REPOSITORY / "runners/setup.sh")], SETUP_WORDS),
    "preflight": RootCommand(lambda who, out: [*MODULE, "runners.host.preflight"]),
    "collect": RootCommand(collect_command),
    "counting": RootCommand(
        lambda who, out: [*MODULE, "runners.programs.counting", str(who.uid)],
        frozenset(instrument.WINDOWED),
    ),
    # For how many seconds, at what cost, and how often it is shown meanwhile.
    "pairs": RootCommand(
        lambda who, out: [instrument.PYTHON, "-B", "-P", "-s", str(PROBES / "bcc/pairs.py")],
        numbers=3,
    ),
}
# apt-get needs all of root's rights. What belongs to the user it makes as the user.
UNBOUND = "setup"


class RunningProgram(NamedTuple):
    """A program that the user's process has asked for, and the socket for the answer."""

    process: subprocess.Popen[bytes]
    out: Path
    answer: socket.socket


class Monitor:
    """Serves one process of the user's until that ends."""

    def __init__(self, who: Invoker) -> None:
        self._who = who
        self._folder: Path | None = None
        self._mounted = False
        self._held = ExitStack()
        self._numbers = itertools.count(1)
        self._running: dict[int, RunningProgram] = {}
        self._removed = sweep(ROOT)  # at each start, whatever it is to do
        self._adopts = adopts()

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
            except (IndexError, KeyError, RecursionError, TypeError, ValueError):
                pass  # the other end is closed, or it is no process of ours
            finally:
                for running in self._running.values():
                    stop(running.process, END_SECONDS)
                    with suppress(ProcessLookupError):  # of a shell's children
                        os.killpg(running.process.pid, signal.SIGKILL)

    def _obey(self, channel: socket.socket) -> int | None:
        """Do what one request says; of a program that it started, what tells its end."""
        message, descriptors, _, _ = socket.recv_fds(channel, LARGEST_MESSAGE, 4)
        streams = descriptors[1:]
        try:
            # Without a message the other end is closed, and there is no descriptor either.
            answer = _socket_of(descriptors[0])
            try:
                name, *words = json.loads(message)
                if name not in ("mounts", "lock"):
                    return self._start(name, [str(word) for word in words], streams, answer)
                if name == "mounts":
                    mount_tracing()
                    self._mounted = True
                    _send(answer, {})
                else:
                    self._workspace()
                    self._held.enter_context(measuring())
                    removed = [*self._removed, *sweep(ROOT), *ftrace.remove_stale()]
                    _send(answer, {"removed": removed}, inherited())
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

    def _own_workload(self) -> Path | None:
        """A copy of the workload that our namespace alone has; None where there can be none.

        A probe fires in every process that runs the file it is attached to, whoever starts it.
        """
        place = self._workspace() / "workload"
        if not place.is_dir():
            place.mkdir(0o755)
            options = ["-t", "tmpfs", "-o", "nosuid,nodev,mode=755"]
            if attempt(["mount", *options, "workload", place]).returncode != 0:
                return None
            self._held.callback(attempt, ["umount", place])
        return Path(shutil.copy(WORKLOAD, place))

    def _start(
        self, name: str, words: list[str], streams: Sequence[int], answer: socket.socket
    ) -> int:
        program, bound = ROOT_COMMANDS[name], name != UNBOUND
        # A number of ours: the folder of an earlier one belongs to the user by now.
        out = self._workspace() / str(next(self._numbers))
        argv = [*program.argv(self._who, out), *program.take(name, words)]
        if name == "collect" and self._mounted and (own := self._own_workload()):
            argv += ["--workload", str(own)]
        stdin, stdout, stderr = streams
        if not bound:
            adopt(False)  # a daemon that a package starts is the machine's
        process = subprocess.Popen(
            command(argv, bounds=MEASURING if bound else None),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            cwd=REPOSITORY,
            env=variables_for(self._who) | {"TMPDIR": str(self._workspace())},
            # Not to set-up, whose compilers may leave a server behind.
            pass_fds=inherited() if bound else (),
        )
        ended = os.pidfd_open(process.pid)
        self._running[ended] = RunningProgram(process, out, answer)
        return ended

    def _finish(self, ended: int) -> None:
        """Tell the status of a program that has ended, and give its results to the user."""
        os.close(ended)
        process, out, answer = self._running.pop(ended)
        adopt(self._adopts)
        if there := out.is_dir():
            self._who.own(out)
        _send(answer, {"status": process.wait(), "out": str(out) if there else None})


def variables_for(who: Invoker) -> dict[str, str]:
    """The variables of root's programs: for a user, those alone that we know to be harmless."""
    if who.drop is None:
        return dict(os.environ)
    kept = {name: value for name, value in os.environ.items() if KEPT_VARIABLES.fullmatch(name)}
    return kept | {"HOME": "/root"}  # settings of the user's, such as perf's, are not root's


def _socket_of(descriptor: int) -> socket.socket:
    """Raises ValueError where the descriptor is another file's."""
    try:
        return socket.socket(fileno=descriptor)
    except OSError as error:
        os.close(descriptor)
        raise ValueError(str(error)) from None


def _send(channel: socket.socket, answer: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    with channel, suppress(OSError):  # it is gone, or full: nobody has to wait for its reader
        message = json.dumps(answer).encode()
        socket.send_fds(channel, [message], descriptors, socket.MSG_DONTWAIT)


def main(argv: list[str]) -> int:
    """Start the user's process, and serve it; its exit status. Raises UsageError, RunError."""
    who = invoker()
    # They hold numbers of descriptors that we make: a caller's would be believed.
    for name in (CHANNEL, LOCK_VARIABLE):
        os.environ.pop(name, None)
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
                env=environment,
                pass_fds=[theirs.fileno()],
                umask=umask,
            )
        for number in SIGNALS:
            signal.signal(number, lambda number, _: process.send_signal(number))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        adopt(True)
        try:
            Monitor(who).serve(ours)
        finally:
            ours.close()
            status = process.wait()
            end_orphans()
    if status == NO_CHANGE and who.drop:
        raise RunError(
            f"root may not become user {who.uid} here, who is to run everything but probes: "
            "start it as root without sudo, or with CAP_SETUID, CAP_SETGID and CAP_SETPCAP."
        )
    if status < 0:
        name = signal.Signals(-status).name
        raise RunError(f"the run was killed ({name}); what it had not finished is lost.")
    return status
