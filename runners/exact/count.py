# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts cells: runs each from the stored machine, replays its record, writes the results."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from probes import isa
from probes.cell import ONE_WAY, Cell, CellRun
from probes.contract import CELLS, ENVIRONMENT
from probes.transports import DIRECTIONS
from runners.exact.cells import FACTORS, cpus_of, iterations_of, order, path_of
from runners.exact.digest import describe, iteration_lines, tree_lines
from runners.exact.guest import ExactGuest
from runners.exact.iterations import RecordError, ReplayedWindow, replay
from runners.exact.layouts import LayoutStudy
from runners.exact.line_files import write_lines
from runners.exact.machine import PLUGIN, RefusedError, digest, scratch
from runners.exact.payload import LEAST_SIZE, PayloadFlow, follow
from runners.exact.record import read_record
from runners.guest.store import suspect
from runners.process import RunError, stopping

RECORD = ("trace", "blocks", "tasks")
RUNS = 6  # at most, until two give the same steady iteration
# All bytes take the same way, so a prime number of round trips is enough to follow.
PAYLOAD_MESSAGES, PAYLOAD_WARMUP = 46, 400
# What a line of cells.jsonl has of a knob.
KNOB_FIELDS = ("name", "what", "one", "number", "event", "cpu")


def code_digest() -> str:
    """Return the digest of the recorder, and our own code."""
    folders = [Path(__file__).parent, Path(isa.__file__).parent]
    sources = [PLUGIN, *(path for folder in folders for path in sorted(folder.glob("*.py")))]
    return digest(b"".join(path.read_bytes() for path in sources))


def count_cells(
    guest: ExactGuest,
    work: Sequence[tuple[ExactGuest, CellRun]],
    out: Path,
    on_cell: Callable[[int, Cell], None],
    named: Mapping[CellRun, ExactGuest] = MappingProxyType({}),
    layouts: LayoutStudy | None = None,
) -> dict[CellRun, str]:
    """Count every cell and write the folder `out`: see docs/run-folder.md.

    Returns the cells that cannot be run, each with the reason. They have no line.

    The folder describes `guest`; each cell comes with the guest in which it is counted, and with
    the `named` one in which its cache lines are, if they are to be counted; `layouts`
    replays those with other layouts. As many
    cells run at once as there are processors. The line of a cell that fails has the error, and the
    others go on. Raises RunError.
    """
    refused: dict[CellRun, str] = {}
    for name in ("tree", "iteration"):
        (out / name).mkdir(parents=True)
    environment = json.dumps(guest.environment(), indent=1, ensure_ascii=False) + "\n"
    (out / ENVIRONMENT).write_text(environment, encoding="utf-8")
    # What brings most files takes longest: at the end nobody shall wait for it.
    work = sorted(work, key=lambda pair: (-len(pair[0].files), pair[1].id))
    lines: dict[int, str] = {}
    workers = len(os.sched_getaffinity(0)) + 2  # that many are in QEMU while two replay
    with ThreadPoolExecutor(workers) as pool:
        try:
            running = [pool.submit(count, *pair, out, named.get(pair[1]), layouts) for pair in work]
            for number, ((_, run), future) in enumerate(zip(work, running, strict=True)):
                on_cell(number, run.cell)
                try:
                    lines[run.id] = json.dumps(future.result()) + "\n"
                except RefusedError as error:
                    refused[run] = str(error)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                stopping.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    text = "".join(lines[number] for number in sorted(lines))
    (out / CELLS).write_text(text, encoding="utf-8")
    return refused


