# SPDX-License-Identifier: GPL-2.0-or-later
"""Real programs: each line of programs.jsonl, computed again."""

from __future__ import annotations

from typing import Any

from tests.audit.folder import Figure, Figures, Folder, Where

# Bytes of the message that each program sends, where its line has none.
SIZES = {"redis": len("*2\r\n$4\r\nINCR\r\n$3\r\nfoo\r\n"), "gin": len('{"message":"pong"}')}
# They say nothing of an emulated CPU, so the table leaves them out.
TIMES = (
    *("rtt_ns", "message_ns", "send_ns", "path_ns", "path_latency", "program_ns", "cpu_ns"),
    *("messages_per_s", "requests_per_s", "switches_per_s", "machine_switches_per_s"),
    *("task_clock_ns", "server_ns", "address_share", "steal_ns", "others_ns"),
)
Values = dict[tuple[str, str], float]


def figures(folder: Folder) -> Figures:
    """The rows of the tidy table that come from programs.jsonl."""
    found: Figures = {}
    for target in folder.manifest["targets"]:
        for number, line in enumerate(folder.lines(target["folder"], "programs.jsonl"), 1):
            if line["error"] is None:
                found.update(_line(target, number, line))
    return found


def _line(target: dict[str, Any], number: int, line: dict[str, Any]) -> Figures:
    probed = line.get("probed")
    messages, valid, values = KINDS.get(_kind(line), _file)(line)
    parts = [(values, True)]
    if probed:
        parts = [
            (_probed(tool, counts), not probed["lost"][tool] and not probed["calls_missed"])
            for tool, counts in probed["counts"].items()
        ]
        messages = line.get("with_warm_up") or messages
    found: Figures = {}
    for counts, whole in parts:
        for (quantity, key), value in counts.items():
            if quantity in TIMES and not timed(target):
                continue
            where = Where(
                target["kind"], target["kernel"], "bcc" if probed else "program",
                line["transport"], _pattern(line), line.get("size") or SIZES[line["program"]],
                _conditions(line), line["repeat"], number, bool(probed), quantity, key,
            )  # fmt: skip
            found[where] = Figure(
                value, unit(quantity), messages, target["probe_level"], valid and whole
            )
    return found


def timed(target: dict[str, Any]) -> bool:
    """Whether a target's times are times: not a guest's, nor of an emulated CPU."""
    return bool(target["kind"] == "host" and target["accelerator"] != "tcg")


def unit(quantity: str) -> str:
    """The unit that the end of a quantity's name says."""
    for end, name in (("_per_s", "1/s"), ("_ns", "ns"), ("_bytes", "bytes"), ("_khz", "kHz")):
        if quantity.endswith(end):
            return name
    return "count"


def _kind(line: dict[str, Any]) -> str:
    return "fastcgi" if line["variant"] == "fastcgi" else str(line["program"])


def _pattern(line: dict[str, Any]) -> str:
    log = "-log" if line.get("log") else ""
    if _kind(line) not in KINDS:
        return f"{line['program']}/{line['variant']}"
    program = {"asyncio": line.get("loop"), "go": "go", "java": "java"}
    variant = "echo" if line["program"] in ("go", "java") else line["variant"]
    return f"{program.get(line['program'], line['program'])}-{variant}{log}"


def _conditions(line: dict[str, Any]) -> str:
    if line["program"] == "dotnet":
        return "same-cpu"
    usual = ("asyncio", "go", "java", "gin", "fastcgi")
    many = line["program"] not in usual and line["clients"] > 1
    return f"free+{line['clients']}-clients" if many else "free"


def _probed(tool: str, counts: dict[str, dict[str, int]]) -> Values:
    """syscount has the system calls and stacks the causes of wake-ups; `counts` all else."""
    sockets = {("messages", "sent"): ("sends", ""), ("messages", "received"): ("reads", "")}
    return {
        sockets.get((quantity, key), (quantity, key)): value
        for quantity, keys in counts.items()
        if tool != "counts" or quantity not in ("syscalls", "function_calls")
        for key, value in keys.items()
    }


