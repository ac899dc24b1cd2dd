# SPDX-License-Identifier: GPL-2.0-or-later
"""What the articles' own programs did: raw/host/apps.jsonl → rows of the tidy table."""

from collections.abc import Iterator
from typing import Any

from analysis.counts.quantities import unit_of
from analysis.errors import RunError
from analysis.raw.record import AGAIN, Record, parse_object, read_text
from analysis.raw.run import Lane, Missing, Run

FILE = "apps.jsonl"
INSTRUMENT = "app"
INCR_BYTES = 23  # of a request to redis: `*2 $4 INCR $3 foo` in its protocol
PONG_BYTES = 18  # of Gin's answer: {"message":"pong"}
Row = tuple[Any, ...]


def read_apps(run: Run) -> tuple[list[Row], list[Missing]]:
    """Rows in the order of the tidy table's columns, and what failed. Raises RunError."""
    rows: list[Row] = []
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


def _rows(run: Run, lane: Lane, number: int, app: str, record: Record) -> Iterator[Row]:
    where = (run.name, lane.lane, lane.kernel, lane.rung, INSTRUMENT, record.text("transport"))
    if app not in FIGURES:
        raise RunError(
            f"{record.name}: there is no app '{app}', so its figures cannot be read. {AGAIN}"
        )
    what, messages, sound, figures = FIGURES[app](record)
    for (quantity, key), value in figures.items():
        unit = unit_of(quantity)
        yield (*where, *what, number, False, quantity, key, value, unit, messages, sound)


What = tuple[str, int, str, int]  # pattern, size, placement, repeat
Figures = dict[tuple[str, str], float]


def _redis(record: Record) -> tuple[What, int, bool, Figures]:
    """A request and its answer are two messages. Sound: the server counted what was asked."""
    requests, clients = record.whole("requests", 1), record.whole("clients", 1)
    sound = record.whole("counted") == record.whole("server_calls") == requests
    placement = "free" if clients == 1 else f"free+{clients}-clients"
    what = (f"redis-{record.text('variant')}", INCR_BYTES, placement, record.whole("repeat"))
    figures: Figures = {
        ("requests_per_s", ""): requests * 1e9 / record.whole("window_ns", 1),
        ("server_ns", ""): 1000 * record.whole("server_usec") / requests,
    }
    filling = record.fields.get("address_ns")
    if isinstance(filling, int) and clients == 1:
        figures["address_share", ""] = filling * requests / record.whole("window_ns", 1)
    before, after = record.fields.get("time_wait") or (None, None)
    if isinstance(before, int) and isinstance(after, int):
        figures["time_wait", ""] = after - before
    return what, 2 * requests, sound, figures


def _asyncio(record: Record) -> tuple[What, int, bool, Figures]:
    """Sound: the server received every byte. CPU time is both processes'."""
    messages = record.whole("messages", 1)
    pattern = f"{record.text('loop')}-{record.text('variant')}"
    what = (pattern, record.whole("size", 1), "free", record.whole("repeat"))
    client, server = record.object("client"), record.object("server")
    figures: Figures = {
        ("messages_per_s", ""): messages * 1e9 / record.whole("window_ns", 1),
        **{
            ("cpu_ns", mode): 1000.0 * (client.whole(f"{mode}_us") + server.whole(f"{mode}_us"))
            for mode in ("user", "system")
        },
    }
    for key, value in zip(("p50", "p99"), record.fields.get("laps_ns") or (), strict=False):
        figures["rtt_ns", key] = float(value)
    return what, messages, record.whole("sent") == record.whole("received"), figures


def _dotnet(record: Record) -> tuple[What, int, bool, Figures]:
    """Sound: all that was sent was received. The time of a call is that of its messages."""
    what = (f"dotnet-{record.text('variant')}", record.whole("size", 1), "same-cpu",
            record.whole("repeat"))  # fmt: skip
    times = zip(("p50", "p99"), record.fields.get("message_ns") or (), strict=False)
    figures: Figures = {("message_ns", key): float(value) for key, value in times}
    sound = record.whole("sent") == record.whole("received")
    return what, record.whole("messages", 1), sound, figures


def _echo(record: Record) -> tuple[What, int, bool, Figures]:
    """A line and its echo are two messages. Sound: every line came back."""
    sent, echoed = record.whole("sent", 1), record.whole("echoed")
    what = (f"{record.text('app')}-echo", record.whole("size", 1), "free", record.whole("repeat"))
    window = record.whole("window_ns", 1)
    figures = {("messages_per_s", ""): 2 * echoed * 1e9 / window, **_counters(record, window)}
    return what, 2 * sent, echoed == sent, figures


def _gin(record: Record) -> tuple[What, int, bool, Figures]:
    """A request and its answer are two messages. Sound: each was answered with status 200.

    Switches and CPU time are the server's in the window and the client's whole life.
    """
    if record.text("variant") == "fastcgi":
        return _in_fastcgi(record)
    requests, window = record.whole("requests", 1), record.whole("window_ns", 1)
    log = "-log" if record.fields.get("log") else ""
    what = (f"gin-{record.text('variant')}{log}", PONG_BYTES, "free", record.whole("repeat"))
    laps = record.object("laps_ns")
    machine = record.object("counters").whole("machine")
    figures: Figures = {
        ("requests_per_s", ""): requests * 1e9 / window,
        ("machine_switches_per_s", ""): machine * 1e9 / window,
        **{("rtt_ns", key): laps.whole(key) for key in ("mean", "p50", "p99")},
        **_counters(record, window),
    }
    return what, 2 * requests, record.whole("answered") == requests, figures


def _in_fastcgi(record: Record) -> tuple[What, int, bool, Figures]:
    """Requests alone are messages. Sound: each was asked."""
    asked, answers = record.whole("asked", 1), record.object("answers")
    protocols = ("fastcgi", "http", "else", "nothing")
    found = {name: answers.whole(name) if name in answers.fields else 0 for name in protocols}
    what = ("gin-fastcgi", PONG_BYTES, "free", record.whole("repeat"))
    figures: Figures = {("answers", name): number for name, number in found.items()}
    return what, asked, sum(found.values()) == asked, figures


def _counters(record: Record, window_ns: int) -> Figures:
    """Of both processes; segments are the whole machine's."""
    counted = record.object("counters")
    switches = {key: counted.whole(key) for key in ("voluntary", "involuntary")}
    return {
        **{("segments", key): counted.whole(key) for key in ("data", "out")},
        **{("switches", key): number for key, number in switches.items()},
        ("switches_per_s", ""): sum(switches.values()) * 1e9 / window_ns,
        **{("cpu_ns", mode): counted.whole(f"{mode}_ns") for mode in ("user", "system")},
    }


FIGURES = {
    **{"redis": _redis, "asyncio": _asyncio, "dotnet": _dotnet},
    **{"go": _echo, "java": _echo, "gin": _gin},
}
