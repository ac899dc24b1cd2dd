# SPDX-License-Identifier: GPL-2.0-or-later
"""The verb `watch`: who talks on this machine, and what a Unix socket would save each pair.

Root's process starts probes/bcc/pairs.py, which counts. analysis/predict/ makes pairs of what it
counted, and predicts by prices (prices.py).
"""

import json
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

from probes.contract import WATCH, Status
from probes.messages import PROGRAM, UsageError
from runners.host.root import Root
from runners.host.session import Session
from runners.options import Options, ReportOptions, WatchOptions
from runners.process import RunError, last_line
from runners.programs.engine import serving
from runners.programs.live import is_live, watch_live
from runners.programs.place import unpacked
from runners.programs.prices import set_up
from runners.programs.program import case_of
from runners.store.folders import scratch
from runners.store.report import RunFolder, place

FOR_EVER, NOT_LIVE_SECONDS = 0.0, 10.0  # without SECONDS: on a terminal, or elsewhere
ATTACHING = 5  # seconds: more than the probes take on an idle machine
# Where a program of ours is watched
USUAL_SECONDS, USUAL_LIMIT = 3.0, 5.0


def watch(options: WatchOptions, program: str | None = None) -> int:
    """Watch, store, predict: the exit status. It installs nothing. Raises UsageError, RunError.

    A `program` of ours is started, and sends meanwhile.
    """
    record = options.show == "record"
    if record and options.prices:
        raise UsageError("--prices has no effect beside --record: give it to report.")
    for pid in options.pid:
        if not Path(f"/proc/{pid}").is_dir():
            raise UsageError(f"there is no process {pid}.")
    if options.seconds == FOR_EVER and program is None:
        if is_live(options):
            return watch_live(options)
        options = replace(options, seconds=NOT_LIVE_SECONDS)
    destination, session = place(options.out), Session(options)
    root = session.need_root()
    session.tell_of_times()
    with scratch(session.progress.note) as folders:
        folder = RunFolder(destination, folders)
        stored = {} if record else set_up(session, options.prices, "--watch")
        root.mounts()
        with ExitStack() as stack:
            ports = list(options.port)
            if program:
                ports.append(stack.enter_context(driven(session, program, options.seconds)))
            stack.enter_context(session.progress.step(f"watching for {options.seconds:g} s"))
            watched = observe(root, options.seconds, options.limit)
        watched["only"] = {"pids": list(options.pid), "ports": ports}
        write_files(folder.path, stored | {WATCH: watched})
        folder.move()
    again = f"{PROGRAM} report {destination}"
    if record:
        print(f"Recorded. For its page, on any machine: {again}")
        return Status.DONE
    from analysis.predict.show import show_watch

    try:
        show_watch(destination, options.prices or destination, options.show)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; what was seen is kept; its page: {again}") from None
    return Status.DONE


def report_with_own_prices(options: ReportOptions, folder: Path) -> int:
    """Predict, by this machine's prices, from a folder that `watch` has left: the exit status."""
    with tempfile.TemporaryDirectory(prefix="pathcost-") as priced:
        write_files(Path(priced), set_up(Session(options), None))
        from analysis.predict.show import show_watch

        show_watch(folder, Path(priced), options.show)
    return Status.DONE


@contextmanager
def driven(session: Session[Options], name: str, seconds: float) -> Iterator[int]:
    """Have a program's client send over TCP in the block; yield the port. Raises RunError.

    It begins anew if it ends before: on a busy machine the probes take long to attach.
    """
    program, case = case_of(name)
    session.set_up("--programs")
    packages = unpacked(program, session.invoker.cache, session.progress.say, session.progress.note)
    # The server ends first, and its client with it.
    with ThreadPoolExecutor(1) as pool, serving(program, case, "tcp", packages) as service:
        first = service.drive(case, "tcp")
        if first["error"]:
            raise RunError(f"{program.name}: {first['error']}.")
        requests = round(case.requests * (seconds + ATTACHING) * 1e9 / first["window_ns"])
        watched = Event()

        def send() -> None:
            while not watched.is_set() and not service.drive(case, "tcp", requests)["error"]:
                pass

        pool.submit(send)
        try:
            yield int(service.place.end("port"))
        finally:
            watched.set()


def observe(root: Root, seconds: float, limit: float) -> dict[str, Any]:
    """What root's program counted. Raises RunError."""
    with tempfile.TemporaryFile() as complaints:
        words = [f"{seconds:g}", f"{limit:g}", "0"]
        program = root.start("pairs", words, stderr=complaints.fileno())
        counted = program.stdout.read()
        if program.wait()[0] != 0:
            why = last_line(complaints).removeprefix("ERROR: ") or "it gave no reason"
            raise RunError(f"this kernel's connections cannot be watched: {why}")
    result: dict[str, Any] = json.loads(counted)
    return result


def write_files(folder: Path, files: dict[str, Any]) -> None:
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
