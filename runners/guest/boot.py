# SPDX-License-Identifier: GPL-2.0-or-later
"""Boot a guest: files in as a tar, one command, files out.

The guest reads its input from a raw disk that is a tar, and writes its output as a tar to another
raw disk, which is a sparse file here. That second disk begins with the order: the command to run.

A guest can be stored while its command waits, so that a run starts in its middle. Such a command
first does what takes long under emulation and is equal in each run, prints WAITING, and then reads
the disk $PATHCOST_DISK at byte ORDER_SIZE, past the page cache, until `Guest.run` has put its
`late` input there. A stored guest has read nothing of a run.
"""

import hashlib
import os
import re
import shlex
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from runners.cell import PLAN_START, WAITING
from runners.guest.image import INIT, INIT_PATH, MEBI, ROOT_OPTION, Image, initramfs
from runners.guest.kernels import Kernel
from runners.guest.qemu import BARE, Disk, Ended, Limits, Qemu, Snapshot, explain, watch
from runners.guest.store import Cache, read_json, suspect, write_json
from runners.process import RunError, last_words

OUTPUT_SIZE = 512 * MEBI
ORDER_SIZE = PLAN_START
IDLE_SECONDS = 60  # a guest that waits for its own clock uses some
STORE_SECONDS = 300  # for booting and attaching, on a busy machine
CONSOLE = "console.log"
STATE, INITRAMFS = "state", "initramfs"  # of a stored guest
KERNEL_LINE = re.compile(r"^\[ *\d+\.\d+\] ?")
# A kretprobe of 5.10 sees as many calls at a time as the kernel could have CPUs: with two, it
# misses the third process that receives.
RETURN_PROBES = "possible_cpus=8"
# A named CPU has the same features, and the same mitigations, whatever the host has. Under TCG it
# is also a tenth faster than `max`, whose five page-table levels cost time.
ACCELERATOR = {
    "tcg": ("-accel", "tcg,thread=multi", "-cpu", "EPYC"),
    "kvm": ("-accel", "kvm", "-cpu", "host"),
}
KVM = Path("/dev/kvm")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# A kernel under a working KVM prints its first line within half a second.
TRIAL = Limits(8.0, first_line=3.0)


