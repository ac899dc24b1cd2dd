# SPDX-License-Identifier: GPL-2.0-or-later
"""Claims about an article's own program, judged by what made-up programs measured."""

from pathlib import Path
from typing import Any

import pytest

from tests.analysis.made_programs import (
    analysed,
    both,
    calls,
    echoes,
    pings,
    requests_in_fastcgi,
    round_trips,
    verdict,
)


def test_a_ratio_of_requests(tmp_path: Path) -> None:
    found = verdict(analysed(tmp_path, both()), "twenty-clients")
    (evidence,) = found.evidence
    assert evidence.figures.get("unix / tcp").value == pytest.approx(2)  # type: ignore[union-attr]
    assert (evidence.file, len(evidence.cells)) == ("programs.jsonl", 12)
    assert found.verdict == "NOT REPRODUCED"  # about 1.48, the article says
    assert "TCP left 17.0 connections" in found.mechanism


@pytest.mark.parametrize(("filling", "expected"), [(100_000, "CONFIRMED"), (10_000, "REFUTED")])
def test_the_share_of_a_request_that_its_address_takes(
    tmp_path: Path, filling: int, expected: str
) -> None:
    """Of TCP's millisecond a tenth, and a hundredth."""
    found = verdict(analysed(tmp_path, both(clients=1, address_ns=filling)), "address-set-up")
    assert found.verdict == expected
    tcp = found.evidence[0].figures.get("tcp")
    assert tcp and tcp.value == pytest.approx(filling / 1e6)


def test_the_clients_own_time(tmp_path: Path) -> None:
    """Without the server's, which would make it two to one."""
    times = {"unix": {"user_us": 17, "system_us": 40}, "tcp": {"user_us": 17, "system_us": 100}}
    server = {"user_us": 0, "system_us": 20}
    lines = [line | {"client": times[line["transport"]], "server": server}
             for line in both(clients=1)]  # fmt: skip
    found = verdict(analysed(tmp_path, lines), "client-kernel-time")
    assert found.evidence[0].figures["tcp / unix"].value == pytest.approx(2.5)
    assert "Of client and redis together: TCP 3.53 µs, Unix 1.76 µs" in found.mechanism


def test_a_failure_is_told(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, both(error="made up: the port is taken"))
    assert "made up: the port is taken" in {lack.why for lack in analysis.tables.missing}
    assert "--program redis" in verdict(analysis, "twenty-clients").why


def test_round_trips_of_an_event_loop(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, both(round_trips))
    found = verdict(analysis, "latency-in-asyncio")
    (evidence,) = found.evidence
    assert found.verdict == "NOT REPRODUCED"  # three to five times, the article says
    assert evidence.figures.get("tcp / unix").value == pytest.approx(2.5)  # type: ignore[union-attr]
    # Both processes' 8 and 12 ms, over 2,000 messages.
    assert (
        "A message took 4.00 µs in user mode and 6.00 µs in the kernel over TCP" in found.mechanism
    )


def test_two_messages_against_one(tmp_path: Path) -> None:
    """As the article wrote it: so many messages in a call that it takes as long as TCP's one."""
    found = verdict(analysed(tmp_path, both(calls)), "dotnet-as-written")
    (evidence,) = found.evidence
    assert found.verdict == "CONFIRMED"  # at least twice as long
    assert evidence.figures.get("tcp / unix").value == pytest.approx(2)  # type: ignore[union-attr]


def test_an_echo_and_its_segments(tmp_path: Path) -> None:
    found = verdict(analysed(tmp_path, both(echoes)), "echo-5-times")
    (evidence,) = found.evidence
    assert evidence.figures.get("unix / tcp").value == pytest.approx(1 / 8)  # type: ignore[union-attr]
    assert found.verdict == "NOT REPRODUCED"
    # 60 segments for 2,000 messages; 40 and 400 switches.
    assert "Segments for each message: 0.03" in found.mechanism
    assert "TCP 0.02, Unix 0.20" in found.mechanism


def test_requests_over_http(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, both(pings))
    found = verdict(analysis, "http-3-times")
    (evidence,) = found.evidence
    assert evidence.figures.get("unix / tcp").value == pytest.approx(1.5)  # type: ignore[union-attr]
    assert found.verdict == "NOT REPRODUCED"  # nearly three times, the article says
    assert found.lacking == ("gin-keep · 18 B · free",)
    assert verdict(analysis, "http-latency").verdict == "NOT REPRODUCED"
    found = verdict(analysis, "fewer-switches-in-gin")
    assert "TCP 10,000, Unix 15,000" in found.mechanism


def test_what_answers_in_http_does_not_speak_fastcgi(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"answers": {"http": 23}}
    found = verdict(analysed(tmp_path, both(requests_in_fastcgi, **asked)), "fastcgi-to-gin")
    assert found.verdict == "REFUTED"
    assert "request in FastCGI: 1.00" in found.mechanism
    asked["answers"] = {"fastcgi": 23}
    found = verdict(
        analysed(tmp_path / "answered", both(requests_in_fastcgi, **asked)), "fastcgi-to-gin"
    )
    assert found.verdict == "CONFIRMED"
