# SPDX-License-Identifier: GPL-2.0-or-later
"""Two instruments on the same thing."""

import pandas as pd
import pytest

from analysis.analyse import Analysis
from analysis.counts.agreement import INSTRUMENTS, LEEWAYS, df_pairs, explain
from analysis.counts.measures import rows_of
from tests.analysis.conftest import Analyse
from tests.analysis.make_run import MadeUp

CELL = {
    **{"target": "guest", "kernel": "9.9.0", "pattern": "pingpong", "size": 10, "repeat": 0},
    **{"conditions": "same-cpu", "transport": "tcp", "cell": 1, "messages": 8, "valid": True},
}


def window(quantity: str, counted: dict[str, dict[str, int]]) -> pd.DataFrame:
    """One window of a cell: instrument → key → count."""
    return pd.DataFrame(
        CELL | {"quantity": quantity, "key": key, "instrument": name, "value": value}
        for name, keys in counted.items()
        for key, value in keys.items()
    )


def equal(rows: pd.DataFrame) -> dict[str, set[tuple[str, str]]]:
    """Key → the pairs of instruments that counted it, equal to the last event."""
    pairs: dict[str, set[tuple[str, str]]] = {}
    for row in rows_of(df_pairs(rows)):
        assert row.equal
        pairs.setdefault(row.key, set()).add((row.first, row.second))
    return pairs


def test_all_agree(plain: Analysis) -> None:
    pairs = plain.comparisons
    assert pairs["equal"].all()
    assert set(
        pairs[["quantity", "key", "first", "second"]].itertuples(index=False, name=None)
    ) == {
        ("switches", "voluntary", "kernel", "bpftrace"),
        ("switches", "involuntary", "kernel", "bpftrace"),
        ("softirqs", "NET_RX, whole machine", "kernel", "bpftrace"),
    }


def test_disagreement_comes_first_with_both_figures(analysed: Analyse) -> None:
    # Cell 4 is tcp: the kernel's own count is 8 softirqs, /proc's included.
    analysis = analysed(MadeUp(maps={"@softirqs": {"4,NET_RX": 2, "4,NET_RX elsewhere": 2}}))
    (pair,) = rows_of(analysis.disagreements)
    assert (pair.quantity, pair.transport) == ("softirqs", "tcp")
    assert (pair.first_value, pair.second_value) == (1.0, 0.5)
    assert analysis.comparisons.iloc[0]["quantity"] == "softirqs"


def test_perf_is_compared_with_what_ran_in_the_two_processes() -> None:
    counted = {"perf": {"NET_RX": 6}, "kernel": {"NET_RX": 8}}
    counted |= {name: {"NET_RX": 6, "NET_RX elsewhere": 2} for name in ("bpftrace", "bcc")}
    pairs = equal(window("softirqs", counted))
    assert {name for pair in pairs["NET_RX"] for name in pair} == {"bpftrace", "bcc", "perf"}
    machine = {name for pair in pairs["NET_RX, whole machine"] for name in pair}
    assert machine == {"kernel", "bpftrace", "bcc"}


def test_the_kernel_counts_what_is_sent_again_apart() -> None:
    counted = {"kernel": {"data": 8, "again": 2}, "bpftrace": {"data": 10}}
    assert equal(window("segments", counted)) == {"data": {("kernel", "bpftrace")}}


@pytest.mark.parametrize("count", [11, 13])
def test_a_difference_has_a_known_reason_or_is_unexplained(analysed: Analyse, count: int) -> None:
    """The kernel sees one switch more than bpftrace, which a known reason allows; fewer none."""
    pairs = analysed(MadeUp(maps={"@switches": {"3,voluntary": count}})).comparisons
    (row,) = rows_of(pairs[(pairs["transport"] == "unix") & (pairs["key"] == "voluntary")])
    assert not row.equal
    assert row.unexplained is (count == 13)
    assert ("getrusage is read outside the markers" in row.why) is (count == 11)


def place(kernel: str, pattern: str) -> dict[str, str | int]:
    return {"kernel": kernel, "pattern": pattern, "transport": "tcp", "size": 64}


def test_reasons_have_bounds_and_add_up_only_where_one_is_not_enough() -> None:
    assert all(r.instrument in INSTRUMENTS and r.least <= r.most for r in LEEWAYS)
    names, what, new = ("kernel", "perf"), ("switches", "voluntary"), place("6.12.1", "pingpong")
    assert "getrusage" in (explain(names, 3, 2000, what, new) or "")
    assert "perf's answer" in (explain(names, -4, 2000, what, new) or "")
    assert explain(names, 100, 2000, what, new) is None
    assert explain(("bpftrace", "bcc"), 1, 2000, ("copy_calls", "in"), new) is None
    old = explain(("kernel", "bpftrace"), 300, 2000, what, place("5.10.262", "pingpong"))
    assert "before 5.18" in (old or "")
