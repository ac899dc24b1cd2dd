# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs that a file describes, from the distribution's packages: all are counted exactly."""

import json
from dataclasses import replace
from typing import Any

import pytest

from analysis.counts import programs as records
from analysis.raw.programs import PROGRAM_LINES, MeasuredRun
from probes.transports import PAIR
from runners.programs import PROGRAMS, engine, experiments
from runners.programs.experiments import Experiment
from runners.programs.program import find
from tests.build import packages_or_skip

ARTICLES = ("asyncio", "dotnet", "gin", "go", "java", "redis")
OTHERS = sorted({*PROGRAMS} - {"memcached", *ARTICLES})


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("memcached", marks=pytest.mark.emulated),  # packages: minutes the first time
        *(pytest.param(name, marks=pytest.mark.matrix) for name in OTHERS),
    ],
)
def test_a_real_server_counts_every_request(name: str) -> None:
    """Each case over both transports: the server counts what the client sent."""
    found, root = find(name), packages_or_skip(name)
    for case in found.cases:
        for transport in PAIR:
            with engine.serving(found, case, transport, root) as running:
                for _ in range(2):
                    driven = running.drive(case, transport, requests=case.requests // 20)
                    assert driven["error"] is None, (case.name, transport)
                    assert driven["requests"] > 0
                    if found.counter:
                        assert driven["counted"] == driven["requests"], (case.name, transport)


def measured(name: str, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """A line for each case and transport, of some of its requests; all are valid."""
    monkeypatch.setattr(experiments, "REPEATS", 1)
    found, root = find(name), packages_or_skip(name)
    cases = [replace(case, requests=case.requests // 20) for case in found.cases]
    lines = list(Experiment(replace(found, cases=tuple(cases)), root).run(lambda _: None))
    for line in lines:
        record = PROGRAM_LINES.validate_json(json.dumps(line))
        assert isinstance(record, MeasuredRun), line
        messages, valid, figures = records.measured(record)
        assert valid and messages and figures, line
    assert len(lines) == len(cases) * len(found.transports)
    return lines


@pytest.mark.slow
def test_the_methods_of_the_benchmark_send_what_the_article_sends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two messages over Unix sockets against one over TCP; corrected, one each."""
    for line in measured("dotnet", monkeypatch):
        both = (line["variant"], line["transport"]) == ("written", "unix")
        assert line["messages"] == (2 if both else 1) * line["calls"]
        assert line["sent"] == line["size"] * line["messages"]


@pytest.mark.emulated  # packages
def test_redis_counts_what_its_clients_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for line in measured("redis", monkeypatch):
        assert line["counted"] == line["server_calls"] == line["requests"]
        assert ("address_ns" in line) == (line["transport"] == "tcp")


@pytest.mark.emulated
def test_asyncio_measures_with_every_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = measured("asyncio", monkeypatch)
    assert {line["loop"] for line in lines} == {"asyncio", "uvloop"}
    for line in lines:
        assert len(line["iterations_ns"]) == (2 if line["variant"] == "pingpong" else 0)


@pytest.mark.matrix  # and modules of Go
def test_gin_answers_every_request(monkeypatch: pytest.MonkeyPatch) -> None:
    for line in measured("gin", monkeypatch):
        if line["variant"] == "fastcgi":
            assert line["answers"] == {"http": line["asked"]}
        elif line["transport"] == "tcp":
            # A request and its answer at least; with a new connection its opening and its end too.
            least = line["requests"] * (2 if line["variant"] == "keep" else 5)
            assert line["counters"]["out"] >= least
