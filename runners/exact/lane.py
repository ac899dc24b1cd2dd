# SPDX-License-Identifier: GPL-2.0-or-later
"""One kernel's exact cells: boot each, replay its record, keep what it says."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runners.exact.boot import KERNEL_OPTIONS, MACHINE, Machine, boot, programs
from runners.exact.cells import Cell
from runners.exact.digest import describe, tree_lines
from runners.exact.laps import RecordError, Window, replay
from runners.exact.payload import LEAST_SIZE, Payload, follow
from runners.exact.record import read_record
from runners.exact.symbols import Symbols, read_symbols
from runners.guest import GuestError
from runners.guest.cache import Cache, Say
from runners.guest.kernels import prepare_kernel
from runners.guest.machine import User
from runners.guest.qemu import prepare_qemu
from runners.guest.workshop import workshop

BOOT_SECONDS = 300
RECORD = ("trace", "blocks", "tasks")
SWITCH = "__switch_to_asm"
# Every byte takes the same way, so a prime number of round trips is enough to follow.
PAYLOAD_MESSAGES, PAYLOAD_WARMUP = 46, 400


@dataclass(frozen=True)
class Guest:
    """A kernel that is ready to be counted. `version` is what its /proc/version says."""

    machine: Machine
    symbols: Symbols
    version: str

    @property
    def plugin(self) -> dict[str, str]:
        """What the recorder has to know of this kernel. Raises GuestError."""
        try:
            start, end = self.symbols.extent(SWITCH)
        except KeyError:
            raise GuestError(
                f"the kernel names no {SWITCH}, so its tasks cannot be told apart"
            ) from None
        return {"switch": f"{start:x}", "switch_end": f"{end:x}"}

    def environment(self) -> dict[str, Any]:
        """environment.json."""
        kernel = self.machine.kernel
        return {
            "kernel": kernel.release,
            "version": self.version,
            "package": kernel.version,
            "qemu": self.machine.qemu.version,
            "cpu": self.machine.cpu,
            "machine": list(MACHINE),
            "command_line": f"{KERNEL_OPTIONS} {self.machine.knobs}".strip(),
            "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in programs().items()},
        }


def prepare(cache: Path, kernel: str, say: Say, user: User | None = None) -> Guest:
    """QEMU, the kernel and its symbols, from the cache or made there. Raises GuestError."""
    with Cache(cache, say) as store, workshop(store) as shop:
        qemu = prepare_qemu(store, shop)
        machine = Machine(qemu, prepare_kernel(store, shop, qemu, kernel))

        def read_once(partial: Path) -> dict[str, object]:
            say(f"exact: reading the symbols of {machine.kernel.release}")
            with _scratch(user) as folder:
                boot(machine, ["symbols"], folder, {}, BOOT_SECONDS, user=user)
                for name in ("symbols", "version"):
                    shutil.copyfile(folder / name, partial / name)
            return {"kernel": machine.kernel.release}

        # Addresses hang on the kernel and on its options alone.
        recipe = {"version": 1, "kernel": machine.kernel.key, "options": KERNEL_OPTIONS}
        entry = store.entry("symbols", recipe, read_once)
        version = (entry / "version").read_text(encoding="utf-8").strip()
        return Guest(machine, read_symbols(entry / "symbols"), version)


@contextmanager
def _scratch(user: User | None) -> Iterator[Path]:
    """A folder that the recorder may write to, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="pathcost-exact-") as name:
        if user is not None:
            os.chown(name, *user)
        yield Path(name)


def run_cells(
    guest: Guest,
    cells: Sequence[Cell],
    out: Path,
    user: User | None = None,
    on_cell: Callable[[int, Cell], None] = lambda _number, _cell: None,
) -> None:
    """Run every cell and write the lane's folder `out`: see docs/run-folder.md.

    A cell that fails says so in its line; the others go on. Raises GuestError.
    """
    (out / "tree").mkdir(parents=True)
    _write_json(out / "environment.json", guest.environment())
    with (out / "cells.jsonl").open("w", encoding="utf-8") as lines:
        for number, cell in enumerate(cells):
            on_cell(number, cell)
            lines.write(json.dumps(_run_cell(guest, cell, out, user)) + "\n")
            lines.flush()


def _run_cell(guest: Guest, cell: Cell, out: Path, user: User | None) -> dict[str, Any]:
    line: dict[str, Any] = {**cell.fields(), "error": None}
    try:
        window, result, digest = measure(guest, cell, user)
    except (GuestError, RecordError) as error:
        return line | {"error": str(error)}
    tree = "".join(tree_lines(window.tree, window.steady.counts))
    (out / f"tree/{cell.id}.tsv").write_text(tree, encoding="utf-8")
    line |= describe(cell, window, result) | {"record_sha256": digest, "result": result}
    if cell.scheduling == "fifo" and cell.size >= LEAST_SIZE:
        try:
            line["payload"] = _payload_line(cell, follow_payload(guest, cell, user))
        except (GuestError, RecordError) as error:
            line["payload_error"] = str(error)
    return line


def _payload_line(cell: Cell, payload: Payload) -> dict[str, Any]:
    messages = min(cell.messages, PAYLOAD_MESSAGES)
    expected = messages * cell.size
    return {
        "messages": messages,
        "copied": {way: payload.copied[way] for way in ("in", "out", "kernel")},
        "copiers": dict(payload.copiers.most_common()),
        "readers": dict(payload.readers.most_common()),
        "sound": payload.copied["in"] == expected == payload.copied["out"],
    }


def follow_payload(guest: Guest, cell: Cell, user: User | None = None) -> Payload:
    """Where the payload goes: a boot of its own, with a short window. Raises GuestError."""
    short = replace(cell, messages=min(cell.messages, PAYLOAD_MESSAGES), warmup=PAYLOAD_WARMUP)
    with _scratch(user) as folder:
        plugin = guest.plugin | {"memory": "on"}
        boot(guest.machine, short.order, folder, plugin, BOOT_SECONDS, user=user)
        return follow(read_record(folder), folder / "accesses", guest.symbols, cell.size)


def measure(
    guest: Guest, cell: Cell, user: User | None = None
) -> tuple[Window, dict[str, Any], str]:
    """One boot: the replayed window, the workload's result, and the record's sha256.

    Raises GuestError, RecordError.
    """
    with _scratch(user) as folder:
        boot(guest.machine, cell.order, folder, guest.plugin, BOOT_SECONDS, user=user)
        result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        digest = hashlib.sha256()
        for name in RECORD:
            digest.update((folder / name).read_bytes())
        window = replay(read_record(folder), guest.symbols, cell.round_trips)
    return window, result, digest.hexdigest()


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
