# SPDX-License-Identifier: GPL-2.0-or-later
"""What a cell prints: every field, and that the figures agree with each other."""

from __future__ import annotations

import array
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from analysis.raw.cells import Result

from .workload import check_conservation, run

PLACEMENTS = ["same-cpu", "cross-cpu", "free"]
MESSAGES = {1: 46, 64: 46, 4096: 46, 65536: 22, 1 << 20: 10}


def expected_cpus(placement: str) -> list[int] | None:
    cpus = sorted(os.sched_getaffinity(0))
    if placement == "cross-cpu" and len(cpus) < 2:
        pytest.skip("cross-cpu needs two CPUs, and this process may use only one")
    return {"same-cpu": [cpus[0], cpus[0]], "cross-cpu": cpus[:2], "free": None}[placement]


def check_samples(path: Path, result: dict[str, Any]) -> None:
    samples = array.array("I")
    samples.frombytes(path.read_bytes())
    if sys.byteorder == "big":
        samples.byteswap()
    assert len(samples) == result["round_trips"]
    assert min(samples) > 0
    # The end of one is the start of the next, so nothing of the window lies between them.
    assert sum(samples) == result["window_ns"]


def check_cell(program: Path, private: Path, transport: str, placement: str, size: int) -> None:
    cpus = expected_cpus(placement)
    samples = private / "samples"
    arguments = ["--transport", transport, "--placement", placement, "--size", size]
    arguments += ["--messages", MESSAGES[size], "--warmup", 6, "--dir", private]
    result = run(program, *arguments, "--samples", samples).result
    assert result["cpus"] == cpus
    assert result["round_trips"] == MESSAGES[size] // 2
    assert result["socket"] == ({"TCP_NODELAY": 1} if transport == "tcp" else {})
    assert result["window_ns"] > 0
    assert result["clock_cost_ns"] > 0
    Result.model_validate_json(json.dumps(result))
    check_conservation(result, "pingpong", MESSAGES[size], size)
    check_samples(samples, result)
    samples.unlink()
    assert list(private.iterdir()) == []


@pytest.mark.parametrize("size", MESSAGES)
@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_cell_under_sanitizers(
    sanitized: Path, private: Path, transport: str, placement: str, size: int
) -> None:
    check_cell(sanitized, private, transport, placement, size)


def test_proc_spans_the_window(program: Path) -> None:
    """TCP's own counter rises by a segment a message at least; others can only add to it."""
    result = run(program, "--transport", "tcp", "--messages", 2000).result

    def out_segments(text: str) -> int:
        names, values = (line.split() for line in re.findall(r"^Tcp:.*$", text, re.MULTILINE))
        return int(values[names.index("OutSegs")])

    before, after = result["proc"]["/proc/net/snmp"]
    assert out_segments(after) - out_segments(before) >= 2000


def test_gate_opens_and_closes_once(program: Path, private: Path) -> None:
    reader, writer = os.pipe()
    arguments = ["--transport", "unix", "--messages", 46, "--dir", private, "--gate", writer]
    assert run(program, *arguments, pass_fds=(writer,)).status == 0
    os.close(writer)
    assert os.read(reader, 16) == b"10"
    os.close(reader)


def test_perf_is_asked_and_heard_at_both_edges(program: Path, private: Path) -> None:
    """The protocol of perf's --control: it answers each command when it has done it."""
    commands, ours = os.pipe()
    answers, theirs = os.pipe()
    os.write(theirs, b"ack\n\0" * 2)
    arguments = ["--transport", "unix", "--messages", 46, "--dir", private]
    control = ["--control", f"{ours},{answers}"]
    assert run(program, *arguments, *control, pass_fds=(ours, answers)).status == 0
    os.close(ours)
    assert os.read(commands, 64) == b"enable\ndisable\n"
    os.close(theirs)
    assert os.read(answers, 16) == b"", "both answers were read"
    for end in (commands, answers):
        os.close(end)
