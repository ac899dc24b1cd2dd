# SPDX-License-Identifier: GPL-2.0-or-later
"""`exact --lesions`: which functions of a message's path does its delivery not need?

Each function of the steady round trip returns at once, alone. Those that may are then taken
together, and what survives is kept. Every trial is a line of trials.jsonl, so an interrupted study
goes on where it was, and a whole one is written again without a run.
"""

import csv
import errno
import json
import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from probes import isa
from probes.cell import Cell
from probes.contract import Status
from probes.functions import told
from runners.exact.lesion import COUNTERS, LEAKS, Lesion, Patient, Trial
from runners.exact.machine import digest
from runners.exact.run import by_machine, plan_cells, prepare, set_up
from runners.exact.run import exact as count
from runners.host.session import Session
from runners.options import ExactOptions
from runners.process import REPORTS, RunError, UsageError, stopping
from runners.store.locks import lock, open_lock
from runners.store.report import place

NO_PURPOSE = "unaccounted"
DELIVERY = "delivery"
NO_LESION, LEFT = "all", "left"  # rows of needs.csv: without a lesion, and with those that survive
# What a trial is.
SOURCES = (Path(__file__).with_name("lesion.py"), *sorted(Path(isa.__file__).parent.glob("*.py")))
CODE_DIGEST = digest(b"".join(path.read_bytes() for path in SOURCES))
LOCK_FILE, PICTURE_FILE = "lock", "needs.png"
CALLS = "calls"  # a word of --lesions: also single calls
SPINS = ("processor time", "not finish")  # in sentences of a guest that goes on without an end
# What may differ from the machine without a lesion: what is counted, and then what is kept, too.
FORMS = {"no state differs": COUNTERS, "leaks allowed": (*COUNTERS, *LEAKS)}
MAIN = "largest first"
ORDERS: dict[str, Callable[[list[tuple[Lesion, Trial]]], object]] = {
    MAIN: lambda pairs: None,
    "smallest first": lambda pairs: pairs.reverse(),
    "shuffled": lambda pairs: random.Random(1).shuffle(pairs),
}
NO_FUNCTION = "["  # how the names of user space, unknown code and eBPF begin


class Together(NamedTuple):
    """Lesions that survived together; `left` has the instructions of a round trip then."""

    lesions: list[Lesion]
    left: int


