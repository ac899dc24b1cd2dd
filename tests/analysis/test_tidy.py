# SPDX-License-Identifier: GPL-2.0-or-later
"""The tidy table against numbers worked out by hand from tests/analysis/make_run.py."""

import pandas as pd
import pytest

from analysis.analyse import Analysis
from analysis.counts.ledger import version
from analysis.counts.validity import Counted
from analysis.tidy import of_records
from probes.transports import read_transports
from tests.analysis.conftest import Analyse
from tests.analysis.make_run import GUEST as USUAL
from tests.analysis.make_run import MadeUp


def one(tidy: pd.DataFrame, **wanted: object) -> float:
    """The value of the one row that matches."""
    rows = tidy
    for column, value in wanted.items():
        rows = rows[rows[column] == value]
    assert len(rows) == 1, f"{len(rows)} rows for {wanted}"
    return float(rows["value"].iloc[0])


HOST = {"target": "host", "transport": "tcp", "conditions": "cross-cpu", "repeat": 1}
GUEST = {"target": "guest", "transport": "unix", "probed": True}


@pytest.mark.parametrize(
    ("cell", "instrument", "quantity", "key", "value"),
    [
        (HOST, "workload", "payload_bytes", "received", 80),
        (HOST, "workload", "rtt_ns", "p50", 222_001),
        (HOST, "workload", "rtt_ns", "max", 222_001),
        (HOST, "workload", "messages_per_s", "", 8e9 / (4 * 222_001)),
        (HOST, "kernel", "switches", "voluntary", 12),
        (HOST, "kernel", "cpu_ns", "system", 120_000),
        (HOST, "kernel", "segments", "out", 8),
        (HOST, "kernel", "segments", "data", 8),
        (HOST, "kernel", "lo_bytes", "ip", 608),
        (HOST, "kernel", "softirqs", "NET_RX", 8),
        (GUEST, "bpftrace", "copy_bytes", "kernel", 400),
        (GUEST, "bpftrace", "skb_allocs", "", 8),
        (GUEST, "bpftrace", "softirqs", "NET_RX elsewhere", 0),
        (GUEST, "bpftrace", "function_calls", "made_up_1", 8),
        (GUEST, "ftrace", "function_calls", "made_up_17", 24),
    ],
)
def test_a_cells_rows(
    plain: Analysis,
    cell: dict[str, object], instrument: str, quantity: str, key: str, value: float,
) -> None:  # fmt: skip
    row = {**cell, "instrument": instrument, "quantity": quantity, "key": key}
    assert one(plain.tables.tidy, **row) == value


@pytest.mark.parametrize(("transport", "key"), [("tcp-ktls", "record"), ("tcp", "kernel")])
def test_the_head_of_an_encrypted_record_is_no_payload(transport: str, key: str) -> None:
    counted = Counted("bpftrace", "copy_bytes", "kernel", 42)
    assert of_records(counted, read_transports()[transport]).key == key


def test_measures_by_hand(plain: Analysis) -> None:
    measured = plain.measured
    guest = measured[measured["target"] == "guest"]
    for measure, transport, instrument, value in (
        ("payload_copies", "unix", "bpftrace", (80 + 80 + 400) / 80),
        ("copy_calls_out", "tcp", "bpftrace", 2),
        ("wakeups", "unix", "bpftrace", 2),
        ("wakeups_per_message", "unix", "bpftrace", 1),
        ("switches", "tcp", "bpftrace", 3),
        ("switches_per_message", "tcp", "bpftrace", 1.5),
        ("functions_hit", "unix", "ftrace", 2),
        ("functions_hit", "tcp", "ftrace", 4),
        ("function_calls", "tcp", "ftrace", 1 + 3 + 0.5 + 1),
    ):
        found = {"measure": measure, "transport": transport, "instrument": instrument}
        assert one(guest, **found) == value


def test_each_kernel_has_its_figure_and_the_newest_is_the_ledgers(analysed: Analyse) -> None:
    """Versions are numbers."""
    debian = version("6.12.117+deb13")
    assert version("5.10.0-46-cloud") < version("6.1.0") < debian < version("7.2")
    older, old, newest = (f"{series}.0-made-up" for series in ("5.9", "5.10", "10.1"))
    analysis = analysed(MadeUp(more_guests=(newest, old, older)))
    kernels = analysis.kernels
    rows = kernels[(kernels["measure"] == "skb_allocs") & (kernels["transport"] == "tcp")]
    assert list(rows["kernel"]) == [older, old, USUAL, newest]
    assert set(rows["value"]) == {1.0}
    assert {row.kernel for row in analysis.ledgers[0].rows if row.target == "guest"} == {newest}


def test_a_run_with_the_output_of_a_script_that_is_gone_is_read(analysed: Analyse) -> None:
    maps = {"@gone_count": {"3,way": 8}, "@gone_ns": {"3,way": 888}}
    entry = {"what": ["gone_ns"], "code": "not-run", "requested": False, "target": "host"}
    lacks = [entry | {"values": {"script": name}} for name in ("gone", "slab")]
    tables = analysed(MadeUp(maps=maps, missing=lacks)).tables
    assert one(tables.tidy, quantity="gone_count") == 8
    assert "gone_ns" not in set(tables.tidy["quantity"]), "a guest has no times"
    assert [lack.why for lack in tables.missing] == ["not run (add --instruments slab)"]