def count(
    guest: ExactGuest,
    run: CellRun,
    out: Path,
    named: ExactGuest | None = None,
    layouts: LayoutStudy | None = None,
) -> dict[str, Any]:
    """Count one cell: its line of cells.jsonl. Its trees go to `out`. Raises RefusedError."""
    cell, knob = run.cell, guest.knob
    changed = {name: getattr(knob, name) for name in KNOB_FIELDS} if knob.name else None
    factors = {name: getattr(cell, name) for name in (*FACTORS, "sched")}
    line: dict[str, Any] = {"id": run.id, **factors, "knob": changed, "error": None}
    try:
        window, result, records = measure(guest, run)
    except RefusedError:
        raise
    except (RunError, RecordError) as error:
        suspect(guest.stored.parent)
        return line | {"error": str(error)}
    tree, iteration = tree_lines(window.tree, window.steady.counts), iteration_lines(window)
    (out / "tree" / f"{run.id}.tsv").write_text("".join(tree), encoding="utf-8")
    (out / "iteration" / f"{run.id}.tsv").write_text("".join(iteration), encoding="utf-8")
    line |= describe(cell, window, result, knob)
    differing = sum(record != records[-1] for record in records)  # from the last, which is reported
    line |= {"record_sha256": records[-1], "records": [len(records), differing], "result": result}
    if payload_is_followed(cell):
        try:
            line["payload"] = _payload_line(cell, follow_payload(guest, run))
        except (RunError, RecordError) as error:
            suspect(guest.stored.parent)
            line["payload_error"] = str(error)
    if named:
        try:
            line["lines"] = write_lines(named, run, out, layouts)
        except (RunError, RecordError) as error:
            suspect(named.stored.parent)
            line["lines_error"] = str(error)
    return line


def payload_is_followed(cell: Cell) -> bool:
    """Return whether payload can be followed in this cell and differs from that of the other cells.

    It does not depend on the scheduler. The follower knows the registers of one CPU.
    """
    plain = not cell.knob and cell.sched == "fifo"
    return plain and cpus_of(cell) == 1 and cell.size >= LEAST_SIZE


def _payload_line(cell: Cell, flow: PayloadFlow) -> dict[str, Any]:
    path, messages = path_of(cell), cell.shortened(PAYLOAD_MESSAGES).messages
    counters = {name: dict(counter.most_common()) for name, counter in vars(flow).items()}
    copied = {way: flow.copied[way] for way in DIRECTIONS}
    times = {way: path.times_copied(way) * path.legs for way in DIRECTIONS}
    valid = all(copied[way] == times[way] * messages * cell.size for way in DIRECTIONS)
    return {"messages": messages, **counters, "copied": copied, "valid": valid}


def follow_payload(guest: ExactGuest, run: CellRun) -> PayloadFlow:
    """Run the cell again with a short window, and follow its payload. Raises RunError."""
    short = replace(run, cell=run.cell.shortened(PAYLOAD_MESSAGES, PAYLOAD_WARMUP))
    with scratch() as folder:
        guest.boot(order(short, guest.steps), folder, guest.stored, {"memory": "on"})
        return follow(
            read_record(folder, guest.machine.isa),
            folder / "accesses",
            guest.symbols_in(folder),
            short.cell.size,
            one_way=run.cell.pattern in ONE_WAY,
        )


def measure(
    guest: ExactGuest, run: CellRun, *, fresh: bool = False
) -> tuple[ReplayedWindow, dict[str, Any], tuple[str, ...]]:
    """Return the replayed window, the workload's result, and the digest of each run's record.

    The cell runs from the stored machine, or from a `fresh` boot. On two CPUs, two runs must give
    the same steady iteration: if QEMU looks at its clock as the last CPU halts, before it has
    counted that CPU's instructions, it skips too far (icount_start_warp_timer). Raises RunError,
    RecordError.
    """
    records: list[str] = []
    replayed: dict[str, ReplayedWindow] = {}  # by record
    steady: set[str] = set()
    for _ in range(RUNS):
        with scratch() as folder:
            guest.boot(order(run, guest.steps), folder, None if fresh else guest.stored)
            record = digest(b"".join((folder / name).read_bytes() for name in RECORD))
            if record not in replayed:
                replayed[record] = replay_record(guest, run, folder)
            result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        records.append(record)
        window = replayed[record]
        tree = "".join(tree_lines(window.tree, window.steady.counts))
        if guest.machine.cpus == 1 or tree in steady:
            return window, result, tuple(records)
        steady.add(tree)
    raise RunError(f"no two of {RUNS} runs of the cell had the same steady iteration")


def replay_record(guest: ExactGuest, run: CellRun, folder: Path) -> ReplayedWindow:
    """Replay what a run of the cell recorded in `folder`. Raises RecordError."""
    return replay(
        read_record(folder, guest.machine.isa),
        guest.symbols_in(folder),
        iterations_of(run.cell),
        one_way=run.cell.pattern in ONE_WAY,
    )
