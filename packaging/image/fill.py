# SPDX-License-Identifier: GPL-2.0-or-later
"""fill.py exact|probes [MACHINE]: put into PATHCOST_CACHE what that image runs; it fetches nothing.

MACHINE is what uname(2) says where the image will run, if it is not of this machine's architecture.
No kernel boots here then: that image stores a machine when it first needs it.
"""

import platform
import sys


def say(line: str) -> None:
    """Say what is being done, beside the output of build.sh."""
    print(f"fill.py: {line}", file=sys.stderr, flush=True)


def fill(kind: str) -> None:
    """Make what a run of the image needs, its stored machines too. Raises RunError."""
    from runners import guest
    from runners.exact.cells import CPUS
    from runners.exact.guest import GUEST_PROGRAMS, prepare_guest, program_files
    from runners.guest.debian import PackageSources
    from runners.guest.kernels import DEFAULT, SERIES
    from runners.guest.store import Cache
    from runners.store.folders import invoker

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


def fetch(kind: str) -> None:
    """Make what a run of the image needs, and boot nothing. Raises RunError.

    Exact mode counts on x86-64 everywhere, and here also on the image's own architecture.
    """
    from probes.isa import HOST, USUAL
    from runners.exact.guest import GUEST_PROGRAMS, program_files
    from runners.guest.debian import PackageSources
    from runners.guest.image import prepare_image
    from runners.guest.kernels import DEFAULT, PROBED, SERIES, prepare_kernel
    from runners.guest.qemu import prepare_qemu
    from runners.guest.store import Cache
    from runners.store.folders import invoker

    wanted = {USUAL: SERIES, HOST: PROBED} if kind == "exact" else {HOST: (DEFAULT,)}
    with PackageSources(store := Cache(invoker().cache, say)) as sources:
        for isa, kernels in wanted.items():
            qemu = prepare_qemu(store, sources, isa)
            for kernel in kernels:
                prepare_kernel(store, sources, qemu, kernel, isa)
            if kind == "probes":
                prepare_image(store, sources, lambda qemu=qemu: qemu, isa)
                continue
            for name in GUEST_PROGRAMS.keys() - {"bpftrace"}:
                program_files(store, sources, name, isa)


if __name__ == "__main__":
    if sys.argv[2:]:
        machine = sys.argv[2]
        platform.machine = lambda: machine  # before our modules look
        fetch(sys.argv[1])
    else:
        fill(sys.argv[1])
