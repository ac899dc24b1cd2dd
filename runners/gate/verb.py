# SPDX-License-Identifier: GPL-2.0-or-later
"""The verb `gate`: count a kernel's round trips and a base's, and judge; or a series', or bisect.

What fails between the options and the judgement is UntoldError, so exit status 125: a kernel that
does not build, boot or run a cell says nothing about its path.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from probes.cell import CellRun
from probes.contract import BEYOND, GATE, GATE_RUNS, MANIFEST, PRICES, TOLD, UNTOLD
from probes.isa import ISAS
from runners.exact import run as exact
from runners.exact.kernel_tree import TreeConfig
from runners.gate import sides
from runners.gate.bisect import bisect
from runners.gate.counting import CELL_FLAGS, cells_charged, cells_of, counting
from runners.gate.paths import cells_of_sets, sets_touched
from runners.gate.series import Series
from runners.gate.sources import GitError, SourceState, WorkTree
from runners.guest.store import write_json
from runners.host.session import Session
from runners.options import GateOptions
from runners.process import RunError, UntoldError, UsageError
from runners.programs.prices import knob_of
from runners.store.folders import Scratch, publish
from runners.store.report import place

BASE, JUDGED = GATE_RUNS


def gate(options: GateOptions, prices: Mapping[str, Any] | None = None) -> int:
    """Count on both kernels, or on each of a series, and compare: the exit status.

    `prices` are what events cost on this machine: with them the gate also says what a difference
    takes. Raises UsageError, UntoldError.
    """
    if "=" in options.allowance and not options.lines:
        raise UsageError("--allowance of lines, code or moves has no effect: it needs --lines.")
    judged = sides.check(options)
    if options.show == "mail" and not sides.is_series(judged, options):
        raise UsageError("--mail has no effect: it is of a series, such as --against main..HEAD.")
    destination = place(options.out)
    exact.plan_cells(counting(options, judged.name))
    check_arch(options, judged)
    added = TreeConfig(options.config, options.lines).added(ISAS[options.arch])
    session = Session(options)
    if options.bisect:
        if judged.git is None:
            raise UsageError(f"{judged.name} is no git tree of a kernel: name one with --kernel.")
        with session.scratch(), sides.opened(judged, session) as tree:
            return bisect(options, tree, cells_of(options))
    with untold():
        exact.set_up(session, [options.arch])
        if added:
            session.progress.note(f"--config {options.config}: added {', '.join(added)}")
        with session.scratch() as scratch:
            if sides.is_series(judged, options):
                with sides.opened(judged, session) as tree:
                    with session.progress.step("patches"):
                        states = sides.states(judged, tree, options.against or "")
                    session.options = with_paths(session, tree, states)
                    return Series(session, tree, states).judge(destination, scratch, prices)
            if judged.git:
                with sides.opened(judged, session) as tree:
                    tree.check_out(sides.as_it_is(tree))
                    return judge_pair(session, str(tree.path), destination, scratch, prices)
            return judge_pair(session, judged.name, destination, scratch, prices)


def check_arch(options: GateOptions, judged: sides.Judged) -> None:
    """Raises UsageError where a kernel is for another architecture than --arch."""
    exact.check_machines(counting(options, judged.name))
    if options.against and Path(options.against).is_file():
        exact.check_machines(counting(options, options.against))


def with_paths(
    session: Session[GateOptions], tree: WorkTree, states: Sequence[SourceState]
) -> GateOptions:
    """Where no cell is asked for, those of the part of the kernel that the series touches."""
    options = session.options
    if options.paths or options.given & {*CELL_FLAGS}:
        return options
    files = tree.git("diff", "--name-only", states[0].commit, states[-1].commit).splitlines()
    if not (sets := sets_touched(files)):
        return options
    session.progress.note(f"judged by --paths {','.join(sets)}, as the series touches {files[0]}")
    return replace(options, paths=sets)


@contextmanager
def untold() -> Iterator[None]:
    """What fails here is neither a good nor a bad commit; a commit that is not there, wrong use."""
    try:
        yield
    except GitError:
        raise
    except (RunError, UsageError) as error:
        raise UntoldError(str(error), error.console) from error
    except OSError as error:
        raise UntoldError(f"it cannot be told: {error.strerror or error}.") from error


def judge_pair(
    session: Session[GateOptions],
    kernel: str,
    destination: Path,
    scratch: Scratch,
    prices: Mapping[str, Any] | None,
) -> int:
    """Judge a kernel by --against: the exit status. Raises UsageError, RunError, OSError."""
    options = session.options
    against = options.against or ""
    stored = Path(against)
    kernels = {BASE: against, JUDGED: kernel}
    if (stored / MANIFEST).is_file():
        del kernels[BASE]
    # Until both are there, a folder that is cleared: half a pair judges nothing.
    destination.parent.mkdir(parents=True, exist_ok=True)
    pair = scratch.folder(destination.parent, f".{destination.name}")
    cells = cells_of_sets(options.paths, options.messages)
    count_both(session, kernels, pair, destination, scratch, cells)
    if prices:
        write_json(pair / PRICES, prices)
        if (knob := knob_of(prices)) and BASE in kernels:
            charge(session, kernels, pair, destination, scratch, knob)
    publish(pair)
    pair.rename(destination)
    base = destination / BASE if BASE in kernels else stored
    from analysis.__main__ import judge

    status = judge(base, destination / JUDGED, destination, options.show, options.allowance)
    # A status of 1 without a judgement is a failure of the analysis, and no kernel's.
    return UNTOLD if status == BEYOND and not (destination / GATE).exists() else status


def count_both(
    session: Session[GateOptions],
    kernels: Mapping[str, str],
    folder: Path,
    moved_to: Path,
    scratch: Scratch,
    cells: Sequence[CellRun],
) -> None:
    """Count these cells, or those of the options, on each kernel. Raises UsageError, RunError."""
    for name, kernel in kernels.items():
        counts = Session(
            counting(session.options, kernel),
            invoker=session.invoker,
            progress=session.progress,
            root=session.root,
        )
        exact.run(counts, folder / name, scratch, moved_to=moved_to / name, cells=cells)


def charge(
    session: Session[GateOptions],
    kernels: Mapping[str, str],
    pair: Path,
    destination: Path,
    scratch: Scratch,
    knob: str,
) -> None:
    """Count what changed again, as the prices of events are: they tell nothing else.

    The verdict needs none of it. Raises RunError for a damaged run.
    """
    if cells := cells_charged(pair / BASE, pair / JUDGED, knob):
        try:
            count_both(session, kernels, pair / TOLD, destination / TOLD, scratch, cells)
        except (RunError, UsageError) as error:
            session.progress.note(f"no time is told: {error}")
            shutil.rmtree(pair / TOLD, ignore_errors=True)
