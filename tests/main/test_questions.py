# SPDX-License-Identifier: GPL-2.0-or-later
"""What run.sh can tell without measuring."""

import json
from pathlib import Path

import pytest

from runners.cell import PATTERNS, TRANSPORTS
from runners.host import preflight
from runners.host.workload import run_check
from runners.process import REPOSITORY
from tests.processes import captured

RUN = REPOSITORY / "runners/run.sh"


def shown(*arguments: str) -> str:
    return captured([RUN, *arguments], check=True).stdout


@pytest.mark.slow
def test_modules_of_the_current_folder_are_not_taken(tmp_path: Path) -> None:
    (tmp_path / "runners").mkdir()
    for name in ("__init__.py", "__main__.py"):
        (tmp_path / "runners" / name).write_text('raise SystemExit("not ours")\n')
    done = captured([RUN, "--version"], cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("pathcost ")


@pytest.mark.slow
def test_list_names_what_can_be_asked_for() -> None:
    listed = [line.split()[0] for line in shown("list").splitlines() if line.startswith("  ")]
    for name in (*TRANSPORTS, *PATTERNS):
        assert name in listed


@pytest.mark.slow
def test_dry_run_shows_cells_in_their_order_and_the_time() -> None:
    said = shown("--dry-run", "--target", "guest", "--sizes", "1,4K", "--repeats", "1")
    assert "unix pingpong 4096 B cross-cpu" in said
    assert said.index("  bpftrace") < said.index("  no probe")  # as it is stored
    assert " in all" in said


@pytest.mark.root
def test_preflight_says_what_each_lack_costs() -> None:
    rows = shown("preflight").splitlines()
    probes = ("tracepoints", "kprobes", "fentry")
    for name in ("root", "BTF", "lockdown", *probes, "CPU", "bare loopback", "BCC", "KVM"):
        at, row = next((n, row) for n, row in enumerate(rows) if row[4:22].strip() == name)
        assert row.startswith(("yes", "NO"))
        assert row.startswith("yes") or rows[at + 1].startswith(" " * 22)
    assert rows[0].startswith("This machine can: ")


def test_preflight_names_what_keeps_a_machine_from_each_work() -> None:
    lacks = ("tracepoints", "kprobes", "KVM")
    found = [preflight.tried(name, name not in lacks, "seen") for name in preflight.LACKS]
    assert preflight.blocked(found) == {
        "times": [],
        "host": [],
        "guest": [],
        "exact": [],
        "watch": ["tracepoints"],
    }
    assert preflight.abilities(found) == (
        "This machine can: times, counts on the host (no probes, only its own counters), "
        "counts in a guest (emulated), exact counts; not: watch (tracepoints)"
    )
    assert all(preflight.REMEDIES.values())


@pytest.mark.slow
def test_preflight_tells_programs_the_same() -> None:
    facts = json.loads(shown("preflight", "--json"))
    assert [check["name"] for check in facts["checks"]] == list(preflight.LACKS)
    failed = {check["name"] for check in facts["checks"] if not check["ok"]}
    assert {name for why in facts["blocked"].values() for name in why} <= failed
    assert all(bool(check["remedy"]) is not check["ok"] for check in facts["checks"])


@pytest.mark.slow
def test_limits_are_those_that_the_kernel_sets() -> None:
    checks = ("datagram-limits", "descriptor-limits")  # which claims use
    answers = [answer for name in checks for answer in run_check(name, None)]
    pair, others, udp, passed = (answer["facts"] for answer in answers)
    queue = int(Path("/proc/sys/net/unix/max_dgram_qlen").read_text())
    assert (others["sent"], others["next"], others["lost"]) == (queue + 1, "EAGAIN", 0)
    assert pair["sent"] > others["sent"] and pair["longest_bytes"] == pair["send_buffer_bytes"] - 32
    assert udp["next"] == "ok" and udp["lost"] > 0 and udp["longest_bytes"] == 65_507
    assert (passed["sent"], passed["next"]) == (65, "ETOOMANYREFS")


def test_an_emulated_cpu_is_told_from_a_virtual_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "systemd-detect-virt"
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for kind, emulated in (("qemu", True), ("kvm", False), ("none", False)):
        program.write_text(f"#!/bin/sh\necho {kind}\n[ {kind} != none ]\n")
        program.chmod(0o755)
        assert preflight.emulated([preflight.cpu()]) is emulated
