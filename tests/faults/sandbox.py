# SPDX-License-Identifier: GPL-2.0-or-later
"""A place where a run can do its worst: mounts, network and cache of its own, on this kernel.

A process holds its namespaces, and we look into it through /proc/PID/root. /tmp, /run/pathcost and
the network are private, so that a snapshot shows what our runs leave and nothing of anybody else's.
The cache is an overlay over the user's: what undisturbed runs add lies in a layer that stays,
damage in one that goes. The kernel with its probes and tracers is the machine's.
"""

import ctypes
import itertools
import os
import pwd
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import psutil

from probes.callsite import TRACEFS
from runners.host import ftrace
from runners.process import REPOSITORY
from runners.store.folders import invoker
from tests.processes import captured, living, wait_for

# Not below /tmp, over which the sandbox mounts a /tmp of its own.
STATE = Path("/var/tmp/pathcost-faults-test")
FOLDERS = ("cache", "checkout", "made", "out", "small", "upper", "warm", "work")
# The cache and the checkout may lie below /tmp, so they are seen at a second place first.
MOUNTS = """
mount --bind "$CACHE" "$STATE/warm"
mount --bind "$CHECKOUT" "$STATE/checkout"
mkdir -p /run/pathcost
mount -t tmpfs -o mode=1777 own /tmp
mount -t tmpfs -o mode=0755 own /run/pathcost
ip link set lo up
echo ready
exec sleep infinity
"""
# What a sudo without further settings leaves of the environment.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# bpf(2): commands that give the next id, by kind; x86_64's number of the call.
SYS_BPF = 321
NEXT_ID = {"program": 11, "map": 12, "link": 31}
LONGEST = 1200.0  # seconds of an undisturbed run, the first boot of a guest included
OUTLIVE = 30.0
PROGRAM = 6  # so many words of a command line name the program; options come after
# Also the last line of one, told as a sentence.
TRACEBACK = re.compile(
    r"Traceback|Exception ignored|Fatal Python error|: line \d+: |^pathcost: \w+Error: ", re.M
)
number = itertools.count()


