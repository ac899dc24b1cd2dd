# SPDX-License-Identifier: GPL-2.0-or-later
"""What signals and faults share: the commands, their usual course, and the next start."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from tests.faults.machine import Snapshot, difference, settled, snapshot
from tests.faults.sandbox import CHECKOUT, Sandbox
from tests.faults.started import (
    BUSY,
    WHY_LINES,
    Started,
    Usual,
    forget,
    last,
    last_ones_end,
    masked,
    start,
    wrong,
)

ONE_CELL = ("--transports", "unix", "--placements", "same-cpu")
SHORT = (*ONE_CELL, "--repeats", "1")
HOST = (*SHORT, "--target", "host")
FORMS: dict[str, tuple[str, ...]] = {
    "counters": (*HOST, "--messages", "100", "--instruments", "kernel"),
    "bpftrace": (*HOST, "--messages", "20000", "--instruments", "bpftrace"),
    "exact": ("--exact", *ONE_CELL, "--sizes", "64", "--messages", "40"),
    "guest": (*SHORT, "--target", "guest", "--messages", "46", "--instruments", "copies"),
    # Without an option that names what the guest counts, it is stored with its probes attached.
    "stored": ("--target", "guest", "--placements", "same-cpu", "--repeats", "1"),
    "full": ("--repeats", "2"),
}
Row = dict[str, Any]
NEXT = "counters"  # the form of the next start, which clears up
LONGEST = 1200.0  # seconds of an undisturbed run, the first boot of a guest included
BUSY_TRIES = 40


def instead(words: Sequence[str], given: Sequence[str]) -> tuple[str, ...]:
    """A command line with these options in place of its own."""
    at = [number for number, word in enumerate(words) if word in given and word.startswith("--")]
    rest = [word for number, word in enumerate(words) if not {number, number - 1} & set(at)]
    return (*rest, *given)


class Results:
    """A line for each thing that was tried; what is in the file is not tried again.

    With `again`, what failed is tried again: its last line counts.
    """

    def __init__(self, file: Path, again: bool = False) -> None:
        self.file = file
        self._again = again
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        self.rows: list[Row] = [json.loads(line) for line in lines]
        self._known = len(self.rows)

    def add(self, **row: Any) -> None:
        about = {"commit": commit(), "kernel": os.uname().release}
        row |= about | {"date": f"{datetime.now(UTC):%Y-%m-%d %H:%M}"}
        self.rows.append(row)
        with self.file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(row) + "\n")

    def has(self, **what: Any) -> bool:
        tried = [row for row in latest(self.rows) if what.items() <= row.items()]
        return any(not (self._again and row["failures"]) for row in tried)

    def new(self) -> list[Row]:
        """What this call has added, without the undisturbed runs."""
        return latest(self.rows[self._known :])


def latest(rows: list[Row]) -> list[Row]:
    """The last row of each thing that was tried."""
    tried = [row for row in rows if row["kind"] != "usual"]
    names = ("kind", "seed", "number", "name")
    return list({tuple(map(row.get, names)): row for row in tried}.values())


@cache
def commit() -> str:
    """The checkout's commit; whether it was changed since."""
    git = ["git", "-c", "safe.directory=*", "-C", str(CHECKOUT)]
    named = [*git, "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(named, capture_output=True, text=True, check=False).stdout.strip()


@dataclass
class Campaign:
    """A sandbox, its results, and how long this call may take."""

    sandbox: Sandbox
    results: Results
    minutes: float
    repeats: int = 0  # of the disturbed run; 0: what fills its minutes
    began: float = field(default_factory=time.monotonic)
    usual: dict[str, Usual] = field(default_factory=dict)

    def time_is_up(self) -> bool:
        return time.monotonic() - self.began > self.minutes * 60

    def look(self) -> Snapshot:
        return snapshot(self.sandbox.places)

    def undisturbed(self, form: str, wrap: Sequence[str] = ()) -> Started:
        """Run a form to its end; while another program's run is in the way, again."""
        for _ in range(BUSY_TRIES):
            run = start(self.sandbox, FORMS[form], wrap=wrap)
            if not run.wait(LONGEST):
                raise SystemExit(f"an undisturbed run hangs: {' '.join(FORMS[form])}")
            if not BUSY.search(run.text()):
                break
            time.sleep(5)
        return run

    def warm_up(self, *forms: str) -> None:
        """Run each form undisturbed; the first time twice, as that one fills the cache."""
        for row in self.results.rows:
            if row["kind"] == "usual" and row["commit"] == commit():
                kept = row["seconds"], tuple(row["steps"]), frozenset(row["lines"])
                self.usual[row["form"]] = Usual(*kept)
        for form in forms:
            if form in self.usual:
                continue
            self.sandbox.warm_cache()
            for wrap in (self.sandbox.with_network, []):
                run = self.undisturbed(form, wrap)
                forget_checkpoints(self.sandbox)
                if run.status != 0:
                    raise SystemExit(f"an undisturbed run fails: {last(run.text(), WHY_LINES)}")
            usual = Usual(run.seconds, tuple(run.steps), masked(run.text()))
            self.usual[form] = usual
            row = {"seconds": run.seconds, "steps": run.steps, "lines": sorted(usual.lines)}
            self.results.add(kind="usual", form=form, **row)
            forget(run)
        self.sandbox.fresh_cache()

    def next_start(self, wrap: Sequence[str]) -> list[str]:
        """An undisturbed run after the trouble: what is wrong with it."""
        run = self.undisturbed(NEXT, wrap)
        found = [f"next start: {what}" for what in wrong(run, self.usual[NEXT])]
        if run.status != 0:
            found.append(f"next start: status {run.status}: {last(run.text(), WHY_LINES)}")
        forget(run)
        return found

    def batches(
        self,
        tries: list[Any],
        size: int,
        attempt: Callable[[Any], Row],
        wrap: Sequence[str] = (),
    ) -> Iterator[Row]:
        """Try all; after each batch start once more, and compare the machine with before.

        `wrap`: the beginning of the command that starts once more.

        What is left is laid to the first try after which it was there.
        """
        if tries:  # what every run leaves once, such as an empty folder, is there already
            self.next_start(wrap)
        for first in range(0, len(tries), size):
            if self.time_is_up():
                return
            before = self.look()
            rows, left = [], []
            for what in tries[first : first + size]:
                rows.append(attempt(what))
                last_ones_end(rows[-1])
                left.append(set(difference(before, self.look())))
            after = self.next_start(wrap)
            last_ones_end(rows[-1])
            for thing in settled(before, self.look, patience=5):
                shown = (row for row, new in zip(rows, left, strict=True) if thing in new)
                culprit = next(shown, rows[-1])
                culprit["failures"].append(f"left after the next start: {thing}")
            if after:
                rows[-1]["failures"] += [f"{what} (batch of {len(rows)})" for what in after]
                self.sandbox.fresh_cache()
            self.sandbox.fresh_out()
            yield from rows


def forget_checkpoints(sandbox: Sandbox) -> None:
    """Cells that an interrupted exact run kept would leave the next one nothing to do."""
    for kept in (sandbox.cache / "exact-kept").glob("*"):
        kept.unlink()
