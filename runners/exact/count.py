# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts cells: runs each from the stored machine, replays its record, writes the results."""

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from probes.paths import DIRECTIONS
from runners.exact.cells import ExactCell
from runners.exact.decode.digest import describe, iteration_lines, steady_lines
from runners.exact.decode.iterations import RecordError, ReplayedWindow, replay
from runners.exact.decode.payload import LEAST_SIZE, PayloadFlow, follow
from runners.exact.decode.record import read_record
from runners.exact.machine.boot import RefusedError, boot, digest
from runners.exact.machine.checkpoints import Checkpoints, CountedCell
from runners.exact.machine.guest import ExactGuest, scratch
from runners.exact.machine.symbols import Symbols, read_symbols
from runners.process import RunError

TABLES = ("tree", "iteration")  # of a CountedCell
RECORD = ("trace", "blocks", "tasks")
RUNS = 6  # at most, until two give the same steady iteration
# All bytes take the same way, so a prime number of round trips is enough to follow.
PAYLOAD_MESSAGES, PAYLOAD_WARMUP = 46, 400


def count_cells(
    guest: ExactGuest,
    work: Sequence[tuple[ExactGuest, ExactCell]],
    out: Path,
    checkpoints: Checkpoints,
    on_cell: Callable[[int, ExactCell], None],
) -> dict[ExactCell, str]:
    """Count every cell and write the folder `out`: see docs/run-folder.md.

    Returns the cells that cannot be run, each with the reason. They have no line.

    The folder describes `guest`; each cell comes with the guest in which it is counted. As many
    cells run at once as there are processors. The line of a cell that fails has the error, and the
    others go on. Cells in `checkpoints` are not counted again. Raises RunError.
    """
    refused: dict[ExactCell, str] = {}
    for name in TABLES:
        (out / name).mkdir(parents=True)
    environment = json.dumps(guest.environment(), indent=1, ensure_ascii=False) + "\n"
    (out / "environment.json").write_text(environment, encoding="utf-8")
    # What brings most files takes longest: at the end nobody shall wait for it.
    work = sorted(work, key=lambda one: (-len(one[0].files), one[1].id))
    lines: dict[int, str] = {}
    workers = len(os.sched_getaffinity(0)) + 2  # that many are in QEMU while two replay
    with ThreadPoolExecutor(workers) as pool:
        try:
            running = [
                pool.submit(checkpoints.get_or_count, cell_guest, cell, count)
                for cell_guest, cell in work
            ]
            for number, ((_, cell), future) in enumerate(zip(work, running, strict=True)):
                on_cell(number, cell)
                result = future.result()
                if result.refused:
                    refused[cell] = result.refused
                    continue
                lines[cell.id] = json.dumps(result.line) + "\n"
                for name in TABLES:
                    if text := getattr(result, name):
                        (out / name / f"{cell.id}.tsv").write_text(text, encoding="utf-8")
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    text = "".join(lines[number] for number in sorted(lines))
    (out / "cells.jsonl").write_text(text, encoding="utf-8")
    return refused


def count(guest: ExactGuest, cell: ExactCell) -> CountedCell:
    """Count one cell."""
    line: dict[str, Any] = {**cell.fields(), "error": None}
    try:
        window, result, runs = measure(guest, cell)
    except RefusedError as error:
        return CountedCell(line, "", "", str(error))
    except (RunError, RecordError) as error:
        guest.blame_cache()
        return CountedCell(line | {"error": str(error)}, "", "")
    line |= describe(cell, window, result) | runs.fields() | {"result": result}
    if payload_is_followed(cell):
        try:
            line["payload"] = _payload_line(cell, follow_payload(guest, cell))
        except (RunError, RecordError) as error:
            guest.blame_cache()
            line["payload_error"] = str(error)
    return CountedCell(line, "".join(steady_lines(window)), "".join(iteration_lines(window)))


def payload_is_followed(cell: ExactCell) -> bool:
    """Whether payload can be followed in this cell and differs from that of the other cells.

    It does not depend on the scheduler. The follower knows the registers of one CPU.
    """
    return (
        not cell.knob.name
        and cell.scheduling == "fifo"
        and cell.cpus == 1
        and cell.size >= LEAST_SIZE
    )


