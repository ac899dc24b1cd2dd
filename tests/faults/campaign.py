# SPDX-License-Identifier: GPL-2.0-or-later
"""The fault campaign: signals at random moments, and the faults of a table.

    sudo python -m tests.faults.campaign --help

After each batch of them a run starts once more, undisturbed. It has to end with status 0, and to
leave the machine as it was before the batch.
"""

import argparse
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from runners.store import invoker
from tests.faults.faults import FAULTS, SHELL, Fault
from tests.faults.machine import settled
from tests.faults.sandbox import Sandbox, enter
from tests.faults.started import Started, hit, last, last_ones_end, start, wrong

Tries = Mapping[str, Callable[[], list[str]]]  # name → what is wrong with a try
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
# A hang, not a slow run: what an undisturbed run takes is added three times.
PATIENCE = 60.0
LONGEST = 1200.0  # seconds of an undisturbed run, the first boot of a guest included
BATCH = 10
MOMENT = 0.3  # after a process has appeared, so that it is in its work
# Every fifth signal goes into a full run, the others into short ones.
FULL_EVERY = 5
SHORT_FORMS = {"counters": 4, "bpftrace": 5, "exact": 3, "guest": 1}
SIGNALS = (("INT",), ("TERM",), ("HUP",), ("KILL",), ("INT", "INT"))
WHOM = {"runner": 9, "terminal": 3, "child": 8}


@dataclass(frozen=True)
class Shot:
    """What one number of a seed means."""

    name: str
    form: str
    signals: tuple[str, ...]
    whom: str  # terminal: the whole group, as Ctrl-C does
    moment: float  # a share of an undisturbed run's time
    pick: float
    gap: float  # seconds between two signals


def plan(seed: int, number: int) -> Shot:
    draw = random.Random(f"{seed}/{number}")
    form = draw.choices([*SHORT_FORMS], [*SHORT_FORMS.values()])[0]
    if number % FULL_EVERY == FULL_EVERY - 1:
        form = "full"
    signals: tuple[str, ...] = draw.choice(SIGNALS)
    whom = draw.choices([*WHOM], [*WHOM.values()])[0]
    if whom == "terminal":
        signals = draw.choice([("INT",), ("INT", "INT"), ("HUP",)])
    name = f"seed {seed}, number {number}: {'+'.join(signals)} into {form}"
    return Shot(name, form, signals, whom, draw.random(), draw.random(), draw.uniform(0.01, 1.0))


@dataclass
class Campaign:
    """A sandbox, and what its undisturbed runs take."""

    sandbox: Sandbox
    usual: dict[str, float] = field(default_factory=dict)  # seconds of an undisturbed run

    def start(self, form: str, arguments: Sequence[str] = (), **changes: Any) -> Started:
        """Start a form, with these options in place of its own."""
        words = FORMS[form]
        given = [n for n, word in enumerate(words) if word[:2] == "--" and word in arguments]
        own = [word for n, word in enumerate(words) if not {n, n - 1} & {*given}]
        return start(self.sandbox, [*own, *arguments], **changes)

    def undisturbed(self, form: str, wrap: Sequence[str] = ()) -> Started:
        run = self.start(form, wrap=wrap)
        if not run.wait(LONGEST):
            raise SystemExit(f"an undisturbed run hangs: {' '.join(FORMS[form])}")
        return run

    def warm_up(self, forms: set[str]) -> None:
        """Run each form undisturbed, and where it has to download something once more."""
        for form in sorted(forms):
            self.sandbox.fresh_cache(keep=True)
            run = self.undisturbed(form)
            if run.status != 0:
                self.undisturbed(form, self.sandbox.with_network)
                run = self.undisturbed(form)
            if run.status != 0:
                raise SystemExit(f"an undisturbed run fails: {last(run.text, 6)}")
            self.usual[form] = run.seconds
        self.sandbox.fresh_cache()
        # What every run leaves once, such as an empty folder, is there from now on.
        if failures := self.next_start():
            raise SystemExit(f"before anything was tried: {'; '.join(failures)}")

    def next_start(self, wrap: Sequence[str] = ()) -> list[str]:
        """What is wrong with an undisturbed run after the trouble."""
        run = self.undisturbed(NEXT, wrap)
        failures = [f"next start: {failure}" for failure in wrong(run)]
        if run.status != 0:
            failures.append(f"next start: status {run.status}: {last(run.text, 6)}")
        return failures

    def batch(self, tries: Tries, wrap: Sequence[str] = ()) -> int:
        """Try all, start once more, and compare the machine with before: how many failures."""
        before, failed = self.sandbox.look(), 0
        for name, attempt in tries.items():
            failed += printed(name, [*attempt(), *last_ones_end()])
        after = [*self.next_start(wrap), *last_ones_end()]
        after += [f"left: {thing}" for thing in settled(before, self.sandbox.look)]
        failed += printed(f"after {len(tries)}", after)
        self.sandbox.fresh_out()
        if after:
            self.sandbox.fresh_cache()
        return failed

    def signals(self, seed: int, numbers: Sequence[int], only: str) -> int:
        """Send those signals of a seed whose names match: how many failures."""
        shots = [shot for number in numbers if re.search(only, (shot := plan(seed, number)).name)]
        self.warm_up({NEXT, *(shot.form for shot in shots)})
        tries = {shot.name: partial(shoot, self, shot) for shot in shots}
        return sum(self.batch(part) for part in parts(tries, BATCH))

    def faults(self, only: str) -> int:
        """Carry out the faults whose names match: how many failures."""
        chosen = [fault for fault in FAULTS if re.search(only, fault.name)]
        self.warm_up({NEXT, *(fault.form for fault in chosen)})
        failed = 0
        for damages in (False, True):
            some = [fault for fault in chosen if fault.damages == damages]
            tries = {fault.name: partial(carry_out, self, fault) for fault in some}
            # What damages the cache has its next start alone, which may have to download again.
            for part in parts(tries, 1 if damages else BATCH):
                failed += self.batch(part, self.sandbox.with_network if damages else [])
                if damages:
                    self.sandbox.fresh_cache()
        return failed


