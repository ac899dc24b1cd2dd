# SPDX-License-Identifier: GPL-2.0-or-later
"""The articles' own experiments, for real where their programs are installed."""

from __future__ import annotations

import os
import subprocess

import pytest

from runners import options
from runners.apps import asyncio, client, dotnet, redis
from runners.errors import UsageError
from runners.lanes import REPOSITORY


def test_redis_counts_what_its_clients_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    if why := redis.lack():
        pytest.skip(why)
    subprocess.run(["make", "--silent", "-C", str(REPOSITORY / "runners/apps/redis")], check=True)
    monkeypatch.setattr(redis, "REPEATS", 1)
    monkeypatch.setattr(redis, "CLIENTS", {1: 23, 3: 23})
    user = (65534, 65534) if os.getuid() == 0 else None
    found = list(redis.run(user, lambda _: None))
    assert [one["error"] for one in found] == [None] * 8
    asked = {1: 23, 3: 3 * 23}
    for one in found:
        assert one["counted"] == one["server_calls"] == one["requests"] == asked[one["clients"]]
    new = [one for one in found if one["variant"] == "new" and one["transport"] == "unix"]
    assert all(one["window_ns"] > 0 for one in new)


def test_asyncio_measures_with_every_loop_that_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio, "REPEATS", 1)
    monkeypatch.setattr(asyncio, "MESSAGES", {"pingpong": {64: 23}, "stream": {4096: 23}})
    user = (65534, 65534) if os.getuid() == 0 else None
    found = list(asyncio.run(user, lambda _: None))
    assert [one["error"] for one in found] == [None] * 4 * len(asyncio.loops())
    sent = {"pingpong": 23 * 64, "stream": 23 * 4096}
    assert all(one["sent"] == one["received"] == sent[one["variant"]] for one in found)
    for one in found:
        assert one["messages"] == (46 if one["variant"] == "pingpong" else 23)
        assert len(one["laps_ns"]) == (2 if one["variant"] == "pingpong" else 0)


def test_the_methods_of_the_benchmark_send_what_the_article_sends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two messages over Unix sockets against one over TCP; corrected, one each."""
    subprocess.run(["make", "--silent", "-C", str(REPOSITORY / "runners/apps/dotnet")], check=True)
    monkeypatch.setattr(dotnet, "REPEATS", 1)
    monkeypatch.setattr(dotnet, "SIZES", (1024,))
    monkeypatch.setattr(dotnet, "CALLS", 23)
    user = (65534, 65534) if os.getuid() == 0 else None
    found = list(dotnet.run(user, lambda _: None))
    assert [one["error"] for one in found] == [None] * 4
    assert {(one["variant"], one["transport"]): one["messages"] for one in found} == {
        ("written", "unix"): 46,
        ("written", "tcp"): 23,
        ("corrected", "unix"): 23,
        ("corrected", "tcp"): 23,
    }
    assert all(one["sent"] == one["received"] == 1024 * one["messages"] for one in found)


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("echo first; echo the port is taken >&2; exit 1", "the port is taken"),
        ("exit 3", "the client failed"),
        ("sleep 60", "the client did not end in 1 s"),
    ],
)
def test_a_client_that_fails_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, script: str, error: str
) -> None:
    monkeypatch.setattr(client, "SECONDS", 1)
    assert client.run_client(["sh", "-c", script], None) == {"error": error}


def test_an_app_that_is_not_there_is_refused() -> None:
    assert options.parse(["--apps", "all"]).apps == ("redis", "asyncio", "dotnet")
    with pytest.raises(UsageError, match="unknown app 'made-up': there is redis, asyncio, dotnet"):
        options.parse(["--apps", "made-up"])
