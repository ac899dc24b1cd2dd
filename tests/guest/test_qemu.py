# SPDX-License-Identifier: GPL-2.0-or-later
"""Watching a machine, with a shell script in QEMU's place; and what is said when it ends badly."""

import math
import os
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from runners.guest import qemu
from runners.guest.boot import Guest
from runners.guest.image import Image
from runners.guest.kernels import Kernel
from runners.guest.qemu import Ended, HangError, Qemu, explain, run_to_end
from runners.process import RunError
from tests.processes import is_gone

PANIC = "[    1.7] Kernel panic - not syncing: "


def test_the_machine_has_its_disks_and_no_network(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path / "kernel", "6.12", None, "")
    guest = Guest(kernel, Image(tmp_path, ""), Qemu(tmp_path, "", ""), "tcg", "")
    argv, stored = guest.command_line(), guest.command_line(first=tmp_path)
    assert "-nodefaults" in argv
    assert not {"-nic", "-net", "-netdev"} & set(argv)
    assert [argv[n + 1].split(",")[0] for n, word in enumerate(argv) if word == "-device"] == [
        "nvme",
        "nvme-ns",
    ]
    assert not any("nvme" in word for word in stored)  # which QEMU cannot store
    assert "tcg,thread=single" in argv
    assert "tcg,thread=multi" in replace(guest, parallel=True).command_line()
    kvm = replace(guest, accelerator="kvm")
    assert kvm.command_line() == replace(kvm, parallel=True).command_line()


def watch_script(
    script: str, timeout: float = 120, idle: float = math.inf, work: float = math.inf
) -> list[str]:
    """The lines of a script's console."""
    return run_to_end(["sh", "-c", script], timeout, idle=idle, work=work).lines


def test_lines_come_whole() -> None:
    assert watch_script(r"printf 'a\r\nb'; sleep 0.1; printf 'c\nd'") == ["a", "bc", "d"]


@pytest.mark.parametrize(
    ("script", "limits", "error", "sentence"),
    [
        ("while echo; do :; done", {"timeout": 1}, RunError, "did not finish within 1 s"),
        ("sleep 60", {"idle": 1}, HangError, "hangs: no work in 2 s$"),
        # One that is slow does not hang.
        ("while :; do :; done", {"timeout": 3, "idle": 2}, RunError, "did not finish"),
        # Nor does one that gets no processor.
        ("kill -STOP $$", {"timeout": 3, "idle": 1}, RunError, "did not finish"),
        ("while :; do :; done", {"work": 1}, HangError, "1 s of processor time without a further"),
    ],
)
def test_a_machine_that_does_not_end_is_stopped(
    script: str, limits: dict[str, float], error: type[RunError], sentence: str
) -> None:
    with pytest.raises(error, match=sentence) as caught:
        watch_script(f"echo last words; {script}", **limits)
    assert caught.type is error
    assert set(caught.value.console) <= {"last words", ""}


def test_a_machine_that_never_speaks_is_asked_for_its_console() -> None:
    with pytest.raises(HangError, match="printed nothing"):
        watch_script("exec sleep 60", idle=1)


def test_a_machine_that_waits_for_its_turn_does_not_hang() -> None:
    assert watch_script("sleep 2; echo awake", work=0.5) == ["awake"]
    # Each line begins another silence.
    work = "n=0; while [ $n -lt 60000 ]; do n=$((n+1)); done; sleep 0.6; echo line; "
    assert watch_script(work * 7, work=0.4) == ["line"] * 7


def test_a_run_that_ends_early_ends_its_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    ended.set()
    monkeypatch.setattr(qemu, "stopping", ended)
    with pytest.raises(KeyboardInterrupt):
        watch_script("exec sleep 60", timeout=20)


def test_a_machine_beside_others_is_nice_to_other_sessions_too() -> None:
    if not Path("/proc/self/autogroup").exists():
        pytest.skip("this kernel has no autogroups")
    with ThreadPoolExecutor(1, initializer=os.nice, initargs=(10,)) as pool:
        lines = pool.submit(watch_script, "sleep 0.1; cat /proc/self/autogroup").result()
    assert lines[0].endswith(" nice 10")


KILLED = """
    import os, signal
    from runners.guest.qemu import run_to_end

    def die(line):
        print(line, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    run_to_end(["sh", "-c", "echo $$; exec sleep 60"], 30, die)
"""


def test_the_machine_dies_with_a_killed_runner() -> None:
    done = subprocess.run(
        [sys.executable, "-B", "-c", textwrap.dedent(KILLED)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert is_gone(done.stdout.decode().strip()), "the machine outlived its runner"


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
        (Ended(-9, [], "Is another process using the image?"), "QEMU ended by SIGKILL"),
        (Ended(0, ["pathcost: started 2.0"]), "the guest stopped before its command ended"),
    ],
)
def test_each_bad_end_has_its_sentence(ended: Ended, sentence: str) -> None:
    assert sentence in str(explain(ended))
