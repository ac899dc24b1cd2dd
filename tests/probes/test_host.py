# SPDX-License-Identifier: GPL-2.0-or-later
"""Every script that this kernel allows, attached for real; counts checked by a second source."""

from typing import Any

import pytest

from runners.plan import HOST, plan_for
from tests.analysis.test_schema import check_contract
from tests.collected import Collected, out_segments, sent_elsewhere, switches
from tests.options import run_options
from tests.probes.conftest import collect

pytestmark = pytest.mark.root
HEADERS = 66  # Ethernet 14, IPv4 20, TCP 20 and 12 of timestamps


@pytest.fixture(scope="module", params=[46, pytest.param(2000, marks=pytest.mark.matrix)])
def collected(
    request: pytest.FixtureRequest, probe_level: str, tmp_path_factory: pytest.TempPathFactory
) -> Collected:
    asked = run_options(
        ["--messages", str(request.param), "--repeats", "3", "--instruments", "all"]
    )
    run = tmp_path_factory.mktemp("host") / "run"
    return Collected(collect(plan_for(asked, HOST, probe_level), run))


def test_every_cell_ran_and_every_script_attached(collected: Collected) -> None:
    assert [cell["error"] for cell in collected.cells if cell["error"]] == []
    # A kernel may be built without an event, and a machine have no PMU; then each says so.
    absent = {"no-tracepoint", "no-kprobes", "no-function", "no-hook", "no-hardware-event"}
    assert [lack for lack in collected.missing if lack["code"] not in absent] == []


def test_its_files_fit_the_schema(collected: Collected) -> None:
    files = {f"raw/<target>/{name}" for name in ("environment.json", "cells.jsonl", "missing.json")}
    assert check_contract(collected.folder.parents[1]) == files


def test_each_instrument_counts_alone_too_and_is_attached_once(collected: Collected) -> None:
    sets = {tuple(cell["instruments"]) for cell in collected.running("switches")}
    assert sets == {("bpftrace",), ("bpftrace", "bcc", "perf")}
    for instrument, script in (("bpftrace", "switches"), ("bcc", "counts")):
        assert len(list(collected.folder.glob(f"{instrument}/*/{script}.json"))) == 1
    for script in ("counts", "stat"):
        alone = [cell for cell in collected.running(script) if len(cell["instruments"]) == 1]
        assert {cell["transport"] for cell in alone} == {"unix", "tcp"}


def test_the_probe_counts_the_switches_that_the_kernel_counts(collected: Collected) -> None:
    for cell in collected.probed():
        counts, kernel = collected.counts(cell), switches(cell)
        assert counts["switches voluntary"] == kernel["voluntary"], cell["id"]
        # rusage is read just outside the markers: a tick at an edge of the window is in it alone.
        assert 0 <= kernel["involuntary"] - counts["switches involuntary"] <= 4, cell["id"]


def test_probes_see_every_message_and_byte(collected: Collected) -> None:
    for cell in collected.probed():
        counts = collected.counts(cell)
        if "payload_bytes sent" in counts:  # from 6.3 on
            assert counts["messages sent"] == counts["messages received"] == cell["messages"]
            payload = cell["messages"] * cell["size"]
            assert counts["payload_bytes sent"] == counts["payload_bytes received"] == payload


def test_a_message_is_one_read_and_one_write(collected: Collected) -> None:
    for cell in collected.probed():
        counts = collected.counts(cell)
        assert counts["syscalls read"] == counts["syscalls write"] == cell["messages"]
        assert counts["migrations"] == 0


def test_only_a_unix_socket_wakes_out_of_a_read(collected: Collected) -> None:
    for cell in collected.probed("tcp"):
        assert collected.counts(cell)["spurious_wakeups"] == 0
        assert collected.counts(cell)["wakeup_calls read"] == 0


def quiet(collected: Collected, transport: str) -> list[dict[str, Any]]:
    """Cells during which nobody else used lo: on a shared machine somebody may."""
    found = [
        cell
        for cell in collected.probed(transport)
        if collected.counts(cell)["background_packets"] == 0
    ]
    if not found:
        pytest.skip("another program used the loopback device during every cell")
    return found


def test_a_unix_message_puts_nothing_on_the_loopback_device(collected: Collected) -> None:
    for cell in quiet(collected, "unix"):
        counts = collected.counts(cell)
        assert counts["lo_packets"] == counts["lo_bytes"] == counts["softirqs NET_RX"] == 0


def test_a_tcp_message_is_one_packet_with_66_bytes_of_headers(collected: Collected) -> None:
    for cell in quiet(collected, "tcp"):
        counts = collected.counts(cell)
        pure_acks = counts["lo_packets"] - cell["messages"]
        assert 0 <= pure_acks <= cell["messages"] // 100 + 1
        payload = cell["messages"] * cell["size"]
        assert counts["lo_bytes"] == payload + HEADERS * counts["lo_packets"]
        assert counts["lo_header_bytes"] == HEADERS * counts["lo_packets"]
        # The kernel counts segments of all devices together.
        assert 0 <= out_segments(cell) - counts["lo_packets"] <= sent_elsewhere(cell)
