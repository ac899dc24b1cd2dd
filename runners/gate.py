# SPDX-License-Identifier: GPL-2.0-or-later
"""run.sh --exact --kernel A --against B: two exact runs, which the analysis then judges.

Whatever fails between the options and the judgement is UntoldError, and so exit status 125: a
kernel that does not build, boot or run a cell says nothing about its path.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from runners.cli import FAILED, UNTOLD
from runners.exact import run as exact
from runners.options import Options
from runners.plan.refusals import accept
from runners.process import RunError, UntoldError, UsageError
from runners.session import Session

# Patterns whose iteration has all the work of its messages, so that it can be judged alone.
WHOLE = ("pingpong", "connect", "selfloop", "selfecho")
BASE, JUDGED = "against", "kernel"  # folders of the two runs


def gate(options: Options, argv: list[str]) -> int:
    """Count on both kernels and compare: the exit status of the analysis. Raises UsageError,
    UntoldError."""
    if len(options.kernels) != 1:
        raise UsageError("--against judges one kernel: name one after --kernel.")
    if part := [pattern for pattern in options.patterns if pattern not in WHOLE]:
        raise UsageError(
            f"--against judges one iteration, which in {part[0]} has not all the work of its "
            f"messages: take {' or '.join(WHOLE)}."
        )
    destination, stored = accept(options), stored_run(options)
    kernels = {JUDGED: options.kernels[0]} if stored else {
        BASE: options.against or "", JUDGED: options.kernels[0],
    }  # fmt: skip
    for kernel in kernels.values():
        accept(replace(options, kernels=(kernel,)))
    session = Session(options)
    with told_apart():
        with session.progress.step("set-up"):
            python = session.set_up("--exact")
        with session.scratch() as scratch:
            # Until both are there, a folder that is cleared: half a pair judges nothing.
            pair = scratch.folder(destination.parent, f".{destination.name}")
            for name, kernel in kernels.items():
                counting = replace(session, options=replace(options, kernels=(kernel,)))
                exact.run(counting, pair / name, scratch, argv, destination / name)
            pair.rename(destination)
        base = stored or destination / BASE
        shown = [options.shown] if options.shown else []
        allowed = ["--allowance", options.allowance, "--out", str(destination), *shown]
        runs = [str(base), str(destination / JUDGED)]
        status = session.analyse(python, "--diff", *runs, *allowed)
    # A status of 1 without a judgement is a failure of the analysis, and no kernel's.
    return UNTOLD if status == FAILED and not (destination / "gate.txt").exists() else status


def stored_run(options: Options) -> Path | None:
    """The run that --against names, where it names one instead of a kernel."""
    named = Path(options.against or "")
    return named.resolve() if (named / "run.json").is_file() else None


@contextmanager
def told_apart() -> Iterator[None]:
    """What fails inside cannot be told: neither a good nor a bad commit."""
    try:
        yield
    except (RunError, UsageError) as error:
        raise UntoldError(str(error), error.console) from error
    except OSError as error:
        raise UntoldError(f"it cannot be told: {error.strerror or error}.") from error
