# SPDX-License-Identifier: GPL-2.0-or-later
"""Watching a machine, with a shell script in QEMU's place; and what is said when it ends badly."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from runners.guest.errors import CommandError, GuestError, HangError, SilentError
from runners.guest.kernels import Kernel
from runners.guest.machine import Disk, Ended, command_line, explain, watch
from runners.guest.qemu import Qemu

PANIC = "[    1.7] Kernel panic - not syncing: "


def test_the_machine_has_its_disks_and_no_network(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path / "kernel", "6.12", None, "")
    with Path(os.devnull).open("rb") as null:
        given = (Qemu(tmp_path, "", ""), kernel, "tcg", [Disk(null)])
        argv, stored = command_line(*given), command_line(*given, initramfs=tmp_path)
    assert "-nodefaults" in argv
    assert not {"-nic", "-net", "-netdev"} & set(argv)
    assert [argv[n + 1].split(",")[0] for n, word in enumerate(argv) if word == "-device"] == [
        "nvme",
        "nvme-ns",
    ]
    assert not any("nvme" in word for word in stored)  # which QEMU cannot store


def watch_script(
    script: str,
    timeout: float = 10,
    quiet: float | None = None,
    idle: float | None = None,
    work: float | None = None,
) -> list[str]:
    """The lines of a script's console."""
    lines: list[str] = []
    shell = ["sh", "-c", script]
    limits = (quiet, (), idle, work)
    watch(shell, [], timeout, lines.append, io.BytesIO(), *limits)
    return lines


def test_lines_come_whole() -> None:
    assert watch_script(r"printf 'a\r\nb'; sleep 0.1; printf 'c\nd'") == ["a", "bc", "d"]


def test_a_machine_that_does_not_end_is_stopped() -> None:
    with pytest.raises(GuestError, match=r"did not finish within 1 s") as error:
        watch_script("echo last words; exec sleep 60", timeout=1)
    assert error.value.console == ("last words",)


def test_a_machine_that_never_speaks_is_stopped_early() -> None:
    with pytest.raises(GuestError, match="printed nothing") as error:
        watch_script("sleep 60; echo ended", timeout=120, quiet=0.3)
    assert error.value.console == ()


def test_a_machine_that_hangs_is_told_from_one_that_is_slow() -> None:
    with pytest.raises(GuestError, match="hangs: its machine did nothing") as error:
        watch_script("echo last words; exec sleep 60", timeout=120, idle=1)
    assert error.value.console == ("last words",)
    with pytest.raises(SilentError, match="printed nothing and hangs"):
        watch_script("exec sleep 60", timeout=120, quiet=110, idle=1)
    with pytest.raises(GuestError, match="did not finish"):
        watch_script("while :; do :; done", timeout=4, idle=1)


def test_a_machine_that_computes_without_a_line_hangs_too() -> None:
    with pytest.raises(HangError, match="1 s of processor time without a further") as error:
        watch_script("echo last words; while :; do :; done", timeout=120, work=1)
    assert error.value.console == ("last words",)
    # One that waits for its turn, as on a busy machine, uses none.
    assert watch_script("sleep 2; echo awake", timeout=120, work=0.5) == ["awake"]


def test_each_line_begins_another_silence() -> None:
    work = "n=0; while [ $n -lt 60000 ]; do n=$((n+1)); done; sleep 0.6; echo line; "
    assert watch_script(work * 8, timeout=120, work=0.4) == ["line"] * 8


def test_an_error_in_the_caller_s_function_stops_the_machine() -> None:
    def fail(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch(["sh", "-c", "echo $$; exec sleep 60"], [], 30, fail, io.BytesIO())


KILLED = """
    import io, os, signal
    from runners.guest.machine import watch

    def die(line):
        print(line, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    watch(["sh", "-c", "echo $$; exec sleep 60"], [], 30, die, io.BytesIO())
"""


def test_the_machine_dies_with_a_killed_runner() -> None:
    done = subprocess.run(
        [sys.executable, "-B", "-c", textwrap.dedent(KILLED)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    process = Path("/proc") / done.stdout.decode().strip()
    deadline = time.monotonic() + 5
    while process.exists() and _state(process) != "Z":
        assert time.monotonic() < deadline, "the machine outlived its runner"
        time.sleep(0.02)


def _state(process: Path) -> str:
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


@pytest.mark.parametrize(
    ("ended", "sentence"),
    [
        (Ended(0, [PANIC + "sysrq triggered crash"]), "kernel panicked: sysrq triggered crash"),
        (Ended(0, [PANIC + "VFS: Unable to mount root fs"]), "needs CONFIG_BLK_DEV_NVME"),
        (Ended(0, ["pathcost: failed: no disk"]), "no disk"),
        (
            Ended(1, [], "ld.so: x/qemu-system-x86_64: warning: y\nqemu-system-x86_64: no memory"),
            "QEMU ended with status 1: no memory",
        ),
        (Ended(0, ["pathcost: started 2.0"]), "the guest stopped before its command ended"),
    ],
)
def test_each_bad_end_has_its_sentence(ended: Ended, sentence: str) -> None:
    assert sentence in explain(ended).sentence


def test_an_error_shows_the_console_s_last_lines_only() -> None:
    error = CommandError(3, "first\nlast\n\n", [f"line {n}" for n in range(40)])
    assert str(error).splitlines()[0] == "the guest's command ended with status 3: last"
    assert str(error).splitlines()[1:] == [f"  | line {n}" for n in range(25, 40)]
