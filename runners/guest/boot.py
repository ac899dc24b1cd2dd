# SPDX-License-Identifier: GPL-2.0-or-later
"""Boot a guest: files in as a tar, one command, files out.

The guest reads its input from a raw disk that is a tar, and writes its output as a tar to another
raw disk, which is a sparse file here. That second disk begins with the order: the command to run.
Behind it may lie input that the command reads from there itself, late: see runners.guest.stored.
"""

import re
import shlex
import shutil
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from runners.guest.errors import CommandError, GuestError
from runners.guest.image import MEBI, Image
from runners.guest.kernels import Kernel
from runners.guest.machine import KERNEL_LINE, Disk, Ended, command_line, explain, watch
from runners.guest.qemu import Qemu
from runners.guest.sealed import blame_cache
from runners.host.late import START

OUTPUT_SIZE = 512 * MEBI
ORDER_SIZE = START
IDLE_SECONDS = 60  # a guest that waits for its own clock uses some
CONSOLE = "console.log"
STATE, INITRAMFS = "state", "initramfs"  # of a stored guest


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
        next run removes it. Without success there is no `out`: CommandError if the command fails,
        GuestError for anything else.
        """
        if out.exists():
            raise GuestError(f"{out} exists already")
        if not tarfile.is_tarfile(input_tar):
            raise GuestError(f"{input_tar} is not a tar file")
        partial = out.parent / f".{out.name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        (partial / "out").mkdir(parents=True)
        log = console or partial / "out" / CONSOLE
        try:
            content = order(command).ljust(ORDER_SIZE, b"\0") + late
            with (
                log.open("wb") as console_file,
                self.disks(input_tar, partial / "disk", content, output_size) as disks,
            ):
                line = self.command_line(disks, memory, cpus, stored and stored / INITRAMFS)
                line += ["-incoming", f"file:{stored / STATE}"] if stored else []
                told = _command_lines(on_line, running=stored is not None)
                ended = watch(line, disks, timeout, told, console_file, idle_timeout=IDLE_SECONDS)
                texts = _harvest(disks[-1].writer, partial / "out", ended)
            (partial / "out").rename(out)
            return texts
        except GuestError:
            blame_cache(
                *(self.qemu.root, self.kernel.file, self.image.file, *self.modules),
                *([stored] if stored else []),
            )
            raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def command_line(
        self, disks: Sequence[Disk], memory: int, cpus: int, initramfs: Path | None = None
    ) -> list[str]:
        """QEMU's, for this guest."""
        who = (self.qemu, self.kernel, self.accelerator)
        return command_line(*who, disks, memory, cpus, initramfs=initramfs)

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


def order(argv: Sequence[str]) -> bytes:
    """The start of the output disk: a script that sets "$@" for init. Raises GuestError."""
    text = f"#pathcost\nset -- {shlex.join(argv)}\n".encode()
    if len(text) > ORDER_SIZE:
        raise GuestError(f"the guest's command is longer than {ORDER_SIZE} bytes")
    return text


def _command_lines(on_line: Callable[[str], None], *, running: bool) -> Callable[[str], None]:
    """Passes on the command's lines, and drops the lines of the kernel and of our init."""

    def told(line: str) -> None:
        nonlocal running
        if mark := re.fullmatch(r"pathcost: (started [\d.]+|ended \d+)", line):
            running = mark[1].startswith("started")
        elif running and not KERNEL_LINE.match(line):
            on_line(line)

    return told


def _harvest(disk: BinaryIO | None, out: Path, ended: Ended) -> dict[str, str]:
    if ended.panic():
        raise explain(ended)
    assert disk is not None
    disk.seek(0)
    try:
        texts = unpack_output(disk, out)
    except tarfile.TarError:
        raise _explain_loss(ended, out) from None
    except OSError as error:
        raise GuestError(
            f"cannot write the guest's output to {out.parent.parent}: {error.strerror}"
        ) from None
    if "status" not in texts:  # the last member: the guest got no further
        raise _explain_loss(ended, out)
    if status := int(texts["status"]):
        raise CommandError(status, texts["stderr"], ended.lines)
    return texts


def _explain_loss(ended: Ended, out: Path) -> GuestError:
    if shutil.disk_usage(out).free < MEBI:
        return GuestError(
            f"this machine's disk is full, no room for the guest's output in {out.parent.parent}",
            ended.lines,
        )
    return explain(ended)


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
                raise GuestError(f"the guest's output has an impossible name: {member.name}")
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
