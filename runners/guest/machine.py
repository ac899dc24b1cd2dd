# SPDX-License-Identifier: GPL-2.0-or-later
"""QEMU's command line, and watching its serial console until it ends."""

import os
import re
import selectors
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, BinaryIO

from probes.bcc.people import stat_fields
from runners.guest.errors import GuestError, HangError, SilentError
from runners.guest.image import INIT_PATH, ROOT_OPTION
from runners.guest.kernels import NEEDS, Kernel
from runners.guest.process import environment
from runners.guest.qemu import Qemu
from runners.lock import inherited
from runners.process import command

# Set when the run ends early: every QEMU then ends, whichever thread watches it.
stopping = threading.Event()
STOPS_WITHIN = 0.5  # seconds
TICKS = os.sysconf("SC_CLK_TCK")  # in a second
IDLE_TICKS = TICKS // 20  # QEMU's own house-keeping takes less
# The kernel's own lines: not the command's output.
KERNEL_LINE = re.compile(r"^\[ *\d+\.\d+\] ?")
PANIC = re.compile(r"Kernel panic - not syncing: (.*)")
# A kretprobe of 5.10 sees as many calls at a time as the kernel could have CPUs: with two, it
# misses the third process that receives.
RETURN_PROBES = "possible_cpus=8"
# A named CPU: the same features, and the same mitigations, whatever the host has. Under TCG it is
# also a tenth faster than `max`, whose five page-table levels cost time.
CPU = {"tcg": "EPYC", "kvm": "host", "icount": "EPYC"}
# `icount`: the guest's clock counts instructions, a nanosecond each, and skips what it would sleep.
ACCELERATOR = {
    "tcg": ["-accel", "tcg,thread=multi"],
    "kvm": ["-accel", "kvm"],
    "icount": ["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"],
}


@dataclass(frozen=True)
class Disk:
    """A raw disk, given to QEMU as open files: so QEMU needs no right to the path.

    For a disk that QEMU writes, `writer` is the same file open for reading and writing.
    """

    reader: BinaryIO
    writer: BinaryIO | None = None

    @property
    def descriptors(self) -> list[int]:
        """The files' descriptors: QEMU picks from these by the way in which it wants to open."""
        return [file.fileno() for file in (self.reader, self.writer) if file is not None]


@dataclass
class Ended:
    """How a QEMU ended: its status, all that the console showed, and what QEMU complained of."""

    status: int
    lines: list[str] = field(default_factory=list)
    complaints: str = ""
    seconds: float = 0.0

    def panic(self) -> str | None:
        """The kernel's reason, if it panicked."""
        return next((match[1] for line in self.lines if (match := PANIC.search(line))), None)


@dataclass
class Silence:
    """A process that prints nothing, and the processor time that it uses meanwhile.

    On a busy machine one that waits for a processor gets some within `idle` seconds; one that hangs
    asks for none. One that works uses no more than `work` seconds of processor time until its next
    line, however busy the machine is.
    """

    pid: int
    idle: float | None
    work: float | None
    used: int = -1  # ticks
    first: int = 0  # ticks at its last line
    since: float = 0
    looked: float = 0

    def too_long(self) -> str | None:
        """What it did for too long."""
        with suppress(OSError, ValueError, IndexError):
            fields = stat_fields(self.pid)
            used, now = int(fields[11]) + int(fields[12]), time.monotonic()
            paused = now > self.looked + 4 * STOPS_WITHIN  # we were stopped, and QEMU with us
            self.looked = now
            if self.used < 0:
                self.first = used
            if self.used < 0 or used > self.used + IDLE_TICKS or paused:
                self.used, self.since = used, now
            if self.idle and now > self.since + self.idle:
                return f"its machine did nothing for {self.idle:.0f} s"
            if self.work and used > self.first + self.work * TICKS:
                return f"it used {self.work:.0f} s of processor time without a further line"
        return None


def command_line(
    qemu: Qemu,
    kernel: Kernel,
    accelerator: str,
    disks: Sequence[Disk],
    memory: int = 1536,
    cpus: int = 2,
    options: str = "quiet",
    initramfs: Path | None = None,
) -> list[str]:
    """QEMU with a serial console on its standard output, these disks, and nothing else.

    There is no network device. The first disk is the root. The kernel itself finds NVMe disks. With
    an `initramfs`, which has the driver and mounts the root, disks are virtio's: QEMU cannot store
    a machine that has NVMe.
    """
    argv = [
        *qemu.argv, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
        "-machine", "q35", *ACCELERATOR[accelerator], "-cpu", CPU[accelerator],
        "-smp", str(cpus), "-m", str(memory), "-serial", "stdio",
        "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
        "-kernel", str(kernel.file),
        "-append", f"console=ttyS0 {ROOT_OPTION} rootfstype=ext4 ro rootwait init=/{INIT_PATH} "
        f"panic=-1 oops=panic {RETURN_PROBES} {options}",
    ]  # fmt: skip
    if initramfs is None:
        argv += ["-device", "nvme,id=nvme,serial=pathcost"]
    else:
        argv += ["-initrd", str(initramfs)]
    for number, disk in enumerate(disks, start=1):
        read_only = "on" if disk.writer is None else "off"
        nvme, virtio = f"nvme-ns,bus=nvme,nsid={number}", "virtio-blk-pci"
        for descriptor in disk.descriptors:
            argv += ["-add-fd", f"fd={descriptor},set={number}"]
        argv += [
            "-drive", f"if=none,id=disk{number},file=/dev/fdset/{number},format=raw,"
            f"cache=unsafe,readonly={read_only}",
            "-device", f"{virtio if initramfs else nvme},drive=disk{number}",
        ]  # fmt: skip
    return argv


