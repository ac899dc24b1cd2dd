# SPDX-License-Identifier: GPL-2.0-or-later
"""One deterministic boot: an emulated machine that executes the same instructions every time.

Time in it is a count: one nanosecond an instruction, and idling skips ahead. It has one CPU, no
disk, no network, fixed randomness, and a clock that starts at a fixed date.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runners.exact import initramfs
from runners.exact.program import bare
from runners.guest import GuestError
from runners.guest.kernels import Kernel
from runners.guest.machine import Ended, User, explain, watch
from runners.guest.qemu import Qemu

REPOSITORY = Path(__file__).parent.parent.parent
PLUGIN = REPOSITORY / "probes/exact/build/recorder.so"
INIT = REPOSITORY / "runners/exact/init/build/init"
WORKLOAD = REPOSITORY / "runners/workload/build/pathcost-workload"
CPU = "qemu64"
MEMORY = 512
DONE = "pathcost: done"
COMM = WORKLOAD.name[:15]  # as much of a program's name as the kernel keeps
MACHINE = (
    "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-machine", "q35",
    "-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-seed", "42",
    "-rtc", "base=2026-01-01T00:00:00,clock=vm", "-smp", "1", "-m", str(MEMORY),
    "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
    "-serial", "stdio",
)  # fmt: skip
# No address is drawn by lot; the console is for what goes wrong.
KERNEL_OPTIONS = "console=ttyS0 quiet nokaslr norandmaps panic=-1 oops=panic cryptomgr.notests"


@dataclass(frozen=True)
class Machine:
    """What every boot of one kernel shares. `cpu` is QEMU's model, `knobs` more kernel options."""

    qemu: Qemu
    kernel: Kernel
    cpu: str = CPU
    knobs: str = ""


def boot(
    machine: Machine,
    order: Sequence[str],
    out: Path,
    plugin: Mapping[str, str],
    timeout: float,
    console: Path | None = None,
    user: User | None = None,
    on_line: Callable[[str], None] = lambda _: None,
) -> None:
    """Boot, carry out `order`, and leave what the recorder and the guest wrote in `out`.

    Raises GuestError, with the console's last lines, when the order was not carried out.
    """
    with (
        tempfile.TemporaryDirectory(prefix="pathcost-exact-") as name,
        (console or Path(os.devnull)).open("wb") as log,
    ):
        folder = Path(name)
        folder.chmod(0o755)
        initrd = folder / "initramfs"
        initrd.write_bytes(_files(order))
        argv = command_line(machine, initrd, out, plugin)
        ended = watch(argv, [], timeout, on_line, log, user)
    if ended.status != 0 or DONE not in ended.lines:
        raise _explain(ended)


def command_line(machine: Machine, initrd: Path, out: Path, plugin: Mapping[str, str]) -> list[str]:
    """QEMU with the recorder, which writes into `out`."""
    options = {"out": str(out), "program": COMM, **plugin}
    return [
        *machine.qemu.argv, *MACHINE, "-cpu", machine.cpu,
        "-kernel", str(machine.kernel.file), "-initrd", str(initrd),
        "-append", f"{KERNEL_OPTIONS} {machine.knobs}".strip(),
        "-plugin", ",".join([str(PLUGIN), *(f"{name}={value}" for name, value in options.items())]),
    ]  # fmt: skip


def programs() -> dict[str, bytes]:
    """The guest's two programs, by their names in it."""
    return {"init": bare(INIT.read_bytes()), WORKLOAD.name: bare(WORKLOAD.read_bytes())}


def _files(order: Sequence[str]) -> bytes:
    return initramfs.archive(
        {
            **programs(),
            "order": "".join(f"{word}\n" for word in order).encode(),
        }
    )


def _explain(ended: Ended) -> GuestError:
    for line in ended.complaints.splitlines():
        if line.startswith("pathcost: "):  # the recorder's own words
            return GuestError(line.removeprefix("pathcost: "), ended.lines)
    return explain(ended)
