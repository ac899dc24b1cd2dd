# SPDX-License-Identifier: GPL-2.0-or-later
"""The exactness test: a known number of messages, counted by every script on every kernel.

23 round trips are 46 messages: each function at the heart of a path must be counted exactly as
often, and each payload byte copied in exactly once and out exactly once; so, too, for 2,000.
"""

import json
from typing import Any

import pytest

from probes.scripts import read_scripts
from tests.collected import Collected, out_segments, segments_again, switches
from tests.guest import exactness
from tests.guest.exactness import PAGE, SMALL, missed, of, total

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
OF_OTHER_TRANSPORTS = {
    "unix": ("tcp_sendmsg", "loopback_xmit", "ip_rcv", "net_rx_action"),
    "tcp": ("unix_stream_sendmsg", "unix_stream_recvmsg", "unix_write_space"),
}


def test_every_cell_ran_lost_nothing_and_has_every_script_of_the_table(
    collected: Collected, kernel: str
) -> None:
    assert [cell["error"] for cell in collected.cells if cell["error"]] == []
    assert all(cell["lost"] == 0 for cell in collected.cells)
    names = {script.name for script in read_scripts().values() if script.group == "counts"}
    absent = {"payload"} if kernel == "6.1" else set()
    for cell in collected.probed():
        assert set(cell["scripts"]) == names - absent
    lacks = [lack for lack in collected.missing if lack["code"] != "off-path"]
    lacking = {lack["by"] for lack in lacks if lack["by"].startswith("bpftrace")}
    assert lacking == {f"bpftrace {name}" for name in absent}


def test_messages_are_counted_exactly(collected: Collected) -> None:
    for cell in collected.probed():
        counts, sides = collected.counts(cell), (cell["result"][s] for s in ("client", "server"))
        # A large message may reach its reader in several pieces, which the workload counts.
        pieces = sum(side["partial_receives"] for side in sides)
        assert counts["messages sent"] == cell["messages"]
        assert counts["messages received"] == cell["messages"] + pieces


@pytest.mark.parametrize("transport", HEART)
def test_each_byte_is_copied_once_in_and_once_out(collected: Collected, transport: str) -> None:
    for messages, payload, counts in of(collected, transport):
        assert counts["copy_bytes in"] == counts["copy_bytes out"] == payload
        # Never payload. A segment that is sent again has its header copied, and a slow guest's
        # timers send one again now and then, which the window's RetransSegs need not know.
        for part in ("kernel", "linear"):
            copies = counts[f"copy_calls {part}"]
            assert counts[f"copy_bytes {part}"] <= exactness.LONGEST_HEADER * copies
            assert copies <= messages // 100 + 1 + counts["segments again"]
        assert counts["copy_calls in"] >= messages
        assert counts["copy_calls out"] >= messages


@pytest.mark.parametrize("transport", HEART)
def test_functions_at_the_heart_are_called_once_a_message(
    collected: Collected, transport: str
) -> None:
    for messages, _, counts in of(collected, transport, (SMALL, PAGE)):
        put_off = counts["softirqs NET_RX elsewhere"]
        for function in HEART[transport]:
            calls = counts[f"function_calls {function}"]
            if function == "tcp_queue_rcv":
                # Of the receive side, which ksoftirqd does where the kernel puts it off.
                assert messages - put_off <= calls <= messages
            else:
                assert calls == messages, function
        for function in OF_OTHER_TRANSPORTS[transport]:
            assert counts.get(f"function_calls {function}", 0) == 0, function


@pytest.mark.parametrize("transport", HEART)
def test_a_message_is_one_write_and_one_read(collected: Collected, transport: str) -> None:
    for messages, _, counts in of(collected, transport, (SMALL, PAGE)):
        assert counts["syscalls write"] == counts["syscalls read"] == messages
        assert counts["lsm_hooks security_socket_sendmsg"] == messages
        assert counts["lsm_hooks security_socket_recvmsg"] == messages
        assert counts["lsm_hooks security_file_permission"] == 2 * messages


def test_segments_pass_ip_and_the_device_once(collected: Collected) -> None:
    for messages, _, counts in of(collected, "tcp", (SMALL, PAGE)):
        again = counts["segments again"]
        assert messages <= counts["segments data"] <= messages + again
        for function in PER_SEGMENT:
            # An ACK that a timer sends elsewhere may well be received on a process's back, and a
            # segment of ours in ksoftirqd.
            seen = counts[f"function_calls {function}"] - messages
            put_off = counts["softirqs NET_RX elsewhere"]
            acks = counts["segments ack"] + counts["segments ack elsewhere"]
            assert -put_off <= seen <= acks + again, function