def _payload_line(cell: ExactCell, flow: PayloadFlow) -> dict[str, Any]:
    messages = _shortened(cell).messages
    expected = messages * cell.size
    counters = {name: dict(counter.most_common()) for name, counter in vars(flow).items()}
    copied = {direction: flow.copied[direction] for direction in DIRECTIONS}
    legs = cell.path.legs
    times = {direction: cell.path.times_copied(direction) * legs for direction in DIRECTIONS}
    return {
        "messages": messages,
        **counters,
        "copied": copied,
        "valid": all(copied[way] == times[way] * expected for way in DIRECTIONS),
    }


def _shortened(cell: ExactCell) -> ExactCell:
    """The cell with as few messages as following them needs, in whole iterations."""
    each = cell.messages // cell.iterations
    fewest = max(each, PAYLOAD_MESSAGES // each * each)
    return replace(cell, messages=min(cell.messages, fewest), warmup=PAYLOAD_WARMUP // each * each)


def follow_payload(guest: ExactGuest, cell: ExactCell) -> PayloadFlow:
    """Run the cell again with a short window, and follow its payload. Raises RunError."""
    short = _shortened(cell)
    plugin = guest.plugin | {"memory": "on"}
    with scratch() as folder:
        boot(guest.machine, short.order, folder, plugin, guest.stored, guest.files)
        record, symbols = read_record(folder), _symbols(guest, folder)
        accesses, size = folder / "accesses", cell.size
        return follow(record, accesses, symbols, size, one_way=cell.one_way)


@dataclass(frozen=True)
class Runs:
    """The digests of a cell's records, run by run; the last run is the one that is reported."""

    records: tuple[str, ...]

    def fields(self) -> dict[str, Any]:
        """What the cell's line says of them."""
        return {"record_sha256": self.records[-1], "records": [len(self.records), self.differing]}

    @property
    def differing(self) -> int:
        """How many of the records are not as the last one."""
        return sum(digest != self.records[-1] for digest in self.records)


def measure(
    guest: ExactGuest, cell: ExactCell, *, fresh: bool = False
) -> tuple[ReplayedWindow, dict[str, Any], Runs]:
    """The replayed window, the workload's result, and how often the cell was run.

    The cell runs from the stored machine, or from a `fresh` boot. On two CPUs, about once in thirty
    runs, QEMU skips too far when both are idle (`on_one_cpu`), so there two runs must give the same
    steady iteration. Raises RunError, RecordError.
    """
    records: list[str] = []
    replayed: dict[str, ReplayedWindow] = {}  # by record
    steady: set[str] = set()
    for _ in range(RUNS):
        with scratch() as folder:
            record = _record(guest, cell, folder, None if fresh else guest.stored)
            if record not in replayed:
                replayed[record] = _replay(guest, cell, folder)
            result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        records.append(record)
        window = replayed[record]
        tree = "".join(steady_lines(window))
        if guest.machine.cpus == 1 or tree in steady:
            return window, result, Runs(tuple(records))
        steady.add(tree)
    raise RunError(f"no two of {RUNS} runs of the cell had the same steady iteration")


def _replay(guest: ExactGuest, cell: ExactCell, folder: Path) -> ReplayedWindow:
    symbols = _symbols(guest, folder)
    return replay(read_record(folder), symbols, cell.iterations, one_way=cell.one_way)


def _symbols(guest: ExactGuest, folder: Path) -> Symbols:
    """A knob may have brought functions that the stored machine does not have."""
    now = folder / "symbols"
    return read_symbols(now) if now.exists() else guest.symbols


def _record(guest: ExactGuest, cell: ExactCell, folder: Path, stored: Path | None) -> str:
    """Run the cell once, into `folder`; the record's sha256. Raises RunError."""
    boot(guest.machine, cell.order, folder, guest.plugin, stored, guest.files)
    return digest(b"".join((folder / name).read_bytes() for name in RECORD))
