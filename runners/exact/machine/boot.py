# SPDX-License-Identifier: GPL-2.0-or-later
"""A deterministic machine: it executes the same instructions each time.

Its clock counts instructions, one nanosecond each, and skips ahead when the machine is idle. It has
no disk, no network, fixed randomness, and a clock that starts at a fixed date. When the kernel is
quiet, the guest reads its order from a device and not from its files. Up to that point all boots of
a kernel are equal, so the machine can be stored there and resumed (runners.exact.machine.snapshot).
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runners.exact.machine import initramfs
from runners.exact.machine.elf import strip_elf
from runners.exact.machine.one_cpu import on_one_cpu
from runners.guest import GuestError
from runners.guest.kernels import Kernel
from runners.guest.machine import Ended, User, explain, watch
from runners.guest.process import environment
from runners.guest.qemu import Qemu
from runners.process import command

REPOSITORY = Path(__file__).parents[3]
PLUGIN = REPOSITORY / "probes/exact/build/recorder.so"
INIT = REPOSITORY / "runners/exact/init/build/init"
WORKLOAD = REPOSITORY / "runners/workload/build/pathcost-workload"
CPU = "qemu64"
MEMORY = 512
IMAGE_MEMORY = 1024  # large programs in the first file system take memory twice: packed, unpacked
READY, DONE = "pathcost: ready", "pathcost: done"
REFUSED = re.compile(r"Could not load plugin [^:]*: (.*)")  # for example, a newer plugin API
COMM = WORKLOAD.name[:15]  # the kernel keeps this much of a program's name
MACHINE = (
    "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-machine", "q35",
    "-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-seed", "42",
    "-rtc", "base=2026-01-01T00:00:00,clock=vm", "-m", str(MEMORY),
    "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
    "-serial", "stdio", "-device", "pvpanic",
)  # fmt: skip
# No address is random; the console shows only failures.
KERNEL_OPTIONS = "console=ttyS0 quiet nokaslr norandmaps panic=-1 oops=panic cryptomgr.notests"


@dataclass(frozen=True)
class EmulatedMachine:
    """The inputs that all boots of one kernel share.

    `cpu` is QEMU's model, `cpus` their number; `knobs` are further kernel options. `image` has
    further files of the first file system (path → file); with them, the workload keeps its symbols.
    """

    qemu: Qemu
    kernel: Kernel
    cpu: str = CPU
    cpus: int = 1
    knobs: str = ""
    image: Mapping[str, Path] = field(default_factory=dict)

    @property
    def hardware(self) -> list[str]:
        """QEMU's options that the guest can see."""
        memory = ["-m", str(IMAGE_MEMORY)] if self.image else []
        return [*MACHINE, "-cpu", self.cpu, "-smp", str(self.cpus), *memory]

    @property
    def command_line(self) -> str:
        """The kernel's options."""
        return f"{KERNEL_OPTIONS} {self.knobs}".strip()

    def files(self) -> dict[str, bytes]:
        """The first file system (path → contents)."""
        if not self.image:
            return programs()
        image = {path.lstrip("/"): file.read_bytes() for path, file in self.image.items()}
        return programs() | {WORKLOAD.name: _with_symbols(WORKLOAD)} | image

    def recipe(self) -> dict[str, object]:
        """Everything that decides the guest's state when it is about to read its order."""
        return {
            "qemu": [self.qemu.key, self.qemu.version],
            "kernel": digest(self.kernel.file.read_bytes()),
            "machine": [*self.hardware, *_files(Path())],
            "command_line": self.command_line,
            "programs": {name: digest(data) for name, data in self.files().items()},
        }


Order = Sequence[Sequence[str]]
"""Steps for the guest's first program, each a list of words: see runners/exact/init/init.c."""


