# SPDX-License-Identifier: GPL-2.0-or-later
"""Measurements of an article's own program: into the table and the verdicts, or said why not."""

import json
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


def analysed(folder: Path, **more: Any) -> Analysis:
    run = make_run(folder, MadeUp())
    lines = [line(t, r, **more) for r in range(6) for t in ("unix", "tcp")]
    text = "".join(json.dumps(one) + "\n" for one in lines)
    (run / "raw/host/apps.jsonl").write_text(text)
    return analyse(read_run(run))


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
