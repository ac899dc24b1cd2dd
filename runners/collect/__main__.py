# SPDX-License-Identifier: GPL-2.0-or-later
"""`python3 -m runners.collect PLAN OUT`: run the plan on this kernel, leave raw files in OUT.

Prints a line `@progress DONE TOTAL TEXT` before each step. Exit status 1, with one sentence on
stderr, only where nothing can be measured at all; a cell or a script that fails is recorded in
`cells.jsonl` or `missing.json`, and the rest goes on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from runners.collect import plan
from runners.collect.bcc import Bcc
from runners.collect.bpftrace import Bpftrace
from runners.collect.environment import environment
from runners.collect.ftrace import Functions
from runners.collect.graph import Tree
from runners.collect.instrument import Context, Instrument
from runners.collect.perf import Profile, Stat, Trace
from runners.collect.programs import enable_statistics
from runners.collect.scripts import Script, instruments, read_scripts
from runners.collect.workload import CellError, run_cell

RCU_EXPEDITED = Path("/sys/kernel/rcu_expedited")


# Who runs what: an instrument's scripts share one object, but for those that have one of their own.
KINDS: dict[str, Callable[[Sequence[Sequence[Script]], Context], Instrument]] = {
    "bpftrace": Bpftrace,
    "bcc": Bcc,
    "perf stat": Stat,
    "perf trace": Trace,
    "perf profile": Profile,
    "ftrace functions": Functions,
    "ftrace tree": Tree,
}


class Collector:
    """Runs one plan. Everything it learns goes to files in `out` as soon as it is known."""

    def __init__(self, what: plan.Plan, out: Path) -> None:
        self._plan = what
        self._out = out
        self._missing: list[dict[str, str]] = []
        self._done = 0
        (out / "samples").mkdir(parents=True)

    def run(self) -> None:
        """All passes in order."""
        _write_json(self._out / "environment.json", environment())
        with program_statistics():
            self._passes()
        _write_json(self._out / "missing.json", self._missing)

    def _passes(self) -> None:
        for number, one in enumerate(self._plan.passes):
            self._pass(one, number)

    def _pass(self, one: plan.Pass, number: int) -> None:
        with ExitStack() as stack:
            attached = self._instruments(one, number)
            for instrument in attached:
                stack.callback(instrument.stop)
            names = self._attach(one, attached) if attached else []
            for run in one.runs:
                self._keep(self._run_cell(run, attached, names))
            if attached:
                self._detach(attached)

    def _instruments(self, one: plan.Pass, number: int) -> list[Instrument]:
        where = (self._plan.workload, self._out, number, self._miss, self._plan.own_kernel)
        by_kind: dict[str, list[tuple[Script, ...]]] = {}
        for rows in map(read_scripts().__getitem__, one.scripts):
            alone = f"{rows[0].instrument} {rows[0].name}"
            by_kind.setdefault(alone if alone in KINDS else rows[0].instrument, []).append(rows)
        return [KINDS[kind](scripts, Context(*where)) for kind, scripts in by_kind.items()]

    def _attach(self, one: plan.Pass, attached: list[Instrument]) -> list[str]:
        """The scripts that are attached; all instruments attach side by side."""
        began = time.monotonic()
        self._progress(f"attaching {_words(attached)}, {len(one.scripts)} scripts")
        with self._hurried_kernel():
            for instrument in attached:
                instrument.attach()
            names = [name for instrument in attached for name in instrument.wait()]
        seconds = time.monotonic() - began
        self._progress(f"attached {len(names)} scripts in {seconds:.1f} s")
        return names

    def _detach(self, attached: list[Instrument]) -> None:
        self._progress(f"detaching {_words(attached)}")
        with self._hurried_kernel():
            for instrument in attached:
                instrument.ask_to_finish()
            for instrument in attached:
                instrument.finish()

    @contextmanager
    def _hurried_kernel(self) -> Iterator[None]:
        """Expedited RCU grace periods: attaching and detaching wait for one at each probe.

        Only in a kernel of our own, and never while a cell runs.
        """
        if not self._plan.own_kernel:
            yield
            return
        RCU_EXPEDITED.write_text("1")
        try:
            yield
        finally:
            RCU_EXPEDITED.write_text("0")

    def _run_cell(
        self, run: plan.CellRun, attached: list[Instrument], scripts: list[str]
    ) -> dict[str, Any]:
        self._progress(f"{run.cell}, {_words(attached) or 'no probe'}")
        record: dict[str, Any] = {
            "id": run.id,
            **vars(run.cell),
            "repeat": run.repeat,
            "instruments": list(instruments(scripts)),
            "scripts": scripts,
            "error": None,
        }
        # The function tracer makes a round trip so slow that its time says nothing.
        wanted = self._plan.samples and "ftrace" not in record["instruments"]
        samples = self._out / "samples" / f"{run.id}.u32" if wanted else None
        windows = [instrument.before(run) for instrument in attached]
        try:
            record["result"] = run_cell(self._plan, run, samples, windows)
        except CellError as error:
            record["error"] = str(error)
        losses = [instrument.after(run) for instrument in attached]
        record["lost"] = sum(one.lost for one in losses)
        record["missed"] = {name: count for one in losses for name, count in one.missed.items()}
        record["calls_missed"] = {
            name: count for one in losses for name, count in one.calls_missed.items()
        }
        record["programs"] = {
            instrument.name: vars(one.ran)
            for instrument, one in zip(attached, losses, strict=True)
            if one.ran
        }
        return record

    def _keep(self, record: dict[str, Any]) -> None:
        with (self._out / "cells.jsonl").open("a", encoding="utf-8") as cells:
            cells.write(json.dumps(record) + "\n")
        self._done += 1

    def _miss(self, what: str, why: str) -> None:
        self._missing.append({"what": what, "why": why})

    def _progress(self, text: str) -> None:
        print("@progress", self._done, self._plan.runs, text, flush=True)


@contextmanager
def program_statistics() -> Iterator[None]:
    """The kernel counts runs and time of BPF programs meanwhile, where it can (Linux 5.8)."""
    try:
        descriptor = enable_statistics()
    except OSError:
        yield
        return
    try:
        yield
    finally:
        os.close(descriptor)


def _words(attached: list[Instrument]) -> str:
    return ", ".join(instrument.name for instrument in attached)


def _write_json(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main(argv: list[str]) -> int:
    signal.signal(signal.SIGTERM, _interrupt)
    source, out = map(Path, argv)
    try:
        Collector(plan.load(source), out).run()
    except OSError as error:
        print(f"pathcost: collecting failed: {error}.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
