# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts cells: runs each from the stored machine, replays its record, writes the results."""

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from runners.exact.cells import ExactCell
from runners.exact.decode.digest import describe, iteration_lines, tree_lines
from runners.exact.decode.iterations import RecordError, ReplayedWindow, replay
from runners.exact.decode.payload import LEAST_SIZE, PayloadFlow, follow
from runners.exact.decode.record import read_record
from runners.exact.machine.boot import boot, digest
from runners.exact.machine.checkpoints import Checkpoints, CountedCell
from runners.exact.machine.guest import ExactGuest, scratch
from runners.exact.machine.symbols import read_symbols
from runners.guest import GuestError

TABLES = ("tree", "iteration")  # of a CountedCell
RECORD = ("trace", "blocks", "tasks")
RUNS = 6  # at most, until two give the same record
# All bytes take the same way, so a prime number of round trips is enough to follow.
PAYLOAD_MESSAGES, PAYLOAD_WARMUP = 46, 400


def count_cells(
    guest: ExactGuest,
    work: Sequence[tuple[ExactGuest, ExactCell]],
    out: Path,
    checkpoints: Checkpoints,
    on_cell: Callable[[int, ExactCell], None],
) -> None:
    """Count every cell and write the folder `out`: see docs/run-folder.md.

    The folder describes `guest`; each cell comes with the guest in which it is counted. As many
    cells run at once as there are processors. The line of a cell that fails has the error, and the
    others go on. Cells in `checkpoints` are not counted again. Raises GuestError.
    """
    for name in TABLES:
        (out / name).mkdir(parents=True)
    environment = json.dumps(guest.environment(), indent=1, ensure_ascii=False) + "\n"
    (out / "environment.json").write_text(environment, encoding="utf-8")
    workers = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(workers) as pool, (out / "cells.jsonl").open("w") as lines:
        try:
            running = [
                pool.submit(checkpoints.get_or_count, cell_guest, cell, count)
                for cell_guest, cell in work
            ]
            for number, ((_, cell), future) in enumerate(zip(work, running, strict=True)):
                on_cell(number, cell)
                result = future.result()
                lines.write(json.dumps(result.line) + "\n")
                for name in TABLES:
                    if text := getattr(result, name):
                        (out / name / f"{cell.id}.tsv").write_text(text, encoding="utf-8")
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def count(guest: ExactGuest, cell: ExactCell) -> CountedCell:
    """Count one cell."""
    line: dict[str, Any] = {**cell.fields(), "error": None}
    try:
        window, result, sha256 = measure(guest, cell)
    except (GuestError, RecordError) as error:
        guest.blame_cache()
        return CountedCell(line | {"error": str(error)}, "", "")
    line |= describe(cell, window, result) | {"record_sha256": sha256, "result": result}
    if payload_is_followed(cell):
        try:
            line["payload"] = _payload_line(cell, follow_payload(guest, cell))
        except (GuestError, RecordError) as error:
            guest.blame_cache()
            line["payload_error"] = str(error)
    tree = tree_lines(window.tree, window.steady.counts)
    return CountedCell(line, "".join(tree), "".join(iteration_lines(window)))


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
    messages = min(cell.messages, PAYLOAD_MESSAGES)
    expected = messages * cell.size
    counters = {name: dict(counter.most_common()) for name, counter in vars(flow).items()}
    copied = {direction: flow.copied[direction] for direction in ("in", "out", "kernel")}
    return {
        "messages": messages,
        **counters,
        "copied": copied,
        "valid": copied["in"] == expected == copied["out"],
    }


def follow_payload(guest: ExactGuest, cell: ExactCell) -> PayloadFlow:
    """Run the cell again with a short window, and follow its payload. Raises GuestError."""
    short = replace(cell, messages=min(cell.messages, PAYLOAD_MESSAGES), warmup=PAYLOAD_WARMUP)
    plugin = guest.plugin | {"memory": "on"}
    with scratch() as folder:
        boot(guest.machine, short.order, folder, plugin, guest.stored)
        return follow(read_record(folder), folder / "accesses", guest.symbols, cell.size)


def measure(
    guest: ExactGuest, cell: ExactCell, *, fresh: bool = False
) -> tuple[ReplayedWindow, dict[str, Any], str]:
    """The replayed window, the workload's result, and the record's sha256.

    The cell runs from the stored machine, or from a `fresh` boot. On two CPUs, about once in thirty
    runs, QEMU skips too far when both are idle (`on_one_cpu`), so there two runs
    must give the same record. Raises GuestError, RecordError.
    """
    seen: set[str] = set()
    for _ in range(RUNS):
        with scratch() as folder:
            sha256 = _record(guest, cell, folder, None if fresh else guest.stored)
            if guest.machine.cpus == 1 or sha256 in seen:
                result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
                # A knob may have brought functions that the stored machine did not have.
                now = folder / "symbols"
                symbols = read_symbols(now) if now.exists() else guest.symbols
                return replay(read_record(folder), symbols, cell.round_trips), result, sha256
        seen.add(sha256)
    raise GuestError(f"no two of {RUNS} runs of the cell executed the same instructions")


def _record(guest: ExactGuest, cell: ExactCell, folder: Path, stored: Path | None) -> str:
    """Run the cell once, into `folder`; the record's sha256. Raises GuestError."""
    boot(guest.machine, cell.order, folder, guest.plugin, stored, guest.files)
    return digest(b"".join((folder / name).read_bytes() for name in RECORD))