@dataclass(frozen=True)
class Boot:
    """One run of QEMU, with `options` beside those of the machine.

    The guest has `files` (path → contents) before it carries out its order.
    """

    machine: EmulatedMachine
    options: Sequence[str]
    order: Order = ()
    user: User | None = None
    descriptors: Sequence[int] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)

    def run(
        self,
        timeout: float,
        on_line: Callable[[str], None] = lambda _: None,
        quiet_timeout: float | None = None,
    ) -> Ended:
        """Run QEMU to its end. Raises GuestError when that takes more than `timeout` seconds,
        or when its console shows no line for `quiet_timeout` seconds.
        """
        with (
            tempfile.TemporaryDirectory(prefix="pathcost-exact-") as name,
            Path(os.devnull).open("wb") as log,
            on_one_cpu(),
        ):
            folder = Path(name)
            folder.chmod(0o755)
            (folder / "initramfs").write_bytes(initramfs.archive(self.machine.files()))
            files = [("file", path, str(len(data))) for path, data in self.files.items()]
            steps = [*files, *self.order]
            (folder / "order").write_text("".join("\t".join(step) + "\n" for step in steps))
            (folder / "contents").write_bytes(b"".join(self.files.values()))
            argv = [
                *self.machine.qemu.argv, *self.machine.hardware,
                "-kernel", str(self.machine.kernel.file), "-initrd", str(folder / "initramfs"),
                "-append", self.machine.command_line, *_files(folder), *self.options,
            ]  # fmt: skip
            return watch(
                argv, [], timeout, on_line, log, self.user, quiet_timeout, self.descriptors
            )


def boot(
    machine: EmulatedMachine,
    order: Order,
    out: Path,
    plugin: Mapping[str, str],
    timeout: float,
    stored: Path | None = None,
    user: User | None = None,
    files: Mapping[str, bytes] | None = None,
) -> None:
    """Carry out `order`; the recorder and the guest write their files to `out`.

    The machine starts from the state in `stored`, or from power-on with the same result. Raises
    GuestError, with the console's last lines, when the order was not carried out.
    """
    options = ["-action", "panic=none"] if stored is None else ["-incoming", f"file:{stored}"]
    options += recorder_options(out, plugin)
    ended = Boot(machine, options, order, user, files=files or {}).run(timeout)
    if ended.status != 0 or DONE not in ended.lines:
        raise failure(ended)


def recorder_options(out: Path, plugin: Mapping[str, str]) -> list[str]:
    """QEMU's options that load the recorder; `plugin` describes the kernel to it."""
    settings = {"out": str(out), "program": COMM, **plugin}
    return ["-plugin", ",".join([str(PLUGIN), *(f"{k}={value}" for k, value in settings.items())])]


def _files(folder: Path) -> list[str]:
    """What the guest reads from the host; a stored machine contains the directory of these."""
    named = ((name, folder / name) for name in ("order", "contents"))
    return [w for name, path in named for w in ("-fw_cfg", f"name=opt/pathcost/{name},file={path}")]


def digest(data: bytes) -> str:
    """The sha256 of `data`."""
    return hashlib.sha256(data).hexdigest()


def programs() -> dict[str, bytes]:
    """The guest's two programs, by their names in the guest."""
    return {file.name: strip_elf(file.read_bytes()) for file in (INIT, WORKLOAD)}


def _with_symbols(path: Path) -> bytes:
    """A program with its symbols, but without what depends on where it was built."""
    with tempfile.NamedTemporaryFile(prefix="pathcost-named-") as out:
        words = ["strip", "--strip-debug", "--remove-section=.note.gnu.build-id"]
        subprocess.run(command([*words, "-o", out.name, str(path)]), check=True, env=environment())
        return Path(out.name).read_bytes()


def failure(ended: Ended) -> GuestError:
    """Why a machine that ended did not carry out its order."""
    for line in ended.complaints.splitlines():
        if line.startswith("pathcost: "):  # from the recorder
            return GuestError(line.removeprefix("pathcost: "), ended.lines)
        if match := REFUSED.search(line):
            return GuestError(f"QEMU does not take the recorder: {match[1]}", ended.lines)
    return explain(ended)
