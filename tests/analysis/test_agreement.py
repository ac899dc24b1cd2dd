# SPDX-License-Identifier: GPL-2.0-or-later
"""Two instruments on the same thing."""

import pandas as pd

from analysis.analyse import Analysis
from analysis.counts.agreement import INSTRUMENTS, agreements, compare
from analysis.counts.reasons import explain, read_reasons
from tests.analysis.conftest import Analyse
from tests.analysis.make_run import MadeUp


def test_all_agree(plain: Analysis) -> None:
    comparisons = plain.comparisons
    assert all(c.equal for c in comparisons)
    pairs = {(c.quantity, c.key, c.first, c.second) for c in comparisons}
    assert pairs == {
        ("switches", "voluntary", "kernel", "bpftrace"),
        ("switches", "involuntary", "kernel", "bpftrace"),
        ("softirqs", "NET_RX, whole machine", "kernel", "bpftrace"),
        ("function_calls", "made_up_1", "bpftrace", "ftrace"),
    }


def test_disagreement_comes_first_with_both_figures(analysed: Analyse) -> None:
    # Cell 4 is tcp: the kernel's own count is 8 softirqs, /proc's included.
    analysis = analysed(MadeUp(maps={"@softirqs": {"4,NET_RX": 2, "4,NET_RX elsewhere": 2}}))
    first = analysis.comparisons[0]
    assert analysis.disagreements == (first,)
    assert (first.quantity, first.transport) == ("softirqs", "tcp")
    assert (first.first_value, first.second_value) == (1.0, 0.5)


def test_what_ran_elsewhere_counts_for_the_whole_machine(analysed: Analyse) -> None:
    analysis = analysed(MadeUp(maps={"@softirqs": {"4,NET_RX": 6, "4,NET_RX elsewhere": 2}}))
    assert analysis.disagreements == ()
    (table,) = (agreement for agreement in analysis.agreements if agreement.target == "guest")
    rows = {(quantity, key): by for quantity, key, by in table.rows}
    assert rows["softirqs", "NET_RX, whole machine"]["tcp"].by == {"kernel": 8, "bpftrace": 8}


def test_perf_is_compared_with_what_ran_in_the_two_processes() -> None:
    counted = {"perf": {"NET_RX": 6}, "kernel": {"NET_RX": 8}}
    counted |= {name: {"NET_RX": 6, "NET_RX elsewhere": 2} for name in ("bpftrace", "bcc")}
    (table,) = agreements(window("softirqs", counted))
    rows = {key: by["tcp"] for _, key, by in table.rows}
    assert rows["NET_RX"].by == {"bpftrace": 6, "bcc": 6, "perf": 6}
    assert rows["NET_RX, whole machine"].by == {"kernel": 8, "bpftrace": 8, "bcc": 8}
    assert all(counts.equal for counts in rows.values())


def test_who_follows_a_forwarder_is_not_compared_with_who_counts_two_ends() -> None:
    counted = {"perf": {"other": 24}, "bpftrace": {"other": 0}, "bcc": {"other": 0}}
    (table,) = agreements(window("syscalls", counted).assign(transport="tcp-proxy"))
    ((_, _, by),) = table.rows
    assert by["tcp-proxy"].by == {"bpftrace": 0, "bcc": 0}


def window(quantity: str, counted: dict[str, dict[str, int]]) -> pd.DataFrame:
    """One window of a cell: instrument → key → count."""
    where = {"target": "guest", "kernel": "9.9.0", "pattern": "pingpong", "size": 10}
    cell = {"conditions": "same-cpu", "transport": "tcp", "repeat": 0, "cell": 1, "messages": 8}
    return pd.DataFrame(
        where
        | cell
        | {"quantity": quantity, "key": key, "instrument": name, "value": value, "valid": True}
        for name, keys in counted.items()
        for key, value in keys.items()
    )


def test_bpftrace_against_ftrace(analysed: Analyse) -> None:
    analysis = analysed(MadeUp(maps={"@function_calls": {"3,made_up_17": 8}}))
    (found,) = (c for c in analysis.disagreements if c.transport == "unix")
    assert (found.key, found.first_value, found.second_value) == ("made_up_17", 1.0, 3.0)


def test_ftrace_counts_a_short_window_and_its_edges() -> None:
    cell = {"target": "guest", "kernel": "6.12.1", "pattern": "pingpong", "size": 64, "valid": True}
    cell |= {"conditions": "same-cpu", "transport": "tcp", "repeat": 0, "key": "skb_release_data"}
    cell |= {"quantity": "function_calls"}
    # 1.9995 a message is 92 calls in 46 messages, and not 91.98: two fewer than the tracer's.
    counted = {"bpftrace": (1, 2000, 3999), "ftrace": (2, 46, 94)}
    rows = [
        cell | {"instrument": name, "cell": number, "messages": messages, "value": calls}
        for name, (number, messages, calls) in counted.items()
    ]
    (found,) = compare(pd.DataFrame(rows))
    assert found.agree and "its gate opens and closes" in found.why


