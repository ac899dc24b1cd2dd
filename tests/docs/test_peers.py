# SPDX-License-Identifier: GPL-2.0-or-later
"""Comparison with peers: what each prints, pairs of runs, and the page of the stored ones."""

import pandas as pd
import pytest

from analysis.wording import DASH
from runners.process import REPOSITORY, RunError
from tests.docs import peers
from tests.docs.peers import CELL, PEERS

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


def test_the_ratio_pairs_the_runs_of_a_block() -> None:
    rows = [
        ("same-cpu", "tcp", "p", 64, "p50", block, program, ns + 100 * block)
        for block in range(9)
        for program, ns in (("ours", 900.0), ("peer", 1000.0))
    ]
    table = pd.DataFrame(rows, columns=[*CELL, "block", "program", "ns"])
    low, _, high = peers.markdown(table).split("|")[-2].partition(DASH)
    assert "| 1.30 | 1.40 | 0.93 |" in peers.markdown(table)
    assert 0.88 <= float(low) <= 0.93 <= float(high) <= 0.98
    assert "| 0.90 | too few blocks |" in peers.markdown(table[table["block"] == 0])


def test_the_page_has_the_table_of_the_stored_runs() -> None:
    rows = pd.read_csv(REPOSITORY / "reports/reference/peers.csv")
    page = (REPOSITORY / "docs/comparison-with-peers.md").read_text(encoding="utf-8")
    assert peers.markdown(rows) in page
