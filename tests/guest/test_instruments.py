# SPDX-License-Identifier: GPL-2.0-or-later
"""bcc, perf and the function tracers beside bpftrace: the same windows, the same events."""

import json
import re

import pytest

from runners.host import loopback
from tests.collected import Collected, switches
from tests.guest.exactness import EDGE_TICKS, LONGEST_HEADER, PAGE, SMALL, of

pytestmark = pytest.mark.guest
TRANSPORTS = ("unix", "tcp")
# perf's window is the client's for both processes. The server is in its first read when it opens;
# what may be in it: the client's reads of perf's answers (of the first one where perf was faster
# than the client came to read) and the server's next one; the client's word to perf (always) and
# the server's that it has done.
PERF_READS, PERF_WRITES, PERF_SLEEPS = range(-1, 3), range(1, 3), 4
# What bcc counts at the very hooks that bpftrace has, in windows that open a little apart.
TWICE = (
    *("messages sent", "messages received", "copy_calls in", "copy_calls out", "copy_bytes in"),
    *("copy_bytes out", "skb_allocs", "skb_clones", "skb_frees", "segments data", "segments ack"),
    *("lo_packets", "lo_bytes", "syscalls read", "syscalls write", "syscalls other"),
    *("switches voluntary", "switches involuntary", "softirqs NET_RX", "migrations"),
)
LATE = 2  # an ACK or a wake-up between two openings of one window


def test_nothing_else_is_on_a_guest_s_loopback(collected: Collected) -> None:
    record = json.loads((collected.folder / "environment.json").read_text())["loopback"]
    assert record.keys() == loopback.LOOKS.keys()
    assert loopback.met(record) == ""


def test_nothing_is_missing_but_what_the_machine_lacks(collected: Collected, kernel: str) -> None:
    lacks = [lack for lack in collected.missing if not lack["by"].startswith("bpftrace")]
    found = {(lack["code"], lack["values"]["event"].partition(":")[0]) for lack in lacks}
    events = {event for code, event in found if code == "no-tracepoint"}
    assert events == ({"sock"} if kernel == "6.1" else set())
    assert {code for code, _ in found} - {"no-tracepoint"} == {"no-hardware-event"}


def test_scripts_of_a_probe_level_are_one_bpftrace(collected: Collected) -> None:
    ran = {path.stem for path in collected.folder.glob("bpftrace/*/*.bt")}
    assert ran == {"tracepoint", "function"}


def test_bcc_counts_what_bpftrace_counts(collected: Collected) -> None:
    for cell in collected.running("counts"):
        bpftrace, other = collected.counts(cell), collected.counts(cell, "bcc")
        for name in TWICE:
            late = {
                "lo_bytes": LONGEST_HEADER * abs(bpftrace["lo_packets"] - other["lo_packets"]),
                "switches involuntary": EDGE_TICKS,
            }.get(name, LATE)
            assert abs(bpftrace[name] - other[name]) <= late, (name, cell["id"])
    preempted = "switches involuntary"
    equal = [
        collected.counts(cell)[preempted] == collected.counts(cell, "bcc")[preempted]
        for cell in collected.running("counts")
    ]
    assert sum(equal) > len(equal) / 2, "a tick at an edge is the exception"


def test_bcc_counts_every_message_and_byte(collected: Collected) -> None:
    for transport in TRANSPORTS:
        of(collected, transport)  # as many cells as there must be
        for cell in collected.probed(transport, "bcc"):
            if "counts" not in cell["scripts"]:
                continue
            counts, payload = collected.counts(cell, "bcc"), cell["messages"] * cell["size"]
            assert counts["messages sent"] == cell["messages"]
            assert counts["copy_bytes in"] == counts["copy_bytes out"] == payload


def test_perf_counts_every_message(collected: Collected, kernel: str) -> None:
    for cell in collected.running("stat"):
        if cell["size"] not in (SMALL, PAGE):
            continue
        counts, messages = collected.counts(cell, "perf"), cell["messages"]
        assert counts["syscalls read"] - messages in PERF_READS, cell["id"]
        assert counts["syscalls write"] - messages in PERF_WRITES, cell["id"]
        assert counts["function_calls skb_copy_datagram_iter"] == messages
        if kernel != "6.1":
            assert counts["messages sent"] == counts["messages received"] == messages


def test_perf_counts_the_switches_that_the_kernel_counts(collected: Collected) -> None:
    for cell in collected.running("stat"):
        counts, usage = collected.counts(cell, "perf"), switches(cell)
        for_both = sum(counts[f"switches {kind}"] for kind in usage)
        assert abs(for_both - sum(usage.values())) <= 3 * PERF_SLEEPS, cell["id"]


def test_hardware_events_are_missing_and_not_zero(collected: Collected) -> None:
    if not any(lack["code"] == "no-hardware-event" for lack in collected.missing):
        pytest.skip("this machine has a PMU")
    for cell in collected.running("stat"):
        assert not {"cycles", "instructions total"} & set(collected.counts(cell, "perf"))


def test_stacks_tell_the_causes_that_kprobes_tell(collected: Collected) -> None:
    for cell in collected.running("stacks"):
        bpftrace, other = collected.counts(cell), collected.counts(cell, "bcc")
        for cause in ("sock_def_readable", "unix_write_space", "other"):
            name = f"wakeup_causes {cause}"
            assert abs(bpftrace[name] - other[name]) <= LATE, (name, cell["id"])
        if cell["transport"] == "unix" and cell["placement"] == "cross-cpu":
            assert other["wakeup_causes unix_write_space"] > 0
            ways = [name for name in other if name.startswith("wakeup_stacks")]
            assert any(re.search("recvmsg.*;unix_write_space;", way) for way in ways)


def test_perf_record_leaves_folded_stacks(collected: Collected) -> None:
    cells = collected.running("profile")
    assert cells
    for cell in cells:
        (path,) = collected.folder.glob(f"perf/*/profile-{cell['id']}.folded")
        lines = path.read_text().splitlines()
        assert sum(int(line.rpartition(" ")[2]) for line in lines) > 0
        assert all(line.startswith("pathcost-worklo;") for line in lines)
