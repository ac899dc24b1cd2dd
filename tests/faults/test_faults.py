# SPDX-License-Identifier: GPL-2.0-or-later
"""Signals at random moments, and the faults of faults.toml: each run's end, and the next start's.

After a fault, or a batch of signals, a run starts once more, undisturbed. It has to end with status
0, and to leave the machine as it was before. A few signals are sent in every run of the tests.
"""

import random
import subprocess
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runners.process import REPOSITORY
from tests.faults.sandbox import STATE, Run, Sandbox, entered, outlives, wrong

TABLE = tomllib.loads(Path(__file__).with_name("faults.toml").read_text(encoding="utf-8"))
FUNCTIONS = TABLE.pop("functions")
ONE_CELL = ("--transports", "unix", "--placements", "same-cpu")
HOST = (*ONE_CELL, "--repeats", "1", "--target", "host")
FORMS: dict[str, tuple[str, ...]] = {
    "counters": (*HOST, "--messages", "100", "--instruments", "kernel"),
    "bpftrace": (*HOST, "--messages", "20000", "--instruments", "bpftrace"),
    "long": (*HOST, "--messages", "400000", "--instruments", "bpftrace"),
    "exact": ("exact", *ONE_CELL, "--sizes", "64", "--messages", "40"),
    "guest": (*ONE_CELL, "--repeats", "1", "--target", "guest", "--messages", "46",
              "--instruments", "copies"),
    # Without an option that names what the guest counts, it is stored with its probes attached.
    "stored": ("--target", "guest", "--placements", "same-cpu", "--repeats", "1"),
    "full": ("--repeats", "2"),
}  # fmt: skip
# A hang, not a slow run: what an undisturbed run takes is added three times.
PATIENCE = 60.0
MOMENT = 0.3  # after a process has appeared, so that it is in its work
SEED, BATCH, SIGNALS = 1, 10, 500
FEW = range(20, 24)  # of the seed: a hang-up of a child, a killed runner
# Every fifth signal goes into a full run, the others into short ones.
FULL_EVERY = 5
SHORT_FORMS = {"counters": 4, "bpftrace": 5, "exact": 3, "guest": 1}
WAYS = (("INT",), ("TERM",), ("HUP",), ("KILL",), ("INT", "INT"))
WHOM = {"runner": 9, "terminal": 3, "child": 8}  # terminal: the whole group, as Ctrl-C does


@dataclass(frozen=True)
class Fault:
    """A row of faults.toml, which says what the fields mean."""

    shell: str = ""
    form: str = "counters"
    wrap: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    out: str = ""
    when: str = ""
    whom: str = ""
    then: str = ""
    bound: float = 0.0
    deaf: bool = False
    damages: bool = False
    statuses: tuple[int, ...] = (0, 1, 2)
    refused: bool = False


FAULTS = {f"{group}: {name}": Fault(**row) for group in TABLE for name, row in TABLE[group].items()}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with entered() as made:
        yield made


def next_start(sandbox: Sandbox, before: set[str], *, outside: bool = False) -> list[str]:
    """What is wrong with an undisturbed start after the trouble, and what is left then."""
    run = sandbox.undisturbed(FORMS["counters"], outside=outside)
    return [*wrong(run, statuses=(0,)), *outlives(run), *sandbox.new(before)]


def shoot(sandbox: Sandbox, number: int, *, only: str = "") -> list[str]:
    """Send the seed's signal of this number: what is wrong with the run's end."""
    draw = random.Random(f"{SEED}/{number}")
    form = draw.choices([*SHORT_FORMS], [*SHORT_FORMS.values()])[0]
    if number % FULL_EVERY == FULL_EVERY - 1:
        form = "full"
    if only not in form:
        return []
    names: tuple[str, ...] = draw.choice(WAYS)
    whom = draw.choices([*WHOM], [*WHOM.values()])[0]
    if whom == "terminal":
        names = draw.choice([("INT",), ("INT", "INT"), ("HUP",)])
    usual = sandbox.seconds(FORMS[form])
    moment, pick, gap = draw.random() * usual, draw.random(), draw.uniform(0.01, 1.0)
    run, sent = sandbox.start(FORMS[form]), list[str]()
    run.watch(lambda: time.monotonic() - run.began >= moment, moment + 1)
    if run.alive():  # else it was faster than usual
        children = run.descendants() or [run.process.pid]
        child = children[int(pick * len(children))]
        target = {"terminal": None, "runner": run.process.pid, "child": child}[whom]
        for name in names:
            time.sleep(gap if sent else 0)
            sent += [name] * run.hit(target, name)
    # A signal that a child ignores lets the run go on to its usual end.
    ended = run.wait(PATIENCE + 3 * usual)
    failures = [*([] if ended else ["hangs"]), *wrong(run, signalled=sent), *outlives(run)]
    failures += [] if sent or run.status == 0 else [f"status {run.status} before any signal"]
    return [f"{number}: {'+'.join(names)} to {whom} of {form}: {words}" for words in failures]


