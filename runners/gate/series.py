# SPDX-License-Identifier: GPL-2.0-or-later
"""A series of commits: each is built on top of the one before, and counted.

What a commit's kernel counts is kept in the cache by the hash of its source: a series that has one
commit more costs one more build.
"""

import json
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from probes.cell import CellRun
from probes.contract import BEYOND, GATE_RUNS, PRICES, SERIES, TOLD, UNTOLD
from probes.isa import ISAS
from probes.messages import PROGRAM
from runners.exact import run as exact
from runners.exact.count import code_digest
from runners.exact.kernel_tree import TreeConfig, build_tree, compiler, need_build_programs
from runners.exact.machine import digest, programs
from runners.gate.counting import cells_charged, cells_of, counting
from runners.gate.paths import cells_of_sets
from runners.gate.sources import SourceState, WorkTree
from runners.guest.debian import PackageSources
from runners.guest.qemu import prepare_qemu
from runners.guest.store import Cache, write_json
from runners.host.session import Session
from runners.options import GateOptions
from runners.process import RunError, UsageError
from runners.programs.prices import knob_of
from runners.store.folders import Scratch, publish

COUNTED = "run"  # the counts, in an entry of the cache


class Series:
    """The states of a source, the base first, and how each is counted."""

    def __init__(
        self, session: Session[GateOptions], tree: WorkTree, states: Sequence[SourceState]
    ) -> None:
        self.session, self.tree, self.states = session, tree, states
        self.options = session.options
        self.config = TreeConfig(own=self.options.config, types=self.options.lines)
        self.cache = Cache(session.invoker.cache, session.progress.say)
        self.isa = ISAS[self.options.arch]
        self.compiler = compiler(self.isa)
        with PackageSources(self.cache) as sources:
            self.qemu = prepare_qemu(self.cache, sources, self.isa).version

    def judge(self, destination: Path, scratch: Scratch, prices: Mapping[str, Any] | None) -> int:
        """Count each state, compare, print: the exit status. Raises UsageError, RunError.

        With `prices` of events it also says what the whole difference takes here.
        """
        need_build_programs(self.tree.path)
        destination.parent.mkdir(parents=True, exist_ok=True)
        folder = scratch.folder(destination.parent, f".{destination.name}")
        steps = [
            self.step(folder, number, state, scratch) for number, state in enumerate(self.states)
        ]
        (folder / SERIES).write_text(json.dumps(self.described(steps), indent=1) + "\n")
        if prices:
            write_json(folder / PRICES, prices)
            if knob := knob_of(prices):
                self.charge(folder, steps, scratch, knob)
        publish(folder)
        folder.rename(destination)
        from analysis.__main__ import judge_series

        options = self.options
        status = judge_series(destination, options.show, options.allowance)
        told = (destination / "series.csv").exists()
        return UNTOLD if status == BEYOND and not told else status

    def described(self, steps: list[dict[str, Any]]) -> dict[str, Any]:
        """What series.json says: how the commits were counted, and what became of each."""
        config = "minimal.config"
        if self.options.config:
            added = len(self.config.added(self.isa))
            config = f"{self.options.config.name} with {added} options added"
        return {
            "command": shlex.join([PROGRAM, *self.options.argv]),
            "compiler": self.compiler,
            "config": config,
            "qemu": self.qemu,
            "steps": steps,
        }

    def step(
        self, folder: Path, number: int, state: SourceState, scratch: Scratch
    ) -> dict[str, Any]:
        """Count a state into `folder`: its entry of `steps`. Raises RunError for the base."""
        progress = self.session.progress
        known = {"commit": state.words, "subject": state.subject, "folder": "", "why": ""}
        total = len(self.states) - 1
        progress.note(
            f"base: {state.words} {state.subject}"
            if number == 0
            else f"{number} of {total}: {state.words} {state.subject}"
        )
        try:
            counts = self.counted(state, scratch)
        except (RunError, UsageError) as error:
            if number == 0:  # nothing could be compared with anything
                raise
            why = str(error).replace(f"{self.tree.path} ", "it ").splitlines()[0].rstrip(".")
            progress.note(f"{state.words}: {why}")
            return known | {"why": why}
        name = "base" if number == 0 else f"{number:03}-{state.words}"
        shutil.copytree(counts, folder / name)
        return known | {"folder": name}

    def charge(
        self, folder: Path, steps: Sequence[Mapping[str, Any]], scratch: Scratch, knob: str
    ) -> None:
        """Count what the whole series changed again, as the prices of events are.

        The verdict needs none of it. Raises RunError for a damaged run.
        """
        told = [pair for pair in zip(self.states, steps, strict=True) if pair[1]["folder"]]
        (base, first), (last, end) = told[0], told[-1]
        cells = cells_charged(folder / first["folder"], folder / end["folder"], knob)
        if not cells:
            return
        self.session.progress.note(f"what changed is counted again with {knob}, for its time")
        try:
            for name, state in zip(GATE_RUNS, (base, last), strict=True):
                shutil.copytree(self.counted(state, scratch, cells), folder / TOLD / name)
        except (RunError, UsageError) as error:
            self.session.progress.note(f"no time is told: {error}")
            shutil.rmtree(folder / TOLD, ignore_errors=True)

    def counted(self, state: SourceState, scratch: Scratch, cells: Sequence[CellRun] = ()) -> Path:
        """The folder of a state's run, from the cache or made: of these cells, or of the options'.

        Raises RunError, UsageError.
        """
        recipe = {
            "tree": state.tree,
            "config": self.config.wanted(self.isa),
            "compiler": self.compiler,
            "qemu": self.qemu,
            "cells": [repr(run.cell) for run in cells] or cells_of(self.options),
            "code": code_digest(),
            "programs": {name: digest(data) for name, data in programs(self.isa).items()},
        }

        def count(partial: Path) -> dict[str, object]:
            self.tree.check_out(state)
            with self.session.progress.step("building"):
                image = build_tree(
                    self.cache.folder,
                    self.tree.path,
                    self.session.progress.say,
                    self.isa,
                    self.config,
                )
            counts = Session(
                counting(self.options, str(image)),
                invoker=self.session.invoker,
                progress=self.session.progress,
                root=self.session.root,
            )
            exact.run(
                counts,
                partial / COUNTED,
                scratch,
                moved_to=Path(COUNTED),
                cells=cells or cells_of_sets(self.options.paths, self.options.messages),
            )
            return {"what": f"{state.words} {state.subject}"}

        return self.cache.entry("counts", recipe, count) / COUNTED
