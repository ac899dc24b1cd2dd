# SPDX-License-Identifier: GPL-2.0-or-later
"""Starts that meet: at one instant, after a SIGKILL, thirty in a row, half an hour beside others.

A sampler looks at all processes every few milliseconds and says which run's processes measure: a
workload of one run beside any measuring process of another is "beside". /proc is the witness, as a
run's own records cannot tell what else was alive.
"""

from __future__ import annotations

import csv
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.faults.campaign import BUSY_TRIES, FORMS, LONGEST, Campaign, Row, instead
from tests.faults.machine import MEASURING, difference, role
from tests.faults.signals import report
from tests.faults.started import (
    BUSY,
    PATIENCE,
    WHY_LINES,
    Started,
    forget,
    hit,
    last,
    last_ones_end,
    start,
    wrong,
)

Attempt = Callable[[Campaign, int, int], dict[str, Any]]
FORM = "bpftrace"
LONG = ("--messages", "4000000")  # of a run that will be killed: its windows take long
SAMPLE = 0.005
SETTLED, LAST = 3, 30  # the machine after the 30th run equals that after the third
DISTURBED = ("--transports", "all", "--target", "host")
FEW_REPEATS = (4, 12)  # their difference says how long one takes; fewer attach less
MOST_DISTURBED = 2 * 3600.0
TOLD = ("others_ns",)  # what the run has to have seen of the disturbance
QUOTA = 0.8  # of all CPU time


