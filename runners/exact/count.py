# SPDX-License-Identifier: GPL-2.0-or-later
"""Cells counted: each from the stored machine, its record replayed, what it says kept."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from runners.exact.boot import boot
from runners.exact.cells import ExactCell
from runners.exact.digest import describe, lap_lines, tree_lines
from runners.exact.kept import Kept, Result
from runners.exact.lane import BOOT_SECONDS, Guest, scratch
from runners.exact.laps import RecordError, Window, replay
from runners.exact.payload import LEAST_SIZE, Payload, follow
from runners.exact.record import read_record
from runners.exact.symbols import read_symbols
from runners.guest import GuestError
from runners.guest.machine import User

RECORD = ("trace", "blocks", "tasks")
RUNS = 6  # at most, until two are alike
# Every byte takes the same way, so a prime number of round trips is enough to follow.
PAYLOAD_MESSAGES, PAYLOAD_WARMUP = 46, 400

OnCell = Callable[[int, ExactCell], None]


def count_cells(
    guest: Guest,
    work: Sequence[tuple[Guest, ExactCell]],
    out: Path,
    kept: Kept,
    user: User | None = None,
    on_cell: OnCell = lambda _number, _cell: None,
) -> None:
    """Count every cell and write the lane's folder `out`: see docs/run-folder.md.

    `guest` is what the folder describes; each cell comes with the guest to count it in. As many
    at once as there are processors. A cell that fails says so in its line; the others go on.
    What `kept` holds is not counted again. Raises GuestError.
    """
    for name in ("tree", "lap"):
        (out / name).mkdir(parents=True)
    _write_json(out / "environment.json", guest.environment())
    workers = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(workers) as pool, (out / "cells.jsonl").open("w") as lines:
        try:
            running = [pool.submit(kept.get_or_count, *one, user, count) for one in work]
            for number, ((_, cell), future) in enumerate(zip(work, running, strict=True)):
                on_cell(number, cell)
                result = future.result()
                lines.write(json.dumps(result.line) + "\n")
                if result.tree:
                    (out / f"tree/{cell.id}.tsv").write_text(result.tree, encoding="utf-8")
                    (out / f"lap/{cell.id}.tsv").write_text(result.lap, encoding="utf-8")
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def count(guest: Guest, cell: ExactCell, user: User | None = None) -> Result:
    """One cell: its line of cells.jsonl, its call tree, its steady lap."""
    line: dict[str, Any] = {**cell.fields(), "error": None}
    try:
        window, result, digest = measure(guest, cell, user)
    except (GuestError, RecordError) as error:
        return Result(line | {"error": str(error)}, "", "")
    line |= describe(cell, window, result) | {"record_sha256": digest, "result": result}
    if payload_is_followed(cell):
        try:
            line["payload"] = _payload_line(cell, follow_payload(guest, cell, user))
        except (GuestError, RecordError) as error:
            line["payload_error"] = str(error)
    tree = tree_lines(window.tree, window.steady.counts)
    return Result(line, "".join(tree), "".join(lap_lines(window)))


def payload_is_followed(cell: ExactCell) -> bool:
    """Whether it can be, and would tell more than another cell's: it hangs on no scheduler.

    The follower knows the registers of one CPU.
    """
    return (
        not cell.knob.name
        and cell.scheduling == "fifo"
        and cell.cpus == 1
        and cell.size >= LEAST_SIZE
    )


def _payload_line(cell: ExactCell, payload: Payload) -> dict[str, Any]:
    messages = min(cell.messages, PAYLOAD_MESSAGES)
    expected = messages * cell.size
    return {
        "messages": messages,
        "copied": {way: payload.copied[way] for way in ("in", "out", "kernel")},
        "copiers": dict(payload.copiers.most_common()),
        "readers": dict(payload.readers.most_common()),
        "loaded": dict(payload.loaded.most_common()),
        "stored": dict(payload.stored.most_common()),
        "sound": payload.copied["in"] == expected == payload.copied["out"],
    }


def follow_payload(guest: Guest, cell: ExactCell, user: User | None = None) -> Payload:
    """Where the payload goes: a short window of its own. Raises GuestError."""
    short = replace(cell, messages=min(cell.messages, PAYLOAD_MESSAGES), warmup=PAYLOAD_WARMUP)
    plugin = guest.plugin | {"memory": "on"}
    with scratch(user) as folder:
        boot(guest.machine, short.order, folder, plugin, BOOT_SECONDS, guest.stored, user)
        return follow(read_record(folder), folder / "accesses", guest.symbols, cell.size)


def measure(
    guest: Guest, cell: ExactCell, user: User | None = None, *, fresh: bool = False
) -> tuple[Window, dict[str, Any], str]:
    """The replayed window, the workload's result, and the record's sha256.

    From the stored machine, or from a `fresh` boot. On two CPUs once in some thirty runs QEMU skips
    too far when both idle (runners.exact.one_cpu), so there two runs must give one record.
    Raises GuestError, RecordError.
    """
    seen: set[str] = set()
    for _ in range(RUNS):
        with scratch(user) as folder:
            digest = _record(guest, cell, folder, user, None if fresh else guest.stored)
            if guest.machine.cpus == 1 or digest in seen:
                result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
                # A knob may have brought functions that the stored machine did not have.
                now = folder / "symbols"
                symbols = read_symbols(now) if now.exists() else guest.symbols
                return replay(read_record(folder), symbols, cell.round_trips), result, digest
        seen.add(digest)
    raise GuestError(f"no two of {RUNS} runs of the cell executed the same instructions")


def _record(
    guest: Guest, cell: ExactCell, folder: Path, user: User | None, stored: Path | None
) -> str:
    """Run it once, into `folder`; the record's sha256. Raises GuestError."""
    boot(guest.machine, cell.order, folder, guest.plugin, BOOT_SECONDS, stored, user, guest.files)
    digest = hashlib.sha256()
    for name in RECORD:
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
