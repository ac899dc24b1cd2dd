# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether each transport's exact counts repeat: fresh boots beside the stored machine.

    python -m tests.exact.boots                       # every transport, 64 B, on 6.12
    python -m tests.exact.boots --kernel 7.2 unix tcp

prints the table of probes/exact/README.md, a line for each transport, on one CPU and on two:
`boots 2: 1` says that two runs began with a boot and gave one record, `stored 1: 1` the same of the
stored machine; then come the records and the steady round trips of all of them.
"""

import argparse
from dataclasses import replace

from runners.cell import TRANSPORTS
from runners.exact.cells import CPUS, ExactCell, plan
from runners.exact.count import measure
from runners.exact.decode.digest import steady_lines
from runners.exact.knobs import NOTHING
from runners.exact.machine.guest import ExactGuest, prepare_guest
from runners.exact.machine.knob_guest import guest_with_knob
from runners.guest.kernels import DEFAULT
from runners.process import RunError
from runners.store import invoker

# How often a boot and the stored machine are measured: on two CPUs each time until two runs agree.
TIMES = {1: {True: 2, False: 1}, 2: {True: 1, False: 1}}
HEAD = "| transport | one CPU | two CPUs |\n| --- | --- | --- |"


def repeated(base: ExactGuest, cell: ExactCell) -> str:
    """How many runs and records there were, and of how many round trips; or why there is none."""
    needs = (cell.path.modules, cell.path.programs)
    trees, records = set[str](), dict[bool, list[str]]()
    try:
        guest, knob = guest_with_knob(invoker().cache, base, NOTHING, print, None, *needs)
        for fresh, times in TIMES[cell.cpus].items():
            for _ in range(times):
                window, _, runs = measure(guest, replace(cell, knob=knob), fresh=fresh)
                trees.add("".join(steady_lines(window)))
                records.setdefault(fresh, []).extend(runs.records)
    except RunError as error:
        return str(error)
    found = [
        f"{'boots' if fresh else 'stored'} {len(digests)}: {len(set(digests))}"
        for fresh, digests in records.items()
    ]
    every = len({digest for digests in records.values() for digest in digests})
    return ", ".join([*found, f"records {every}, round trips {len(trees)}"])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.exact.boots")
    parser.add_argument("--kernel", default=DEFAULT)
    parser.add_argument("transports", nargs="*", default=list(TRANSPORTS))
    options = parser.parse_args()
    cache = invoker().cache
    guests = [prepare_guest(cache, options.kernel, print, cpus=n) for n in CPUS.values()]
    cells = plan(options.transports, [64], placements=list(CPUS), schedulings=["fifo"])
    print(HEAD, flush=True)
    for transport in options.transports:
        mine = [cell for cell in cells if cell.transport == transport and not cell.impossible]
        columns = [repeated(guest, cell) for guest, cell in zip(guests, mine, strict=False)]
        if columns:
            print("|", " | ".join([transport, *columns]), "|", flush=True)


if __name__ == "__main__":
    main()
