# SPDX-License-Identifier: GPL-2.0-or-later
"""Comparison with peers: what each prints is read as it is meant, and runs go A B B A."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest

from runners.process import WORKLOAD, RunError
from runners.programs import peers
from runners.programs.peers import CELL, PEERS, Load
from tests.build import make

# As the programs of Debian 12 print it, and what it means in ns for a round trip.
PRINTED = {
    "sockperf": (
        "sockperf: Summary: Round trip is 26.909 usec\n"
        "sockperf: ---> percentile 75.000 =   17.385\n"
        "sockperf: ---> percentile 50.000 =   16.564\n",
        16564.0,
    ),
    "perf": (
        "# Executed 100000 pipe operations between two processes\n\n"
        "     Total time: 1.295 [sec]\n\n      12.953680 usecs/op\n          77198 ops/sec\n",
        12953.7,
    ),
}


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.transport)
def test_what_a_peer_prints(peer: peers.Peer) -> None:
    text, expected = PRINTED[peer.name]
    assert peer.parse(text) == pytest.approx(expected, rel=1e-4)
    with pytest.raises(RunError, match="printed no figure"):
        peer.parse("0.00\n")


def test_a_server_is_pinned_and_gone_with_its_block() -> None:
    cpu = min(os.sched_getaffinity(0))
    argv = [sys.executable, "-c", "import time; time.sleep(60)"]
    with peers.started(argv, cpu, -3) as server:
        pid = server.pid
        while len(os.sched_getaffinity(pid)) > 1:
            assert server.poll() is None
        assert os.sched_getaffinity(pid) == {cpu}
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
def test_a_comparison() -> None:
    make(WORKLOAD.parents[1], "all")
    runs = peers.measure([PEERS[-1]], ["same-cpu"], Load(64, 500), blocks=1, seed=1)
    assert list(runs["program"]) in (["ours", "peer"], ["peer", "ours"])
    assert (runs["ns"] > 0).all()
    assert "| same-cpu | pipe | perf | 4 | mean |" in peers.markdown(runs)


def test_each_pair_goes_a_b_then_b_a() -> None:
    runs = list(peers.schedule(PEERS, peers.PLACEMENTS, 6, 7))
    assert runs == list(peers.schedule(PEERS, peers.PLACEMENTS, 6, 7))
    for peer in PEERS:
        order = [program for _, cpus, other, program in runs if (cpus, other) == ("same-cpu", peer)]
        for a, b, c, d in zip(*[iter(order)] * 4, strict=True):
            assert (a, b) == (d, c) and {a, b} == {"ours", "peer"}


def test_the_ratio_pairs_the_runs_of_a_block() -> None:
    rows = [
        ("same-cpu", "tcp", "p", 64, "p50", block, program, ns + 100 * block)
        for block in range(9)
        for program, ns in (("ours", 900.0), ("peer", 1000.0))
    ]
    table = pd.DataFrame(rows, columns=[*CELL, "block", "program", "ns"])
    low, _, high = peers.markdown(table).split("|")[-2].partition("-")
    assert "| 1.30 | 1.40 | 0.93 |" in peers.markdown(table)
    assert 0.90 <= float(low) <= 0.93 <= float(high) <= 0.96
    assert "| 0.90 | too few blocks |" in peers.markdown(table[table["block"] == 0])
