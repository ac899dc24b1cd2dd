# SPDX-License-Identifier: GPL-2.0-or-later
"""A deterministic machine: it executes the same instructions each time (probes/exact/README.md).

Its clock counts instructions, one nanosecond each, and skips ahead when the machine is idle. When
the kernel is quiet, the guest stops the machine at a fixed instruction, through QEMU's pvpanic
device, and it is stored. One that is resumed executes the same instructions as one that was never
stopped.
"""

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from probes.isa import HOST, USUAL, Isa
from runners.guest.image import initramfs, strip_elf
from runners.guest.kernels import Kernel
from runners.guest.qemu import MACHINES, Ended, Qemu, explain, run_to_end, value
from runners.guest.stored import Snapshot
from runners.process import REPOSITORY, WORKLOAD, RunError, UsageError, run_tool

PLUGIN = REPOSITORY / "probes/exact/build/recorder.so"
INIT_PROGRAM = REPOSITORY / "runners/exact/init/build/init"
# A machine that skips its idle time never does nothing. One that boots takes 6 to 8 s of processor
# time for its first line. Two CPUs may hang at boot (guest.BOOTS).
RUN_SECONDS, HANG_SECONDS, BOOT_WORK = 300.0, 10.0, 40.0
TRIES = 6  # to store a machine
IMAGE_MEMORY = 1024  # large programs in the first file system take memory twice: packed, unpacked
READY, DONE = "pathcost: ready", "pathcost: done"
SKIPPED = "the clock advanced while the machine was stored"
REFUSED = "pathcost: failed: refused: pathcost-workload:"  # a cell, by the workload
# What QEMU says of a CPU that it cannot emulate.
NO_CPU = re.compile(r"(?:TCG doesn't support requested|unable to find CPU|Property '\S*-cpu).*")
LEAST_ROOM = 16 << 20  # bytes of a disk, below which a record had no room
COMM = WORKLOAD.name[:15]  # the kernel keeps this much of a program's name
COPIES = "spawn=deny", "spawn=allow"  # in QEMU's sandbox, where the recorder copies the machine
EXACT_MACHINES = MACHINES["exact"]  # by architecture

Order = Sequence[Sequence[str]]
"""Steps for the guest's first program, each a list of words: see runners/exact/init/init.c."""


class RefusedError(RunError):
    """The workload cannot run such a cell; the sentence is the workload's."""


@dataclass(frozen=True)
class EmulatedMachine:
    """The inputs that all boots of one kernel share.

    `isa` is their architecture, `cpu` QEMU's option, `cpus` their number; `knobs` are further
    kernel options. `image` has further files of the first file system (path → file); with them, the
    workload keeps its symbols.
    """

    qemu: Qemu
    kernel: Kernel
    isa: Isa = USUAL
    cpu: str = ""  # empty: the usual one of the architecture
    cpus: int = 1
    knobs: str = ""
    image: Mapping[str, Path] = field(default_factory=dict)

    @property
    def hardware(self) -> list[str]:
        """QEMU's options that the guest can see."""
        memory = ["-m", str(IMAGE_MEMORY)] if self.image else []
        words = EXACT_MACHINES[self.isa.name]["machine"].split()
        return [*words, "-cpu", self.cpu or self.isa.cpu, "-smp", str(self.cpus), *memory]

    @property
    def command_line(self) -> str:
        return f"{EXACT_MACHINES[self.isa.name]['kernel']} {self.knobs}".strip()

    def files(self) -> dict[str, bytes]:
        """Return the first file system (path → contents)."""
        files = programs(self.isa)
        if not self.image:
            return files
        image = {path.lstrip("/"): file.read_bytes() for path, file in self.image.items()}
        return files | {WORKLOAD.name: _with_symbols(WORKLOAD, self.isa)} | image

    def recipe(self) -> dict[str, object]:
        """Everything that decides the guest's state when it is about to read its order."""
        return {
            "qemu": [self.qemu.key, self.qemu.version],
            "kernel": digest(self.kernel.file.read_bytes()),
            "machine": [*self.hardware, *_files(Path())],
            "command_line": self.command_line,
            "programs": self.digests(),
        }

    def digests(self) -> dict[str, str]:
        """Return those of the first file system."""
        return {name: digest(data) for name, data in self.files().items()}


def cpu_option(isa: Isa, knob: str) -> str:
    """QEMU's `-cpu` for `MODEL+FEATURE…`: without a model it is the usual one."""
    model, *features = knob.split("+")
    return isa.cpu_option(model or isa.cpu, knob, features)


@contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder, to which the recorder may write."""
    with tempfile.TemporaryDirectory(prefix="pathcost-exact-") as name:
        yield Path(name)


@contextmanager
def on_one_cpu() -> Iterator[None]:
    """Run what this thread starts on one CPU of the host.

    A processor that its guest stops counts as idle, and an idle machine skips ahead, until QEMU's
    main loop has noted that the machine stands still (icount_start_warp_timer). On one CPU the main
    loop mostly runs first: 5 of 5 machines were stored at the first try; free, 6 tries may fail.
    """
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def run_qemu(
    machine: EmulatedMachine,
    options: Sequence[str] = (),
    order: Order = (),
    files: Mapping[str, bytes] | None = None,
    stored: Path | None = None,
    seconds: float = RUN_SECONDS,
    **how: Any,
) -> Ended:
    """Run QEMU to its end, with `options` beside the machine's. Raises RunError beyond a limit.

    The guest has `files` (path → contents) before it carries out its order. `how` goes to
    run_to_end().
    """
    files, copies = files or {}, "moments=" in "".join(options)
    with scratch() as folder:
        (folder / "initramfs").write_bytes(initramfs(machine.files()))
        steps = [*(("file", path, str(len(data))) for path, data in files.items()), *order]
        (folder / "order").write_text("".join("\t".join(step) + "\n" for step in steps))
        (folder / "contents").write_bytes(b"".join(files.values()))
        hardware = machine.hardware
        if copies:
            hardware = [word.replace(*COPIES) for word in hardware]
        argv = [*machine.qemu.emulator(machine.isa), *hardware]
        argv += ["-kernel", str(machine.kernel.file)]
        argv += ["-initrd", str(folder / "initramfs")]
        argv += ["-append", machine.command_line]
        argv += [*_files(folder), *options]
        reading = machine.qemu.reading(stored) if stored else ()
        return run_to_end(argv, seconds, idle=HANG_SECONDS, reading=reading, **how)


def boot(
    machine: EmulatedMachine,
    order: Order,
    out: Path,
    plugin: Mapping[str, str],
    stored: Path | None = None,
    files: Mapping[str, bytes] | None = None,
    **limits: float,
) -> None:
    """Carry out `order`; the recorder and the guest write their files to `out`.

    The machine starts from the state in `stored`, or from power-on with the same result; `plugin`
    describes the kernel to the recorder. On a busy host the clock may skip as a stored machine
    begins: the guest sees it, and we try again. Raises RunError when the order was not carried
    out, or not within the `limits`: so many `seconds`, or `work` seconds of a processor without a
    line.
    """
    options = ["-action", "panic=none"] if stored is None else []
    settings = {"out": str(out), "program": COMM, **plugin}
    named = (f"{name}={value(text)}" for name, text in settings.items())
    recorder = ",".join([value(PLUGIN), *named])
    for _ in range(TRIES):
        ended = run_qemu(machine, [*options, "-plugin", recorder], order, files, stored, **limits)
        if ended.status == 0 and DONE in ended.lines:
            return
        if not any(line.endswith(SKIPPED) for line in ended.lines):
            break
    # What the recorder says of it goes to a file on the same disk.
    if not ended.complaints and shutil.disk_usage(out).free < LEAST_ROOM:
        raise RunError(
            "the disk for temporary files is full: the record of a cell takes up to 1 GB there "
            "(TMPDIR names another place)."
        )
    raise failure(ended)


def store(machine: EmulatedMachine, state: Path) -> None:
    """Boot until the kernel is quiet, and write the machine to `state`.

    The resumed guest itself finds out whether its clock stood still meanwhile; if not, try again.
    Raises RunError, HangError.
    """
    for _ in range(TRIES):
        snapshot = Snapshot(READY, state, stop=False, packer=machine.qemu.packer)
        with on_one_cpu():
            ended = run_qemu(machine, ["-action", "panic=pause"], snapshot=snapshot, work=BOOT_WORK)
        if not ended.stored:
            break
        ended = run_qemu(machine, stored=state)
        if DONE in ended.lines:
            return
    raise failure(ended)


def _files(folder: Path) -> list[str]:
    """What the guest reads from the host; a stored machine contains the directory of these."""
    paths = [folder / name for name in ("order", "contents")]
    return [w for p in paths for w in ("-fw_cfg", f"name=opt/pathcost/{p.name},file={value(p)}")]


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def built_for(isa: Isa, program: Path) -> Path:
    """Return a program of ours for `isa`, by the place of this machine's own. Raises RunError."""
    if isa is HOST:
        return program
    program = program.parent / isa.name / program.name
    if not program.exists():
        raise RunError(
            f"there is no {program}, which a clone compiles and a package has not: "
            f"use a clone for {isa.name}"
        )
    return program


def tool_for(isa: Isa, name: str) -> str:
    """Return what the program of binutils for `isa` is called here."""
    return name if isa is HOST else f"{isa.tools}{name}"


def programs(isa: Isa) -> dict[str, bytes]:
    """Return the guest's two programs, by their names in the guest. Raises RunError."""
    files = [built_for(isa, file) for file in (INIT_PROGRAM, WORKLOAD)]
    return {file.name: strip_elf(file.read_bytes()) for file in files}


def _with_symbols(program: Path, isa: Isa) -> bytes:
    """Return a program with its symbols, but without what depends on where it was built."""
    with tempfile.NamedTemporaryFile(prefix="pathcost-named-") as out:
        words = [tool_for(isa, "strip"), "--strip-debug", "--remove-section=.note.gnu.build-id"]
        run_tool([*words, "-o", out.name, str(built_for(isa, program))], "strip the workload")
        return Path(out.name).read_bytes()


def failure(ended: Ended) -> RunError | UsageError:
    """Return why a machine that ended did not carry out its order."""
    if reasons := NO_CPU.findall(ended.complaints):
        return UsageError(f"QEMU: {'; '.join(reasons)}. With +FEATURE=off, a CPU goes without one.")
    for line in ended.lines:
        if line.startswith(REFUSED):
            return RefusedError(line.removeprefix(REFUSED).strip())
    for line in ended.complaints.splitlines():
        if line.startswith("pathcost: "):  # from the recorder
            return RunError(line.removeprefix("pathcost: "), ended.tail)
    return explain(ended)
