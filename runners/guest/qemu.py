# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian 13's QEMU: unpacked on any host, started through its own ld.so, and watched to its end.

The version is the same everywhere, so that a guest behaves alike on every machine; older versions
corrupt newer kernels under `-cpu max`. The folder also holds zstd and lz4, which unpack kernels,
and qemu-img. What is kept is packed: a stored machine takes a quarter of the room.
"""

import math
import os
import re
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from probes.bcc.people import stat_fields
from probes.files import read_toml
from probes.isa import HOST, ISAS, USUAL, Isa
from runners.guest.debian import LIBRARIES, TRIXIE, PackageSources, packages
from runners.guest.store import Cache, read_manifest
from runners.guest.stored import SILENT, QemuMonitor, Snapshot
from runners.process import TICKS, RunError, command, plain_environment, stopping
from runners.store.locks import inherited

QEMU_PACKAGES, QEMU_UNUSED = packages("qemu")
EMULATOR = "EMULATOR"  # among the packages: the architecture's own

MACHINES = read_toml(Path(__file__).with_name("machines.toml"))
# Options that a guest's kernel must have built in.
NEEDS = f"CONFIG_BLK_DEV_NVME, CONFIG_EXT4_FS, CONFIG_DEVTMPFS and {USUAL.console}"
HAS_CONSOLE = f"has it {' or '.join(isa.console for isa in ISAS.values())}?"
OF_QEMU = re.compile(r"^.*qemu-system-\w+: ")  # before what it complains of
NO_ROOT = "Unable to mount root"  # of the reason of a panic
PANIC = re.compile(r"Kernel panic - not syncing: (.*)")
POLL_SECONDS = 0.5
HOUSE_KEEPING = 0.05  # seconds of QEMU's own
CONSOLE_LINES = 15  # of an error


class HangError(RunError):
    """The guest's kernel hangs: its machine does nothing, or never prints a line."""


@dataclass(frozen=True)
class Qemu:
    """An unpacked QEMU: `version` is its package's, `key` names this build."""

    root: Path
    version: str
    key: str

    def program(self, name: str) -> list[str]:
        """The command that starts a program of this folder, whichever libraries the host has."""
        libraries = self.root / LIBRARIES
        loader = libraries / Path(HOST.loader).name
        return [str(loader), "--library-path", str(libraries), str(self.root / "usr/bin" / name)]

    def emulator(self, isa: Isa = USUAL) -> list[str]:
        """The start of every command line of QEMU for an architecture."""
        share = self.root / "usr/share"
        folders = ["-L", str(share / "qemu"), "-L", str(share / "seabios")]
        return [*self.program(isa.qemu), *folders]

    @property
    def packer(self) -> list[str]:
        """The command that packs a machine's state."""
        return [*self.program("zstd"), "--quiet", "-1", "-T0"]

    def reading(self, state: Path) -> list[str]:
        """The command that prints a stored machine, also one that is not packed."""
        return [*self.program("zstd"), "--quiet", "-dcf", str(state)]


def prepare_qemu(cache: Cache, sources: PackageSources, isa: Isa = USUAL) -> Qemu:
    """QEMU for `isa` from the cache; it is unpacked there first if need be. Raises RunError."""
    wanted = [isa.qemu_package if name == EMULATOR else name for name in QEMU_PACKAGES]
    unused = [path.replace(USUAL.libraries, LIBRARIES) for path in QEMU_UNUSED]
    recipe = {"version": 1, "suites": TRIXIE, "packages": wanted, "unused": unused}

    def build(partial: Path) -> dict[str, object]:
        left_out = [f"--exclude={path}" for path in unused]
        archive = sources.archive(TRIXIE, HOST)
        versions = archive.unpack(wanted, partial / "root", "QEMU", tar_options=left_out)
        return {"packages": versions, "what": versions[isa.qemu_package]}

    entry = cache.entry("qemu", recipe, build)
    version = read_manifest(entry)["packages"][isa.qemu_package]
    return Qemu(entry / "root", version, entry.name)


def value(path: Path | str) -> str:
    """A path or text as a value of QEMU's options, which end at a comma."""
    return str(path).replace(",", ",,")


@dataclass
class Ended:
    """How a QEMU ended: its status, all that the console showed, and what QEMU complained of."""

    status: int
    lines: list[str] = field(default_factory=list)
    complaints: str = ""
    seconds: float = 0.0
    stored: bool = False

    @property
    def tail(self) -> list[str]:
        """The console's last lines, for an error."""
        return self.lines[-CONSOLE_LINES:]

    def panic(self) -> str | None:
        """The kernel's reason, if it panicked."""
        return next((match[1] for line in self.lines if (match := PANIC.search(line))), None)