@dataclass(frozen=True)
class Guest:
    """All that a boot needs. `accelerator` is `kvm` or `tcg`; `why` tells how we chose it."""

    kernel: Kernel
    image: Image
    qemu: Qemu
    accelerator: str
    why: str
    modules: tuple[Path, ...] = ()  # in the order in which they are to be loaded
    drivers: tuple[Path, ...] = ()  # of the disks of a stored guest, in that order too

    @property
    def release(self) -> str:
        """The kernel's release, as `uname -r` prints it in the guest."""
        return self.kernel.release

    def run(
        self,
        input_tar: Path,
        out: Path,
        command: Sequence[str],
        *,
        timeout: float,
        on_line: Callable[[str], None],
        console: Path | None = None,
        memory: int = 1536,
        cpus: int = 2,
        output_size: int = OUTPUT_SIZE,
        late: bytes = b"",
        stored: Path | None = None,
    ) -> dict[str, str]:
        """Boot, run `command` as root in a folder with the input's files; its output becomes `out`.

        What the command leaves in the folder `out` beside its input becomes `out`, which must not
        exist yet. Each line that it prints goes to `on_line`. The console goes to the file
        `console`, or to `console.log` in `out`. `timeout` is in seconds, `memory` in MiB,
        `output_size` in bytes. A guest that was `stored` (a folder) gets `late`, and goes on.

        Returns the command's `stderr` and the `kernel.log`.

        Meanwhile there is a sibling `.<name>.partial` of `out`. A SIGKILL leaves it behind, and the
        next run removes it. Without success there is no `out`: RunError if the command fails,
        RunError for anything else.
        """
        if out.exists():
            raise RunError(f"{out} exists already")
        if not tarfile.is_tarfile(input_tar):
            raise RunError(f"{input_tar} is not a tar file")
        partial = out.parent / f".{out.name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        (partial / "out").mkdir(parents=True)
        log = console or partial / "out" / CONSOLE
        content = order(command).ljust(ORDER_SIZE, b"\0") + late
        try:
            with (
                log.open("wb") as console_file,
                self.disks(input_tar, partial / "disk", content, output_size) as disks,
            ):
                argv = self.command_line(disks, memory, cpus, stored and stored / INITRAMFS)
                argv += ["-incoming", f"file:{stored / STATE}"] if stored else []
                passed_on = _command_lines(on_line, running=stored is not None)
                limits = Limits(timeout, idle=IDLE_SECONDS)
                ended = watch(argv, limits, passed_on, disks=disks, console=console_file)
                texts = _harvest(disks[-1].writer, partial / "out", ended)
            (partial / "out").rename(out)
            return texts
        except RunError:
            if stored:
                suspect(stored)
            raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def store(
        self, folder: Path, input_tar: Path, command: Sequence[str], memory: int, cpus: int
    ) -> None:
        """Boot, and store the machine in `folder` as soon as `command` waits. Raises RunError."""
        drivers = {f"drivers/{n}": file.read_bytes() for n, file in enumerate(self.drivers)}
        first = {"init": INIT.read_bytes(), "bin/busybox": self.image.busybox.read_bytes()}
        (folder / INITRAMFS).write_bytes(initramfs(first | drivers))
        with (
            tempfile.TemporaryDirectory(prefix="pathcost-") as scratch,
            self.disks(input_tar, Path(scratch, "disk"), order(command)) as disks,
        ):
            argv = self.command_line(disks, memory, cpus, folder / INITRAMFS)
            snapshot = Snapshot(WAITING, folder / STATE, stop=True)
            limits = Limits(STORE_SECONDS, idle=IDLE_SECONDS)
            ended = watch(argv, limits, disks=disks, snapshot=snapshot)
        if not ended.stored:
            raise explain(ended)

    def command_line(
        self,
        disks: Sequence[Disk],
        memory: int = 1536,
        cpus: int = 2,
        first: Path | None = None,
        options: str = "quiet",
    ) -> list[str]:
        """QEMU's command line, with these disks and without a network. The first disk is the root.

        The kernel itself finds NVMe disks. With a `first` file system, which has
        the driver, disks are virtio's: QEMU cannot store a machine that has NVMe.
        """
        argv = [
            *self.qemu.argv, *BARE, *ACCELERATOR[self.accelerator],
            "-smp", str(cpus), "-m", str(memory), "-kernel", str(self.kernel.file),
            "-append", f"console=ttyS0 {ROOT_OPTION} rootfstype=ext4 ro rootwait "
            f"init=/{INIT_PATH} panic=-1 oops=panic {RETURN_PROBES} {options}",
        ]  # fmt: skip
        if first:
            argv += ["-initrd", str(first)]
        else:
            argv += ["-device", "nvme,id=nvme,serial=pathcost"]
        for number, disk in enumerate(disks, start=1):
            device = "virtio-blk-pci" if first else f"nvme-ns,bus=nvme,nsid={number}"
            read_only = "on" if disk.writer is None else "off"
            for descriptor in disk.descriptors:
                argv += ["-add-fd", f"fd={descriptor},set={number}"]
            argv += [
                "-drive", f"if=none,id=disk{number},file=/dev/fdset/{number},format=raw,"
                f"cache=unsafe,readonly={read_only}",
                "-device", f"{device},drive=disk{number}",
            ]  # fmt: skip
        return argv

    @contextmanager
    def disks(
        self, input_tar: Path, output: Path, content: bytes, size: int = OUTPUT_SIZE
    ) -> Iterator[list[Disk]]:
        """The root, the input, and the output, a new file of `size` that begins with `content`."""
        with (
            self.image.file.open("rb") as root,
            input_tar.open("rb") as source,
            output.open("w+b", buffering=0) as writer,
            output.open("rb") as reader,
        ):
            writer.write(content)
            writer.truncate(size)
            yield [Disk(root), Disk(source), Disk(reader, writer)]


def kvm_boots(cache: Cache, qemu: Qemu, kernel: Kernel, image: Image) -> tuple[bool, str]:
    """Whether this kernel boots under KVM here, and how we know: only a guest that boots can tell.

    One trial is enough for each boot of the host, kernel, image, QEMU and user: the cache keeps the
    answer.
    """
    if not KVM.exists():
        return False, f"there is no {KVM} here"
    boot = BOOT_ID.read_text().strip()
    key = " ".join(map(str, [boot, kernel.key, image.key, qemu.key, os.geteuid(), os.getegid()]))
    memory = cache.folder / "kvm-trials.json"
    if (known := _trials(memory).get(key)) is not None:
        return known
    cache.say("guest: trying whether KVM works here")
    answer = _try_kvm(Guest(kernel, image, qemu, "kvm", ""))
    cache.lock()
    trials = {old: kept for old, kept in _trials(memory).items() if old.startswith(boot)}
    write_json(memory, trials | {key: answer})
    return answer


