# SPDX-License-Identifier: GPL-2.0-or-later
"""The verbs `watch` and `what-if`: what local connections spend, and what a Unix socket would save.

Root's process starts probes/bcc/pairs.py, which counts. What a message costs on this machine, the
C workload measures once, without probes: the prices are kept in the cache. analysis/predict/ reads
them.
"""

import json
import os
import tempfile
import time
from argparse import Namespace as Options
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any

from probes.messages import PROGRAM, UsageError
from runners.guest.store import read_json, write_json
from runners.host.environment import cpu_model
from runners.host.root import Root
from runners.host.session import Session
from runners.host.workload import private_directory
from runners.process import DONE, WORKLOAD, RunError, attempt, last_line, last_words
from runners.programs.engine import serving
from runners.programs.experiments import interleaved
from runners.programs.place import unpacked
from runners.programs.program import case_of
from runners.store import RunFolder, place, scratch

FORMAT = 2
WATCH, PRICES = "watch.json", "prices.json"
REPEATS = 9
TRANSPORTS = ("unix", "tcp")
SIZES = {64: 6000, 1024: 6000, 8192: 4000, 65536: 1000, 1 << 20: 60}  # → messages
ALONE = "selfecho"  # one process holds both ends: no switch, no wake-up
FITS = 65536  # bytes that a socket holds while nobody reads
CONNECTIONS = 600
COLD = {"pingpong": 1600, ALONE: 1600, "connect": CONNECTIONS}  # → messages
ATTACHING = 5  # seconds: more than the probes take
WATCHED: dict[str, Any] = {"seconds": 3.0, "limit": 5.0, "pid": [], "port": [], "out": None}
TAKES = 20  # seconds, as seen on two cores


def watch(options: Options) -> int:
    """Watch, store, predict: the exit status. It installs nothing. Raises UsageError, RunError."""
    record = options.show == "--record"
    if record and options.prices:
        raise UsageError("--prices has no effect beside --record: give it to report.")
    for pid in options.pid:
        if not Path(f"/proc/{pid}").is_dir():
            raise UsageError(f"there is no process {pid}.")
    destination, session = place(options.out), Session(options)
    root = session.need_root()
    with scratch(session.progress.note) as folders:
        folder = RunFolder(destination, folders)
        stored = {} if record else _set_up(session, "--watch")
        root.mounts()
        with driven(options, session), session.progress.step(f"watching for {options.seconds:g} s"):
            watched = observe(root, options.seconds, options.limit)
        watched["only"] = {"pids": list(options.pid), "ports": list(options.port)}
        write_files(folder.path, stored | {WATCH: watched})
        folder.move()
    again = f"{PROGRAM} report {destination}"
    if record:
        print(f"Recorded. For its page, on any machine: {again}")
        return DONE
    try:
        return _predict(session, "--watch", destination, options.prices)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; what was seen is kept; its page: {again}") from None


def report_watched(options: Options) -> int:
    """Predict from a folder that `watch` has left: the exit status. Raises UsageError, RunError.

    Without prices of its own, it takes this machine's.
    """
    if len(options.runs) > 1:
        raise UsageError("what watch has left cannot be pooled: name one folder.")
    (folder,), session = options.runs, Session(options)
    if options.prices or (folder / PRICES).exists():
        session.set_up_step("--analysis")
        return _predict(session, "--watch", folder, options.prices)
    with tempfile.TemporaryDirectory(prefix="pathcost-") as priced:
        write_files(Path(priced), _set_up(session))
        return _predict(session, "--watch", folder, Path(priced))


def what_if(options: Options) -> int:
    """Predict for a pair that is described: the exit status. Raises UsageError, RunError.

    A program of ours is not described but watched, for a while and at the usual limit.
    """
    if options.program:
        case_of(options.program)
        return watch(Options(**WATCHED, **vars(options)))
    session = Session(options)
    stored = _set_up(session)
    described = {name: getattr(options, name) for name in ("rate", "clients", "connect", "cpus")}
    stored["what-if.json"] = described | {
        "request": options.request or options.size,
        "answer": options.answer or options.size,
        "work_us": float(options.work or 0),
    }
    with tempfile.TemporaryDirectory(prefix="pathcost-") as folder:
        write_files(Path(folder), stored)
        return _predict(session, "--what-if", Path(folder), options.prices)


@contextmanager
def driven(options: Options, session: Session) -> Iterator[None]:
    """A program's client sends over TCP meanwhile, where the options name one. Raises RunError."""
    if "program" not in options:
        yield
        return
    program, case = case_of(options.program)
    session.set_up("--programs")
    packages = unpacked(program, session.invoker.cache, session.progress.say, session.progress.note)
    # The server ends first, and its client with it.
    with ThreadPoolExecutor(1) as pool, serving(program, case, "tcp", packages) as service:
        first = service.drive(case, "tcp")
        if first["error"]:
            raise RunError(f"{program.name}: {first['error']}.")
        part = (options.seconds + ATTACHING) * 1e9 / first["window_ns"]
        pool.submit(service.drive, case, "tcp", round(case.requests * part))
        options.port.append(int(service.place.end("port")))
        yield


