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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runners.collect.bcc import Bcc
from runners.collect.bpftrace import Bpftrace
from runners.collect.checks import run_check
from runners.collect.environment import environment
from runners.collect.ftrace import Functions
from runners.collect.graph import Tree
from runners.collect.instrument import Context, Instrument
from runners.collect.perf import Profile, Stat, Trace
from runners.collect.programs import enable_statistics
from runners.collect.scripts import Script, instruments, read_scripts
from runners.collect.workload import CellError, run_cell
from runners.plan.model import CellRun, Plan, load

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


@dataclass
class Held:
    """An instrument that is attached: with the scripts that it was asked for, and those it has."""

    wanted: tuple[str, ...]
    instrument: Instrument
    scripts: list[str] = field(default_factory=list)


class Collector:
    """Runs one plan. Everything it learns goes to files in `out` as soon as it is known."""

    def __init__(self, what: Plan, out: Path) -> None:
        self._plan = what
        self._out = out
        self._missing: list[dict[str, str]] = []
        self._done = 0
        (out / "samples").mkdir(parents=True)
        (out / "cells.jsonl").touch()

    def run(self) -> None:
        """All passes in order."""
        _write_json(self._out / "environment.json", environment())
        with program_statistics():
            self._passes()
        self._checks()
        _write_json(self._out / "missing.json", self._missing)

    def _passes(self) -> None:
        """What the next pass wants as well stays attached: attaching and detaching take seconds."""
        held: dict[str, Held] = {}
        try:
            for number, one in enumerate(self._plan.passes):
                wanted = _by_kind(one.scripts)
                self._detach(held, [kind for kind in held if held[kind].wanted != wanted.get(kind)])
                self._attach(held, wanted, number)
                for run in one.runs:
                    self._keep(self._run_cell(run, list(held.values())))
            self._detach(held, list(held))
        finally:
            for left in held.values():
                left.instrument.stop()

    def _checks(self) -> None:
        """Nothing is attached any more: a check is no cell."""
        if not self._plan.checks:
            return
        with (self._out / "checks.jsonl").open("w", encoding="utf-8") as lines:
            for name in self._plan.checks:
                for answer in run_check(Path(self._plan.checks_folder), name, self._plan.user):
                    lines.write(json.dumps(answer) + "\n")

    def _attach(
        self, held: dict[str, Held], wanted: dict[str, tuple[str, ...]], number: int
    ) -> None:
        """All new instruments attach side by side."""
        new = [kind for kind in wanted if kind not in held]
        if not new:
            return
        began = time.monotonic()
        where = (self._plan.workload, self._out, number, self._miss, self._plan.own_kernel)
        table = read_scripts()
        for kind in new:
            scripts = [table[name] for name in wanted[kind]]
            held[kind] = Held(wanted[kind], KINDS[kind](scripts, Context(*where)))
        asked = sum(len(wanted[kind]) for kind in new)
        self._progress(f"attaching {_words(held[kind] for kind in new)}, {asked} scripts")
        with self._hurried_kernel():
            for kind in new:
                held[kind].instrument.attach()
            for kind in new:
                held[kind].scripts = held[kind].instrument.wait()
        done = sum(len(held[kind].scripts) for kind in new)
        self._progress(f"attached {done} scripts in {time.monotonic() - began:.1f} s")

    def _detach(self, held: dict[str, Held], kinds: list[str]) -> None:
        if not kinds:
            return
        self._progress(f"detaching {_words(held[kind] for kind in kinds)}")
        with self._hurried_kernel():
            for kind in kinds:
                held[kind].instrument.ask_to_finish()
            for kind in kinds:
                held[kind].instrument.finish()
        for kind in kinds:
            held.pop(kind).instrument.stop()

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

    def _run_cell(self, run: CellRun, held: list[Held]) -> dict[str, Any]:
        self._progress(f"{run.cell}, {_words(held) or 'no probe'}")
        attached = [one.instrument for one in held]
        scripts = _in_order(name for one in held for name in one.scripts)
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
        # What is attached in several passes says it in each.
        if (entry := {"what": what, "why": why}) not in self._missing:
            self._missing.append(entry)

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


def _by_kind(scripts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Who runs these scripts, and which."""
    table = read_scripts()
    by_kind: dict[str, list[str]] = {}
    for name in scripts:
        instrument = table[name][0].instrument
        alone = f"{instrument} {name}"
        by_kind.setdefault(alone if alone in KINDS else instrument, []).append(name)
    return {kind: tuple(names) for kind, names in by_kind.items()}


def _in_order(scripts: Iterable[str]) -> list[str]:
    """In the table's order, whoever was attached first."""
    return sorted(scripts, key=list(read_scripts()).index)


def _words(held: Iterable[Held]) -> str:
    return ", ".join(one.instrument.name for one in held)


def _write_json(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main(argv: list[str]) -> int:
    signal.signal(signal.SIGTERM, _interrupt)
    source, out = map(Path, argv)
    try:
        Collector(load(source), out).run()
    except OSError as error:
        print(f"pathcost: collecting failed: {error}.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
