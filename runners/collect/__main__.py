# SPDX-License-Identifier: GPL-2.0-or-later
"""`python3 -m runners.collect PLAN OUT`: run the plan on this kernel, leave raw files in OUT.

Prints a line `@progress DONE TOTAL TEXT` before each step. Exit status 1, with one sentence on
stderr, only where nothing can be measured at all; a cell or a script that fails is recorded in
`cells.jsonl` or `missing.json`, and the rest goes on.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from runners.collect import bpftrace, ftrace, plan
from runners.collect.environment import environment
from runners.collect.workload import CellError, run_cell

RCU_EXPEDITED = Path("/sys/kernel/rcu_expedited")


class Collector:
    """Runs one plan. Everything it learns goes to files in `out` as soon as it is known."""

    def __init__(self, what: plan.Plan, out: Path) -> None:
        self._plan = what
        self._out = out
        self._scripts = bpftrace.read_scripts()
        self._missing: list[dict[str, str]] = []
        self._done = 0
        for folder in ("samples", "bpftrace", "ftrace"):
            (out / folder).mkdir(parents=True)

    def run(self) -> None:
        """All passes in order."""
        _write_json(self._out / "environment.json", environment())
        for number, one in enumerate(self._plan.passes):
            if one.instrument == "bpftrace":
                self._bpftrace_pass(one, self._out / "bpftrace" / str(number))
            elif one.instrument == "ftrace":
                self._ftrace_pass(one)
            else:
                self._run_cells(one, [])
        _write_json(self._out / "missing.json", self._missing)

    def _bpftrace_pass(self, one: plan.Pass, out: Path) -> None:
        out.mkdir()
        began = time.monotonic()
        self._progress(f"attaching {len(one.scripts)} bpftrace scripts")
        with ExitStack() as stack:
            with self._hurried_kernel():
                attached = self._attach(one.scripts, out, stack)
            seconds = time.monotonic() - began
            self._progress(f"attached {len(attached)} bpftrace scripts in {seconds:.1f} s")
            self._run_cells(one, attached)
            self._progress("detaching")
            with self._hurried_kernel():
                for tracer in attached:
                    tracer.ask_to_finish()
                for tracer in attached:
                    self._try(tracer, tracer.finish)

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

    def _attach(self, names: tuple[str, ...], out: Path, stack: ExitStack) -> list[bpftrace.Tracer]:
        tracers = [bpftrace.Tracer(self._scripts[name], self._plan.workload, out) for name in names]
        for tracer in tracers:
            stack.callback(tracer.stop)
        started = [tracer for tracer in tracers if self._try(tracer, tracer.start)]
        return [tracer for tracer in started if self._try(tracer, tracer.wait_attached)]

    def _try(self, tracer: bpftrace.Tracer, step: Any) -> bool:
        """Do a step of a tracer; False, with its quantities recorded as missing, if it fails."""
        try:
            step()
        except bpftrace.AttachError as error:
            self._miss(", ".join(tracer.quantities), str(error))
            return False
        return True

    def _ftrace_pass(self, one: plan.Pass) -> None:
        try:
            with ftrace.FunctionTracer() as tracer:
                for run in one.runs:
                    self._keep(self._run_cell(run, "ftrace", [], tracer))
        except ftrace.FtraceError as error:
            self._miss("function_calls of every function", str(error))

    def _run_cells(self, one: plan.Pass, attached: list[bpftrace.Tracer]) -> None:
        scripts = [tracer.name for tracer in attached]
        for run in one.runs:
            before = [tracer.missed() for tracer in attached]
            record = self._run_cell(run, one.instrument, scripts, None)
            after = [tracer.missed() for tracer in attached]
            record["missed"] = {
                name: None if first is None or last is None else last - first
                for name, first, last in zip(scripts, before, after, strict=True)
            }
            self._keep(record)

    def _run_cell(
        self,
        run: plan.CellRun,
        instrument: str,
        scripts: list[str],
        tracer: ftrace.FunctionTracer | None,
    ) -> dict[str, Any]:
        self._progress(f"{run.cell}, {instrument or 'no probe'}")
        record: dict[str, Any] = {
            "id": run.id,
            **vars(run.cell),
            "repeat": run.repeat,
            "instruments": [instrument] if instrument else [],
            "scripts": scripts,
            "lost": 0,
            "error": None,
        }
        gate = tracer.gate if tracer else None
        wanted = self._plan.samples and instrument != "ftrace"
        samples = self._out / "samples" / f"{run.id}.u32" if wanted else None
        try:
            record["result"] = run_cell(self._plan, run, samples, gate)
            if tracer:
                record["lost"] = tracer.take(self._out / "ftrace" / f"{run.id}.tsv")
        except CellError as error:
            record["error"] = str(error)
        return record

    def _keep(self, record: dict[str, Any]) -> None:
        with (self._out / "cells.jsonl").open("a", encoding="utf-8") as cells:
            cells.write(json.dumps(record) + "\n")
        self._done += 1

    def _miss(self, what: str, why: str) -> None:
        self._missing.append({"what": what, "why": why})

    def _progress(self, text: str) -> None:
        print("@progress", self._done, self._plan.runs, text, flush=True)


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
