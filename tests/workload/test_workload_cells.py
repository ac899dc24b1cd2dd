# SPDX-License-Identifier: GPL-2.0-or-later
"""What a cell prints: every field, and that the figures agree with each other."""

import array
import json
import os
from pathlib import Path

import pytest

from analysis.raw.cells import Result
from analysis.raw.files import proc_counters

from .workload import check_conservation, run

PLACEMENTS = ["same-cpu", "cross-cpu", "free"]
MESSAGES = {1: 46, 64: 46, 4096: 46, 65536: 22, 1 << 20: 10}


@pytest.mark.parametrize("size", MESSAGES)
@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_cell_under_sanitizers(
    sanitized: Path, private: Path, two_cpus: list[int], transport: str, placement: str, size: int
) -> None:
    path = private / "samples"
    arguments = ["--transport", transport, "--placement", placement, "--size", size]
    arguments += ["--messages", MESSAGES[size], "--warmup", 6, "--dir", private]
    result = run(sanitized, *arguments, "--samples", path).result
    cpus = {"same-cpu": [two_cpus[0]] * 2, "cross-cpu": two_cpus, "free": None}
    assert result["cpus"] == cpus[placement]
    assert result["socket"] == ({"TCP_NODELAY": 1} if transport == "tcp" else {})
    assert result["clock_cost_ns"] > 0
    Result.model_validate_json(json.dumps(result))
    check_conservation(result, "pingpong", MESSAGES[size], size)
    samples = array.array("I", path.read_bytes())
    assert len(samples) == result["round_trips"] == MESSAGES[size] // 2
    # The end of one is the start of the next, so nothing of the window lies between them.
    assert min(samples) > 0 and sum(samples) == result["window_ns"]
    path.unlink()
    assert list(private.iterdir()) == []


def test_proc_spans_the_window(program: Path) -> None:
    """TCP's own counter rises by a segment a message at least; others can only add to it."""
    result = run(program, "--transport", "tcp", "--messages", 2000).result
    before, after = map(proc_counters, result["proc"]["/proc/net/snmp"])
    assert after["Tcp.OutSegs"] - before["Tcp.OutSegs"] >= 2000


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
