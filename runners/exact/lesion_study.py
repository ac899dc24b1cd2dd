# SPDX-License-Identifier: GPL-2.0-or-later
"""`exact --lesions`: which functions of a message's path does its delivery not need?

Each function of the steady round trip returns at once, alone; then those that may are taken
together, one after the other, and what survives is kept. Every trial is a line of trials.jsonl,
so an interrupted study goes on where it was, and a whole one is written again without a run.
"""

import csv
import json
import random
import threading
from argparse import Namespace as Options
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from functools import cache, partial
from os import sched_getaffinity
from pathlib import Path
from typing import Any

from probes.files import read_rows
from runners.cell import Cell
from runners.exact.count import code_digest
from runners.exact.lesion import COUNTERS, LEAKS, RETURNS, Lesion, Patient, Trial
from runners.exact.machine import digest
from runners.exact.run import by_machine, plan_cells, prepare
from runners.guest.qemu import stopping
from runners.host.session import Session
from runners.process import DONE, REPOSITORY, UsageError
from runners.store import lock

PURPOSES = REPOSITORY / "probes/exact/purposes.tsv"
NO_PURPOSE = "unaccounted"
DELIVERY = "delivery"
SPINS = "processor time"  # in the sentence of a guest that loops without an end
# What may differ from the machine without a lesion: what is counted, and then what is kept, too.
FORMS = {"no state differs": COUNTERS, "leaks allowed": (*COUNTERS, *LEAKS)}
ORDERS: dict[str, Callable[[list[tuple[Lesion, Trial]]], object]] = {
    "largest first": lambda pairs: None,
    "smallest first": lambda pairs: pairs.reverse(),
    "shuffled": lambda pairs: random.Random(1).shuffle(pairs),
}
# They enter and leave the kernel or switch stacks: no return is where they could go.
ENTRIES = ("entry_*", "*syscall_64*", "x64_sys_call", "__switch_to_asm", "asm_*", "ret_from_*",
           "__x86_*", "srso_*", "rep_*", "[[]*")  # fmt: skip


@dataclass(frozen=True)
class Kept:
    """A lesion that survived beside those before it: what it saves beside them."""

    lesion: Lesion
    form: str
    saved: int