def parts(tries: Tries, size: int) -> Iterator[Tries]:
    names = [*tries]
    for first in range(0, len(names), size):
        yield {name: tries[name] for name in names[first : first + size]}


def printed(name: str, failures: list[str]) -> bool:
    print(name, *failures, sep="\n    ", flush=True)
    return bool(failures)


def shoot(campaign: Campaign, shot: Shot) -> list[str]:
    """Start, wait for the moment, send, wait for the end: what is wrong with it."""
    usual = campaign.usual[shot.form]
    run = campaign.start(shot.form)
    moment = shot.moment * usual
    sent: list[str] = []
    run.watch(lambda: run.seconds >= moment, moment + 1)
    if run.alive():  # else it was faster than usual
        first, *children = run.processes()
        child = children[int(shot.pick * len(children))] if children else first
        target = {"terminal": None, "runner": first, "child": child}[shot.whom]
        for number in shot.signals:
            if sent:
                time.sleep(shot.gap)
            if hit(run, target, number):
                sent.append(number)
    # A signal that a child ignores lets the run go on to its usual end.
    failures = [] if run.wait(PATIENCE + 3 * usual) else ["hangs"]
    if not sent and run.status != 0:
        failures.append(f"status {run.status} before any signal")
    return [*failures, *wrong(run, signalled=sent)]


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


def carry_out(campaign: Campaign, fault: Fault) -> list[str]:
    """One fault: what is wrong with the run's end."""
    usual, sandbox = campaign.usual[fault.form], campaign.sandbox
    known = f"STATE={sandbox.state}\nCACHE={sandbox.cache}\nOUT={sandbox.out}\n"
    known += f"WARM={sandbox.state}/made:{sandbox.state}/warm\nCHECKOUT={sandbox.checkout}\n"
    # The shell prepares the fault and becomes run.sh; its mounts end with it.
    script = f'{known}WHO={sandbox.user}\n{SHELL}\n{fault.shell}\nexec {fault.wrap} "$@"'
    apart = ["unshare", "--mount", "--propagation", "private", "--", "sh", "-ec", script, "sh"]
    network = sandbox.with_network if fault.damages else []
    changes = {"environment": fault.environment, "name": fault.out}
    run = campaign.start(fault.form, fault.arguments, wrap=[*network, *apart], **changes)
    failures: list[str] = []
    # What a private mount held is gone with the run.
    hidden = 'small "$OUT"' in fault.shell or "/mnt/to" in fault.shell
    bound = PATIENCE + 3 * usual + fault.bound
    if fault.when and not interfere(run, fault, bound):
        failures.append(f"no {fault.when} to interfere with")
    if not run.wait(bound):
        failures.append(f"hangs for {bound:.0f} s")
    else:
        failures += wrong(run, statuses=fault.statuses, heard=fault.heard, seen=not hidden)
    if run.status == 0 and fault.refused:
        failures.append("status 0, where no figure can be right")
    for process in psutil.Process().children(recursive=True):  # what was stopped cannot end
        if process.status() == psutil.STATUS_STOPPED:
            process.resume()
    return failures


def main() -> int:
    reader = argparse.ArgumentParser("python -m tests.faults.campaign", description=__doc__)
    reader.add_argument("part", choices=("signals", "faults"))
    add = reader.add_argument
    add("--state", type=Path, default=Path("/var/tmp/pathcost-faults"), help="layers and output")
    add("--cache", type=Path, default=invoker().cache, help="lies below; its owner invokes run.sh")
    add("--seed", type=int, default=1)
    add("--numbers", default="0-499", help="of signals, such as 17 or 100-149")
    add("--only", default="", help="what matches this regular expression")
    given = reader.parse_args()
    campaign = Campaign(enter(given.state.resolve(), given.cache.resolve()))
    if given.part == "faults":
        return int(campaign.faults(given.only) > 0)
    first, _, last = given.numbers.partition("-")
    numbers = range(int(first), int(last or first) + 1)
    return int(campaign.signals(given.seed, numbers, given.only) > 0)


if __name__ == "__main__":
    sys.exit(main())
