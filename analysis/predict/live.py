# SPDX-License-Identifier: GPL-2.0-or-later
"""The live view of `watch`: what happened since an earlier look, and the lines of a screen."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from analysis.predict.model import Verdict
from analysis.predict.prices import Prices
from analysis.predict.remarks import cost_line
from analysis.predict.told import Told, span, tell_all
from analysis.raw.programs import Watched
from analysis.wording import ABSENT, DASH, amount, number, wrapped
from probes.watch import COUNTED

HEADS = ("pair", "req/s", "µs", "limit", "a Unix socket saves")
SHORTEST_NAME = 12  # characters of a pair's name
KEYS = ("family", "net", "own", "peer", "opened", "pid", "inode")
GROWING = tuple(column.key for column in COUNTED)
USED = (
    "user_ms",
    "system_ms",
    "voluntary",
    "waited_us",
    "ran_ms",
    "busiest_ms",
    "looks",
    "blocked",
)
COST = ("runs", "ns", "missed", "watched_cpu_ns")
Look = dict[str, Any]


def since(before: Look | None, now: Look) -> Look:
    """What was counted between two looks, as watch.json has it; without an earlier one all."""
    if before is None:
        return now
    seconds, earlier = now["seconds"] - before["seconds"], before["seconds"]
    probes = now["probes"] | less(now["probes"], before["probes"], COST)
    cost, used = probes["ns"] + probes["entry_ns"] * probes["runs"], probes["watched_cpu_ns"]
    ends = {key_of(end): end for end in before["ends"]}
    failures = {failure_key(row): row for row in before["failures"]}
    return now | {
        "seconds": seconds,
        "active_s": max(0.0, now["active_s"] - before["active_s"]),
        "probes": probes | {"share": cost / used if used else None},
        "idle": {
            cpu: (share * now["seconds"] - before["idle"].get(cpu, 0) * earlier) / seconds
            for cpu, share in now["idle"].items()
        },
        "ends": [
            end | less(end, old, GROWING) | {"waits": waits(end, old)}
            for end in now["ends"]
            for old in (ends.get(key_of(end), {}),)
        ],
        "failures": [
            row | less(row, failures.get(failure_key(row), {}), ("count",))
            for row in now["failures"]
        ],
        "processes": {
            pid: row | less(row, before["processes"].get(pid, {}), USED)
            for pid, row in now["processes"].items()
        },
    }


def key_of(end: Look) -> tuple[Any, ...]:
    return tuple(end[name] for name in KEYS)


def failure_key(row: Look) -> tuple[Any, ...]:
    return (row["pid"], row["place"], row["portless"])


def less(now: Look, before: Look, names: Sequence[str]) -> Look:
    """How far these counts have grown; a process number may be another's by now."""
    return {name: max(0, now[name] - before.get(name, 0)) for name in names if name in now}


def waits(now: Look, before: Look) -> Look:
    old = before.get("waits", {})
    return {
        name: [max(0, n - o) for n, o in zip(figures, old.get(name, (0, 0)), strict=True)]
        for name, figures in now.get("waits", {}).items()
    }


def screen(seen: Look, prices: Prices, columns: int, rows: int) -> list[str]:
    """A screen of so many lines, none longer than its columns."""
    watched = Watched.model_validate_json(json.dumps(seen))
    told = tell_all(watched, prices)
    wide, room = max(SHORTEST_NAME, columns), max(1, rows - 4)
    named = told[: max(1, room // 2)]
    lines = [*wrapped(f"q ends; {cost_line(watched)}.", wide, indent="")[:2], ""]
    if told:
        lines += [*table([row(each) for each in named], columns), ""]
    else:
        lines += ["no two processes of this machine talked meanwhile over TCP or a Unix socket."]
    for each in named:
        lines += wrapped(each.first.sentence, wide)
    return [line[:columns] for line in lines[:rows]]


def row(told: Told) -> tuple[str, ...]:
    """A pair's texts, in the order of HEADS."""
    pair = told.pair
    name = f"{pair.client.comm} → {pair.server.comm} {pair.place}"
    took = number(pair.request_us) if pair.request_us else ABSENT
    return (name, number(pair.observed.requests.rate), took, told.first.limit or DASH, gain(told))


def gain(told: Told) -> str:
    """What a request takes less over a Unix socket, in its interval."""
    made = told.prediction
    if not made or not made.has_figures:
        return DASH
    if made.verdict is Verdict.NONE:
        return "nothing measurable"
    return (
        span(made.time, "µs")
        if made.verdict is Verdict.GAIN
        else f"open ({amount(1000 * made.time.value, 'ns')})"
    )


def table(body: Sequence[tuple[str, ...]], columns: int) -> Iterator[str]:
    """Rows below their heads; the pair's name has what room the others leave."""
    widths = [max(len(cells[n]) for cells in (HEADS, *body)) for n in range(len(HEADS))]
    widths[0] = max(SHORTEST_NAME, min(widths[0], columns - sum(widths[1:]) - 2 * len(HEADS[1:])))
    for name, *cells in (HEADS, *body):
        texts = [shortened(name, widths[0]).ljust(widths[0])]
        texts += [text.rjust(width) for text, width in zip(cells, widths[1:], strict=True)]
        yield "  ".join(texts).rstrip()


def shortened(name: str, room: int) -> str:
    """Both ends of a long name: who asks, and the port."""
    if len(name) <= room:
        return name
    begin = room // 2
    return f"{name[:begin]}…{name[begin + 1 - room :]}"
