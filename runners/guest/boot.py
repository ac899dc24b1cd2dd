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
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from probes.contract import PLAN_START, WAITING
from probes.isa import HOST
from runners.guest.image import INIT_PATH, INIT_SCRIPT, MEBI, ROOT_OPTION, Image, initramfs
from runners.guest.kernels import Kernel
from runners.guest.qemu import MACHINES, NO_ROOT, Ended, Qemu, explain, run_to_end, value
from runners.guest.store import Cache, read_manifest, suspect
from runners.guest.stored import Snapshot
from runners.process import RunError, last_words

OUTPUT_SIZE = 512 * MEBI
ORDER_SIZE = PLAN_START
IDLE_SECONDS = 60  # a guest that waits for its own clock uses some
STORE_SECONDS = 300  # for booting and attaching, on a busy machine
FOREIGN = 5  # times as long for another architecture: probes took 300 s to attach, and 60 s here
CONSOLE_LOG = "console.log"
STATE_FILE, INITRAMFS_FILE = "state", "initramfs"  # of a stored guest
KERNEL_LINE = re.compile(r"^\[ *\d+\.\d+\] ?")
# A kretprobe of 5.10 sees as many calls at a time as the kernel could have CPUs: with two, it
# misses the third process that receives.
RETURN_PROBES = "possible_cpus=8"
GUEST_MACHINES = MACHINES["guest"]  # by architecture
KVM_DEVICE = Path("/dev/kvm")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
TRIAL_SECONDS, TRIAL_IDLE_SECONDS = 8.0, 3.0  # a kernel under a working KVM takes one
OUTPUT_DISK = 3  # the number of its disk


@dataclass(frozen=True)
class Guest:
    """All that a boot needs. `accelerator` is `kvm` or `tcg`; `why` tells how we chose it.

    `parallel`: emulated CPUs run side by side, each in a thread of its own.
    """

    kernel: Kernel
    image: Image
    qemu: Qemu
    accelerator: str
    why: str
    modules: tuple[Path, ...] = ()  # in the order in which they are to be loaded
    drivers: tuple[Path, ...] = ()  # of the disks of a stored guest, in that order too
    parallel: bool = False

    @property
    def slower(self) -> int:
        """How many times as long as usual it may take."""
        return 1 if self.kernel.isa is HOST else FOREIGN

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
        memory: int = 1536,
        output_size: int = OUTPUT_SIZE,
        late: bytes = b"",
        stored: Path | None = None,
    ) -> dict[str, str]:
        """Boot, and run `command` as root in a folder with the input's files.

        The guest's folder `out`, beside the command's input, comes out as the folder `out` here,
        which must not exist yet. Each line that the command prints goes to `on_line`, the console
        to `console.log` in `out`. `timeout` is in seconds, `memory` in MiB, `output_size` in bytes.
        A guest that was `stored` (a folder) gets `late`, and goes on.

        Returns the command's `stderr` and the `kernel.log`. Raises RunError; then there is no
        `out`.
        """
        content = order(command).ljust(ORDER_SIZE, b"\0") + late
        running = stored is not None

        def pass_on(line: str) -> None:
            """Pass on the command's lines, not those of the kernel and of our init."""
            nonlocal running
            if mark := re.fullmatch(r"pathcost: (started [\d.]+|ended \d+)", line):
                running = mark[1].startswith("started")
            elif running and not KERNEL_LINE.match(line):
                on_line(line)

        with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as name:
            results, disk = Path(name, "out"), Path(name, "disk")
            results.mkdir()
            disks = (input_tar, write_output_disk(disk, content, output_size))
            argv = self.command_line(disks, memory, stored and stored / INITRAMFS_FILE)
            reading = self.qemu.reading(stored / STATE_FILE) if stored else ()
            try:
                with (results / CONSOLE_LOG).open("wb") as log:
                    ended = run_to_end(
                        argv,
                        self.slower * timeout,
                        pass_on,
                        idle=IDLE_SECONDS,
                        console=log,
                        reading=reading,
                    )
                texts = _harvest(disk, results, ended)
            except RunError:
                if stored:
                    suspect(stored)
                raise
            results.rename(out)
        return texts

    def command_line(
        self, disks: Sequence[Path] = (), memory: int = 1536, first: Path | None = None
    ) -> list[str]:
        """QEMU's command line, without a network. The disks are the root, the input, the output.

        The kernel itself finds NVMe disks. With a `first` file system, which has
        the driver, disks are virtio's: QEMU cannot store a machine that has NVMe.
        """
        kind = "parallel" if self.parallel and self.accelerator == "tcg" else self.accelerator
        argv = [
            *machine(self.qemu, self.kernel, kind, memory),
            "-append",
            f"{console(self.kernel)} {ROOT_OPTION} rootfstype=ext4 ro rootwait "
            f"init=/{INIT_PATH} panic=-1 oops=panic {RETURN_PROBES} quiet",
        ]
        argv += ["-initrd", str(first)] if first else ["-device", "nvme,id=nvme,serial=pathcost"]
        for number, disk in enumerate((self.image.file, *disks), start=1):
            file, read_only = value(disk), "off" if number == OUTPUT_DISK else "on"
            form = "qcow2" if disk == self.image.file else "raw"
            device = "virtio-blk-pci" if first else f"nvme-ns,bus=nvme,nsid={number}"
            argv += [
                "-drive",
                f"if=none,id=disk{number},file={file},format={form},cache=unsafe,"
                f"readonly={read_only}",
                "-device",
                f"{device},drive=disk{number}",
            ]
        return argv


