# SPDX-License-Identifier: GPL-2.0-or-later
"""What cannot be run, found before anything is measured. Runs and --dry-run refuse the same."""

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from runners import guest
from runners.cell import Cell, Plan
from runners.exact import run as exact
from runners.exact.kernel_tree import is_tree
from runners.host.workload import MAKE_AGAIN
from runners.options import Options
from runners.process import OVERDUE, REPOSITORY, WORKLOAD, RunError, UsageError, attempt
from runners.store import place

CHECK_SECONDS = 10


def accept(options: Options) -> Path:
    """Where the run's folder will be. Raises UsageError if it, a kernel or exact mode cannot be."""
    destination = place(options.out, REPOSITORY / "reports")
    for kernel in options.kernels:
        if options.exact and is_tree(kernel):
            continue
        guest.check_name(kernel)
    if options.exact:
        exact.plan_cells(options)
    return destination


def refuse_cells(plans: Iterable[Plan]) -> None:
    """Raise UsageError, with the workload's sentence, where it refuses every cell.

    Where it accepts some, these run, and the report shows why the others did not.
    """
    # A guest may have more CPUs than this machine, so that one says nothing about the other.
    if not WORKLOAD.exists() or len(os.sched_getaffinity(0)) < 2:
        return
    first = ""
    with tempfile.TemporaryDirectory(prefix="pathcost-") as folder:
        for cell in dict.fromkeys(cell for plan in plans for cell in plan.cells):
            refusal = _refusal(cell, folder)
            if not refusal:
                return
            first = first or refusal
    if first:
        raise UsageError(f"no cell can be run: {first}.")


def _refusal(cell: Cell, folder: str) -> str:
    """Why the workload refuses this cell; empty if it does not."""
    argv = [WORKLOAD, "--check", "--dir", folder, *cell.options]
    done = attempt(argv, timeout=CHECK_SECONDS)
    if done.returncode == OVERDUE:
        raise RunError(f"the workload says nothing for {CHECK_SECONDS} s: {MAKE_AGAIN}")
    return done.stderr.strip().removeprefix("pathcost-workload: ") if done.returncode else ""
