# SPDX-License-Identifier: GPL-2.0-or-later
"""The verb `what-if`: what a Unix socket would save a pair that its user describes.

A program of ours is not described but watched.
"""

import os
import tempfile
from pathlib import Path

from probes.contract import Status
from runners.host.session import Session
from runners.options import WatchOptions, WhatIfOptions
from runners.programs.prices import set_up
from runners.programs.program import case_of
from runners.programs.watch import (
    USUAL_LIMIT,
    USUAL_SECONDS,
    watch,
    write_files,
)

WHAT_IF = "what-if.json"


def what_if(options: WhatIfOptions) -> int:
    """Predict for the pair, or watch the program: the exit status. Raises UsageError, RunError."""
    if options.program:
        case_of(options.program)
        watched = WatchOptions(
            verb=options.verb,
            show=options.show,
            no_install=options.no_install,
            seconds=USUAL_SECONDS,
            limit=USUAL_LIMIT,
            prices=options.prices,
        )
        return watch(watched, options.program)
    session = Session(options)
    stored = set_up(session, options.prices)
    described = {name: getattr(options, name) for name in ("rate", "clients", "connect", "cpus")}
    # Prices of a stored run may be another machine's.
    machine_cpus = 0 if options.prices else len(os.sched_getaffinity(0))
    stored[WHAT_IF] = described | {
        "machine_cpus": machine_cpus,
        "request": options.request or options.size,
        "answer": options.answer or options.size,
        "work_us": float(options.work or 0),
    }
    with tempfile.TemporaryDirectory(prefix="pathcost-") as folder:
        write_files(Path(folder), stored)
        from analysis.predict.show import show_what_if

        show_what_if(Path(folder), options.prices or Path(folder), options.show)
    return Status.DONE
