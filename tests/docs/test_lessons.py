# SPDX-License-Identifier: GPL-2.0-or-later
"""What the lessons conclude from their probes, asserted by figures and not by words."""

from __future__ import annotations

import re

import pytest

from runners.process import REPOSITORY, WORKLOAD
from tests.build import make
from tests.docs import transcripts

pytestmark = pytest.mark.root

STREAM = "--transport tcp --pattern stream"
FEW = 0.01  # of the writes: an ACK may come between a write() and the look at its socket
NAMESPACE = "unshare -n sh -c 'ip link set lo up; {} bpftrace {} {} -c \"{} {}\"'"


def seen(script: str, options: str, set_up: str = "") -> str:
    """What a script of the lessons prints about the workload in a network namespace of its own."""
    make(REPOSITORY / "runners/workload")
    path = REPOSITORY / "docs/lessons" / script
    command = NAMESPACE.format(set_up, path, WORKLOAD, WORKLOAD, options)
    step = transcripts.Step(REPOSITORY / "docs/lessons/README.md", 0, command, (), False)
    return "\n".join(transcripts.run(step, REPOSITORY))


def waits(set_up: str = "") -> list[int]:
    """Writes; of these not sent at once; of these by the window, the receiver, the throttle."""
    said = seen("stream-waits.bt", STREAM, set_up)
    return [int(n) for n in re.findall(r"\d+", said[said.index("writes ") :])]


@pytest.mark.parametrize("route", ["initcwnd 30000", "quickack 1"])
def test_nothing_waits_with_a_large_window_or_an_ack_for_each_segment(route: str) -> None:
    writes, unsent, *_ = waits(f"ip route replace local 127.0.0.1 dev lo table local {route};")
    assert writes == 20000
    assert unsent <= FEW * writes


def test_the_congestion_window_holds_small_messages_back() -> None:
    writes, unsent, congestion, _, throttled = waits()
    assert writes == 20000
    assert unsent - congestion <= FEW * writes
    assert throttled == 0


def test_a_request_with_a_connection_of_its_own_is_ten_segments() -> None:
    said = seen("segments.bt", "--transport tcp --pattern connect --messages 2")
    segments = re.findall(r"^(\w+) to \w+: ([A-Z ]+) (\d+) bytes$", said, re.MULTILINE)
    assert [flags for _, flags, _ in segments[:3]] == ["SYN", "SYN ACK", "ACK"]
    assert [size for *_, size in segments if size != "0"] == ["64", "64"]
    assert len([flags for _, flags, _ in segments if "FIN" in flags]) == 2
    assert len(segments) == 10


@pytest.mark.parametrize("transport", ["unix-pair", "tcp"])
def test_a_writer_without_room_is_woken_out_of_the_reader_s_read(transport: str) -> None:
    stream = "--pattern stream --placement same-cpu --size 65536 --messages 2000"
    said = seen("full-buffer.bt", f"--transport {transport} {stream}")
    writes, _, sleeps, by_reader, elsewhere = re.findall(r"\d+", said[said.index("writes ") :])[:5]
    assert int(writes) == 2000
    assert 0 < int(sleeps) < 2000
    assert int(by_reader) > 0
    assert int(elsewhere) <= FEW * int(by_reader)


def test_each_request_of_a_ping_pong_through_io_uring_is_a_system_call() -> None:
    said = seen("ring.bt", "--transport uring-tcp --placement same-cpu --messages 2000")
    events = {name: int(count) for name, count in re.findall(r":(\w+)\]: (\d+)", said)}
    assert events["sys_enter_io_uring_enter"] == events["io_uring_complete"] == 4000
    assert "sys_enter_read" not in events
    armed = events["io_uring_poll_arm"]
    assert 0 < armed <= 2000
    assert abs(int(re.findall(r"@wakeups: (\d+)", said)[0]) - armed) <= FEW * 2000


def test_a_quarter_of_a_unix_socket_s_buffer_is_in_use_when_its_writer_may_go_on() -> None:
    step = transcripts.Step(
        REPOSITORY / "docs/lessons/README.md", 0, "python3 docs/lessons/fill.py", (), False
    )
    for line in transcripts.run(step, REPOSITORY):
        size, writes, taken, read = (int(n) for n in re.findall(r"\d+", line.replace(",", "")))
        assert 0 < read < taken <= writes * size
        if line.startswith("unix") and size < 65536:  # a large message may go in by parts
            assert 0.7 < read / taken < 0.8
