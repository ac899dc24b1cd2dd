# SPDX-License-Identifier: GPL-2.0-or-later
"""Real boots: one that works, and one for each way in which a guest can fail."""

from pathlib import Path

import pytest

from runners import guest
from runners.process import RunError

pytestmark = pytest.mark.guest


NEEDED = """
    bpftrace -e 'kprobe:tcp_sendmsg { @ = count(); } BEGIN { exit(); }'
    perf stat -a -e sched:sched_switch true
    python3 -c 'import bcc, json'
    grep -q tcp_sendmsg /sys/kernel/tracing/available_filter_functions && echo tracefs
    test -r /sys/fs/cgroup/cgroup.procs && echo cgroup2
    test -r /sys/kernel/btf/vmlinux && echo btf
    ip -brief address show lo
    setpriv --reuid 65534 --regid 65534 --clear-groups id -un
    find /sys/class/net -mindepth 1
"""


def boot(
    machine: guest.Guest, input_tar: Path, script: str, memory: int = 1536
) -> tuple[dict[str, str], list[str]]:
    """Run a shell script in the guest: the result, and the lines that it printed."""
    lines: list[str] = []
    out, command = input_tar.parent / "out", ["sh", "-c", script]
    result = machine.run(
        input_tar, out, command, timeout=60, on_line=lines.append, memory=memory,
        output_size=8 << 20,
    )  # fmt: skip
    return result, lines


def nothing_left(folder: Path) -> bool:
    """Whether a failed run left only the input."""
    return {path.name for path in folder.iterdir()} == {"word", "input.tar"}


def test_a_command_runs_and_its_files_come_back(machine: guest.Guest, input_tar: Path) -> None:
    """And the guest has what the instruments need."""
    script = "cat word; uname -r; echo '[x] no kernel line'; id -u >out/who; echo careful >&2"
    result, lines = boot(machine, input_tar, "set -e\n" + script + NEEDED)
    assert lines[:3] == ["hello", machine.release, "[x] no kernel line"]
    assert (input_tar.parent / "out/who").read_text() == "0\n"
    assert "careful" in result["stderr"].splitlines()
    assert "Linux version" in result["kernel.log"]
    assert "pathcost: started" in (input_tar.parent / "out/console.log").read_text()
    text = "\n".join(lines)
    for word in ("@: 0", "sched:sched_switch", "tracefs", "cgroup2", "btf", "127.0.0.1", "nobody"):
        assert word in text
    assert [line for line in lines if line.startswith("/sys/class/net")] == ["/sys/class/net/lo"]


def test_a_panic_is_named(machine: guest.Guest, input_tar: Path) -> None:
    with pytest.raises(RunError, match="kernel panicked: sysrq triggered crash") as error:
        boot(machine, input_tar, "echo c >/proc/sysrq-trigger")
    assert error.value.console
    assert nothing_left(input_tar.parent)


def test_a_command_that_fails_says_why(machine: guest.Guest, input_tar: Path) -> None:
    with pytest.raises(RunError, match="ended with status 7: no such probe"):
        boot(machine, input_tar, "echo half >out/file; echo no such probe >&2; exit 7")
    assert nothing_left(input_tar.parent)


def test_an_output_that_does_not_fit_is_named(machine: guest.Guest, input_tar: Path) -> None:
    with pytest.raises(RunError, match="cannot write its output: No space left"):
        boot(machine, input_tar, "head -c 20M /dev/urandom >out/file")
    assert nothing_left(input_tar.parent)


def test_a_machine_that_cannot_start_is_named(machine: guest.Guest, input_tar: Path) -> None:
    with pytest.raises(RunError, match=r"QEMU ended with status 1: .*memory"):
        boot(machine, input_tar, "true", memory=1 << 40)
