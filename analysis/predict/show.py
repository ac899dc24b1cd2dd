# SPDX-License-Identifier: GPL-2.0-or-later
"""What --watch prints: a table of the pairs, and a prediction for each."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from analysis.predict.model import Prediction, observe, predict, read_fitted
from analysis.predict.pairs import Pair, pairs, unpaired
from analysis.predict.prices import Prices
from analysis.predict.words import advice, core, impossible, number, sentence, size
from analysis.raw.record import read_object
from analysis.raw.watch import Watched
from analysis.wording import counted

WATCH = "watch.json"
MOST_ROWS, MOST_SENTENCES, WIDTH = 10, 4, 100
HEADS = ("client", "server", "at", "req/s", "bytes", "opened/s", "µs", "sleeps", "CPUs", "kernel")
Found = tuple[Pair, Prediction | None]


def read_watch(folder: Path) -> Watched:
    """Raises RunError."""
    return read_object(folder / WATCH, Watched)


def predictions(watched: Watched, prices: Prices) -> list[Found]:
    """Each pair, with what it would gain over a Unix socket; None where it is one."""
    fitted = read_fitted()
    return [
        (pair, predict(observe(pair, watched.idle_cpus), prices, fitted) if pair.requests else None)
        for pair in pairs(watched)
    ]


def nothing(watched: Watched) -> str:
    """Why there is no pair."""
    if watched.only.ports:
        return f"no pair that talked uses port {watched.only.ports[0]}: choose another, or none."
    if watched.only.pids:
        return f"process {watched.only.pids[0]} talked to nobody on this machine meanwhile."
    return "no two processes of this machine talked meanwhile over TCP or a Unix socket."


def talking(found: Sequence[Found]) -> list[tuple[Pair, Prediction]]:
    """The pairs over TCP, which could use a Unix socket instead."""
    return [(pair, told) for pair, told in found if pair.family == "tcp" and told]


def lines(watched: Watched, found: Sequence[Found]) -> Iterator[str]:
    """At most 25 lines for a terminal."""
    yield cost_line(watched)
    rows = [HEADS, *(row(pair) for pair, _ in found[:MOST_ROWS])]
    widths = [max(len(line[column]) for line in rows) for column in range(len(HEADS))]
    for line in rows:
        cells = [
            cell.ljust(width) if place < 3 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
    if len(found) > MOST_ROWS:
        yield f"and {len(found) - MOST_ROWS} pairs with fewer requests (--json has all)"
    for pair, prediction in talking(found)[:MOST_SENTENCES]:
        text = f"{pair.client.comm} to {pair.place}: {sentence(pair, prediction)}."
        yield from textwrap.wrap(text, WIDTH, subsequent_indent="  ")
        if prediction.time.low > 0 and (known := advice(pair)):
            yield from textwrap.wrap("; ".join(known), WIDTH, initial_indent="  ",
                                     subsequent_indent="  ")[:2]  # fmt: skip
    yield from remarks(watched)


def remarks(watched: Watched) -> Iterator[str]:
    """What could not be seen."""
    if ends := unpaired(watched):
        yield (
            f"{counted(ends, 'end')} without the other: that did not talk in this time, is on "
            "another machine, or behind an address translation."
        )
    if watched.lost:
        yield f"{watched.lost} ends were not counted: the kernel's table was full."
    for pid in watched.only.pids:
        if watched.owner(pid).ended:
            yield f"process {pid} ended while it was watched."


def cost_line(watched: Watched) -> str:
    probes = watched.probes
    share = "unknown" if probes.share is None else f"{100 * probes.share:.2f} %"
    counted = (
        f"counted in {100 * watched.active_s / watched.seconds:.0f} % of the time"
        if watched.sampled
        else "every call counted"
    )
    return (
        f"{watched.seconds:.1f} s, {counted}; the probes ran {probes.runs:,} times and took "
        f"{share} of the watched processes' CPU time"
    )


def row(pair: Pair) -> tuple[str, ...]:
    return (
        who(pair.client.comm, list(pair.client.owners)),
        who(pair.server.comm, list(pair.server.owners)),
        pair.place if len(pair.place) <= 24 else f"…{pair.place[-23:]}",
        number(pair.rate),
        f"{size(pair.client.per_turn)} / {size(pair.server.per_turn)}",
        number(pair.opened),
        number(pair.answer_us),
        f"{number(min(99, pair.slept(pair.client)))} / {number(min(99, pair.slept(pair.server)))}",
        ",".join(map(str, sorted({*pair.client.cpus, *pair.server.cpus}))),
        " / ".join(
            f"{100 * party.used('system_ms') / 1000 / pair.seconds:.0f} %"
            for party in (pair.client, pair.server)
        ),
    )


def who(comm: str, pids: list[int]) -> str:
    return f"{comm} {pids[0]}" if len(pids) == 1 else f"{comm} ({len(pids)} processes)"


def document(watched: Watched, found: Sequence[Found]) -> dict[str, Any]:
    """prediction.json, which --json prints."""
    return {
        "seconds": watched.seconds,
        "active_s": watched.active_s,
        "sampled": watched.sampled,
        "probes": watched.probes.model_dump(),
        "unpaired": unpaired(watched),
        "lost": watched.lost,
        "pairs": [entry(pair, prediction) for pair, prediction in found],
    }


def entry(pair: Pair, found: Prediction | None) -> dict[str, Any]:
    sides = {
        name: {
            "comm": party.comm,
            "pids": list(party.owners),
            "sends": party.sum("sends"),
            "bytes": party.sum("sent"),
            "sizes": {str(low): count for low, count in sorted(party.sizes.items())},
            "cpus": party.cpus,
            "slept_per_request": round(pair.slept(party), 4),
            "cpu": round(pair.busy(party), 4),
            "system_ms": party.used("system_ms"),
            "user_ms": party.used("user_ms"),
        }
        for name, party in (("client", pair.client), ("server", pair.server))
    }
    return {
        "family": pair.family,
        "place": pair.place,
        "requests": pair.requests,
        "requests_per_s": round(pair.rate, 3),
        "connections": pair.connections,
        "opened_per_s": round(pair.opened, 3),
        "answer_us": round(pair.answer_us, 3),
        "work_us": round(pair.work_us, 3),
        "near": round(pair.near, 4),
        **sides,
        "prediction": predicted(pair, found) if found and pair.family == "tcp" else None,
    }


def predicted(pair: Pair, found: Prediction) -> dict[str, Any]:
    return {
        "says": sentence(pair, found),
        "verdict": "not possible" if impossible(pair) else str(found.verdict),
        "limit": str(found.limit),
        "time_us": asdict(found.time),
        "elapsed_us": asdict(found.elapsed),
        "cpu_us": asdict(found.cpu),
        "core_at_this_rate": asdict(core(found)),
        "advice": advice(pair),
        "observed": asdict(found.observed),
    }