def test_the_table_has_each_count_of_a_window_and_its_reason(analysed: Analyse) -> None:
    # The kernel sees one switch more than bpftrace, which a known reason allows.
    voluntary = {"3,voluntary": 11}
    analysis = analysed(MadeUp(maps={"@switches": voluntary}))
    (table,) = (agreement for agreement in analysis.agreements if agreement.target == "guest")
    rows = {(quantity, key): by for quantity, key, by in table.rows}
    counts = rows["switches", "voluntary"]["unix"]
    assert counts.by == {"kernel": 12, "bpftrace": 11}
    assert not (counts.equal or counts.unexplained)
    assert "getrusage is read outside the markers" in counts.why[0]
    assert rows["switches", "involuntary"]["unix"].equal


def test_the_run_that_most_instruments_watched_speaks_for_runs_that_are_alike() -> None:
    conditions = ("host", "9.9.0", "pingpong", 10, "same-cpu", "unix", "lo_packets", "")
    watched = {1: ("kernel", "bpftrace"), 2: ("kernel", "bpftrace", "bcc", "perf")}
    names = ["target", "kernel", "pattern", "size", "conditions", "transport", "quantity", "key"]
    rows = [
        (*conditions, 0, cell, 8, instrument, 7.0, True)
        for cell, instruments in watched.items()
        for instrument in instruments
    ]
    columns = [*names, "repeat", "cell", "messages", "instrument", "value", "valid"]
    (table,) = agreements(pd.DataFrame(rows, columns=columns))
    ((_, _, by),) = table.rows
    assert by["unix"].by == dict.fromkeys(watched[2], 7)
    assert by["unix"].equal


def test_a_difference_that_nobody_knows_a_reason_for_is_unexplained(analysed: Analyse) -> None:
    # The probe saw more than the kernel counted: no reason allows that.
    analysis = analysed(MadeUp(maps={"@switches": {"3,voluntary": 13}}))
    (table,) = (agreement for agreement in analysis.agreements if agreement.target == "guest")
    rows = {(quantity, key): by for quantity, key, by in table.rows}
    assert rows["switches", "voluntary"]["unix"].unexplained
    assert sum(counts.unexplained for counts in table.figures) == 1
    assert table.remarks(rows["switches", "voluntary"]) == [("unix", "")]


def test_each_reason_is_of_an_instrument_and_has_bounds() -> None:
    for reason in read_reasons():
        assert reason.instrument in INSTRUMENTS
        assert reason.least <= reason.most
        assert reason.why


def place(kernel: str, pattern: str) -> dict[str, str | int]:
    return {"kernel": kernel, "pattern": pattern, "transport": "tcp", "size": 64}


def test_reasons_add_up_only_where_one_is_not_enough() -> None:
    names, what = ("kernel", "perf"), ("switches", "voluntary")
    assert "getrusage" in (explain(names, 3, 2000, what, place("6.12.1", "pingpong")) or "")
    assert "perf's answer" in (explain(names, -4, 2000, what, place("6.12.1", "pingpong")) or "")
    assert explain(names, 100, 2000, what, place("6.12.1", "pingpong")) is None
    assert (
        explain(("bpftrace", "bcc"), 1, 2000, ("copy_calls", "in"), place("6.12.1", "pingpong"))
        is None
    )
    old = explain(("kernel", "bpftrace"), 300, 2000, what, place("5.10.262", "pingpong"))
    assert old is not None
    assert "before 5.18" in old


def test_a_reason_may_be_of_large_messages_or_of_a_transport() -> None:
    names, what = ("bpftrace", "ftrace"), ("function_calls", "tcp_recvmsg")
    small = place("6.12.1", "pingpong")
    assert explain(names, 20, 46, what, small) is None
    for cell in (small | {"size": 65536}, small | {"transport": "tcp-zerocopy"}):
        assert "another run of the cell" in (explain(names, 20, 46, what, cell) or "")


def test_a_reason_may_be_of_one_pattern() -> None:
    """Five segments of a connection are kept until acknowledged; the kernel counts four as sent."""
    names, what = ("kernel", "bpftrace"), ("segments", "data")
    said = explain(names, -1000, 2000, what, place("6.12.1", "connect"))
    assert said is not None and "the SYN of a connection" in said
    assert explain(names, -1000, 2000, what, place("6.12.1", "pingpong")) is None
    said = explain(names, 98, 1024, what, place("6.12.1", "stream"))
    assert said is not None and "as one buffer (GSO)" in said