def test_each_message_is_one_skb_and_over_tcp_one_clone(collected: Collected) -> None:
    for messages, _, counts in of(collected, "unix", (SMALL, PAGE)):
        assert (counts["skb_allocs"], counts["skb_clones"]) == (messages, 0)
    for _, _, counts in of(collected, "unix"):
        assert counts["skb_frees"] == counts["skb_allocs"]
    for messages, _, counts in of(collected, "tcp", (SMALL, PAGE)):
        again = counts["segments again"]
        assert 0 <= counts["skb_allocs"] - messages - counts["segments ack"] <= again
        assert messages <= counts["skb_clones"] <= counts["segments data"] <= messages + again


def test_every_wakeup_has_a_cause(collected: Collected) -> None:
    for cell in collected.probed():
        counts = collected.counts(cell)
        assert total(counts, "wakeup_calls") == total(counts, "wakeups"), cell["id"]
        # Counted by another program, which misses events of its own.
        slack = missed(cell, "causes", "switches", which="missed")
        assert abs(total(counts, "wakeup_causes") - total(counts, "wakeups")) <= slack, cell["id"]
        if cell["transport"] == "tcp":
            assert counts["wakeup_causes unix_write_space"] == 0


def test_a_packet_is_received_in_somebodys_context(collected: Collected) -> None:
    for cell in collected.probed("tcp"):
        counts = collected.counts(cell)
        # What is sent again just before the window may be received in it, and its ACK.
        slack = missed(cell, "receive", "packets") + 2 * segments_again(cell)
        assert abs(total(counts, "receives") - counts["lo_packets"]) <= slack, cell["id"]
        assert counts["receives sender"] > 0
    for _, _, counts in of(collected, "unix"):
        assert total(counts, "receives") == 0


def test_nothing_is_summed_up_or_looked_up_for_a_message(collected: Collected) -> None:
    for transport in HEART:
        for _, _, counts in of(collected, transport):
            assert counts["checksum_bytes payload"] == counts["route_lookups"] == 0
            headers = counts["checksum_calls ip_send_check"]
            assert counts["checksum_bytes header"] == 20 * headers
            assert (headers > 0) == (transport == "tcp")
            assert counts["migrations"] == counts["background_packets"] == 0


def test_what_is_no_header_on_lo_is_payload(collected: Collected) -> None:
    for messages, payload, counts in of(collected, "tcp", (SMALL, PAGE)):
        sent_again = counts["lo_bytes"] - counts["lo_header_bytes"] - payload
        assert 0 <= sent_again <= counts["segments again"] * payload // messages
    for _, _, counts in of(collected, "unix"):
        assert counts["lo_header_bytes"] == 0


def test_the_unfiltered_count_stands_beside_the_filtered_one(collected: Collected) -> None:
    for transport in HEART:
        for _, _, counts in of(collected, transport):
            for what in ("allocs", "clones", "frees"):
                rest = [counts[f"skb_{what} {who} elsewhere"] for who in ("ksoftirqd", "other")]
                assert min(rest) >= 0
            assert counts["copy_calls out elsewhere"] == 0, "nobody else receives in this guest"
    for cell in collected.probed("tcp"):
        counts = collected.counts(cell)
        # A segment is a clone, whoever sends it; what is put off is not lost.
        data = counts["segments data"] + counts["segments data elsewhere"]
        assert total(counts, "skb_clones") >= data


def test_tcp_segments_agree_with_the_kernels_own_counters(collected: Collected) -> None:
    equal = []
    for cell in collected.probed("tcp"):
        counts = collected.counts(cell)
        kinds = ("data", "ack", "data elsewhere", "ack elsewhere")
        segments = sum(counts[f"segments {kind}"] for kind in kinds)
        lost = missed(cell, "segments", "packets")
        assert abs(segments - counts["lo_packets"]) <= exactness.EDGE_PACKETS + lost, cell["id"]
        equal.append(segments == counts["lo_packets"])
        # What is sent again at an edge is acknowledged again as well.
        slack = exactness.EDGE_PACKETS + lost + 2 * segments_again(cell)
        assert abs(out_segments(cell) - segments) <= slack, cell["id"]
    assert sum(equal) > len(equal) / 2, "an edge is the exception"


