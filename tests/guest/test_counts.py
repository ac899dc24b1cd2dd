# SPDX-License-Identifier: GPL-2.0-or-later
"""The exactness test: a known number of messages, counted by every script in a guest.

23 round trips are 46 messages: each function at the heart of a path must be counted exactly as
often, and each payload byte copied in exactly once and out exactly once.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from runners import cells, lanes, options
from runners.invoker import invoker
from runners.progress import Progress
from tests.collected import Collected, out_segments, switches

pytestmark = pytest.mark.guest
# Once a message, in each transport's own words.
HEART = {
    "unix": (
        *("unix_stream_sendmsg", "sock_alloc_send_pskb"),
        *("unix_stream_recvmsg", "skb_copy_datagram_iter"),
    ),
    "tcp": ("tcp_sendmsg", "tcp_queue_rcv", "tcp_recvmsg", "skb_copy_datagram_iter"),
}
# Once a segment: a pure ACK passes them too.
PER_SEGMENT = ("__ip_queue_xmit", "loopback_xmit", "ip_rcv", "tcp_v4_rcv", "tcp_rcv_established")
STRANGERS = {
    "unix": ("tcp_sendmsg", "loopback_xmit", "ip_rcv", "net_rx_action"),
    "tcp": ("unix_stream_sendmsg", "unix_stream_recvmsg", "unix_write_space"),
}


@pytest.fixture(scope="module", params=["46", "2000"])
def collected(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Collected:
    folder = tmp_path_factory.mktemp("guest")
    asked = options.parse(["--messages", request.param])
    (machine,) = lanes.prepare_guests(asked, invoker(), Progress())
    lane = lanes.run_guest(asked, machine, folder, folder, invoker(), Progress())
    return Collected(folder / lane.entry["folder"])


def of(collected: Collected, transport: str) -> list[tuple[int, int, dict[str, int]]]:
    """(messages, payload bytes, counts) of each probed run."""
    found = [
        (cell["messages"], cell["messages"] * cell["size"], collected.counts(cell))
        for cell in collected.probed(transport)
    ]
    assert len(found) == 2 * cells.GUEST.repeats, "two placements, each repeated"
    return found


def test_every_cell_ran_and_every_hook_is_there(collected: Collected) -> None:
    assert [cell["error"] for cell in collected.cells if cell["error"]] == []
    assert collected.missing == []
    assert all(cell["lost"] == 0 for cell in collected.cells)


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_messages_are_counted_exactly(collected: Collected, transport: str) -> None:
    for messages, _, counts in of(collected, transport):
        assert counts["messages sent"] == counts["messages received"] == messages


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_each_byte_is_copied_once_in_and_once_out(collected: Collected, transport: str) -> None:
    for messages, payload, counts in of(collected, transport):
        assert counts["copy_bytes in"] == counts["copy_bytes out"] == payload
        assert counts["copy_bytes kernel"] == counts["copy_calls kernel"] == 0
        assert counts["copy_calls in"] >= messages
        assert counts["copy_calls out"] >= messages


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_functions_at_the_heart_are_called_once_a_message(
    collected: Collected, transport: str
) -> None:
    for messages, _, counts in of(collected, transport):
        for function in HEART[transport]:
            assert counts[f"function_calls {function}"] == messages, function
        for function in STRANGERS[transport]:
            assert counts.get(f"function_calls {function}", 0) == 0, function


def test_segments_pass_ip_and_the_device_once(collected: Collected) -> None:
    for messages, _, counts in of(collected, "tcp"):
        assert counts["segments data"] == messages
        for function in PER_SEGMENT:
            # An ACK that a timer sends elsewhere may well be received on a process's back.
            seen = counts[f"function_calls {function}"] - messages
            own = counts["segments ack"]
            assert 0 <= seen <= own + counts["segments ack elsewhere"], function


def test_each_message_is_one_skb_and_over_tcp_one_clone(collected: Collected) -> None:
    for messages, _, counts in of(collected, "unix"):
        assert (counts["skb_allocs"], counts["skb_clones"]) == (messages, 0)
    for messages, _, counts in of(collected, "tcp"):
        assert counts["skb_allocs"] == messages + counts["segments ack"]
        assert counts["skb_clones"] == counts["segments data"] == messages


def test_tcp_segments_agree_with_the_kernels_own_counters(collected: Collected) -> None:
    for cell in collected.probed("tcp"):
        counts = collected.counts(cell)
        kinds = ("data", "ack", "data elsewhere", "ack elsewhere")
        segments = sum(counts[f"segments {kind}"] for kind in kinds)
        assert segments == counts["lo_packets"]
        # The counters are read a little outside the markers, where a delayed ACK may fall.
        assert 0 <= out_segments(cell) - segments <= 2


def test_switches_agree_with_getrusage(collected: Collected) -> None:
    for cell in collected.probed():
        counts, kernel = collected.counts(cell), switches(cell)
        assert counts["switches voluntary"] == kernel["voluntary"], cell["id"]
        # rusage is read just outside the markers, so a tick at one of the two edges of either
        # process is in rusage alone; an emulated CPU spends long enough there for it to happen.
        assert 0 <= kernel["involuntary"] - counts["switches involuntary"] <= 4, cell["id"]


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_ftrace_sees_the_same_calls_as_the_probes(collected: Collected, transport: str) -> None:
    for cell in collected.probed(transport, "ftrace"):
        functions = collected.functions(cell)
        for function in HEART[transport]:
            # The gate opens when the server is in its first read already, and may close when it
            # is in the read after its last.
            edge = 1 if "recvmsg" in function else 0
            assert abs(functions[function] - cell["messages"]) <= edge, function


def test_the_console_is_kept(collected: Collected) -> None:
    console: Path = collected.folder / "console.log"
    assert "reboot: Power down" in console.read_text(errors="replace")