def _counters(line: dict[str, Any], timed: bool = False) -> Values:
    """The kernel's counters; switches a second and CPU time where the window is the counters'."""
    counters = line.get("counters")
    if not counters:
        return {}
    names = (("segments", "data"), ("segments", "out"), ("switches", "voluntary"),
             ("switches", "involuntary"))  # fmt: skip
    found: Values = {name: counters[name[1]] for name in names}
    if timed:
        found["switches_per_s", ""] = (
            (counters["voluntary"] + counters["involuntary"]) / line["window_ns"] * 1e9
        )
        found["cpu_ns", "user"] = counters["user_ns"]
        found["cpu_ns", "system"] = counters["system_ns"]
    return found


def _redis(line: dict[str, Any]) -> tuple[int, bool, Values]:
    requests, seconds = line["requests"], line["window_ns"] / 1e9
    found = _counters(line)
    found["requests_per_s", ""] = requests / seconds
    found["server_ns", ""] = line["server_usec"] * 1000 / requests
    if line.get("address_ns") is not None and line["clients"] == 1:
        found["address_share", ""] = line["address_ns"] * requests / line["window_ns"]
    if None not in line["time_wait"]:
        found["time_wait", ""] = line["time_wait"][1] - line["time_wait"][0]
    return 2 * requests, line["counted"] == requests == line["server_calls"], found


def _asyncio(line: dict[str, Any]) -> tuple[int, bool, Values]:
    found = _counters(line)
    found["messages_per_s", ""] = line["messages"] / line["window_ns"] * 1e9
    for mode in ("user", "system"):
        found["cpu_ns", mode] = 1000 * sum(line[end][f"{mode}_us"] for end in ("client", "server"))
    if line["iterations_ns"]:
        found["rtt_ns", "p50"], found["rtt_ns", "p99"] = line["iterations_ns"]
    return line["messages"], line["sent"] == line["received"], found


def _dotnet(line: dict[str, Any]) -> tuple[int, bool, Values]:
    p50, p99 = line["message_ns"]
    found: Values = {("message_ns", "p50"): p50, ("message_ns", "p99"): p99}
    return line["messages"], line["sent"] == line["received"], found


def _echo(line: dict[str, Any]) -> tuple[int, bool, Values]:
    found = _counters(line, timed=True)
    found["messages_per_s", ""] = 2 * line["echoed"] / line["window_ns"] * 1e9
    return 2 * line["sent"], line["echoed"] == line["sent"], found


def _gin(line: dict[str, Any]) -> tuple[int, bool, Values]:
    found = _counters(line, timed=True)
    found["requests_per_s", ""] = line["requests"] / line["window_ns"] * 1e9
    found.update(
        {
            ("rtt_ns", key): ns
            for key, ns in (line.get("latency_ns") or line["iterations_ns"]).items()
        }
    )
    if line.get("counters"):
        found["machine_switches_per_s", ""] = line["counters"]["machine"] / line["window_ns"] * 1e9
    return 2 * line["requests"], line.get("answered", line["requests"]) == line["requests"], found


def _file(line: dict[str, Any]) -> tuple[int, bool, Values]:
    """A program that a file describes: its server counts as many requests as its client."""
    found = _counters(line, timed=True)
    found["requests_per_s", ""] = line["requests"] / line["window_ns"] * 1e9
    found.update({("rtt_ns", key): ns for key, ns in line["latency_ns"].items()})
    return 2 * line["requests"], line["counted"] in (line["requests"], None), found


def _fastcgi(line: dict[str, Any]) -> tuple[int, bool, Values]:
    names = ("fastcgi", "http", "else", "nothing")
    found: Values = {("answers", name): line["answers"].get(name, 0) for name in names}
    return line["asked"], sum(found.values()) == line["asked"], found


KINDS = {
    **{"redis": _redis, "asyncio": _asyncio, "dotnet": _dotnet, "go": _echo, "java": _echo},
    **{"gin": _gin, "fastcgi": _fastcgi},
}
