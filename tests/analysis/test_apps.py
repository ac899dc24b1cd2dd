# SPDX-License-Identifier: GPL-2.0-or-later
"""Measurements of an article's own program: into the table and the verdicts, or said why not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.analyse import Analysis, analyse
from analysis.raw import read_run
from analysis.verdicts import Verdict
from tests.analysis.make_run import MadeUp, make_run


def line(transport: str, repeat: int, **more: Any) -> dict[str, Any]:
    """17 requests in 17 ms over TCP, in 8.5 over a Unix socket."""
    took = 17_000_000 if transport == "tcp" else 8_500_000
    return {
        **{"app": "redis", "variant": "new", "clients": 20, "transport": transport},
        **{"repeat": repeat, "error": None, "requests": 17, "window_ns": took},
        **{"server_calls": 17, "server_usec": 34, "counted": 17, "time_wait": [3, 20]},
        **more,
    }


def analysed(folder: Path, line: Callable[..., dict[str, Any]] = line, **more: Any) -> Analysis:
    run = make_run(folder, MadeUp())
    lines = [line(t, r, **more) for r in range(6) for t in ("unix", "tcp")]
    text = "".join(json.dumps(one) + "\n" for one in lines)
    (run / "raw/host/apps.jsonl").write_text(text)
    return analyse(read_run(run))


def round_trips(transport: str, repeat: int, **more: Any) -> dict[str, Any]:
    """1,000 round trips of 64 B in Python: 50 µs over TCP, 20 over a Unix socket."""
    took = 50_000 if transport == "tcp" else 20_000
    both = {"client": {"user_us": 4000, "system_us": 6000}}
    both["server"] = both["client"]
    return {
        **{"app": "asyncio", "variant": "pingpong", "loop": "asyncio", "clients": 1},
        **{"transport": transport, "size": 64, "repeat": repeat, "error": None},
        **{"window_ns": 1000 * took, "messages": 2000, "sent": 64_000, "received": 64_000},
        **both,
        **{"laps_ns": [took, 2 * took]},
        **more,
    }


def verdict(analysis: Analysis, claim: str) -> Verdict:
    return next(one for one in analysis.verdicts if one.claim.id == claim)


def test_a_ratio_of_requests(tmp_path: Path) -> None:
    found = verdict(analysed(tmp_path), "twenty-clients")
    (evidence,) = found.evidence
    assert evidence.figure("unix / tcp").value == pytest.approx(2)  # type: ignore[union-attr]
    assert (evidence.file, len(evidence.cells)) == ("apps.jsonl", 12)
    assert found.verdict == "REFUTED"  # about 1.48, the article says
    assert "TCP left 17.0 connections" in found.mechanism


def test_the_ledger_is_not_about_it(tmp_path: Path) -> None:
    assert {one.pattern for one in analysed(tmp_path).ledgers} == {"pingpong"}


def test_what_the_server_did_not_count_is_unsound(tmp_path: Path) -> None:
    found = verdict(analysed(tmp_path, counted=16), "twenty-clients")
    assert found.why == "The only cells that measured it are unsound."


def test_a_failure_is_told(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, error="made up: the port is taken")
    assert "made up: the port is taken" in {one.why for one in analysis.tables.missing}
    assert "--apps redis" in verdict(analysis, "twenty-clients").why


def test_round_trips_of_an_event_loop(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, round_trips)
    found = verdict(analysis, "latency-in-asyncio")
    (evidence,) = found.evidence
    assert found.verdict == "REFUTED"  # three to five times, the article says
    assert evidence.figure("tcp / unix").value == pytest.approx(2.5)  # type: ignore[union-attr]
    # Both processes' 8 and 12 ms, over 2,000 messages.
    assert (
        "A message took 4.00 µs in user mode and 6.00 µs in the kernel over TCP" in found.mechanism
    )


def calls(transport: str, repeat: int, **more: Any) -> dict[str, Any]:
    """17 calls of a method, whose message takes 1.1 µs over a Unix socket and 2.2 over TCP."""
    took = 2200 if transport == "tcp" else 1100
    return {
        **{"app": "dotnet", "variant": "written", "clients": 1, "transport": transport},
        **{"size": 1024, "repeat": repeat, "error": None, "calls": 17, "messages": 17},
        **{"sent": 17_408, "received": 17_408, "message_ns": [took, 3 * took]},
        **more,
    }


def test_two_messages_against_one(tmp_path: Path) -> None:
    """As the article wrote it: so many messages in a call that it takes as long as TCP's one."""
    found = verdict(analysed(tmp_path, calls), "dotnet-as-written")
    (evidence,) = found.evidence
    assert found.verdict == "CONFIRMED"  # at least twice as long
    assert evidence.figure("tcp / unix").value == pytest.approx(2)  # type: ignore[union-attr]
    corrected = analysed(tmp_path / "corrected", calls, variant="corrected")
    assert verdict(corrected, "dotnet-per-message").verdict == "REFUTED"  # slightly, it says


def test_bytes_that_did_not_arrive_are_unsound(tmp_path: Path) -> None:
    found = verdict(analysed(tmp_path, round_trips, received=63_999), "latency-in-asyncio")
    assert found.why == "The only cells that measured it are unsound."