def watch(
    argv: Sequence[str],
    disks: Sequence[Disk],
    timeout: float,
    on_line: Callable[[str], None],
    console: BinaryIO,
    quiet_timeout: float | None = None,
    descriptors: Sequence[int] = (),
    idle_timeout: float | None = None,
    work_timeout: float | None = None,
) -> Ended:
    """Run QEMU to its end, and give each line of its console to `on_line` as it comes.

    It inherits the disks and `descriptors`. After `timeout` seconds, or `quiet_timeout` seconds
    without a first line, it is killed, and GuestError raised; so it is when it uses no processor
    for `idle_timeout` seconds, as a machine does that nothing will wake, and when it uses
    `work_timeout` seconds of processor time without a further line. Once `stopping` is set, it
    is killed, and KeyboardInterrupt raised. It dies with the thread that called, whatever kills it.
    """
    began = time.monotonic()
    ended = Ended(0)
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            command(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=environment(),
            pass_fds=[
                *inherited(),
                *descriptors,
                *(fd for disk in disks for fd in disk.descriptors),
            ],
            start_new_session=True,
            cwd="/",
        )
        try:
            assert process.stdout is not None
            silence = Silence(process.pid, idle_timeout, work_timeout)
            for line in _lines(process.stdout, console, timeout, quiet_timeout, silence):
                ended.lines.append(line)
                on_line(line)
            ended.status = process.wait(timeout=5)
        except TimeoutError as error:
            raise GuestError(str(error), ended.lines) from None
        except HangError as error:
            raise type(error)(error.sentence, ended.lines) from None
        finally:
            process.kill()
            process.wait()
        complaints.seek(0)
        ended.complaints = complaints.read().decode(errors="replace")
    ended.seconds = time.monotonic() - began
    return ended


def _lines(
    stream: IO[bytes],
    console: BinaryIO,
    timeout: float,
    quiet: float | None,
    silence: Silence,
) -> Iterator[str]:
    """Lines as they come.

    Raises TimeoutError after `timeout` seconds, HangError when the `silence` is too long, and
    SilentError where there was no first line until then, or for `quiet` seconds.
    """
    rest, began = b"", time.monotonic()
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while True:
            limit = timeout if quiet is None else min(quiet, timeout)
            left = began + limit - time.monotonic()
            if not selector.select(max(0.0, min(left, STOPS_WITHIN))):
                if stopping.is_set():
                    raise KeyboardInterrupt
                if words := silence.too_long():
                    if quiet is None:
                        raise HangError(f"the guest's kernel hangs: {words}")
                    raise SilentError(f"the guest's kernel printed nothing and hangs: {words}")
                if time.monotonic() < began + limit:
                    continue
                if quiet is None:
                    raise TimeoutError(f"the guest did not finish within {timeout:.0f} s")
                raise SilentError(f"the guest's kernel printed nothing in {limit:.0f} s")
            data = os.read(stream.fileno(), 65536)
            quiet = None
            silence.used = -1
            console.write(data)
            console.flush()
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                yield line.decode(errors="replace").rstrip("\r")
            if not data:
                if rest:
                    yield rest.decode(errors="replace").rstrip("\r")
                return


def explain(ended: Ended) -> GuestError:
    """Why a guest ended before its work was done, from what is on its console."""
    if reason := ended.panic():
        if "Unable to mount root" in reason:
            reason += f" (the guest needs {NEEDS} built in)"
        return GuestError(f"the guest's kernel panicked: {reason}", ended.lines)
    for line in ended.lines:
        if line.startswith("pathcost: failed: "):
            return GuestError(line.removeprefix("pathcost: failed: "), ended.lines)
    if ended.status != 0:
        lines = [line for line in ended.complaints.splitlines() if "warning:" not in line]
        last = lines[-1].rpartition("qemu-system-x86_64: ")[2] if lines else "it said nothing"
        return GuestError(f"QEMU ended with status {ended.status}: {last}", ended.lines)
    if not any(ended.lines):
        return GuestError(
            "the kernel ended its machine without a word on the console: is its file whole, and "
            "for x86-64?"
        )
    return GuestError("the guest stopped before its command ended", ended.lines)
