# SPDX-License-Identifier: GPL-2.0-or-later
"""The window: markers that can be found, and nothing but messages between them."""

import platform
import re
import shutil
from pathlib import Path

import pytest

from tests.processes import captured

from .workload import SOURCE


def tool(name: str, *arguments: object) -> str:
    if not shutil.which(name):
        pytest.skip(f"{name} is not installed")
    ended = captured([name, *map(str, arguments)], check=True)
    return ended.stdout


@pytest.mark.parametrize("name", ["window_begin", "window_end"])
def test_marker(program: Path, name: str) -> None:
    """One symbol, and in it the instruction that loop.h promises."""
    if platform.machine() != "x86_64":
        pytest.skip("the markers hold an instruction only on x86-64")
    symbols = re.findall(rf"^[0-9a-f]+ (\w) ({name}\S*)$", tool("nm", program), re.MULTILINE)
    assert symbols == [("T", name)], "global, and neither cloned nor split"
    header = (SOURCE / "loop.h").read_text()
    macro = "MARKER_BEGIN" if name == "window_begin" else "MARKER_END"
    magic = re.search(rf"#define {macro}\s+0x([0-9a-f]+)", header)
    assert magic
    code = tool("objdump", "-d", "--no-show-raw-insn", f"--disassemble={name}", program)
    assert re.findall(r"nopl\s+0x([0-9a-f]{5,})\(%rax\)", code) == [magic[1].lstrip("0")]


def traced_calls(program: Path, private: Path, *more: object) -> list[list[str]]:
    """The system calls of each process, in order."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    prefix = private.parent / "strace"
    arguments = ["--transport", "unix", "--messages", "46", "--dir", private, *more]
    tool("strace", "-ff", "-qq", "-o", prefix, program, *arguments)
    traces = sorted(prefix.parent.glob("strace.*"), key=lambda path: int(path.suffix[1:]))
    return [re.findall(r"^(\w+\(.*)", path.read_text(), re.MULTILINE) for path in traces]


@pytest.mark.parametrize("sampled", [False, True])
def test_nothing_but_messages_in_the_window(program: Path, private: Path, sampled: bool) -> None:
    """Between the last two getrusage calls of either side: one write and one read an iteration."""
    more = ["--samples", private / "samples"] if sampled else []
    processes = traced_calls(program, private, *more)
    assert len(processes) == 2
    for calls in processes:
        usages = [i for i, call in enumerate(calls) if call.startswith("getrusage")]
        assert len(usages) == 3, "one to warm up, and the window's edges"
        names = [call.partition("(")[0] for call in calls[usages[1] + 1 : usages[2]]]
        assert names in (["write", "read"] * 23, ["read", "write"] * 23)


# An addition, its transport, and the calls of each message: of its sender, then of its reader.
CALLS = [
    ("descriptor", "unix", "sendmsg", "recvmsg close"),
    ("credentials", "unix-dgram", "sendmsg", "recvmsg"),
    ("peek", "unix", "write", "recvfrom read"),
    ("peek-offset", "unix", "write", "recvfrom read"),
    ("inquire", "tcp", "write", "ioctl read"),
    ("inq", "tcp", "write", "recvmsg"),
    ("tcp-info", "tcp", "write", "read getsockopt"),
    ("cork", "tcp", "sendto write", "read"),
]


@pytest.mark.parametrize(("also", "transport", "sends", "reads"), CALLS)
def test_an_addition_makes_its_calls(
    program: Path, private: Path, also: str, transport: str, sends: str, reads: str
) -> None:
    for calls in traced_calls(program, private, "--transport", transport, "--also", also):
        usages = [i for i, call in enumerate(calls) if call.startswith("getrusage")]
        names = [call.partition("(")[0] for call in calls[usages[1] + 1 : usages[2]]]
        both = [*sends.split(), *reads.split()]
        assert names in (both * 23, [*reads.split(), *sends.split()] * 23)


def test_server_is_ready_then_asleep_before_the_client_begins(program: Path, private: Path) -> None:
    client, server = traced_calls(program, private)
    ready = next(i for i, call in enumerate(server) if re.match(r'write\(\d+, "r", 1\)', call))
    assert server[ready + 1].startswith("getrusage")
    assert server[ready + 2].startswith("read")
    looks = [i for i, call in enumerate(client) if re.match(r'pread64\(\d+, "\d+ \(', call)]
    begins = [i for i, call in enumerate(client) if call.startswith("getrusage")][1]
    assert looks and max(looks) < begins
    assert re.search(r"\) S ", client[max(looks)])