@pytest.mark.root
@pytest.mark.parametrize(
    ("numbers", "only"),
    [
        pytest.param(FEW, "counters", id="a few"),
        *(
            pytest.param(range(first, first + BATCH), "", marks=pytest.mark.matrix, id=f"{first}-")
            for first in range(0, SIGNALS, BATCH)
        ),
    ],
)
def test_signals_leave_nothing(sandbox: Sandbox, numbers: range, only: str) -> None:
    sandbox.seconds(FORMS["counters"])  # what every run leaves once is there from now on
    before = sandbox.look()
    failures = [words for number in numbers for words in shoot(sandbox, number, only=only)]
    assert [*failures, *next_start(sandbox, before)] == []


def interfere(run: Run, fault: Fault, patience: float) -> bool:
    """Wait for the process, and do to it what the fault says; whether it came to that."""
    while True:
        if not run.watch(lambda: bool(run.descendants(fault.when)), patience):
            return False
        time.sleep(MOMENT)
        pids = run.descendants(fault.whom or fault.when)
        if pids or "$PID" not in fault.then:
            break  # else it has ended already, as the preflight's bpftrace does
    place = ["nsenter", "--target", str(run.process.pid), "--mount", "--", "sh", "-c"]
    known = f"PID={pids[0] if pids else ''}; RUN={run.process.pid}; OUT={run.out.parent}"
    subprocess.run([*place, f"{known}\n{fault.then}"], check=False)
    return True


@pytest.mark.root
@pytest.mark.matrix
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_ends_in_figures_or_a_sentence_and_the_next_start_heals(
    sandbox: Sandbox, name: str
) -> None:
    fault = FAULTS[name]
    bound = PATIENCE + 3 * sandbox.seconds(FORMS[fault.form]) + fault.bound
    before = sandbox.look()
    known = f"STATE={STATE}\nCACHE={sandbox.cache}\nOUT={sandbox.out}\nWHO={sandbox.user}\n"
    known += f"WARM={STATE}/made:{STATE}/warm\nCHECKOUT={STATE}/checkout\n"
    # The shell prepares the fault and becomes run.sh; its mounts end with it.
    script = f'{known}{FUNCTIONS}\n{fault.shell}\nexec {fault.wrap} "$@"'
    apart = ["unshare", "--mount", "--propagation", "private", "--", "sh", "-ec", script, "sh"]
    run = sandbox.start(
        FORMS[fault.form], wrap=apart, environment=fault.environment, outside=fault.damages,
        name=fault.out.encode("latin-1").decode("utf-8", "surrogateescape"),
    )  # fmt: skip
    failures: list[str] = []
    if fault.when and not interfere(run, fault, bound):
        failures.append(f"no {fault.when} to interfere with")
    if not run.wait(bound):
        failures.append(f"hangs for {bound:.0f} s")
    else:
        # What a private mount held is gone with the run.
        hidden = 'small "$OUT"' in fault.shell or "/mnt/to" in fault.shell
        failures += wrong(run, statuses=fault.statuses, heard=not fault.deaf, seen=not hidden)
    if run.status == 0 and fault.refused:
        failures.append("status 0, where no figure can be right")
    for pid in run.descendants():  # what was stopped cannot end
        run.hit(pid, "CONT")
    failures += [*outlives(run), *next_start(sandbox, before, outside=fault.damages)]
    if fault.damages or failures:
        sandbox.fresh_cache()
    assert failures == []


@pytest.mark.parametrize(
    ("status", "text", "failure"),
    [
        (1, "set-up: 0.3 s\npathcost: the disk is full.\n", ""),
        (1, "Traceback (most recent call last):\npathcost: so it is.\n", "traceback"),
        (1, "set-up: 0.3 s\n", "without a sentence"),
        (3, "pathcost: so it is.\n", "status 3"),
        (0, "set-up: 0.3 s\n", "no whole folder"),
    ],
)
def test_what_is_wrong_with_an_end_is_found(
    tmp_path: Path, status: int, text: str, failure: str
) -> None:
    process = subprocess.Popen(["sh", "-c", f"exit {status}"], cwd=REPOSITORY)
    process.wait()
    run = Run(process, tmp_path / "out", tmp_path / "run.stderr")
    run.stderr.write_text(text)
    run.stderr.with_suffix(".stdout").write_text("")
    failures = "; ".join(wrong(run))
    assert failure in failures and bool(failure) == bool(failures)
    (run.out / "raw").mkdir(parents=True)
    assert ": raw" in "; ".join(wrong(run))
