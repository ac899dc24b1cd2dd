# SPDX-License-Identifier: GPL-2.0-or-later
"""The campaign: signals at random moments, faults of a table, many runs in a row."""

from __future__ import annotations

import json
import random
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from tests.faults.faults import FAULTS, SHELL, Fault
from tests.faults.machine import role, settled
from tests.faults.sandbox import CHECKOUT, Sandbox
from tests.faults.started import (
    BUSY,
    PATIENCE,
    Started,
    Usual,
    hit,
    last,
    last_ones_end,
    masked,
    start,
    wrong,
)

Row = dict[str, Any]
ONE_CELL = ("--transports", "unix", "--placements", "same-cpu")
SHORT = (*ONE_CELL, "--repeats", "1")
HOST = (*SHORT, "--target", "host")
FORMS: dict[str, tuple[str, ...]] = {
    "counters": (*HOST, "--messages", "100", "--instruments", "kernel"),
    "bpftrace": (*HOST, "--messages", "20000", "--instruments", "bpftrace"),
    "exact": ("exact", *ONE_CELL, "--sizes", "64", "--messages", "40"),
    "guest": (*SHORT, "--target", "guest", "--messages", "46", "--instruments", "copies"),
    # Without an option that names what the guest counts, it is stored with its probes attached.
    "stored": ("--target", "guest", "--placements", "same-cpu", "--repeats", "1"),
    "full": ("--repeats", "2"),
}
NEXT = "counters"  # the form of the next start, which clears up
LONGEST = 1200.0  # seconds of an undisturbed run, the first boot of a guest included
BUSY_TRIES = 40
WHY_LINES = 6  # of an undisturbed run that fails
BATCH = 10
MOMENT = 0.3  # after a process has appeared, so that it is in its work
# Every fifth signal goes into a full run, the others into short ones.
FULL_EVERY = 5
SHORT_FORMS = {"counters": 4, "bpftrace": 5, "exact": 3, "guest": 1}
SIGNALS = (("INT",), ("TERM",), ("HUP",), ("KILL",), ("INT", "INT"))
WHOM = {"runner": 9, "terminal": 3, "child": 8}
IN_A_ROW, SETTLED = 30, 3  # the machine after the 30th run equals that after the third