def machine(qemu: Qemu, kernel: Kernel, kind: str, memory: int = 512) -> list[str]:
    """QEMU's command line of a machine with two CPUs and nothing else. `kind` is of MACHINES."""
    options = GUEST_MACHINES[kernel.isa.name]
    words = [*options["bare"].split(), *options[kind].split(), "-smp", "2"]
    return [*qemu.emulator(kernel.isa), *words, "-m", str(memory), "-kernel", str(kernel.file)]


def console(kernel: Kernel) -> str:
    """The kernel option that names the machine's console."""
    return f"console={GUEST_MACHINES[kernel.isa.name]['console']}"


def write_output_disk(disk: Path, content: bytes, size: int = OUTPUT_SIZE) -> Path:
    """Write a sparse file that begins with `content`."""
    disk.write_bytes(content)
    os.truncate(disk, size)
    return disk


def kvm_boots(cache: Cache, qemu: Qemu, kernel: Kernel) -> tuple[bool, str]:
    """Whether this kernel boots under KVM here, and how we know: only a guest that boots can tell.

    It boots without a root file system, which is unpacked meanwhile, and has to miss it. One trial
    is enough for each boot of the host, kernel, QEMU and user: the cache keeps the answer.
    """
    if kernel.isa is not HOST:
        return False, f"this machine is {HOST.name}, and the guest {kernel.isa.name}"
    if not KVM_DEVICE.exists():
        return False, f"there is no {KVM_DEVICE} here"

    def boot(_: Path) -> dict[str, object]:
        cache.say("guest: trying whether KVM works here")
        argv = [*machine(qemu, kernel, "kvm"), "-append", f"{console(kernel)} panic=-1"]
        try:
            ended = run_to_end(
                argv, TRIAL_SECONDS, idle=TRIAL_IDLE_SECONDS, work=TRIAL_IDLE_SECONDS
            )
            if NO_ROOT not in (ended.panic() or ""):
                raise explain(ended)
        except RunError as error:
            return {"works": False, "why": f"a trial boot failed: {error!s}"}
        return {"works": True, "why": f"a trial boot took {ended.seconds:.1f} s"}

    recipe = {
        "boot": BOOT_ID.read_text(),
        "made from": [qemu.key, kernel.key],
        "user": [os.geteuid(), os.getegid()],
    }
    answer = read_manifest(cache.entry("kvm", recipe, boot))
    return answer["works"], answer["why"]


def stored_guest(
    cache: Cache, guest: Guest, input_tar: Path, command: Sequence[str], memory: int
) -> Path:
    """The folder of the guest, from the cache or booted and stored there.

    It is stored as soon as `command` waits. Raises RunError, OSError.
    """

    def build(partial: Path) -> dict[str, object]:
        cache.say(f"guest: booting {guest.release} once, to store it")
        drivers = {f"drivers/{n}": file.read_bytes() for n, file in enumerate(guest.drivers)}
        first = {"init": INIT_SCRIPT.read_bytes(), "bin/busybox": guest.image.busybox.read_bytes()}
        (partial / INITRAMFS_FILE).write_bytes(initramfs(first | drivers))
        with tempfile.TemporaryDirectory(prefix="pathcost-") as scratch:
            output = write_output_disk(Path(scratch, "disk"), order(command))
            # Nothing is counted yet: probes compile side by side, in a third less time.
            booting = replace(guest, parallel=True)
            argv = booting.command_line((input_tar, output), memory, partial / INITRAMFS_FILE)
            snapshot = Snapshot(WAITING, partial / STATE_FILE, stop=True, packer=guest.qemu.packer)
            most = guest.slower * STORE_SECONDS
            ended = run_to_end(argv, most, idle=IDLE_SECONDS, snapshot=snapshot)
        if not ended.stored:
            raise explain(ended)
        return {"what": guest.release}

    digest = hashlib.sha256()
    with tarfile.open(input_tar) as members:
        for member in members:  # whose times do not matter
            content = members.extractfile(member)
            digest.update(f"{member.name} {member.mode} {member.size}\n".encode())
            digest.update(content.read() if content else b"")
    recipe = {
        "version": 1,
        "machine": guest.command_line((), memory, Path(INITRAMFS_FILE)),
        "made from": [guest.qemu.key, guest.kernel.key, guest.image.key],
        "input": digest.hexdigest(),
        "command": list(command),
    }
    return cache.entry("guest", recipe, build)


def order(argv: Sequence[str]) -> bytes:
    """The start of the output disk: a script that sets "$@" for init."""
    return f"#pathcost\nset -- {shlex.join(argv)}\n".encode()


def _harvest(disk: Path, out: Path, ended: Ended) -> dict[str, str]:
    texts: dict[str, str] = {}
    with disk.open("rb") as file, suppress(tarfile.TarError):
        texts = unpack_output(file, out)
    if ended.panic() or "status" not in texts:  # the last member: the guest got no further
        raise explain(ended)
    if status := int(texts["status"]):
        why = last_words(texts["stderr"])
        raise RunError(f"the guest's command ended with status {status}: {why}", ended.tail)
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
            if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in str(path):
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
