# SPDX-License-Identifier: GPL-2.0-or-later
"""Prices, ends of connections and pairs that are made up, for the tests of predictions."""

import json
from dataclasses import replace
from typing import Any

from analysis.predict.model import Fitted
from analysis.predict.observed import CpuUse, Observed, Requests, Waits
from analysis.predict.pairs import Pair, pairs
from analysis.predict.prices import Prices
from analysis.raw.programs import PriceList, Watched

# A round trip over unix and tcp, in µs, by pattern and placement; at 1 MB all is 1000 times that.
ROUND = {
    ("pingpong", "same-cpu"): (9.0, 13.0),
    ("pingpong", "cross-cpu"): (22.0, 39.0),
    ("selfecho", "same-cpu"): (3.0, 8.0),
    ("connect", "same-cpu"): (16.0, 66.0),
    ("connect", "cross-cpu"): (30.0, 90.0),
}
EXACT = Fitted()
PING = Observed(
    Requests(rate=10_000, request=64, answer=64, sends=2, opened=0),
    Waits(waiting=1.0, at_once=0.9, answer_us=80),
    CpuUse(server_wants=0.4, server_busy=0.4, busy=0.8, idle=1.2),
    near=1.0,
    bound=False,
)


def but(seen: Observed, **changes: Any) -> Observed:
    """The same with other fields, in whichever part they are."""

    def of(part: Any) -> dict[str, Any]:
        return {name: changes.pop(name) for name in vars(part) if name in changes}

    requests = replace(seen.requests, **of(seen.requests))
    waits, cpu = replace(seen.waits, **of(seen.waits)), replace(seen.cpu, **of(seen.cpu))
    return Observed(requests, waits, cpu, **({"near": seen.near, "bound": seen.bound} | changes))


def price_list() -> dict[str, Any]:
    cells = []
    for (pattern, placement), times in ROUND.items():
        for transport, time in zip(("unix", "tcp"), times, strict=True):
            for size, factor in ((64, 1), (64064, 1000)) if pattern != "connect" else ((64, 1),):
                cells.append({
                    "transport": transport, "pattern": pattern, "size": size,
                    "placement": placement, "iteration_us": [time * factor],
                    "client_cpu_us": [time * factor / 3], "server_cpu_us": [time * factor * 2 / 3],
                })  # fmt: skip
    return {"format": 1, "measured": 1, "cells": cells, "fingerprint": {}}


def made_prices() -> Prices:
    return Prices(PriceList.model_validate_json(json.dumps(price_list())).cells)


def end(own: str, peer: str, pid: int, **changes: Any) -> dict[str, Any]:
    """An end that sent ten requests of 100 B, and got answers of 100 B."""
    plain = {
        "family": "tcp", "net": 1, "own": own, "peer": peer, "comm": f"thread{pid}", "opened": "",
        "path": "", "pid": pid, "sent": 1000, "received": 1000, "sends": 10,
        "receives": 10, "turns": 10, "answers": 10, "answer_ns": 800_000, "works": 9,
        "work_ns": 90_000, "near": 4, "far": 6, "cpus": 3, "connections": 0, "namespace": 7,
        "inode": 0,
    }  # fmt: skip
    return plain | changes


def watched(*ends: dict[str, Any], **changes: Any) -> dict[str, Any]:
    people = {
        str(number): {"comm": f"p{number}", "voluntary": 20, "user_ms": 100, "system_ms": 300}
        for number in {row["pid"] for row in ends}
    }
    probes = {"runs": 40, "ns": 4000, "entry_ns": 60, "missed": 0, "watched_cpu_ns": 800_000_000,
              "share": 0.000008}  # fmt: skip
    plain = {
        "format": 1, "seconds": 2.0, "active_s": 2.0, "hooks": "tracepoints",
        "probes": probes, "lost": 0, "ends": ends, "processes": people, "only": {},
    }  # fmt: skip
    return plain | changes


CLIENT, SERVER = "127.0.0.1:40000", "127.0.0.1:6379"
TALK = (end(CLIENT, SERVER, 1), end(SERVER, CLIENT, 2))


def read(*ends: dict[str, Any], **changes: Any) -> Watched:
    return Watched.model_validate_json(json.dumps(watched(*ends, **changes)))


def made(*ends: dict[str, Any], **changes: Any) -> list[Pair]:
    return pairs(read(*ends, **changes))
