# SPDX-License-Identifier: GPL-2.0-or-later
"""fill.py exact|probes: put into PATHCOST_CACHE what that image runs, which fetches nothing."""

import sys

from runners import guest
from runners.exact.cells import CPUS
from runners.exact.guest import GUEST_PROGRAMS, prepare_guest, program_files
from runners.guest.debian import PackageSources
from runners.guest.kernels import DEFAULT, SERIES
from runners.guest.store import Cache
from runners.store.folders import invoker


def say(line: str) -> None:
    """Say what is being done, beside the output of build.sh."""
    print(f"fill.py: {line}", file=sys.stderr, flush=True)


def fill(kind: str) -> None:
    """Make what a run of the image needs, its stored machines too. Raises RunError."""
    cache = invoker().cache
    if kind == "probes":
        guest.prepare(cache, DEFAULT, say)
        prepare_guest(cache, DEFAULT, say)
        return
    for kernel in SERIES:
        for cpus in sorted(set(CPUS.values())):
            prepare_guest(cache, kernel, say, cpus=cpus)
    with PackageSources(store := Cache(cache, say)) as sources:
        for name in GUEST_PROGRAMS.keys() - {"bpftrace"}:  # for one knob: a tenth of the image
            program_files(store, sources, name)


if __name__ == "__main__":
    fill(sys.argv[1])
