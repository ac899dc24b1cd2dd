# SPDX-License-Identifier: GPL-2.0-or-later
"""`what-if --kernel`: what another kernel's path would change for a round trip on this machine.

Exact mode counts both kernels' round trips in an emulated machine; the prices of events, which
`exact --priced` has found, make times of the difference.
"""

import tempfile
from pathlib import Path

from probes.contract import PRICES, Status
from probes.transports import PAIR
from runners.exact import run as exact
from runners.exact.cells import LARGEST_EXACT
from runners.guest.store import write_json
from runners.host.session import Session
from runners.options import ExactOptions, WhatIfOptions
from runners.process import UsageError
from runners.programs import what_if as described
from runners.programs.prices import kept_for_events

# Options that have an effect beside --kernel.
BESIDE = {"--kernel", "--against", "--size", "--cpus", "--prices", "--json", "--no-install"}
PLACEMENTS = {"1": "same-cpu", "2": "cross-cpu"}
NO_PRICES = (
    "this machine has no prices of events, so no time can be told: find them with exact --priced."
)


def what_if(options: WhatIfOptions) -> int:
    """The verb `what-if`: the exit status. Raises UsageError, RunError."""
    return upgrade(options) if options.kernel else described.what_if(options)


def upgrade(options: WhatIfOptions) -> int:
    """Count on both kernels, and print what the difference takes: the exit status.

    Raises UsageError, RunError.
    """
    counting = counted_on_both(options)
    session = Session(options)
    prices, why = None, ""
    if options.prices is None:
        prices, why = kept_for_events(session.invoker.cache)
        if prices is None:
            raise UsageError(why or NO_PRICES)
    session.set_up_step("--exact")
    from analysis.predict.upgrade import priced_folder, show_upgrade

    with session.scratch() as scratch, tempfile.TemporaryDirectory(prefix="pathcost-") as name:
        folder = Path(name)
        if prices:
            write_json(folder / PRICES, prices)
        priced = priced_folder(options.prices or folder)
        counts = Session(
            counting, invoker=session.invoker, progress=session.progress, root=session.root
        )
        run = folder / "run"
        knob = priced.prices.knob
        cells = exact.with_knob(exact.plan_cells(counting), knob) if knob else ()
        exact.run(counts, run, scratch, moved_to=run, cells=cells)
        show_upgrade(run, priced, options.show)
    return Status.DONE


def counted_on_both(options: WhatIfOptions) -> ExactOptions:
    """What exact mode counts: the path alone, which no scheduler decides. Raises UsageError."""
    kernel = str(options.kernel)
    if without := sorted(options.given - BESIDE):
        raise UsageError(f"{without[0]} has no effect: it needs no --kernel.")
    if kernel == options.against:
        raise UsageError(f"--kernel and --against are both {kernel}: name two kernels.")
    if options.size > LARGEST_EXACT:
        raise UsageError(f"exact mode counts messages of up to {LARGEST_EXACT:,} bytes (--size).")
    if "--cpus" in options.given and options.cpus not in PLACEMENTS:
        raise UsageError("--cpus free has no time with --kernel: bind both to 1 CPU or to 2.")
    return ExactOptions(
        verb=options.verb,
        argv=options.argv,
        given=options.given,
        show=options.show,
        no_install=options.no_install,
        transports=PAIR,
        patterns=("pingpong",),
        sizes=(options.size,),
        placements=(PLACEMENTS.get(options.cpus, "same-cpu"),),
        waits=("block",),
        scheds=("fifo",),
        kernels=(options.against, kernel),
    )
