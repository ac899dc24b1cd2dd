# SPDX-License-Identifier: GPL-2.0-or-later
"""The articles' own experiments, for real where their programs are installed."""

from __future__ import annotations

import os
import subprocess

import pytest

from runners import options
from runners.apps import redis
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


def test_an_app_that_is_not_there_is_refused() -> None:
    assert options.parse(["--apps", "all"]).apps == ("redis",)
    with pytest.raises(UsageError, match="unknown app 'made-up': there is redis"):
        options.parse(["--apps", "made-up"])