class Trials:
    """The trials of a study, in a file to which each is added as it ends."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._known: dict[str, Trial] = {}
        for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
            try:
                entry = json.loads(line)
                entry["trial"]["differs"] = tuple(entry["trial"]["differs"])
                self._known[entry["key"]] = Trial(**entry["trial"])
            except (ValueError, KeyError, TypeError):
                continue  # the last line of a study that was killed as it wrote

    def __len__(self) -> int:
        return len(self._known)

    def run(self, patient: Patient, lesions: Sequence[Lesion]) -> Trial:
        """Return the trial of these lesions together, from the file or made now."""
        names = sorted(f"{lesion.name}={lesion.gives}" for lesion in lesions)
        made_from = [code_digest(), patient.guest.stored.parent.name, str(patient.run.cell), names]
        key = digest(json.dumps(made_from).encode())[:20]
        if key not in self._known:
            if stopping.is_set():
                raise KeyboardInterrupt
            trial = patient.try_lesions(lesions)
            line = json.dumps({"key": key, "lesions": names, "trial": asdict(trial)})
            with self._lock, self._file.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")
            self._known[key] = trial
        return self._known[key]


@dataclass
class Subject:
    """A cell on a kernel: function → trials by what it gives; order → what survived together."""

    patient: Patient
    kernel: str
    inside: Counter[str]
    singles: dict[str, dict[str, Trial]] = field(default_factory=dict)
    together: dict[str, list[Kept]] = field(default_factory=dict)

    @property
    def cell(self) -> Cell:
        """Return the cell."""
        return self.patient.run.cell


@cache
def purposes() -> list[tuple[str, str]]:
    """Return the patterns of functions and their purposes, in the order in which they apply."""
    return [(row["function"], row["purpose"]) for row in read_rows(PURPOSES)]


def purpose_of(function: str) -> str:
    """Return what a function is for, by the first pattern that it fits."""
    name = function.rpartition(">")[2]
    fitting = (purpose for pattern, purpose in purposes() if fnmatchcase(name, pattern))
    return next(fitting, NO_PURPOSE)


def lesions(options: Options) -> int:
    """Make the study, or go on with it: the exit status. Raises UsageError, RunError."""
    session = Session(options)
    works = by_machine(options.kernels, plan_cells(options), options.knobs)
    if options.dry_run:
        print("".join(f"{work.name}: {run.cell}\n" for work in works for run in work.cells), end="")
        return DONE
    folder = (options.out or REPOSITORY / "reports/lesions").absolute()
    with session.progress.step("set-up"):
        session.set_up("--exact")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as held, session.scratch():
        lock(held.fileno(), f"another study works in {folder}: wait for its end.")
        try:
            subjects = [subject for work in works for subject in admit(session, work)]
            study(session, Trials(folder / "trials.jsonl"), subjects)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                "interrupted; finished trials are kept, for the same command to go on."
            ) from None
        write(folder, subjects)
    print(folder / "lesions.csv")
    return DONE


def admit(session: Session, work: Any) -> Iterator[Subject]:
    """Yield the subjects of a machine, each run once without a lesion. Raises RunError."""
    absent: dict[Cell, Any] = {}
    with session.progress.step(f"lesions {work.name}: preparing"):
        _, todo, _ = prepare(session, work, absent)
        for guest, run in todo:
            patient = Patient(guest, run)
            yield Subject(patient, guest.machine.kernel.release, inside(patient))
    if not todo:
        raise UsageError(f"no cell can be counted: {next(iter(absent.values()))}.")


def inside(patient: Patient) -> Counter[str]:
    """Return function → instructions of a steady round trip in it and in all that it calls."""
    counts, tree = patient.window.steady.counts, patient.window.tree
    sums: Counter[str] = Counter()
    for node, steps in counts.steps.items():
        for function in set(tree.path(node)[1:]):
            sums[function] += steps - counts.repeats[node]
    return sums


def study(session: Session, trials: Trials, subjects: Sequence[Subject]) -> None:
    """Fill the subjects: singles first, then each order, side by side on all processors."""
    progress, named = session.progress, session.options.lesions
    with ThreadPoolExecutor(len(sched_getaffinity(0))) as pool:

        def all_of(jobs: list[Callable[[], None]], what: str) -> None:
            with progress.step(f"lesions: {what}"):
                running = [pool.submit(job) for job in jobs]
                try:
                    for number, future in enumerate(running):
                        progress.count(number, len(jobs), what)
                        future.result()
                except BaseException:
                    stopping.set()
                    pool.shutdown(wait=True, cancel_futures=True)
                    raise

        singles: list[Callable[[], None]] = []
        for subject in subjects:
            for function in named or candidates(subject):
                subject.patient.lesion(function, "0")  # raises where there is no such function
                singles.append(partial(alone, trials, subject, function))
        all_of(singles, "alone")
        orders = [partial(combine, trials, subject, order)
                  for order in ORDERS for subject in subjects]  # fmt: skip
        all_of(list(orders), "together")


def candidates(subject: Subject) -> list[str]:
    """Return the functions of the path, the largest first."""
    return [
        function
        for function, _ in sorted(subject.inside.items(), key=lambda pair: (-pair[1], pair[0]))
        if not any(fnmatchcase(function, pattern) for pattern in ENTRIES)
    ]


def alone(trials: Trials, subject: Subject, function: str) -> None:
    """Try what the function may give, until the message arrives.

    Where it never does, or not without a leak, each of several calls may still be left out.
    """
    patient = subject.patient
    tried = subject.singles[function] = dict[str, Trial]()
    for gives in RETURNS:
        if lesion := patient.lesion(function, gives):
            tried[gives] = trials.run(patient, [lesion])
            if tried[gives].delivers(COUNTERS):
                return
            # Another value hardly changes what has leaked, and a loop without end takes long.
            if tried[gives].delivers((*COUNTERS, *LEAKS)) or SPINS in tried[gives].said:
                break
    calls = [name for name in patient.calls if name.endswith(f">{function}")]
    for name in calls if len(calls) > 1 else ():
        alone(trials, subject, name)


def removable(subject: Subject) -> list[tuple[Lesion, Trial]]:
    """Return the lesion of each function that saves most of those with which it may go."""
    found = []
    for function, tried in subject.singles.items():
        for allowed in FORMS.values():
            fitting = [(g, trial) for g, trial in tried.items() if trial.delivers(allowed)]
            if fitting:
                gives, trial = min(fitting, key=lambda pair: pair[1].instructions or 0)
                lesion = subject.patient.lesion(function, gives)
                assert lesion is not None
                if (trial.instructions or 0) < subject.patient.instructions:
                    found.append((lesion, trial))
                break
    return sorted(found, key=lambda pair: (pair[1].instructions, pair[0].name))


def combine(trials: Trials, subject: Subject, order: str) -> None:
    """Take the lesions together in this order, and keep what survives, form after form."""
    pairs = removable(subject)
    ORDERS[order](pairs)
    kept, current = list[Kept](), subject.patient.instructions
    rejected: dict[str, Trial] = {}
    for form, allowed in FORMS.items():
        for lesion, trial in pairs:
            alone_or_beside = rejected.get(lesion.name, trial)
            if any(lesion is each.lesion for each in kept) or not alone_or_beside.delivers(allowed):
                continue
            both = trials.run(subject.patient, [*(each.lesion for each in kept), lesion])
            if both.delivers(allowed) and (both.instructions or current) < current:
                kept.append(Kept(lesion, form, current - (both.instructions or current)))
                current -= kept[-1].saved
            else:
                rejected[lesion.name] = both
    subject.together[order] = kept


def write(folder: Path, subjects: Iterable[Subject]) -> None:
    """Write lesions.csv, together.csv, needs.csv and a file of folded stacks for each cell."""
    alone_rows, kept_rows, sums = [], [], []
    for subject in subjects:
        cell, usual = subject.cell, subject.patient.instructions
        key = {"kernel": subject.kernel, "transport": cell.transport, "size": cell.size,
               "placement": cell.placement, "sched": cell.sched, "knob": cell.knob}  # fmt: skip
        by_size = sorted(subject.singles, key=lambda name: (-subject.inside[name], name))
        for function in by_size:
            for gives, trial in subject.singles[function].items():
                alone_rows.append(key | {
                    "function": function, "inside": subject.inside[function], "gives": gives,
                    "outcome": trial.outcome, "saved": _saved(usual, trial),
                    "purpose": purpose_of(function), "differs": "; ".join(trial.differs),
                    "said": trial.said,
                })  # fmt: skip
        for order in ORDERS:
            left = usual
            for number, each in enumerate(subject.together[order], 1):
                left -= each.saved
                kept_rows.append(key | {
                    "order": order, "number": number, "form": each.form,
                    "function": each.lesion.name, "gives": each.lesion.gives,
                    "purpose": purpose_of(each.lesion.name), "saved": each.saved, "left": left,
                })  # fmt: skip
        main = subject.together[next(iter(ORDERS))]
        taxes = Counter[tuple[str, str]]()
        for each in main:
            taxes[each.form, purpose_of(each.lesion.name)] += each.saved
        sums.append(key | {"form": "", "purpose": "all", "instructions": usual})
        sums += [key | {"form": form, "purpose": purpose, "instructions": saved}
                 for (form, purpose), saved in taxes.most_common()]  # fmt: skip
        rest = usual - taxes.total()
        sums.append(key | {"form": "", "purpose": DELIVERY, "instructions": rest})
        name = "-".join(filter(None, map(str, key.values())))
        (folder / f"{name}.folded").write_text("".join(folded(subject, main)), encoding="utf-8")
    for name, rows in (("lesions", alone_rows), ("together", kept_rows), ("needs", sums)):
        partial_file = folder / f"{name}.partial"
        with partial_file.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys() if rows else (), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        partial_file.replace(folder / f"{name}.csv")


def _saved(usual: int, trial: Trial) -> int | None:
    return None if trial.instructions is None else usual - trial.instructions


def folded(subject: Subject, kept: Sequence[Kept]) -> Iterator[str]:
    """Yield folded stacks of the round trip without a lesion; the first frame is why it runs."""
    counts, tree = subject.patient.window.steady.counts, subject.patient.window.tree
    names = {each.lesion.name for each in kept}
    for node in sorted(counts.steps, key=tree.path):
        path = tree.path(node)
        cut = next((name for name in path if name in names), None)
        why = purpose_of(cut) if cut else DELIVERY
        yield f"{why};{';'.join(path)} {counts.steps[node] - counts.repeats[node]}\n"
