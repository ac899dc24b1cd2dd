# SPDX-License-Identifier: GPL-2.0-or-later
"""What the lessons conclude from their probes, asserted by figures and not by words."""

import re
import shlex

import pytest

from runners.process import REPOSITORY, WORKLOAD
from tests.build import make
from tests.docs import transcripts

pytestmark = pytest.mark.root

LESSONS = REPOSITORY / "docs/lessons"
STREAM = "--transport tcp --pattern stream"
FEW = 0.01  # of the writes: an ACK may come between a write() and the look at its socket
NAMESPACE = "ip link set lo up; {} bpftrace {} {} -c {}"


def printed(command: str) -> list[str]:
    step = transcripts.Step(LESSONS / "README.md", 0, command, (), False)
    return transcripts.run(step, REPOSITORY)


def seen(script: str, options: str, set_up: str = "") -> str:
    """What a script of the lessons prints about the workload in a network namespace of its own."""
    make(REPOSITORY / "runners/workload")
    path, program = (str(place.relative_to(REPOSITORY)) for place in (LESSONS / script, WORKLOAD))
    inside = NAMESPACE.format(set_up, path, program, shlex.quote(f"{program} {options}"))
    return "\n".join(printed(shlex.join(["unshare", "-n", "sh", "-c", inside])))


def waits(set_up: str = "") -> list[int]:
    """Writes; of these not sent at once; of these by the window, the receiver, the throttle."""
    said = seen("stream-waits.bt", STREAM, set_up)
    return [int(n) for n in re.findall(r"\d+", said[said.index("writes ") :])]


@pytest.mark.parametrize("route", ["initcwnd 30000", "quickack 1"])
def test_nothing_waits_with_a_large_window_or_an_ack_for_each_segment(route: str) -> None:
    writes, unsent, *_ = waits(f"ip route replace local 127.0.0.1 dev lo table local {route};")
    assert writes == 20000
    assert unsent <= FEW * writes


def test_a_request_with_a_connection_of_its_own_is_ten_segments() -> None:
    said = seen("segments.bt", "--transport tcp --pattern connect --messages 2")
    segments = re.findall(r"^(\w+) to \w+: ([A-Z ]+) (\d+) bytes$", said, re.MULTILINE)
    assert [flags for _, flags, _ in segments[:3]] == ["SYN", "SYN ACK", "ACK"]
    assert [size for *_, size in segments if size != "0"] == ["64", "64"]
    assert len([flags for _, flags, _ in segments if "FIN" in flags]) == 2
    assert len(segments) == 10


def test_a_quarter_of_a_unix_socket_s_buffer_is_in_use_when_its_writer_may_go_on() -> None:
    for line in printed("python3 docs/lessons/fill.py"):
        size, writes, taken, read = (int(n) for n in re.findall(r"\d+", line.replace(",", "")))
        assert 0 < read < taken <= writes * size
        if line.startswith("unix") and size < 65536:  # a large message may go in by parts
            assert 0.7 < read / taken < 0.8
