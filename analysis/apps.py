# SPDX-License-Identifier: GPL-2.0-or-later
"""What the articles' own programs did: raw/host/apps.jsonl → rows of the tidy table."""

from collections.abc import Iterator
from typing import Any

from analysis.quantities import unit_of
from analysis.raw import Lane, Missing, Run
from analysis.record import Record, parse_object, read_text

FILE = "apps.jsonl"
INSTRUMENT = "app"
# Bytes of a request.
SIZES = {"redis": 23}


def read_apps(run: Run) -> tuple[list[tuple[Any, ...]], list[Missing]]:
    """Rows in the order of the tidy table's columns, and what failed. Raises RunError."""
    rows: list[tuple[Any, ...]] = []
    missing = []
    for lane in run.lanes:
        for number, record in enumerate(_records(lane), 1):
            app, error = record.text("app"), record.optional("error", str)
            if error:
                what = f"{app}, {record.text('transport')}, {record.text('variant')}"
                missing.append(Missing(what, lane.folder, error))
            else:
                rows += _rows(run, lane, number, app, record)
    return rows, missing


def _records(lane: Lane) -> list[Record]:
    path, name = lane.path / FILE, f"raw/{lane.folder}/{FILE}"
    if not path.exists():
        return []
    why = "the claims that need it cannot be settled"
    lines = read_text(path, name, why).splitlines()
    return [parse_object(line, f"{name}, line {i}", why) for i, line in enumerate(lines, 1)]


def _rows(run: Run, lane: Lane, number: int, app: str, record: Record) -> Iterator[tuple[Any, ...]]:
    """A request and its answer are two messages. Sound: the server counted what was asked."""
    requests, clients = record.whole("requests", 1), record.whole("clients", 1)
    sound = record.whole("counted") == record.whole("server_calls") == requests
    where = (run.name, lane.lane, lane.kernel, lane.rung, INSTRUMENT, record.text("transport"))
    placement = "free" if clients == 1 else f"free+{clients}-clients"
    what = (f"{app}-{record.text('variant')}", SIZES[app], placement, record.whole("repeat"))
    figures = {
        "requests_per_s": requests * 1e9 / record.whole("window_ns", 1),
        "server_ns": 1000 * record.whole("server_usec") / requests,
    }
    before, after = record.fields.get("time_wait") or (None, None)
    if isinstance(before, int) and isinstance(after, int):
        figures["time_wait"] = after - before
    for quantity, value in figures.items():
        unit = unit_of(quantity)
        yield (*where, *what, number, False, quantity, "", value, unit, 2 * requests, sound)
