# SPDX-License-Identifier: GPL-2.0-or-later
"""What the lessons conclude from their probes, asserted by figures and not by words."""

from __future__ import annotations

import re

import pytest

from runners.targets import REPOSITORY, WORKLOAD
from tests.build import make
from tests.docs import transcripts

pytestmark = pytest.mark.root

STREAM = "--transport tcp --pattern stream"
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


def test_the_congestion_window_holds_small_messages_back() -> None:
    """With one that is larger than the stream, or with an ACK for each segment, nothing waits."""
    writes, unsent, congestion, receiver, throttled = waits()
    assert (writes, receiver, throttled) == (20000, 0, 0)
    assert unsent - congestion <= 0.01 * writes
    route = "ip route replace local 127.0.0.1 dev lo table local"
    assert waits(f"{route} initcwnd 30000;") == [20000, 0, 0, 0, 0]
    assert waits(f"{route} quickack 1;")[1] <= 0.01 * writes


def test_a_request_with_a_connection_of_its_own_is_ten_segments() -> None:
    said = seen("segments.bt", "--transport tcp --pattern connect --messages 2")
    segments = re.findall(r"^(\w+) to \w+: ([A-Z ]+) (\d+) bytes$", said, re.MULTILINE)
    assert [flags for _, flags, _ in segments[:3]] == ["SYN", "SYN ACK", "ACK"]
    assert [size for *_, size in segments if size != "0"] == ["64", "64"]
    assert len([flags for _, flags, _ in segments if "FIN" in flags]) == 2
    assert len(segments) == 10
