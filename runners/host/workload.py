# SPDX-License-Identifier: GPL-2.0-or-later
"""Run a cell: start the workload, take its result, keep its samples. Run runners/checks, too."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probes.cell import CellRun, Plan
from probes.transports import read_transports
from runners.checks import NEEDS_ROOT
from runners.host.environment import CpuCounters, disturbance
from runners.host.instrument import WindowOptions
from runners.process import REPOSITORY, User, attempt, command, last_words, stop

# The right that a scheduler cannot do without (capabilities(7)); the rest of root's is dropped.
CAPABILITIES = {"fifo": ("sys_nice",)}


@dataclass(frozen=True)
class Execution:
    """As whom the workload runs; None means as ourselves. `own_kernel`: nobody else uses it."""

    workload: str
    user: User | None = None
    own_kernel: bool = False


MAKE_AGAIN = "make -C runners/workload clean, and it is built again."


class CellError(Exception):
    """The workload failed. The message is the workload's."""


class HungError(CellError):
    """The workload did not end, not even by its own time-out."""


@contextmanager
def private_directory(user: User | None = None) -> Iterator[Path]:
    """A fresh directory for socket files and samples, which only `user` can enter."""
    directory = Path(tempfile.mkdtemp(prefix="pathcost-"))
    try:
        if user is not None:
            os.chown(directory, *user)
        yield directory
    finally:
        if user is not None:
            os.chown(directory, os.geteuid(), os.getegid())  # root here may lack dac_override
        shutil.rmtree(directory, ignore_errors=True)


def run_cell(
    execution: Execution,
    plan: Plan,
    run: CellRun,
    samples: Path | None,
    windows: Sequence[WindowOptions],
) -> dict[str, Any]:
    """Run a cell: `result`, what the workload printed, and `disturbance`.

    `samples` is the file for raw round-trip times. Raises CellError with the workload's message.
    """
    with private_directory(execution.user) as directory, ExitStack() as stack:
        argv = [execution.workload, "--dir", str(directory), *run.cell.options]
        argv += ["--cell", str(run.id), "--timeout", str(plan.cell_timeout)]
        argv += [word for window in windows for word in window.options]
        transport = read_transports()[run.cell.transport]
        kept = (*transport.capabilities, *CAPABILITIES.get(run.cell.sched, ()))
        descriptors = [fd for window in windows for fd in window.descriptors]
        if samples is not None:
            # The user cannot reach the file itself.
            descriptors.append(stack.enter_context(samples.open("wb")).fileno())
            argv += ["--samples-fd", str(descriptors[-1])]
        return _run(command(argv, execution.user, kept), plan.cell_timeout, descriptors)


def _run(argv: list[str], timeout: int, descriptors: Sequence[int]) -> dict[str, Any]:
    before = CpuCounters.now()
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=descriptors,
        start_new_session=True,
    )
    patience = timeout + 10  # the workload has a time-out, with a better message; ours is for hangs
    try:
        output, complaint = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired as error:
        raise HungError(f"the workload did not end in {patience} s.") from error
    finally:
        stop(process)
    if process.returncode != 0:
        lines = complaint.decode(errors="replace").strip().splitlines()
        raise CellError(lines[-1] if lines else f"the workload ended with {process.returncode}.")
    try:
        result: dict[str, Any] = json.loads(output)
        cpus = result["cpus"]
    except (ValueError, KeyError, TypeError) as error:
        raise CellError(f"the workload printed no result: {MAKE_AGAIN}") from error
    return {"result": result, "disturbance": disturbance(before, cpus)}


KERNEL_CHECK_SECONDS = 30  # a check takes milliseconds, but an emulated CPU may be busy


def run_check(name: str, user: User | None) -> list[dict[str, Any]]:
    """The lines that a check prints, with `error` null; or a line that says why there are none."""
    program = [sys.executable, "-B", "-s", "-m", "runners.checks", name]
    for runner in (user, None):
        with private_directory(runner) as directory:
            done = attempt([*program, directory], runner, KERNEL_CHECK_SECONDS, cwd=REPOSITORY)
        if done.returncode != NEEDS_ROOT:
            break
    if done.returncode != 0:
        why = f"the check {name} failed: {last_words(done.stderr, 'it needs root')}"
        return [{"check": name, "when": {}, "facts": {}, "error": why}]
    return [json.loads(line) | {"error": None} for line in done.stdout.splitlines()]