@dataclass
class Run:
    """A started run.sh. Its output goes to files, as a process that is left would hold a pipe."""

    process: subprocess.Popen[bytes]
    out: Path
    stderr: Path
    word: str = "none"  # in the environment of all that it started
    began: float = field(default_factory=time.monotonic)

    @property
    def status(self) -> int:
        return int(self.process.returncode)

    @property
    def text(self) -> str:
        return self.stderr.read_text(encoding="utf-8", errors="replace")

    def alive(self) -> bool:
        return self.process.poll() is None

    def descendants(self, program: str = "") -> list[int]:
        """Living processes that this run started, by the name of their program or module."""
        return [
            pid
            for pid in living(self.word)
            if pid != self.process.pid and (not program or program in names(pid))
        ]

    def watch(self, until: Callable[[], bool], patience: float) -> bool:
        """Wait for its end or `until`; whether `until` came."""
        deadline = time.monotonic() + patience
        while self.alive() and time.monotonic() < deadline:
            if until():
                return True
            time.sleep(0.03)
        return False

    def wait(self, patience: float) -> bool:
        """Whether it ended by itself; where it hangs, it and its children are killed."""
        self.watch(lambda: False, patience)
        if not self.alive():
            return True
        for pid in (*self.descendants(), self.process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        return False

    def hit(self, pid: int | None, name: str) -> bool:
        """Signal a process, or the whole group as a terminal does; whether it was there."""
        how = signal.Signals[f"SIG{name}"]
        try:
            os.kill(pid, how) if pid else os.killpg(self.process.pid, how)
        except ProcessLookupError:
            return False
        return True


def names(pid: int) -> list[str]:
    try:
        return [Path(word).name for word in psutil.Process(pid).cmdline()[:PROGRAM]]
    except psutil.NoSuchProcess:
        return []


@dataclass
class Sandbox:
    """The namespaces, and how many seconds undisturbed runs take, by their options."""

    holder: int
    user: int
    usual: dict[Sequence[str], float] = field(default_factory=dict)
    cache = STATE / "cache"
    out = STATE / "out"

    def enter(self, *, outside: bool = False) -> list[str]:
        """What starts a command inside; `outside`: in the machine's own network."""
        spaces = ["--mount"] if outside else ["--mount", "--net"]
        return ["nsenter", f"--target={self.holder}", *spaces, "--"]

    def start(
        self, options: Sequence[str], *, wrap: Sequence[str] = (), name: str = "",
        environment: Mapping[str, str] | None = None, outside: bool = False,
    ) -> Run:  # fmt: skip
        """Start run.sh as `sudo` does."""
        count, word = next(number), f"faults-{uuid.uuid4()}"
        out = self.out / (name or f"run{os.getpid()}-{count}")
        stderr = STATE / f"run{count % 20}.stderr"
        environment = {
            **as_sudo(self.user, self.cache),
            "PATHCOST_TEST": word,
            **(environment or {}),
        }
        words = [str(STATE / "checkout/runners/run.sh"), *options, "--no-install", "--out"]
        with stderr.open("wb") as errors, stderr.with_suffix(".stdout").open("wb") as output:
            process = subprocess.Popen(
                [*self.enter(outside=outside), *wrap, *words, str(out)], start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=output, stderr=errors, cwd="/", env=environment,
            )  # fmt: skip
        return Run(process, out, stderr, word)

    def undisturbed(self, options: Sequence[str], *, outside: bool = False) -> Run:
        run = self.start(options, outside=outside)
        assert run.wait(LONGEST), f"an undisturbed run hangs: {options}"
        return run

    def seconds(self, options: Sequence[str]) -> float:
        """What an undisturbed run takes; what it downloads and makes before that is kept."""
        if options not in self.usual:
            self.fresh_cache(keep=True)
            for outside in (False, True, False):
                run = self.undisturbed(options, outside=outside)
                self.usual[options] = time.monotonic() - run.began
                if run.status == 0 and not outside:
                    break
            assert run.status == 0, run.text
            self.fresh_cache()
        return self.usual[options]

    def fresh_cache(self, *, keep: bool = False) -> None:
        """The cache without what was written or damaged since; to `keep` what is written now."""
        upper = "made" if keep else "upper"
        lower = f"{STATE}/warm" if keep else f"{STATE}/made:{STATE}/warm"
        for name in {upper, "work"} - {"made"}:
            empty(STATE / name, self.user)
        layers = f"lowerdir={lower},upperdir={STATE / upper},workdir={STATE}/work"
        mount = 'umount --quiet --lazy "$0"; exec mount -t overlay -o "$1" overlay "$0"'
        argv = [*self.enter(), "sh", "-c", mount, str(self.cache), layers]
        subprocess.run(argv, check=True)

    def look(self) -> set[str]:
        """What there is at the places that runs write to, a line for each thing."""
        inside = Path(f"/proc/{self.holder}/root")
        places = (inside / "tmp", inside / "run", inside / "run/pathcost", inside / "dev/shm")
        files = {path for place in places for path in place.glob("*")}
        cache = (inside / str(self.cache)[1:]).glob("*")
        files |= {path for path in cache if "partial" in path.name or "tmp" in path.name}
        mounts = Path(f"/proc/{self.holder}/mountinfo").read_text(encoding="utf-8").splitlines()
        return {
            *map(str, (*files, *self.out.glob(".*"), *ftrace.stale())),
            *(f"mount on {line.split()[4]}" for line in mounts),
            *bpf_objects(), *kernel_trace(),
        }  # fmt: skip

    def new(self, before: set[str]) -> list[str]:
        """What is still new after five seconds: BPF objects of other programs come and go."""
        wait_for(lambda: self.look() <= before, 5)
        return sorted(self.look() - before)


@contextmanager
def entered() -> Iterator[Sandbox]:
    """A sandbox over this machine's cache, filled with what needs a network."""
    shutil.rmtree(STATE, ignore_errors=True)
    cache = invoker().cache
    cache.mkdir(parents=True, exist_ok=True)
    user = cache.stat().st_uid
    for name in FOLDERS:
        (STATE / name).mkdir(parents=True)
    for name in ("made", "out"):
        empty(STATE / name, user)
    fill = [str(REPOSITORY / "runners/setup.sh"), "--exact", "--guest"]
    subprocess.run(fill, env=as_sudo(user, cache), stdout=subprocess.DEVNULL, check=True)
    given = {"STATE": str(STATE), "CACHE": str(cache), "CHECKOUT": str(REPOSITORY)}
    apart = ["unshare", "--mount", "--net", "--propagation", "private", "--", "sh", "-ec", MOUNTS]
    with subprocess.Popen(apart, env=os.environ | given, stdout=subprocess.PIPE) as holder:
        assert holder.stdout and holder.stdout.readline() == b"ready\n"
        try:
            yield Sandbox(holder.pid, user)
        finally:
            holder.kill()


def as_sudo(user: int, cache: Path) -> dict[str, str]:
    """The environment that sudo gives root, for the invoking user."""
    kept = {name: os.environ[name] for name in os.environ if name.startswith("PIP_")}
    ids = {"SUDO_UID": str(user), "SUDO_GID": str(pwd.getpwuid(user).pw_gid)} if user else {}
    return kept | ids | {"HOME": "/root", "LANG": "C.UTF-8", "PATH": PATH,
                         "PATHCOST_CACHE": str(cache)}  # fmt: skip


def empty(folder: Path, user: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    os.chown(folder, user, pwd.getpwuid(user).pw_gid)


def bpf_objects() -> Iterator[str]:
    """Programs, maps and links that the kernel holds."""
    for kind, command in NEXT_ID.items():
        last = 0
        while True:
            attributes = ctypes.create_string_buffer(struct.pack("=III", last, 0, 0), 12)
            if ctypes.CDLL(None).syscall(SYS_BPF, command, attributes, 12) != 0:
                break
            last = struct.unpack_from("=I", attributes, 4)[0]
            yield f"{kind} {last}"


def kernel_trace() -> Iterator[str]:
    """The lines that probes and tracers leave in the kernel's own trace."""
    for name in ("kprobe_events", "uprobe_events", "current_tracer", "set_ftrace_pid"):
        with suppress(OSError):
            for line in (TRACEFS / name).read_text(encoding="utf-8").splitlines():
                yield f"{name}: {line}"


def outlives(run: Run) -> Iterator[str]:
    """Wait until nothing is left of a run; what outlives it by far is a failure, and killed."""
    wait_for(lambda: not run.descendants(), OUTLIVE)
    for pid in run.descendants():
        yield f"outlives its run: {names(pid)}"
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def wrong(
    run: Run, *, signalled: Sequence[str] = (),
    statuses: Sequence[int] = (0, 1, 2), heard: bool = True, seen: bool = True,
) -> Iterator[str]:  # fmt: skip
    """What is wrong with the end of a run. `heard`: its output could be written;
    `seen`: its folder can be looked at.
    """
    status, text = run.status, run.text
    killed = {-signal.Signals[f"SIG{name}"] for name in signalled}
    allowed = {*statuses, *killed, *(128 - number for number in killed)}
    if status not in allowed | ({130} if signalled else set()):
        yield f"status {status}"
    if TRACEBACK.search(text + run.stderr.with_suffix(".stdout").read_text(errors="replace")):
        yield "traceback"
    if heard and status > 0 and not re.search(r"^pathcost: \S+ \S+", text, re.MULTILINE):
        yield f"status {status} without a sentence"
    if seen:
        yield from _wrong_with_folder(run)


def _wrong_with_folder(run: Run) -> Iterator[str]:
    """A folder is whole or absent, and can be analysed again."""
    files: list[str] = []
    with suppress(OSError):  # no folder, or a name that is too long for one
        files = sorted(path.name for path in run.out.iterdir())
    if "run.json" not in files:
        if files or run.status == 0:
            yield f"no whole folder, status {run.status}: {', '.join(files)}"
        return
    again = captured(
        [sys.executable, "-B", "-m", "analysis", "--quiet", str(run.out)], cwd=REPOSITORY
    )
    if again.returncode not in (0, 1) or TRACEBACK.search(again.stderr):
        yield f"analysis of its folder: status {again.returncode}: {again.stderr}"
    elif run.status == 0:
        csv = run.out / "measurements.csv"
        if again.returncode or not pd.read_csv(csv, low_memory=False)["valid"].any():
            yield f"status 0 without figures: {again.stderr or run.text}"
