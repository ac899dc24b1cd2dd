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


@pytest.mark.parametrize(
    ("script", "memory", "sentence"),
    [
        ("echo c >/proc/sysrq-trigger", 1536, "kernel panicked: sysrq triggered crash"),
        ("echo half >out/file; echo no such probe >&2; exit 7", 1536, "status 7: no such probe"),
        ("head -c 20M /dev/urandom >out/file", 1536, "cannot write its output: No space left"),
        ("true", 1 << 40, "QEMU ended with status 1: .*memory"),
    ],
)
def test_a_failure_is_named_and_leaves_nothing(
    machine: guest.Guest, input_tar: Path, script: str, memory: int, sentence: str
) -> None:
    with pytest.raises(RunError, match=sentence) as error:
        boot(machine, input_tar, script, memory)
    assert error.value.console or "panicked" not in sentence
    assert {path.name for path in input_tar.parent.iterdir()} == {"word", "input.tar"}