def test_switches_agree_with_getrusage(collected: Collected) -> None:
    for cell in collected.probed():
        counts, usage = collected.counts(cell), switches(cell)
        kinds = ("voluntary", "involuntary")
        more = {kind: usage[kind] - counts[f"switches {kind}"] for kind in kinds}
        assert 0 <= sum(more.values()) <= exactness.EDGE_TICKS, cell["id"]
        assert 0 <= more["voluntary"] <= exactness.EDGE_SLEEPS, cell["id"]


@pytest.mark.parametrize("transport", HEART)
def test_ftrace_sees_the_same_calls_as_the_probes(collected: Collected, transport: str) -> None:
    cells = [cell for cell in collected.running("functions") if cell["transport"] == transport]
    assert cells
    for cell in cells:
        functions = collected.functions(cell)
        for function in HEART[transport]:
            fewer = cell["messages"] - functions[function]
            if function.endswith("_recvmsg"):
                # The server is in its first read by the time that the client opens the gate.
                assert fewer in (0, 1), function
            elif function == "tcp_queue_rcv":
                assert 0 <= fewer <= 2, "what ksoftirqd received is not the processes'"
            else:
                assert fewer == 0, function


def test_checks_ask_every_kernel(collected: Collected) -> None:
    """Of the longest path says unix(7), of a file that others may not write EACCES."""
    lines = (collected.folder / "checks.jsonl").read_text(encoding="utf-8").splitlines()
    answers = [json.loads(line) for line in lines]
    assert [answer["error"] for answer in answers] == [None] * 4
    facts = {answer["when"].get("umask", ""): answer["facts"] for answer in answers}
    assert list(facts) == ["", "000", "022", "077"]
    assert facts[""]["longest_path_bytes"] == facts[""]["sun_path_bytes"]
    assert facts["077"]["other_user_before_chmod"] == "EACCES"
    assert facts["000"]["other_user_before_chmod"] == "ok"


# SCHED_FIFO and SCHED_BATCH on one CPU, and two one-way connections, in the same boot.
TICK_NS = 4_000_000
LAST = 2  # packets, and buffers that are freed after them
WAYS = {("fifo", "one"), ("fifo", "two"), ("batch", "one")}


def ticks(cell: dict[str, Any]) -> int:
    """How many ticks may preempt. SCHED_BATCH in the whole window: Debian has 250 a second."""
    window: int = cell["result"]["window_ns"]
    return exactness.EDGE_TICKS + (window // TICK_NS if cell["sched"] == "batch" else 0)


def name(cell: dict[str, Any]) -> str:
    return f"{cell['transport']} {cell['sched']} {cell['topology']}"


def test_each_way_ran(collected: Collected) -> None:
    assert [(name(cell), cell["error"]) for cell in collected.unusual() if cell["error"]] == []
    assert {(cell["sched"], cell["topology"]) for cell in collected.unusual()} == WAYS


def test_each_message_is_one_switch(collected: Collected) -> None:
    """Whoever is not preempted runs until it sleeps. A tick preempts SCHED_BATCH, and not FIFO."""
    for cell in collected.unusual():
        found = switches(cell)
        more = sum(found.values()) - cell["messages"]
        assert -exactness.EDGE_SLEEPS <= more <= ticks(cell), name(cell)
        if cell["sched"] == "fifo":
            assert 0 <= found["voluntary"] - cell["messages"] <= exactness.EDGE_SLEEPS, name(cell)
            assert found["involuntary"] <= ticks(cell), name(cell)


def test_nothing_is_lost_to_ksoftirqd(collected: Collected) -> None:
    """Under SCHED_FIFO older kernels receive there: own and other contexts together are whole."""
    for cell in collected.unusual():
        counts = collected.counts(cell)
        assert counts["messages sent"] == counts["messages received"] == cell["messages"]
        # The last ACK may be received after the client's window.
        assert 0 <= counts["lo_packets"] - total(counts, "receives") <= LAST, name(cell)
        whole = {what: total(counts, f"skb_{what}") for what in ("allocs", "clones", "frees")}
        data = counts["segments data"] + counts["segments data elsewhere"]
        sent = cell["messages"] if cell["transport"] == "tcp" else 0
        again = segments_again(cell)
        assert sent <= whole["clones"] <= data <= sent + again, name(cell)
        kept = whole["allocs"] + whole["clones"] - whole["frees"]
        assert 0 <= kept <= LAST + again, name(cell)


def test_two_one_way_connections_wake_nobody_for_nothing(collected: Collected) -> None:
    for cell in collected.unusual():
        if cell["topology"] == "two":
            assert collected.counts(cell)["spurious_wakeups"] == 0, name(cell)