class Results:
    """A line for each thing that was tried; what has passed is not tried again."""

    def __init__(self, file: Path) -> None:
        self.file = file
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        self.rows: list[Row] = [json.loads(line) for line in lines]

    def add(self, **row: Any) -> None:
        row |= {"commit": commit(), "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M}"}
        self.rows.append(row)
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        if "name" in row:
            print(
                row["name"], f"status {row['status']}", *row["failures"], sep="\n    ", flush=True
            )

    def latest(self) -> dict[str, Row]:
        """The last row of each thing that was tried, by name."""
        return {row["name"]: row for row in self.rows if "name" in row}

    def passed(self, name: str) -> bool:
        row = self.latest().get(name)
        return row is not None and not row["failures"]

    def table(self) -> str:
        """Markdown: how often each kind of thing was tried, how it ended, and what failed."""
        ends: dict[str, Counter[str]] = {}
        for row in self.latest().values():
            status = row["status"]
            end = "killed" if status < 0 else str(status) if status in (0, 130) else "other"
            end = "1, 2" if status in (1, 2) else end
            ends.setdefault(row["kind"], Counter()).update([end, "tried"])
            ends[row["kind"]]["failed"] += bool(row["failures"])
        columns = ("tried", "0", "1, 2", "130", "killed", "other", "failed")
        lines = [f"| | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
        for kind, counts in ends.items():
            lines.append(f"| {kind} | {' | '.join(str(counts[name]) for name in columns)} |")
        failed = [row for row in self.latest().values() if row["failures"]]
        return "\n".join([*lines, *(f"- {r['name']}: {'; '.join(r['failures'])}" for r in failed)])


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
    began: float = field(default_factory=time.monotonic)
    usual: dict[str, Usual] = field(default_factory=dict)

    def time_is_up(self) -> bool:
        return time.monotonic() - self.began > self.minutes * 60

    def undisturbed(self, form: str, wrap: Sequence[str] = ()) -> Started:
        """Run a form to its end; while another program's run is in the way, again."""
        for _ in range(BUSY_TRIES):
            run = start(self.sandbox, FORMS[form], wrap=wrap)
            if not run.wait(LONGEST):
                raise SystemExit(f"an undisturbed run hangs: {' '.join(FORMS[form])}")
            if not BUSY.search(run.text):
                break
            time.sleep(5)
        return run

    def warm_up(self, *forms: str) -> None:
        """Run each form undisturbed; the first time twice, as that one fills the cache."""
        for row in self.results.rows:
            if row["kind"] == "usual" and row["commit"] == commit():
                self.usual[row["form"]] = Usual(row["seconds"], frozenset(row["lines"]))
        for form in forms:
            if form in self.usual:
                continue
            self.sandbox.fresh_cache(keep=True)
            for wrap in (self.sandbox.with_network, []):
                run = self.undisturbed(form, wrap)
                self.forget_checkpoints()
                if run.status != 0:
                    raise SystemExit(f"an undisturbed run fails: {last(run.text, WHY_LINES)}")
            self.usual[form] = Usual(run.seconds, masked(run.text))
            lines = sorted(self.usual[form].lines)
            self.results.add(kind="usual", form=form, seconds=run.seconds, lines=lines)
            run.forget()
        self.sandbox.fresh_cache()

    def forget_checkpoints(self) -> None:
        """Cells that an interrupted exact run kept would leave the next one nothing to do."""
        for kept in (self.sandbox.cache / "exact-kept").glob("*"):
            kept.unlink()

    def next_start(self, wrap: Sequence[str] = ()) -> list[str]:
        """An undisturbed run after the trouble: what is wrong with it."""
        run = self.undisturbed(NEXT, wrap)
        failures = [f"next start: {failure}" for failure in wrong(run, self.usual[NEXT])]
        if run.status != 0:
            failures.append(f"next start: status {run.status}: {last(run.text, WHY_LINES)}")
        run.forget()
        return failures

    def batches(
        self,
        tries: list[Any],
        attempt: Callable[[Any], Row],
        size: int = BATCH,
        wrap: Sequence[str] = (),
    ) -> Iterator[Row]:
        """Try all; after each batch start once more, and compare the machine with before.

        `wrap`: the beginning of the command that starts once more.

        What is left is laid to the first try after which it was there.
        """
        # What every run leaves once, such as an empty folder, is there already.
        if tries and (failures := self.next_start(wrap)):
            raise SystemExit(f"before anything was tried: {'; '.join(failures)}")
        for first in range(0, len(tries), size):
            if self.time_is_up():
                return
            before = self.sandbox.look()
            rows, left = [], []
            for tried in tries[first : first + size]:
                rows.append(attempt(tried))
                last_ones_end(rows[-1])
                left.append(self.sandbox.look() - before)
            after = self.next_start(wrap)
            last_ones_end(rows[-1])
            for thing in settled(before, self.sandbox.look):
                culprits = (row for row, new in zip(rows, left, strict=True) if thing in new)
                culprit = next(culprits, rows[-1])
                culprit["failures"].append(f"left after the next start: {thing}")
            if after:
                rows[-1]["failures"] += [f"{what} (batch of {len(rows)})" for what in after]
                self.sandbox.fresh_cache()
            self.sandbox.fresh_out()
            yield from (row for row in rows if not row.pop("busy", False))


@dataclass(frozen=True)
class Shot:
    """What one number of a seed means."""

    number: int
    form: str
    signals: tuple[str, ...]
    whom: str  # terminal: the whole group, as Ctrl-C does
    moment: float  # a share of an undisturbed run's time
    pick: float
    gap: float  # seconds between two signals


def plan(seed: int, number: int) -> Shot:
    draw = random.Random(f"{seed}/{number}")
    full = number % FULL_EVERY == FULL_EVERY - 1
    form = draw.choices([*SHORT_FORMS], [*SHORT_FORMS.values()])[0]
    signals: tuple[str, ...] = draw.choice(SIGNALS)
    whom = draw.choices([*WHOM], [*WHOM.values()])[0]
    if whom == "terminal":
        signals = draw.choice([("INT",), ("INT", "INT"), ("HUP",)])
    numbers = (draw.random(), draw.random(), draw.uniform(0.01, 1.0))
    return Shot(number, "full" if full else form, signals, whom, *numbers)


def choose(run: Started, shot: Shot) -> psutil.Process | None:
    """A child: first what it does, then which of those; else the first process."""
    processes = run.processes()
    if shot.whom == "terminal":
        return None
    by_role: dict[str, list[psutil.Process]] = {}
    for process in processes[1:]:
        by_role.setdefault(role(process), []).append(process)
    by_role.pop("gone", None)
    if shot.whom == "runner" or not by_role:
        return processes[0]
    place = shot.pick * len(by_role)
    group = by_role[sorted(by_role)[int(place)]]
    return group[int((place % 1) * len(group))]


def shoot(campaign: Campaign, shot: Shot, name: str) -> Row:
    """Start, wait for the moment, send, wait for the end, and look at it."""
    usual = campaign.usual[shot.form]
    moment = shot.moment * usual.seconds
    campaign.forget_checkpoints()
    run = start(campaign.sandbox, FORMS[shot.form])
    run.watch(lambda: run.seconds >= moment, moment + 1)
    row: Row = {"kind": f"{'+'.join(shot.signals)} to {shot.whom}", "name": name, "failures": []}
    sent: list[str] = []
    if run.alive():  # else it was faster than usual
        target = choose(run, shot)
        row["whom"] = "terminal" if target is None else role(target)
        for number in shot.signals:
            if sent:
                time.sleep(shot.gap)
            if hit(run, target, number):
                sent.append(number)
    # A signal that a child ignores lets the run go on to its usual end.
    if not run.wait(PATIENCE + 3 * usual.seconds):
        row["failures"].append("hangs")
    row |= {"at": round(moment, 2), "status": run.status, "seconds": round(run.seconds, 1)}
    row |= {"said": last(run.text), "busy": bool(BUSY.search(run.text))}
    row["failures"] += wrong(run, usual, signalled=sent)
    if not sent and run.status != 0:
        row["failures"].append(f"status {run.status} before any signal")
    run.forget()
    return row


def signals(campaign: Campaign, seed: int, numbers: range, only: str) -> None:
    """Send those signals of a seed that have not passed yet."""
    shots = {}
    for shot in (plan(seed, number) for number in numbers):
        name = f"seed {seed}, number {shot.number}: {'+'.join(shot.signals)} into {shot.form}"
        if re.search(only, name) and not campaign.results.passed(name):
            shots[name] = shot
    campaign.warm_up(NEXT, *dict.fromkeys(shot.form for shot in shots.values()))
    for row in campaign.batches([*shots], lambda name: shoot(campaign, shots[name], name)):
        campaign.results.add(**row)


def wrapped(campaign: Campaign, fault: Fault) -> list[str]:
    """The shell that prepares the fault and becomes run.sh; its mounts end with it."""
    sandbox = campaign.sandbox
    state = sandbox.state
    known = f"STATE={state}\nCACHE={sandbox.cache}\nOUT={sandbox.out}\n"
    known += f"WARM={state}/made:{state}/warm\nCHECKOUT={sandbox.checkout}\n"
    script = f'{known}WHO={sandbox.user}\n{SHELL}\n{fault.shell}\nexec {fault.wrap} "$@"'
    apart = ["unshare", "--mount", "--propagation", "private", "--"]
    return [*apart, "sh", "-ec", script, "sh"]


def interfere(run: Started, fault: Fault, patience: float) -> bool:
    """Wait for the process, and do to it what the fault says; whether it came to that."""
    while True:
        if not run.watch(lambda: bool(run.of_role(fault.when)), patience):
            return False
        time.sleep(MOMENT)
        with_role = run.of_role(fault.whom or fault.when)
        if with_role or "$PID" not in fault.then:
            break  # else it has ended already, as the preflight's bpftrace does
    place = ["nsenter", "--target", str(run.process.pid), "--mount", "--", "sh", "-c"]
    pid = with_role[0].pid if with_role else ""
    words = f"PID={pid}; RUN={run.process.pid}; OUT={run.out.parent}\n{fault.then}"
    subprocess.run([*place, words], check=False)
    return True


def carry_out(campaign: Campaign, fault: Fault) -> Row:
    """One fault, and what is wrong with the run's end."""
    usual, sandbox = campaign.usual[fault.form], campaign.sandbox
    campaign.forget_checkpoints()
    run = start(
        sandbox,
        instead(FORMS[fault.form], fault.arguments),
        wrap=[*(sandbox.with_network if fault.damages else []), *wrapped(campaign, fault)],
        environment=fault.environment,
        name=fault.out,
    )
    failures: list[str] = []
    # What a private mount held is gone with the run.
    hidden = 'small "$OUT"' in fault.shell or "/mnt/to" in fault.shell
    bound = PATIENCE + 3 * usual.seconds + fault.bound
    if fault.when and not interfere(run, fault, bound):
        failures.append(f"no {fault.when} to interfere with")
    if not run.wait(bound):
        failures.append(f"hangs for {bound:.0f} s")
    else:
        failures += wrong(run, usual, statuses=fault.statuses, heard=fault.heard, seen=not hidden)
    if run.status == 0 and fault.refused:
        failures.append("status 0, where no figure can be right")
    for process in psutil.Process().children(recursive=True):  # what was stopped cannot end
        if process.status() == psutil.STATUS_STOPPED:
            process.resume()
    run.forget()
    row: Row = {"kind": fault.group, "name": fault.name, "status": run.status, "failures": failures}
    row |= {"seconds": round(run.seconds, 1), "said": last(run.text)}
    return row | {"busy": bool(BUSY.search(run.text))}


def instead(words: Sequence[str], given: Sequence[str]) -> tuple[str, ...]:
    """A command line with these options in place of its own."""
    at = [number for number, word in enumerate(words) if word in given and word.startswith("--")]
    rest = [word for number, word in enumerate(words) if not {number, number - 1} & set(at)]
    return (*rest, *given)


def faults(campaign: Campaign, only: str) -> None:
    """Carry out the faults that have not passed yet; damage of the cache one by one."""
    passed = campaign.results.passed
    todo = [fault for fault in FAULTS if re.search(only, fault.name) and not passed(fault.name)]
    campaign.warm_up(NEXT, *dict.fromkeys(fault.form for fault in todo))
    # Faults that damage the cache have their next start alone: it has to heal.
    for group, size, wrap in (
        ([fault for fault in todo if not fault.damages], BATCH, []),
        # What is damaged may have to be downloaded again.
        ([fault for fault in todo if fault.damages], 1, campaign.sandbox.with_network),
    ):
        for row in campaign.batches(group, lambda fault: carry_out(campaign, fault), size, wrap):
            campaign.results.add(**row)
            if size == 1:
                campaign.sandbox.fresh_cache()


def repeated(campaign: Campaign) -> None:
    """Short runs in a row: the machine after the last equals that after the third, both ways."""
    forms = ("bpftrace", NEXT)
    campaign.warm_up(*forms)
    failures: list[str] = []
    row: Row = {"kind": "repeated", "name": f"{IN_A_ROW} runs", "status": 0, "failures": failures}
    settled_down = campaign.sandbox.look()
    for count in range(1, IN_A_ROW + 1):
        run = campaign.undisturbed(forms[count % 2])
        if run.status != 0:
            failures.append(f"run {count}: status {run.status}: {last(run.text, WHY_LINES)}")
        run.forget()
        last_ones_end(row)
        if count == SETTLED:
            settled_down = campaign.sandbox.look()
    after = campaign.sandbox.look()
    failures += [f"more: {thing}" for thing in after - settled_down]
    failures += [f"less: {thing}" for thing in settled_down - after]
    campaign.results.add(**row)