def _try_kvm(machine: Guest) -> tuple[bool, str]:
    """Boot as far as the first process; whether it got there, and what happened."""
    try:
        with machine.image.file.open("rb") as root:
            disks = [Disk(root)]
            argv = machine.command_line(disks, options="pathcost=trial")
            ended = watch(argv, TRIAL, disks=disks)
        if "pathcost: trial" in ended.lines:
            return True, f"a trial boot took {ended.seconds:.1f} s"
        raise explain(ended)
    except RunError as error:
        return False, f"a trial boot failed: {error!s}"


def _trials(memory: Path) -> dict[str, tuple[bool, str]]:
    """Key → whether that guest booted, and how we know."""
    trials = read_json(memory)
    return trials if isinstance(trials, dict) else {}


def stored_guest(
    cache: Cache, guest: Guest, input_tar: Path, command: Sequence[str], memory: int, cpus: int = 2
) -> Path:
    """The folder of the guest, from the cache or booted and stored there.

    Raises RunError, OSError.
    """

    def build(partial: Path) -> dict[str, object]:
        cache.say(f"guest: booting {guest.release} once, to store it")
        guest.store(partial, input_tar, command, memory, cpus)
        return {"what": guest.release}

    recipe = {
        "version": 1,
        "machine": guest.command_line([], memory, cpus, Path(INITRAMFS)),
        "made from": [guest.qemu.key, guest.kernel.key, guest.image.key],
        "input": _digest(input_tar),
        "command": list(command),
    }
    return cache.entry("guest", recipe, build)


def _digest(tar: Path) -> str:
    """A digest of a tar's files and their names, but not of their times."""
    digest = hashlib.sha256()
    with tarfile.open(tar) as members:
        for member in members:
            content = members.extractfile(member)
            digest.update(f"{member.name} {member.mode} {member.size}\n".encode())
            digest.update(content.read() if content else b"")
    return digest.hexdigest()


def order(argv: Sequence[str]) -> bytes:
    """The start of the output disk: a script that sets "$@" for init. Raises RunError."""
    text = f"#pathcost\nset -- {shlex.join(argv)}\n".encode()
    if len(text) > ORDER_SIZE:
        raise RunError(f"the guest's command is longer than {ORDER_SIZE} bytes")
    return text


def _command_lines(on_line: Callable[[str], None], *, running: bool) -> Callable[[str], None]:
    """Pass on the command's lines, and drop the lines of the kernel and of our init."""

    def pass_on(line: str) -> None:
        nonlocal running
        if mark := re.fullmatch(r"pathcost: (started [\d.]+|ended \d+)", line):
            running = mark[1].startswith("started")
        elif running and not KERNEL_LINE.match(line):
            on_line(line)

    return pass_on


def _harvest(disk: BinaryIO | None, out: Path, ended: Ended) -> dict[str, str]:
    if ended.panic():
        raise explain(ended)
    assert disk is not None
    disk.seek(0)
    try:
        texts = unpack_output(disk, out)
    except tarfile.TarError:
        texts = {}
    except OSError as error:
        raise RunError(f"cannot write the guest's output to {out}: {error.strerror}") from None
    if "status" not in texts:  # the last member: the guest got no further
        if shutil.disk_usage(out).free < MEBI:
            raise RunError(f"there is no room for the guest's output in {out}", ended.tail)
        raise explain(ended)
    if status := int(texts["status"]):
        raise RunError(
            f"the guest's command ended with status {status}: {last_words(texts['stderr'])}",
            ended.tail,
        )
    return texts


def unpack_output(disk: BinaryIO, out: Path) -> dict[str, str]:
    """Unpack the files of the tar's folder `out` to `out`. Returns the texts beside that folder.

    The guest is not trusted: only regular files and folders come out, and only below `out`.
    Raises tarfile.TarError for a disk without a complete tar.
    """
    texts: dict[str, str] = {}
    with tarfile.open(fileobj=disk, mode="r:") as tar:
        for member in tar:
            path = PurePosixPath(member.name)
            if path.is_absolute() or ".." in path.parts or not path.parts:
                raise RunError(f"the guest's output has an impossible name: {member.name}")
            top, *below = path.parts
            target = out.joinpath(*below)
            if member.isdir() and top == "out":
                target.mkdir(parents=True, exist_ok=True)
            elif member.isreg() and (source := tar.extractfile(member)):
                if top != "out":
                    texts[member.name] = source.read().decode(errors="replace")
                elif below:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with target.open("wb") as copy:
                        shutil.copyfileobj(source, copy, MEBI)
    return texts
