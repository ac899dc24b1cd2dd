# SPDX-License-Identifier: GPL-2.0-or-later
"""What a packet on loopback meets: as a kernel answered once, and in namespaces of our own."""

import errno
import json
import os
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from probes import bpf
from runners.host import loopback
from runners.host.environment import environment
from runners.process import REPOSITORY
from tests.processes import captured
from tests.runners import bpf_programs

LO = 1


@pytest.mark.root
def test_a_mount_whose_name_is_not_utf_8_is_no_trouble(tmp_path: Path) -> None:
    """A name is bytes: such a mount once ended the run in a traceback."""
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    look = "from runners.host import loopback; assert loopback.loopback()['cgroup BPF']"
    mounted = 'mount -t tmpfs none "$0" && exec "$1" -B -c "$2"'
    argv = ["unshare", "--mount", "sh", "-c", mounted, str(folder), sys.executable, look]
    done = captured(argv, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr


def test_the_kernel_answers_into_memory_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """It writes query.revision, bytes 56 to 63, whatever size it was told: seen on Linux 6.18."""
    given: list[int] = []

    def refuses(_: int, attributes: Any, size: int) -> int:
        given.append(len(attributes))
        raise OSError(errno.EPERM, "made up")

    monkeypatch.setattr(bpf, "_ask", refuses)
    with pytest.raises(OSError, match="made up"):
        bpf.attached(LO, loopback.TCX_HOOKS["ingress"])
    with pytest.raises(OSError, match="made up"):
        bpf.enable_statistics()
    assert len(given) == 2 and min(given) >= 64


def test_what_cannot_be_told_is_unknown_and_never_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> list[str]:
        raise PermissionError(errno.EPERM, "made up", "/made/up")

    monkeypatch.setattr(loopback, "LOOKS", {"one": refuse, "other": lambda: ["made-up"]})
    record = environment()["loopback"]
    assert record == {"one": {"unknown": "/made/up: made up"}, "other": {"found": ["made-up"]}}
    assert loopback.met(record) == "other: made-up"
    assert loopback.not_known(record) == "one (/made/up: made up)"


def in_a_namespace(*commands: str) -> Any:
    """What the collector records in a network namespace after these commands."""
    program = (
        "import json; from runners.host.loopback import loopback; print(json.dumps(loopback()))"
    )
    steps = " && ".join(("ip link set lo up", *commands))
    script = f'{{ {steps}; }} || exit {bpf_programs.CANNOT}; exec "$@"'
    return json.loads(unshared("sh", "-c", script, "sh", sys.executable, "-B", "-c", program))


def unshared(*command: str) -> str:
    """What a program prints in a network namespace of its own."""
    done = captured(["unshare", "--net", "--", *command], cwd=REPOSITORY)
    if done.returncode == bpf_programs.CANNOT or "unshare failed" in done.stderr:
        pytest.skip(f"not on this machine: {done.stderr.strip()[-200:]}")
    assert done.returncode == 0, done.stderr
    return done.stdout


RULES = Path(__file__).with_name("made_up.nft")

CONNECTS = (
    'import socket; s = socket.create_server(("127.0.0.1", 0)); '
    "socket.create_connection(s.getsockname())"
)


@pytest.mark.root
def test_a_namespace_of_its_own_is_bare_and_with_a_firewall_it_is_not() -> None:
    """Nothing is loaded, and no rule of this machine is touched."""
    assert loopback.met(in_a_namespace()) == ""
    if not shutil.which("nft"):
        pytest.skip("nft is not installed")
    rules = shlex.join(["nft", "-f", str(RULES)])
    record = in_a_namespace(rules, "tc qdisc add dev lo clsact")
    assert record["nf_tables"]["found"] == [
        "inet made_up inp (hook input, priority 7, rules 1)",
        "ip6 six out (hook output, priority -5, rules 0)",
        "netdev n onlo (hook ingress, priority 3, rules 0)",
    ]
    assert record["qdisc on lo"]["found"] == ["clsact"]
    assert record["conntrack"] != {"found": []}  # unknown where the kernel lists none
    connect = shlex.join([sys.executable, "-c", CONNECTS])
    record = in_a_namespace(rules, connect, "nft flush ruleset")
    assert record["conntrack"].get("found") != ["active"], "an old entry outlives its rule"


def test_a_chain_of_another_device_is_none_of_los() -> None:
    chain = {"family": "netdev", "table": "n", "name": "c", "hook": "ingress", "prio": 3}
    assert loopback.chains([{"chain": chain | {"dev": "d0"}}]) == []
    (both,) = loopback.chains([{"chain": chain | {"dev": ["d0", "lo"]}}])
    assert both.startswith("netdev n c")


def test_a_hook_that_this_kernel_lacks_has_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def attached(_: int, hook: int, *__: object) -> list[str]:
        raise OSError(hook, "made up")

    monkeypatch.setattr(bpf, "attached", attached)
    assert list(loopback._programs(0, {"ingress": errno.EINVAL})) == []
    with pytest.raises(OSError, match="made up"):
        list(loopback._programs(0, {"ingress": errno.EPERM}))


def remove(group: Path) -> None:
    """The kernel may take a moment to let go of a process that has ended."""
    for _ in range(100):
        try:
            return group.rmdir()
        except OSError:
            time.sleep(0.1)
    return group.rmdir()


@pytest.mark.root
def test_programs_on_lo_and_on_the_control_group_are_named() -> None:
    """Programs of the groups above ours see our packets too."""
    ours = loopback.cgroup()
    if ours is None:
        pytest.skip("this kernel has no unified hierarchy of control groups")
    group = ours / f"pathcost-test-{os.getpid()}"
    below = group / "below"
    try:
        below.mkdir(parents=True)
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    program = (sys.executable, "-B", "-m", "tests.runners.bpf_programs", str(group), str(below))
    try:
        record = json.loads(unshared(*program))
    finally:
        remove(below)
        remove(group)
    assert record["XDP on lo"] == {"found": ["attached"]}
    assert record["tcx on lo"] == {"found": ["ingress made_up"]}
    assert "egress made_up" in record["cgroup BPF"]["found"]