class Trials:
    """The trials of a study, in a file to which each is added as it ends."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._known: dict[str, Trial] = {}
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        if text[-1:] not in ("", "\n"):  # the last study was killed as it wrote
            file.write_text(text + "\n", encoding="utf-8")
        for line in text.splitlines():
            try:
                entry = json.loads(line)
                entry["trial"]["differs"] = tuple(entry["trial"]["differs"])
                self._known[entry["key"]] = Trial(**entry["trial"])
            except (ValueError, KeyError, TypeError):
                continue

    def run(self, patient: Patient, lesions: Sequence[Lesion]) -> Trial:
        """Return the trial of these lesions together, from the file or made now."""
        names = sorted(f"{lesion.name}={lesion.gives}" for lesion in lesions)
        made_from = [CODE_DIGEST, patient.fingerprint, names]
        key = digest(json.dumps(made_from).encode())[:20]
        if key not in self._known:
            if stopping.is_set():
                raise KeyboardInterrupt
            trial = patient.try_lesions(lesions)
            if (full := os.strerror(errno.ENOSPC)) in trial.said:
                raise RunError(f"a trial could not be recorded: {full}.")
            line = json.dumps({"key": key, "lesions": names, "trial": asdict(trial)})
            with self._lock, self._file.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")
            self._known[key] = trial
        return self._known[key]


@dataclass
class StudiedCell:
    """A cell on a kernel: function → trials by what it gives; order → form → what survives.

    `taxes` are what the first order's lesions save by purpose, one purpose after the other.
    """

    patient: Patient
    kernel: str
    inside: Counter[str]
    singles: dict[str, dict[str, Trial]] = field(default_factory=dict)
    together: dict[str, dict[str, Together]] = field(default_factory=dict)
    taxes: list[tuple[str, str, int]] = field(default_factory=list)  # form, purpose, instructions


def purpose_of(function: str) -> str:
    """Return what a function, or the one that is called, is for."""
    return told(function.rpartition(">")[2], "purpose") or NO_PURPOSE


def lesions(options: ExactOptions) -> int:
    """Make the study, or go on with it: the exit status. Raises UsageError, RunError."""
    session, folder = Session(options), (options.out or REPORTS / "lesions").absolute()
    if not (folder / LOCK_FILE).exists():
        place(folder)
    works = by_machine(options.kernels, plan_cells(options), options.knobs, options.archs)
    set_up(session, options.archs)
    with session.scratch():
        subjects = [subject for work in works for subject in admit(session, work)]
        folder.mkdir(parents=True, exist_ok=True)
        with os.fdopen(open_lock(folder / LOCK_FILE)) as held:
            lock(held.fileno(), f"another study works in {folder}: wait for its end.")
            try:
                study(session, Trials(folder / "trials.jsonl"), subjects)
                write(folder, subjects)
                with session.progress.step("drawing"):
                    session.set_up("--analysis")
                    from analysis.paths.figures import needs

                    needs(folder / "needs.csv", folder / PICTURE_FILE)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(
                    "interrupted; finished trials are kept, for the same command to go on."
                ) from None
    print(folder / PICTURE_FILE)
    return Status.DONE


def exact(options: ExactOptions) -> int:
    """Make the study, where the options ask for it; else count. Raises UsageError, RunError."""
    return count(options) if options.lesions is None else lesions(options)


def admit(session: Session[ExactOptions], work: Any) -> Iterator[StudiedCell]:
    """Yield the subjects of a machine, each run once without a lesion. Raises RunError."""
    absent: dict[Cell, Any] = {}
    with session.progress.step(f"lesions {work.name}: preparing"):
        _, todo, _ = prepare(session, work, absent)
        for guest, run in todo:
            patient = Patient(guest, run)
            for name in named(session):
                patient.lesion(name, "0")  # raises where there is no such function
            yield StudiedCell(patient, guest.machine.kernel.release, inside(patient))
    if not todo:
        raise UsageError(f"no cell can be counted: {next(iter(absent.values()))}.")


def named(session: Session[ExactOptions]) -> list[str]:
    """Return the functions and calls that the user wants alone."""
    return [name for name in session.options.lesions or () if name != CALLS]


def inside(patient: Patient) -> Counter[str]:
    """Return function → instructions of a steady round trip in it and in all that it calls."""
    counts, tree = patient.window.steady.counts, patient.window.tree
    sums: Counter[str] = Counter()
    for node, steps in counts.steps.items():
        for function in set(tree.path(node)[1:]):
            sums[function] += steps - counts.repeats[node]
    return sums


def study(session: Session[ExactOptions], trials: Trials, subjects: Sequence[StudiedCell]) -> None:
    """Fill the subjects: singles first, then each order, side by side on all processors."""
    progress, wanted = session.progress, named(session)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:

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

        singles = [(s, name) for s in subjects for name in wanted or candidates(s)]
        all_of([partial(alone, trials, *single) for single in singles], "alone")
        if CALLS in (session.options.lesions or ()):
            all_of([partial(alone, trials, s, name) for s in subjects for name in calls(s)], CALLS)
        all_of([partial(combine, trials, s, o) for o in ORDERS for s in subjects], "together")
        all_of([partial(tax, trials, s) for s in subjects], "by purpose")


def candidates(subject: StudiedCell) -> list[str]:
    """Return the functions of the path, the largest first."""
    return [
        function
        for function, _ in sorted(subject.inside.items(), key=lambda pair: (-pair[1], pair[0]))
        if not function.startswith(NO_FUNCTION)
        and not any(fnmatchcase(function, pattern) for pattern in subject.patient.isa.needed)
    ]


def calls(subject: StudiedCell) -> list[str]:
    """Return the calls of what the path calls at several places, and needs at one at least."""
    of = {call: call.rpartition(">")[2] for call in subject.patient.calls}
    places, gone = Counter(of.values()), {lesion.name for lesion, _ in removable(subject)}
    tried = {*candidates(subject)} - gone
    return sorted(call for call, name in of.items() if places[name] > 1 and name in tried)


def alone(trials: Trials, subject: StudiedCell, name: str) -> None:
    """Try what a function may give, until the message arrives.

    Another value hardly changes what has leaked, and a loop without an end takes long.
    """
    tried = subject.singles.setdefault(name, {})
    for gives in subject.patient.isa.returns:
        if lesion := subject.patient.lesion(name, gives):
            trial = tried[gives] = trials.run(subject.patient, [lesion])
            if trial.delivers((*COUNTERS, *LEAKS)) or any(word in trial.said for word in SPINS):
                break


def removable(subject: StudiedCell) -> list[tuple[Lesion, Trial]]:
    """Return each lesion with which the message arrives in fewer instructions, the largest first.

    The last value of a function is the one with which it does.
    """
    found: list[tuple[Lesion, Trial]] = []
    for name, tried in subject.singles.items():
        for gives, trial in list(tried.items())[-1:]:
            lesion, left = subject.patient.lesion(name, gives), trial.instructions or 0
            survives = trial.delivers((*COUNTERS, *LEAKS))
            if lesion and survives and left < subject.patient.instructions:
                found.append((lesion, trial))
    return sorted(found, key=lambda pair: (pair[1].instructions, pair[0].name))


def combine(trials: Trials, subject: StudiedCell, order: str) -> None:
    """Take the lesions together in this order, form after form, and keep what survives.

    Several at once, and each half of them where these do not survive.
    """
    pairs, made = removable(subject), dict[str, Together]()
    ORDERS[order](pairs)
    kept, current = list[Lesion](), subject.patient.instructions

    def keep(lesions: list[Lesion], allowed: Sequence[str]) -> None:
        nonlocal current
        trial = trials.run(subject.patient, [*kept, *lesions])
        if trial.delivers(allowed) and (trial.instructions or current) < current:
            kept.extend(lesions)
            current = trial.instructions or current
        elif len(lesions) > 1:
            keep(lesions[: len(lesions) // 2], allowed)
            keep(lesions[len(lesions) // 2 :], allowed)

    for form, allowed in FORMS.items():
        before = len(kept)
        left = [each for each, trial in pairs if each not in kept and trial.delivers(allowed)]
        if left:
            keep(left, allowed)
        made[form] = Together(kept[before:], current)
    subject.together[order] = made


def tax(trials: Trials, subject: StudiedCell) -> None:
    """Fill `taxes`. Where a purpose's lesions do not survive without the next's, both are one."""
    so_far, current, waiting = list[Lesion](), subject.patient.instructions, list[str]()
    for form, (lesions, _) in subject.together[MAIN].items():
        groups: dict[str, list[Lesion]] = {}
        for lesion in lesions:
            groups.setdefault(purpose_of(lesion.name), []).append(lesion)
        for purpose in sorted(groups):
            so_far += groups[purpose]
            waiting.append(purpose)
            trial = trials.run(subject.patient, so_far)
            if trial.instructions is not None:
                subject.taxes.append((form, ", ".join(waiting), current - trial.instructions))
                current, waiting = trial.instructions, []


def write(folder: Path, subjects: Iterable[StudiedCell]) -> None:
    """Write lesions.csv, together.csv, needs.csv and a file of folded stacks for each cell."""
    alone_rows, kept_rows, needs_rows = [], [], []
    for subject in subjects:
        cell, usual = subject.patient.run.cell, subject.patient.instructions
        cell_columns = {
            "kernel": subject.kernel,
            "transport": cell.transport,
            "size": cell.size,
            "placement": cell.placement,
            "sched": cell.sched,
            "knob": cell.knob,
        }
        by_size = sorted(subject.singles, key=lambda name: (-subject.inside[name], name))
        for function in by_size:
            for gives, trial in subject.singles[function].items():
                row = {
                    "function": function,
                    "inside": subject.inside[function],
                    "gives": gives,
                    "outcome": trial.outcome,
                    "saved": _saved(usual, trial),
                    "purpose": purpose_of(function),
                    "differs": "; ".join(trial.differs),
                    "said": trial.said,
                }
                alone_rows.append(cell_columns | row)
        for order, by_form in sorted(subject.together.items()):
            for form, (lesions, left) in by_form.items():
                columns = cell_columns | {"order": order, "form": form}
                for lesion in lesions:
                    row = {
                        "function": lesion.name,
                        "gives": lesion.gives,
                        "purpose": purpose_of(lesion.name),
                        "saved": _saved(usual, subject.singles[lesion.name][lesion.gives]),
                    }
                    kept_rows.append(columns | row)
                needs_rows.append(columns | {"purpose": LEFT, "instructions": left})
        needed_for, lines = Counter[str](), []
        for why, path, instructions in stacks(subject):
            if why == DELIVERY:
                needed_for[purpose_of(path[-1])] += instructions
            lines.append(f"{why};{';'.join(path)} {instructions}\n")
        needed = [(DELIVERY, purpose, n) for purpose, n in needed_for.most_common() if n]
        for form, purpose, n in [("", NO_LESION, usual), *subject.taxes, *needed]:
            row = {"order": MAIN, "form": form, "purpose": purpose, "instructions": n}
            needs_rows.append(cell_columns | row)
        name = "-".join(filter(None, map(str, cell_columns.values())))
        (folder / f"{name}.folded").write_text("".join(lines), encoding="utf-8")
    for name, rows in (("lesions", alone_rows), ("together", kept_rows), ("needs", needs_rows)):
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys() if rows else (), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def _saved(usual: int, trial: Trial) -> int | None:
    return None if trial.instructions is None else usual - trial.instructions


def stacks(subject: StudiedCell) -> Iterator[tuple[str, tuple[str, ...], int]]:
    """Yield, for each path of the usual round trip: why it may go, the path, its instructions.

    That is the purpose of its outermost function that may be left out, else DELIVERY.
    """
    counts, tree = subject.patient.window.steady.counts, subject.patient.window.tree
    names = {lesion.name for lesions, _ in subject.together[MAIN].values() for lesion in lesions}
    for node in sorted(counts.steps, key=tree.path):
        path = tree.path(node)
        outermost = next((name for name in path if name in names), None)
        instructions = counts.steps[node] - counts.repeats[node]
        yield purpose_of(outermost) if outermost else DELIVERY, path, instructions
