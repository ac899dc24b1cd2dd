# SPDX-License-Identifier: GPL-2.0-or-later
"""Signals at random moments: seed and number say which command, signal, process and moment."""

from __future__ import annotations

import random
import time
from collections.abc import Container
from dataclasses import dataclass
from functools import partial
from typing import Any

import psutil

from tests.faults.campaign import FORMS, Campaign, forget_checkpoints
from tests.faults.machine import role
from tests.faults.started import BUSY, PATIENCE, Started, Usual, forget, hit, last, start, wrong

BATCH = 10
TRIES = 4
# Every fifth number goes into a full run, at a moment within a stage; the others into short runs.
FULL_EVERY = 5
SHORT_FORMS = {"counters": 4, "bpftrace": 5, "exact": 3, "guest": 1}
SIGNALS = (("INT",), ("TERM",), ("HUP",), ("KILL",), ("INT", "INT"))
WHOM = {"runner": 9, "terminal": 3, "child": 8}


@dataclass(frozen=True)
class Shot:
    """What one number of a seed means."""

    number: int
    form: str
    signals: tuple[str, ...]
    whom: str  # terminal: the whole group, as Ctrl-C does
    stage: float
    moment: float
    pick: float
    gap: float  # seconds between two signals

    def seconds(self, usual: Usual) -> float:
        """When: uniform over a short run; in a full one a stage first, then within it."""
        edges = [0.0, *usual.steps, usual.seconds] if self.form == "full" else [0.0, usual.seconds]
        stage = int(self.stage * (len(edges) - 1))
        return edges[stage] + self.moment * (edges[stage + 1] - edges[stage])


def plan(seed: int, number: int) -> Shot:
    draw = random.Random(f"{seed}/{number}")
    full = number % FULL_EVERY == FULL_EVERY - 1
    form = draw.choices([*SHORT_FORMS], [*SHORT_FORMS.values()])[0]
    signals: tuple[str, ...] = draw.choice(SIGNALS)
    whom = draw.choices([*WHOM], [*WHOM.values()])[0]
    if whom == "terminal":
        signals = draw.choice([("INT",), ("INT", "INT"), ("HUP",)])
    numbers = (draw.random(), draw.random(), draw.random(), draw.uniform(0.01, 1.0))
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


def later(run: Started, moment: float) -> bool:
    return run.seconds >= moment


def shoot(campaign: Campaign, seed: int, shot: Shot) -> dict[str, Any]:
    """Start, wait for the moment, send, wait for the end, and look at it."""
    usual = campaign.usual[shot.form]
    moment = shot.seconds(usual)
    for _ in range(TRIES):
        forget_checkpoints(campaign.sandbox)
        run = start(campaign.sandbox, FORMS[shot.form])
        run.watch(partial(later, run, moment), moment + 1)
        if run.alive() or run.status != 0:
            break
        # Faster than usual, and over before its moment: the same moment of a run as fast as this.
        moment *= min(1, run.seconds / usual.seconds) * 0.95
        forget(run)
    row: dict[str, Any] = {"kind": "signal", "seed": seed, "number": shot.number}
    row |= {"form": shot.form, "signals": list(shot.signals), "failures": []}
    sent: list[str] = []
    if run.alive():
        target = choose(run, shot)
        row["whom"] = "terminal" if target is None else role(target)
        for name in shot.signals:
            if sent:
                time.sleep(shot.gap)
            if hit(run, target, name):
                sent.append(name)
    row |= {"at": round(run.seconds, 2), "sent": len(sent)}
    # A signal that a child ignores lets the run go on to its usual end.
    if not run.wait(PATIENCE + 3 * usual.seconds):
        row["failures"].append("hangs")
    row |= {"status": run.status, "seconds": round(run.seconds, 1), "said": last(run.text())}
    if BUSY.search(run.text()):
        row["busy"] = True
    else:
        row["failures"] += wrong(run, usual, signalled=sent)
        if not sent and run.status != 0:
            row["failures"].append(f"status {run.status} before any signal")
    forget(run)
    return row


def signals(
    campaign: Campaign, seed: int, numbers: range, only: str, without: Container[str]
) -> None:
    """Send those signals of a seed that are not in the results yet."""
    shots = [
        shot
        for shot in (plan(seed, number) for number in numbers)
        if only in shot.form
        and shot.form not in without
        and not campaign.results.has(kind="signal", seed=seed, number=shot.number)
    ]
    if not shots:
        return
    campaign.warm_up("counters", *dict.fromkeys(shot.form for shot in shots))
    for row in campaign.batches(shots, BATCH, lambda shot: shoot(campaign, seed, shot)):
        if not row.pop("busy", False):
            campaign.results.add(**row)
            report(row)


def report(row: dict[str, Any]) -> None:
    """A line for each try; of a failure all of it."""
    name = row.get("name") or f"{row['number']} {row['form']} {'+'.join(row['signals'])}"
    if "whom" in row:
        name += f" → {row['whom']} at {row['at']}"
    print(
        f"{row['kind']} {name}: status {row['status']}", *row["failures"], sep="\n    ", flush=True
    )
