# SPDX-License-Identifier: GPL-2.0-or-later
"""compare-peers.sh: what each peer prints is read as it is meant, and bad requests are refused."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.errors import RunError as AnalysisError
from analysis.tools import peers as statistics
from runners.bench import compare_peers as compare
from runners.bench import evidence, peers, process
from runners.bench.peers import PEERS, Load, Peer
from runners.process import WORKLOAD, RunError

# As the programs of Debian 12 print it, and what it means in ns for a round trip.
PRINTED = {
    "sockperf": (
        "sockperf: Summary: Round trip is 26.909 usec\n"
        "sockperf: ---> percentile 75.000 =   17.385\n"
        "sockperf: ---> percentile 50.000 =   16.564\n"
        "sockperf: ---> percentile 25.000 =   15.112\n",
        16564.0,
    ),
    "netperf": ("50th Percentile Latency Microseconds\n14\n", 14500.0),
    "perf bench": (
        "# Executed 100000 pipe operations between two processes\n\n"
        "     Total time: 1.295 [sec]\n\n      12.953680 usecs/op\n          77198 ops/sec\n",
        12953.7,
    ),
    "lmbench": ("AF_UNIX sock stream latency: 19.2342 microseconds\n", 19234.2),
}
HERE = process.Where("same-cpu", min(os.sched_getaffinity(0)), min(os.sched_getaffinity(0)))


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.title)
def test_what_a_peer_prints(peer: Peer) -> None:
    text, expected = PRINTED[peer.name]
    assert peer.parse(text) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("text", ["", "sockperf: No messages were received\n", "0.00\n"])
@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.title)
def test_a_peer_that_prints_no_figure(peer: Peer, text: str) -> None:
    with pytest.raises(RunError, match=f"{peer.title} printed no figure"):
        peer.parse(text)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.title)
@pytest.mark.slow
def test_a_peer_that_is_here_measures(peer: Peer) -> None:
    if absent := peer.missing():
        pytest.skip(f"{', '.join(absent)} is not installed (package {peer.package})")
    assert peer.measure(HERE, Load(peer.size or 64, 2000)) > 0


@pytest.mark.parametrize("statistic", ["p50", "mean"])
def test_ours(program: Path, statistic: str) -> None:
    peer = replace(PEERS[0], transport="unix", statistic=statistic)
    assert program == WORKLOAD
    assert peers.measure_ours(peer, HERE, Load(64, 1000)) > 0


def test_a_server_is_gone_with_its_block(tmp_path: Path) -> None:
    listening = (
        "import socket, sys, time\ns = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
    )
    script = tmp_path / "server.py"
    script.write_text(listening + "time.sleep(60)\n")
    argv = [sys.executable, str(script)]
    with process.server_on_free_port(lambda port: [*argv, str(port)], HERE, "tcp") as (server, _):
        pid = server.pid
        assert os.sched_getaffinity(pid) == {HERE.server}
    assert not Path(f"/proc/{pid}").exists()


def test_a_server_that_ends_at_once() -> None:
    never = process.server_on_free_port(lambda port: ["false"], HERE, "tcp")
    with pytest.raises(RunError, match="false ended at once"), never:
        pass


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--peers", "pigeon"], 'unknown peer "pigeon": there is sockperf, netperf'),
        (["--transports", "shm"], 'unknown transport "shm"'),
        (["--placements", "moon"], 'unknown placement "moon"'),
        (["--size", "4"], "sockperf sends at least 14 bytes"),
        (["--blocks", "0"], "--blocks must be at least 1"),
        (["--blocks", "x"], "--blocks"),
        (["--out", "/proc/version"], "/proc/version exists already"),
        (["stray"], "stray"),
    ],
)
def test_refused(argv: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.main(argv) == 2
    said = capsys.readouterr().err
    assert sentence in said and said.count("\n") == 1


def test_missing_peers_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    assert compare.main(["--peers", "netperf"]) == 1
    said = capsys.readouterr().err
    assert "netperf is not installed (Debian: package netperf), so it is left out" in said
    assert "netserver is not installed" in said
    assert said.endswith("there is no peer to compare with.\n")


def test_a_whole_comparison(
    program: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(compare, "measuring", nullcontext)  # its times are not looked at
    here = {peer.name for peer in PEERS if peer.transport == "pipe" and not peer.missing()}
    if not here:
        pytest.skip("neither perf nor lmbench is installed")
    out = tmp_path / "peers.jsonl"
    asked = ["--transports", "pipe", "--peers", ",".join(here), "--placements", "same-cpu"]
    assert compare.main([*asked, "--blocks", "1", "--round-trips", "500", "--out", str(out)]) == 0
    assert "| same-cpu | pipe |" in capfd.readouterr().out
    assert len(out.read_text().splitlines()) == 1 + 2 * len(here)


@pytest.mark.slow
def test_a_cpu_is_kept_awake_by_a_process_of_the_idle_policy() -> None:
    with process.kept_awake([HERE.client]):
        (pid,) = _children()
        while os.sched_getscheduler(pid) != os.SCHED_IDLE:
            assert Path(f"/proc/{pid}").exists()
        assert os.sched_getaffinity(pid) == {HERE.client}
    assert _children() == []


def _children() -> list[int]:
    return [int(pid) for pid in Path("/proc/thread-self/children").read_text().split()]


def test_what_fails_leaves_no_half_file(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = replace(PEERS[0], server=None, client=lambda load, port: ["false"])
    plan = compare.ComparisonPlan((broken,), (HERE,), Load(64, 500), blocks=1, seed=1)
    with pytest.raises(RunError, match="false failed"):
        compare.collect(plan, tmp_path / "peers.jsonl")
    assert not list(tmp_path.iterdir())


def test_each_pair_goes_a_b_then_b_a() -> None:
    plan = compare.ComparisonPlan(PEERS, (HERE,), Load(64, 1), blocks=6, seed=7)
    runs = list(compare.schedule(plan))
    assert runs == list(compare.schedule(plan)), "the seed says it all"
    firsts = set()
    for peer in PEERS:
        order = [(block, who) for block, _, run_of, who in runs if run_of == peer]
        assert [block for block, _ in order] == [b for b in range(6) for _ in range(2)]
        for pair in range(3):
            a, b, c, d = [who for block, who in order if block // 2 == pair]
            assert (a, b) == (d, c) and {a, b} == {"ours", "peer"}
            firsts.add(a)
    assert firsts == {"ours", "peer"}


def test_strace_is_read() -> None:
    lines = [
        'setsockopt(4, SOL_TCP, TCP_NODELAY, [1], 4) = 0',
        'sendto(4, "x", 1, 0, NULL, 0) = 1',
        'recvfrom(4, "x", 1, 0, NULL, NULL) = 1',
    ] * 50  # fmt: skip
    made = "socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC, IPPROTO_IP) = 4"
    seen = evidence.read([made, *lines, "brk(NULL) = 0"])
    assert seen.calls == {"setsockopt": 1.0, "sendto": 1.0, "recvfrom": 1.0}
    assert (seen.made, seen.options) == (["socket(AF_INET, SOCK_STREAM)"], ["TCP_NODELAY [1]"])


def written(path: Path, blocks: int) -> Path:
    cell = {"placement": "same-cpu", "transport": "tcp", "peer": "p", "size": 64}
    records: list[dict[str, object]] = [{"seed": 1}]
    for block in range(blocks):
        for who, ns in (("ours", 900.0 + 100 * block), ("peer", 1000.0 + 100 * block)):
            records.append({**cell, "statistic": "p50", "block": block, "who": who, "ns": ns})
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_the_ratio_pairs_the_runs_of_a_block(tmp_path: Path) -> None:
    row = statistics.table(statistics.read(written(tmp_path / "peers.jsonl", 9))).splitlines()[-1]
    found = re.search(r"\| 1\.30 \| 1\.40 \| 0\.93 \| (0\.\d\d)-(0\.\d\d) \|$", row)
    assert found is not None
    assert 0.90 <= float(found[1]) <= 0.93 <= float(found[2]) <= 0.96
    few = statistics.table(statistics.read(written(tmp_path / "few.jsonl", 1)))
    assert "| 0.90 | too few blocks |" in few


def test_a_file_that_is_something_else(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("{}\nnot json\n")
    for path in (tmp_path / "bad", tmp_path / "absent"):
        with pytest.raises(AnalysisError, match=r"is not what compare-peers\.sh writes"):
            statistics.read(path)