def dead(run: Started) -> bool:
    """Whether the first process of a run has ended; says nothing to whoever waits for it."""
    try:
        return bool(psutil.Process(run.process.pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


@dataclass
class Sampler:
    """Whose processes measure, for as long as the context is open."""

    runs: list[Started] = field(default_factory=list)
    beside: set[str] = field(default_factory=set)
    workloads: int = 0
    # A process keeps its run when its parents have died and it has become ours.
    owner: dict[int, int] = field(default_factory=dict)

    def sample(self) -> None:
        active: dict[int, set[str]] = {}
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                owner = self._owner(process)
                name = role(process) if owner else ""
                if name in MEASURING and process.status() != psutil.STATUS_ZOMBIE:
                    active.setdefault(owner, set()).add(name)
        # What outlives a killed run measures for nobody.
        living = {run.process.pid for run in self.runs if not dead(run)}
        measuring = [run for run, names in active.items() if "workload" in names and run in living]
        self.workloads += len(measuring)
        for run in measuring:
            for other in active.keys() - {run}:
                self.beside.add(f"measured beside another run's {', '.join(sorted(active[other]))}")

    def _owner(self, process: psutil.Process) -> int:
        pid = process.pid
        if pid not in self.owner:
            roots = {run.process.pid for run in self.runs}
            line = [pid, *(parent.pid for parent in process.parents())]
            known = next((place for place in line if place in roots or self.owner.get(place)), 0)
            if known:
                self.owner[pid] = self.owner.get(known) or known
        return self.owner.get(pid, 0)

    @contextmanager
    def watching(self) -> Iterator[None]:
        over = threading.Event()

        def look() -> None:
            while not over.wait(SAMPLE):
                self.sample()

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def judged(campaign: Campaign, kind: str, seed: int, number: int, runs: Sequence[Started],
           sampler: Sampler, killed: Sequence[str] = ()) -> dict[str, Any]:  # fmt: skip
    """The row of two runs that met: all but the killed one end in order."""
    usual, failures = campaign.usual[FORM], sorted(sampler.beside)
    for run in runs[1:] if killed else runs:
        if not run.wait(PATIENCE + 3 * usual.seconds):
            failures.append("hangs")
        failures += wrong(run, usual, statuses=(0, 1))
        if run.status == 1 and not BUSY.search(run.text()):
            failures.append(f"refused for another reason: {last(run.text())}")
    row = {"kind": kind, "seed": seed, "number": number, "name": str(number)}
    row |= {"status": [run.status for run in runs], "failures": failures}
    return row | {"said": last(runs[-1].text()), "samples": sampler.workloads}


def pair(campaign: Campaign, seed: int, number: int) -> dict[str, Any]:
    """Two starts at the same instant."""
    sampler = Sampler()
    with sampler.watching():
        sampler.runs += [start(campaign.sandbox, FORMS[FORM]) for _ in range(2)]
        row = judged(campaign, "pair", seed, number, sampler.runs, sampler)
    row["failures"] += sampler.beside - set(row["failures"])
    if 0 not in row["status"]:
        row["failures"].append("neither of the two has measured")
    return row


def restart(campaign: Campaign, seed: int, number: int) -> dict[str, Any]:
    """SIGKILL of a runner while the run measures, and a start within a second."""
    draw, sampler = random.Random(f"restart {seed}/{number}"), Sampler()
    with sampler.watching():
        first = start(campaign.sandbox, instead(FORMS[FORM], LONG))
        sampler.runs.append(first)
        wanted = draw.choice(("collector", "bpftrace", "workload"))
        if not first.watch(lambda: bool(first.of_role(wanted)), LONGEST):
            raise SystemExit(f"a run ended before its {wanted} could be killed: {first.text()}")
        runners = [first.processes()[0], *first.of_role("runner, not root")]
        target = draw.choice(runners)
        whom = role(target)
        hit(first, target, "KILL")
        time.sleep(draw.random())
        second = start(campaign.sandbox, FORMS[FORM])
        sampler.runs.append(second)
        row = judged(campaign, "restart", seed, number, sampler.runs, sampler, killed=("KILL",))
        if not first.wait(PATIENCE):
            row["failures"].append("the killed run hangs")
    row["failures"] += sampler.beside - set(row["failures"])
    return row | {"status": [first.status, second.status], "whom": whom, "at": wanted}


def meetings(kind: str, attempt: Attempt) -> Callable[..., None]:
    """So many of a kind, in batches with a look at the machine after each."""

    def part(campaign: Campaign, seed: int, times: int) -> None:
        known = campaign.results.has
        numbers = [n for n in range(times) if not known(kind=kind, seed=seed, number=n)]
        campaign.warm_up("counters", FORM)
        for row in campaign.batches(numbers, 6, lambda number: attempt(campaign, seed, number)):
            campaign.results.add(**row)
            report(row)

    return part


def repeated(campaign: Campaign, seed: int, times: int) -> None:
    """Short runs in a row: the machine after the last equals that after the third, both ways."""
    campaign.warm_up("counters", FORM)
    settled = campaign.look()
    failures: list[str] = []
    row: Row = {"kind": "repeated", "seed": seed, "name": f"{times} runs", "status": 0}
    row["failures"] = failures
    for count in range(1, times + 1):
        run = campaign.undisturbed((FORM, "counters")[count % 2])
        if run.status != 0:
            failures.append(f"run {count}: status {run.status}: {last(run.text(), WHY_LINES)}")
        forget(run)
        last_ones_end(row)
        if count == min(SETTLED, times):
            settled = campaign.look()
    after = campaign.look()
    failures += [f"more: {thing}" for thing in difference(settled, after)]
    failures += [f"less: {thing}" for thing in difference(after, settled)]
    campaign.results.add(**row)
    report(row)


def disturbed(campaign: Campaign, seed: int, minutes: int) -> None:
    """So many minutes, all transports, beside a hog, under a quota and with traffic on lo."""
    campaign.warm_up("counters")
    run = beside_others(campaign, seed, campaign.repeats or repeats_in(campaign, seed, minutes))
    failures = list(wrong(run, campaign.usual["counters"], statuses=(0,)))
    told = run.out / "measurements.csv"
    seen = disturbances(told.read_text(encoding="utf-8")) if told.exists() else {}
    failures += [f"not told: {what}" for what in TOLD if not seen.get(what)]
    row = {"kind": "disturbed", "seed": seed, "name": "hog, quota, traffic", "status": run.status}
    row |= {"seconds": round(run.seconds), "seen": seen, "failures": failures}
    campaign.results.add(**row, said=last(run.text()))
    report(row)
    kept = campaign.results.file.parent / "disturbed"
    if run.out.exists() and not kept.exists():
        run.out.rename(kept)


def repeats_in(campaign: Campaign, seed: int, minutes: int) -> int:
    """How many repeats fill so many minutes."""
    first, second = (beside_others(campaign, seed, repeats) for repeats in FEW_REPEATS)
    each = max(0.1, (second.seconds - first.seconds) / (FEW_REPEATS[1] - FEW_REPEATS[0]))
    return int(minutes * 60 / each)


def beside_others(campaign: Campaign, seed: int, repeats: int) -> Started:
    """All transports, so often; a run that does not end is killed.

    While another program's run is in the way, it starts again.
    """
    arguments = ("--repeats", str(repeats), "--messages", "2000", "--seed", str(seed))
    for _ in range(BUSY_TRIES):
        run = start(campaign.sandbox, (*DISTURBED, *arguments))
        with quota(run.process.pid), hog(), traffic():
            run.wait(MOST_DISTURBED)
        if not BUSY.search(run.text()):
            break
        time.sleep(5)
    return run


def disturbances(table: str) -> dict[str, int]:
    """Cells in which a quantity of disturbance is above nothing."""
    found = dict.fromkeys(("others_ns", "steal_ns", "interrupts"), 0)
    for row in csv.DictReader(table.splitlines()):
        if row["quantity"] in found and float(row["value"]) > 0:
            found[row["quantity"]] += 1
    return found


@contextmanager
def hog() -> Iterator[None]:
    """A program that uses one CPU."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


@contextmanager
def traffic() -> Iterator[None]:
    """Bytes over lo without an end, some thousand packets a second."""
    listener = socket.create_server(("127.0.0.1", 0))
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        sender = socket.create_connection(listener.getsockname())
        receiver = listener.accept()[0]
        while True:
            sender.sendall(bytes(100))
            receiver.recv(1000)
            time.sleep(0.001)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        listener.close()


@contextmanager
def quota(pid: int) -> Iterator[None]:
    """A control group in which `pid` and its children get a part of the CPUs' time."""
    old = Path("/sys/fs/cgroup/cpu")
    group = (old if old.is_dir() else Path("/sys/fs/cgroup")) / f"pathcost-faults-{os.getpid()}"
    group.mkdir()
    period = 100_000
    share = int(period * QUOTA * (os.cpu_count() or 1))
    if old.is_dir():
        (group / "cpu.cfs_quota_us").write_text(f"{share}\n", encoding="ascii")
    else:
        (group / "cpu.max").write_text(f"{share} {period}\n", encoding="ascii")
    (group / "cgroup.procs").write_text(f"{pid}\n", encoding="ascii")
    try:
        yield
    finally:
        last_ones_end({"failures": []})
        group.rmdir()


PARTS: dict[str, Callable[..., None]] = {
    "pairs": meetings("pair", pair),
    "restarts": meetings("restart", restart),
    "repeated": repeated,
    "disturbed": disturbed,
}
