# SPDX-License-Identifier: GPL-2.0-or-later
"""A deterministic machine: it executes the same instructions every time.

Time in it is a count: one nanosecond an instruction, and idling skips ahead. It has no
disk, no network, fixed randomness, and a clock that starts at a fixed date. When the kernel is
quiet the guest reads its order, from a device and not from its files: up to there every boot of
a kernel is the same, and can be stored (runners.exact.snapshot) and gone on with.
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

from runners.exact import initramfs
from runners.exact.one_cpu import on_one_cpu
from runners.exact.program import bare
from runners.guest import GuestError
from runners.guest.kernels import Kernel
from runners.guest.machine import Ended, User, explain, watch
from runners.guest.process import environment
from runners.guest.qemu import Qemu
from runners.process import command

REPOSITORY = Path(__file__).parent.parent.parent
PLUGIN = REPOSITORY / "probes/exact/build/recorder.so"
INIT = REPOSITORY / "runners/exact/init/build/init"
WORKLOAD = REPOSITORY / "runners/workload/build/pathcost-workload"
CPU = "qemu64"
MEMORY = 512
IMAGE_MEMORY = 1024  # where the first file system holds large programs, once packed and once not
READY, DONE = "pathcost: ready", "pathcost: done"
REFUSED = re.compile(r"Could not load plugin [^:]*: (.*)")  # say, by the version of its API
COMM = WORKLOAD.name[:15]  # as much of a program's name as the kernel keeps
MACHINE = (
    "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-machine", "q35",
    "-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-seed", "42",
    "-rtc", "base=2026-01-01T00:00:00,clock=vm", "-m", str(MEMORY),
    "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
    "-serial", "stdio", "-device", "pvpanic",
)  # fmt: skip
# No address is drawn by lot; the console is for what goes wrong.
KERNEL_OPTIONS = "console=ttyS0 quiet nokaslr norandmaps panic=-1 oops=panic cryptomgr.notests"


@dataclass(frozen=True)
class Machine:
    """What every boot of one kernel shares.

    `cpu` is QEMU's model, `cpus` how many there are, `knobs` more kernel options. `image` is more
    for its first file system (path → file), where the workload then keeps its symbols.
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
        """The kernel's."""
        return f"{KERNEL_OPTIONS} {self.knobs}".strip()

    def files(self) -> dict[str, bytes]:
        """Its first file system (path → contents)."""
        if not self.image:
            return programs()
        image = {path.lstrip("/"): file.read_bytes() for path, file in self.image.items()}
        return programs() | {WORKLOAD.name: _named(WORKLOAD)} | image

    def recipe(self) -> dict[str, object]:
        """Everything that the guest's state hangs on when it is about to read its order."""
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
    """How one QEMU ran: `options` are what it was given beside the machine.

    `files` (path → contents) are in the guest before its order is carried out.
    """

    machine: Machine
    options: Sequence[str]
    order: Order = ()
    user: User | None = None
    console: Path = Path(os.devnull)
    descriptors: Sequence[int] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)

    def run(
        self,
        timeout: float,
        on_line: Callable[[str], None] = lambda _: None,
        quiet_timeout: float | None = None,
    ) -> Ended:
        """Run it to its end. Raises GuestError when that takes more than `timeout` seconds,
        or `quiet_timeout` to the first line on its console.
        """
        with (
            tempfile.TemporaryDirectory(prefix="pathcost-exact-") as name,
            self.console.open("wb") as log,
            on_one_cpu(),
        ):
            folder = Path(name)
            folder.chmod(0o755)
            (folder / "initramfs").write_bytes(initramfs.archive(self.machine.files()))
            files = [("file", path, str(len(data))) for path, data in self.files.items()]
            steps = [*files, *self.order]
            (folder / "order").write_text("".join("\t".join(step) + "\n" for step in steps))
            (folder / "contents").write_bytes(b"".join(self.files.values()))
            argv = [*_command_line(self.machine, folder), *self.options]
            return watch(
                argv, [], timeout, on_line, log, self.user, quiet_timeout, self.descriptors
            )


def boot(
    machine: Machine,
    order: Order,
    out: Path,
    plugin: Mapping[str, str],
    timeout: float,
    stored: Path | None = None,
    user: User | None = None,
    files: Mapping[str, bytes] | None = None,
) -> None:
    """Carry out `order`, and leave what the recorder and the guest wrote in `out`.

    From power-on, or from the state in `stored`: the result is the same. Raises GuestError, with
    the console's last lines, when the order was not carried out.
    """
    options = ["-action", "panic=none"] if stored is None else ["-incoming", f"file:{stored}"]
    ended = Boot(machine, [*options, *recorder(out, plugin)], order, user, files=files or {}).run(
        timeout
    )
    if ended.status != 0 or DONE not in ended.lines:
        raise why(ended)


def recorder(out: Path, plugin: Mapping[str, str]) -> list[str]:
    """QEMU's option that loads it; `plugin` is what it has to know of the kernel."""
    told = {"out": str(out), "program": COMM, **plugin}
    return ["-plugin", ",".join([str(PLUGIN), *(f"{name}={told[name]}" for name in told)])]


def _command_line(machine: Machine, folder: Path) -> list[str]:
    return [
        *machine.qemu.argv, *machine.hardware,
        "-kernel", str(machine.kernel.file), "-initrd", str(folder / "initramfs"),
        "-append", machine.command_line, *_files(folder),
    ]  # fmt: skip


def _files(folder: Path) -> list[str]:
    """What the guest reads from the host; its directory of these is part of a stored machine."""
    named = ((name, folder / name) for name in ("order", "contents"))
    return [w for name, path in named for w in ("-fw_cfg", f"name=opt/pathcost/{name},file={path}")]


def digest(data: bytes) -> str:
    """Its sha256."""
    return hashlib.sha256(data).hexdigest()


def programs() -> dict[str, bytes]:
    """The guest's two programs, by their names in it."""
    return {"init": bare(INIT.read_bytes()), WORKLOAD.name: bare(WORKLOAD.read_bytes())}


def _named(path: Path) -> bytes:
    """A program with its symbols, but without what depends on where it was built."""
    with tempfile.NamedTemporaryFile(prefix="pathcost-named-") as out:
        words = ["strip", "--strip-debug", "--remove-section=.note.gnu.build-id"]
        subprocess.run(command([*words, "-o", out.name, str(path)]), check=True, env=environment())
        return Path(out.name).read_bytes()


def why(ended: Ended) -> GuestError:
    """Why a machine that ended did not do what it was to do."""
    for line in ended.complaints.splitlines():
        if line.startswith("pathcost: "):  # the recorder's own words
            return GuestError(line.removeprefix("pathcost: "), ended.lines)
        if match := REFUSED.search(line):
            return GuestError(f"QEMU does not take the recorder: {match[1]}", ended.lines)
    return explain(ended)
