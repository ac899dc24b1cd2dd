# SPDX-License-Identifier: GPL-2.0-or-later
"""What the articles' own programs did: raw/host/apps.jsonl → rows of the tidy table."""

from collections.abc import Iterator
from typing import Any

from analysis.counts.quantities import TIMES, unit_of
from analysis.errors import RunError
from analysis.raw.record import AGAIN, Record, parse_object, read_text
from analysis.raw.run import Lane, Missing, Run

FILE = "apps.jsonl"
INSTRUMENT = "app"
PROBES = "bcc"  # which counts in runs of their own
# Counted by another tool as well, or better.
IN_ANOTHER = {("counts", "syscalls"), ("counts", "function_calls")}
# A program's messages are what its author calls so; these are sends and reads of its sockets.
RENAMED = {("messages", "sent"): ("sends", ""), ("messages", "received"): ("reads", "")}
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
    if app not in FIGURES:
        raise RunError(
            f"{record.name}: there is no app '{app}', so its figures cannot be read. {AGAIN}"
        )
    what, messages, sound, figures = FIGURES[app](record)
    probed = "probed" in record.fields
    instrument = PROBES if probed else INSTRUMENT
    where = (run.name, lane.lane, lane.kernel, lane.rung, instrument, record.text("transport"))
    rows = _probed(record) if probed else [(figures, True)]
    if probed and "with_warm_up" in record.fields:  # a client that was watched from its start
        messages = record.whole("with_warm_up", 1)
    for found, whole in rows:
        for (quantity, key), value in found.items():
            if quantity in TIMES and not lane.timed:
                continue  # of an emulated CPU
            figure = (probed, quantity, key, value, unit_of(quantity), messages, sound and whole)
            yield (*where, *what, number, *figure)


def _probed(record: Record) -> Iterator[tuple["Figures", bool]]:
    """What each tool counted of the client, the server, their threads and children; and whether it
    lost nothing. Times of such a run are none.

    Calls are counted by syscount, by name; sends and reads that brought something by counts.
    """
    watched = record.object("probed")
    lost, counts = watched.object("lost"), watched.object("counts")
    calls_missed = watched.fields.get("calls_missed") or 0
    for tool in counts.fields:
        found: Figures = {}
        quantities = counts.object(tool)
        for quantity in quantities.fields:
            keys = quantities.object(quantity)
            if (tool, quantity) not in IN_ANOTHER:
                found |= {
                    RENAMED.get((quantity, key), (quantity, key)): float(keys.whole(key))
                    for key in keys.fields
                }
        yield found, not lost.whole(tool) and not calls_missed


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
    figures |= _segments_and_switches(record)
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
    figures |= _segments_and_switches(record)
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
    figures: Figures = {
        ("requests_per_s", ""): requests * 1e9 / window,
        **{("rtt_ns", key): laps.whole(key) for key in ("mean", "p50", "p99")},
        **_counters(record, window),
    }
    if "counters" in record.fields:
        machine = record.object("counters").whole("machine")
        figures["machine_switches_per_s", ""] = machine * 1e9 / window
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
    if "counters" not in record.fields:
        return {}
    counted, figures = record.object("counters"), _segments_and_switches(record)
    switches = figures["switches", "voluntary"] + figures["switches", "involuntary"]
    return {
        **figures,
        ("switches_per_s", ""): switches * 1e9 / window_ns,
        **{("cpu_ns", mode): counted.whole(f"{mode}_ns") for mode in ("user", "system")},
    }


def _segments_and_switches(record: Record) -> Figures:
    if "counters" not in record.fields:
        return {}
    counted = record.object("counters")
    return {
        **{("segments", key): counted.whole(key) for key in ("data", "out")},
        **{("switches", key): counted.whole(key) for key in ("voluntary", "involuntary")},
    }


FIGURES = {
    **{"redis": _redis, "asyncio": _asyncio, "dotnet": _dotnet},
    **{"go": _echo, "java": _echo, "gin": _gin},
}
