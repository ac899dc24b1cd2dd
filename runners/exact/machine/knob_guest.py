# SPDX-License-Identifier: GPL-2.0-or-later
"""Prepares the guest for a knob: the machine with its kernel options, and the files it needs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from runners.exact.knobs import KNOB, TEXT, Knob
from runners.exact.machine.boot import REPOSITORY, digest
from runners.exact.machine.elf import strip_elf
from runners.exact.machine.guest import ExactGuest, prepare_guest
from runners.exact.machine.knob_files import module_files, program_files
from runners.guest.cache import Cache, Say
from runners.guest.machine import User
from runners.guest.package_sources import PackageSources

PROGRAM = REPOSITORY / "runners/exact/knob/build/knob"


def guest_with_knob(
    cache: Path, base: ExactGuest, kernel: str, knob: Knob, say: Say, user: User | None = None
) -> tuple[ExactGuest, Knob]:
    """The guest in which cells with `knob` are counted, and the knob with all its steps.

    `base` is the guest without the knob. Raises GuestError, and LackingError where this kernel
    cannot give what the knob needs.
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
        files[KNOB] = strip_elf(PROGRAM.read_bytes())
    if knob.text:
        files[TEXT] = knob.text.encode()
    guest, cpus = base, base.machine.cpus
    if knob.command_line or image:
        options = knob.command_line
        guest = prepare_guest(cache, kernel, say, user, cpus=cpus, knobs=options, image=image)
    brought = {path: digest(data) for path, data in files.items()}
    return replace(guest, files=files, recipe=guest.recipe | {"files": brought}), knob
