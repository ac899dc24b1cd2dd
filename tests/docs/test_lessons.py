# SPDX-License-Identifier: GPL-2.0-or-later
"""What the lessons conclude from their probes, asserted by figures and not by words."""

from __future__ import annotations

import re

import pytest

from runners.paths import REPOSITORY, WORKLOAD
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
