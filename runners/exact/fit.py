# SPDX-License-Identifier: GPL-2.0-or-later
"""A knob fitted to a kernel: the machine that it needs, the files that it brings, its cells."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from runners.exact import lane
from runners.exact.boot import REPOSITORY, digest
from runners.exact.knobs import KNOB, TEXT, Knob
from runners.exact.program import bare
from runners.exact.tools import module_files, program_files
from runners.guest.cache import Cache, Say
from runners.guest.machine import User
from runners.guest.package_sources import PackageSources

PROGRAM = REPOSITORY / "runners/exact/knob/build/knob"


def fit(
    cache: Path, base: lane.Guest, kernel: str, knob: Knob, say: Say, user: User | None = None
) -> tuple[lane.Guest, Knob]:
    """The guest in which cells with `knob` are counted, and the knob with all its steps.

    `base` is the guest without it. Raises LackingError where this kernel cannot give what the
    knob needs, GuestError.
    """
    with Cache(cache, say) as cached, PackageSources(cached) as sources:
        modules = module_files(cached, sources, base.machine.kernel, knob.modules)
        paths = {f"/modules/{path.name}": path for path in modules}
        if modules:
            knob = knob.loading(list(paths))
        for name in knob.programs:
            paths |= program_files(cached, sources, name)
        image: dict[str, Path] = {}
        for name in knob.image:
            image |= program_files(cached, sources, name)
        files = {path: file.read_bytes() for path, file in paths.items()}
    if any(KNOB in step for step in knob.steps):
        files[KNOB] = bare(PROGRAM.read_bytes())
    if knob.text:
        files[TEXT] = knob.text.encode()
    guest = base
    if knob.command_line or image:
        guest = lane.prepare(
            cache,
            kernel,
            say,
            user,
            cpus=base.machine.cpus,
            knobs=knob.command_line,
            image=image,
        )
    brought = {path: digest(data) for path, data in files.items()}
    return replace(guest, files=files, recipe=guest.recipe | {"files": brought}), knob