def _set_up(session: Session, *words: str) -> dict[str, Any]:
    """Set up; the prices as the file that a prediction reads, unless a run has them."""
    session.set_up_step(*words)
    if session.options.prices:
        return {}
    with session.progress.step("prices"):
        return {PRICES: prices(session.invoker.cache, session.progress.note)}


def observe(root: Root, seconds: float, limit: float) -> dict[str, Any]:
    """What root's program counted. Raises RunError."""
    with tempfile.TemporaryFile() as complaints:
        program = root.start("pairs", [f"{seconds:g}", f"{limit:g}"], stderr=complaints.fileno())
        counted = program.stdout.read()
        if program.wait()[0] != 0:
            why = last_line(complaints).removeprefix("ERROR: ") or "it gave no reason"
            raise RunError(f"this kernel's connections cannot be watched: {why}")
    result: dict[str, Any] = json.loads(counted)
    return result


def write_files(folder: Path, files: dict[str, Any]) -> None:
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _predict(session: Session, verb: str, folder: Path, priced: Path | None) -> int:
    """Let the analysis predict from what the folder holds: its exit status."""
    words = ["--prices", str(priced.resolve())] if priced else []
    return session.analyse(verb, str(folder), *words)


def cells() -> Iterator[tuple[str, int, str, int, bool]]:
    """Pattern, size, placement, number of messages, and whether it is cold, of each cell."""
    for size, messages in SIZES.items():
        yield "pingpong", size, "same-cpu", messages, False
        yield "pingpong", size, "cross-cpu", messages, False
        if size <= FITS:
            yield ALONE, size, "same-cpu", messages, False
    for placement in ("same-cpu", "cross-cpu"):
        yield "connect", 64, placement, CONNECTIONS, False
    for pattern, messages in COLD.items():
        yield pattern, 64, "same-cpu", messages, True


def fingerprint() -> dict[str, Any]:
    """What the prices depend on: they are measured again where any of it changes."""
    uname = os.uname()
    return {
        "kernel": uname.release,
        "version": uname.version,
        "cpu": cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "workload": WORKLOAD.stat().st_size if WORKLOAD.exists() else 0,
        "list": [FORMAT, REPEATS, *SIZES],
    }


def prices(cache: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """The list, from the cache or measured now. Raises RunError."""
    if (listed := kept(cache)) is None:
        say(f"measuring what messages cost on this machine, once: about {TAKES} s")
        listed = measured() | {"fingerprint": fingerprint()}
        with suppress(OSError):  # without a cache they are measured each time
            cache.mkdir(parents=True, exist_ok=True)
            write_json(cache / PRICES, listed)
    return listed


def kept(cache: Path) -> dict[str, Any] | None:
    """The list of this machine as it is, if the cache has it."""
    listed: dict[str, Any] | None = read_json(cache / PRICES)
    return listed if listed and listed["fingerprint"] == fingerprint() else None


def measured() -> dict[str, Any]:
    """Run each cell over both transports, interleaved. Raises RunError."""
    figures: dict[tuple[Any, ...], dict[str, Any]] = {}
    began = time.time()
    for _, (cell, transport) in interleaved(list(product(cells(), TRANSPORTS)), REPEATS):
        pattern, size, placement, messages, cold = cell
        named = {"transport": transport, "pattern": pattern, "size": size, "placement": placement}
        entry = figures.setdefault((transport, *cell), named | {"cold": cold})
        for name, value in _run(named, messages, cold).items():
            entry.setdefault(name, []).append(value)
    return {"format": FORMAT, "measured": round(began), "cells": list(figures.values())}


def _run(named: dict[str, Any], messages: int, cold: bool) -> dict[str, float]:
    options = {**named, "messages": messages, "warmup": max(20, messages // 6 // 2 * 2)}
    with private_directory() as folder:
        words = [f"--{name}={value}" for name, value in (options | {"dir": folder}).items()]
        done = attempt([WORKLOAD, *words, *(["--cold"] if cold else [])])
    if done.returncode != 0:
        raise RunError(f"the prices cannot be measured: {last_words(done.stderr)}")
    result = json.loads(done.stdout)
    rounds = result["round_trips"]
    figures = {"iteration_us": round(result["window_ns"] / 1000 / rounds, 4)}
    for side in ("client", "server"):
        usage = (result[side] or {"rusage": {"user_us": 0.0, "system_us": 0.0}})["rusage"]
        figures[f"{side}_cpu_us"] = (usage["user_us"] + usage["system_us"]) / rounds
    return figures