def run_to_end(
    argv: Sequence[str],
    seconds: float,
    on_line: Callable[[str], None] = lambda _: None,
    *,
    idle: float = math.inf,
    work: float = math.inf,
    console: BinaryIO | None = None,
    snapshot: Snapshot | None = None,
    reading: Sequence[str] = (),
) -> Ended:
    """Run QEMU to its end, and give each line of its console to `on_line` as it comes.

    The machine goes on from the stored one that the command `reading` prints, if there is one.
    It is killed, and RunError raised, after so many `seconds`; HangError after `idle` seconds
    in which it sleeps (on a busy host it may wait as long for a processor), and after `work`
    seconds of processor time between two lines, however busy the host is. Once `stopping` is set,
    it is killed, and KeyboardInterrupt raised. It dies with the thread that called, whatever kills
    it.
    """
    ended, began = Ended(0), time.monotonic()
    with ExitStack() as stack:
        complaints = stack.enter_context(tempfile.TemporaryFile())
        monitor = QemuMonitor(stack) if snapshot else None
        passed = [*inherited()]
        if monitor:
            passed.append(monitor.theirs)
        if reading:
            reader = subprocess.Popen(command(reading), stdout=subprocess.PIPE, stderr=complaints)
            stack.enter_context(reader)
            assert reader.stdout is not None
            passed.append(reader.stdout.fileno())
            argv = [*argv, "-incoming", f"fd:{passed[-1]}", *SILENT]
        process = subprocess.Popen(
            command([*argv, *(monitor.options if monitor else ())]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            pass_fds=passed,
            env=plain_environment(),
            start_new_session=True,
            cwd="/",
        )
        _give_way(process.pid)
        try:
            for line in _lines(process, console, seconds, idle, work):
                if snapshot and not ended.lines:  # by now the guest's processors have threads
                    _be_prompt(process.pid)
                ended.lines.append(line)
                on_line(line)
                if monitor and snapshot and line == snapshot.line:
                    monitor.save(snapshot)
                    ended.stored = True
            ended.status = process.wait(timeout=5)
        except RunError as error:
            raise type(error)(str(error), ended.tail) from None
        finally:
            process.kill()
            process.wait()
        complaints.seek(0)
        ended.complaints = complaints.read().decode(errors="replace")
    ended.seconds = time.monotonic() - began
    return ended


def _give_way(pid: int) -> None:
    """Have a session that we started be as nice as this thread is.

    Where the kernel groups processes by session (autogroup), it shares a CPU between groups, and a
    process is nice to its own group alone.
    """
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    if nice > 0:
        with suppress(OSError):  # without autogroups
            Path(f"/proc/{pid}/autogroup").write_text(str(nice), encoding="ascii")


def _sleeps(pid: int) -> bool:
    """Whether all its threads sleep: none waits for a processor, or is stopped or frozen."""
    states = set()
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):  # a thread that has ended
            states.add(stat.read_text(encoding="utf-8", errors="replace").rpartition(") ")[2][:1])
    return states <= {"S"}


def _be_prompt(pid: int) -> None:
    """Have QEMU's main loop interrupt the guest's processors also where all of us give way.

    It has to notice at once that the guest has stopped (runners/exact/machine.py). Whoever wakes up
    under SCHED_IDLE or SCHED_BATCH waits for the end of the others' turn.
    """
    if os.sched_getscheduler(pid) in (os.SCHED_IDLE, os.SCHED_BATCH):
        with suppress(OSError):  # without the right to
            os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))


def _lines(
    process: subprocess.Popen[bytes],
    console: BinaryIO | None,
    seconds: float,
    most_idle: float,
    most_work: float,
) -> Iterator[str]:
    """Lines as they come, until the end of the file. Raises RunError beyond a limit."""
    assert process.stdout is not None
    rest, began, never = b"", time.monotonic(), f" and printed nothing ({HAS_CONSOLE})"
    first = used = idle = 0.0  # processor time, and seconds, of this silence
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            ready = selector.select(POLL_SECONDS)
            if stopping.is_set():
                raise KeyboardInterrupt
            if time.monotonic() - began > seconds:
                raise RunError(f"the guest did not finish within {seconds:.0f} s")
            if not ready:
                fields = stat_fields(process.pid)
                now = sum(map(int, fields[11:15])) / TICKS  # with those that it waited for
                first = first or now
                idle = idle + POLL_SECONDS if _sleeps(process.pid) else 0.0
                if now > used + HOUSE_KEEPING:
                    used, idle = now, 0.0
                if idle > most_idle:
                    raise HangError(f"the guest's kernel hangs: no work in {idle:.0f} s{never}")
                if now > first + most_work:
                    raise HangError(
                        f"the guest's kernel hangs: {most_work:.0f} s of processor time without "
                        f"a further line{never}"
                    )
                continue
            data = os.read(process.stdout.fileno(), 65536)
            first, idle, never = 0.0, 0.0, ""
            if console:
                console.write(data)
                console.flush()
            *lines, rest = (rest + data).split(b"\n")
            if not data and rest:
                lines = [rest]
            yield from (line.decode(errors="replace").rstrip("\r") for line in lines)
            if not data:
                return


def explain(ended: Ended) -> RunError:
    """Why a guest ended before its work was done."""
    if reason := ended.panic():
        if NO_ROOT in reason:
            reason += f" (the guest needs {NEEDS} built in)"
        return RunError(f"the guest's kernel panicked: {reason}", ended.tail)
    for line in ended.lines:
        if line.startswith("pathcost: failed: "):
            return RunError(line.removeprefix("pathcost: failed: "), ended.tail)
    if ended.status < 0:
        name = signal.Signals(-ended.status).name
        return RunError(f"QEMU ended by {name}", ended.tail)
    if ended.status != 0:
        lines = [line for line in ended.complaints.splitlines() if "warning:" not in line]
        last = OF_QEMU.sub("", lines[-1]) if lines else "it gave no reason"
        return RunError(f"QEMU ended with status {ended.status}: {last}", ended.tail)
    if not any(ended.lines):
        return RunError(
            "the kernel ended its machine without a word on the console: is its file whole, and "
            "for this architecture?"
        )
    return RunError("the guest stopped before its command ended", ended.tail)
