# SPDX-License-Identifier: GPL-2.0-or-later
"""Claims about an article's own program, judged by what made-up programs measured."""

from pathlib import Path
from typing import Any

import pytest

from tests.analysis.made_programs import (
    Maker,
    analysed,
    both,
    calls,
    echoes,
    pings,
    redis,
    requests_in_fastcgi,
    round_trips,
    verdict,
)


def client(transport: str, repeat: int) -> dict[str, Any]:
    own = 100 if transport == "tcp" else 40
    return redis(transport, repeat, clients=1, user_us=17, system_us=own)


@pytest.mark.parametrize(
    ("made", "claim", "label", "value", "expected", "mechanism"),
    [
        (redis, "twenty-clients", "unix / tcp", 2, "NOT REPRODUCED", "TCP left 17.0 connections"),
        (client, "client-kernel-time", "tcp / unix", 2.5, "",
         "for each of the two messages: 500 ns and 500 ns"),
        # Both processes' 8 and 12 ms, over 2,000 messages.
        (round_trips, "latency-in-asyncio", "tcp / unix", 2.5, "NOT REPRODUCED",
         "A message took 4.00 µs in user mode and 6.00 µs in the kernel over TCP"),
        # As the article wrote it: so many messages in a call that it takes as long as TCP's one.
        (calls, "dotnet-as-written", "tcp / unix", 2, "CONFIRMED", ""),
        # 60 segments for 2,000 messages; 40 and 400 switches.
        (echoes, "echo-5-times", "unix / tcp", 1 / 8, "NOT REPRODUCED", "TCP 0.02, Unix 0.20"),
        (pings, "http-3-times", "unix / tcp", 1.5, "NOT REPRODUCED", ""),
    ],
)  # fmt: skip
def test_a_ratio_of_a_program(
    made: Maker, claim: str, label: str, value: float, expected: str, mechanism: str, tmp_path: Path
) -> None:
    found = verdict(analysed(tmp_path, both(made)), claim)
    assert found.evidence[0].figures[label].value == pytest.approx(value)
    assert (found.evidence[0].file, len(found.evidence[0].cells)) == ("programs.jsonl", 12)
    assert not expected or found.verdict == expected
    assert mechanism in found.mechanism


@pytest.mark.parametrize(("filling", "expected"), [(100_000, "CONFIRMED"), (10_000, "REFUTED")])
def test_the_share_of_a_request_that_its_address_takes(
    tmp_path: Path, filling: int, expected: str
) -> None:
    """Of TCP's millisecond a tenth, and a hundredth."""
    found = verdict(analysed(tmp_path, both(clients=1, address_ns=filling)), "address-set-up")
    assert found.verdict == expected
    assert found.evidence[0].figures["tcp"].value == pytest.approx(filling / 1e6)


def test_a_failure_is_told(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, both(error="made up: the port is taken"))
    assert "made up: the port is taken" in {lack.why for lack in analysis.tables.missing}
    assert "--program redis" in verdict(analysis, "twenty-clients").why


@pytest.mark.parametrize(("protocol", "expected"), [("http", "REFUTED"), ("fastcgi", "CONFIRMED")])
def test_what_answers_in_http_does_not_speak_fastcgi(
    tmp_path: Path, protocol: str, expected: str
) -> None:
    asked: dict[str, Any] = {"answers": {protocol: 23}}
    found = verdict(analysed(tmp_path, both(requests_in_fastcgi, **asked)), "fastcgi-to-gin")
    assert found.verdict == expected
