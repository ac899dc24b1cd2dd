# SPDX-License-Identifier: GPL-2.0-or-later
"""`python3 -m runners.host [PLAN] OUT …`: run the plan on this kernel, leave raw files in OUT.

It prints a line `@progress DONE TOTAL TEXT` before each step. A cell or a script that fails is
recorded in `cells.jsonl` or `missing.json`, and the rest goes on.
"""

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from probes import reasons
from probes.bpf import enable_statistics
from probes.cell import CellRun, Plan, load
from probes.contract import CELLS, CHECKS, ENVIRONMENT, MISSING
from probes.messages import exit_status, failure, shown
from probes.scripts import Script, instruments, read_scripts
from runners.checks import CHECK_NAMES
from runners.host.bpftrace import Bpftrace
from runners.host.environment import environment
from runners.host.ftrace import FtraceInstrument
from runners.host.instrument import Bcc, Context, Instrument
from runners.host.perf import StackProfile, Stat
from runners.host.waiting import wait_for_plan
from runners.host.workload import CellError, Execution, HungError, run_cell, run_check
from runners.process import RunError, User

RCU_EXPEDITED = Path("/sys/kernel/rcu_expedited")
SAY_AGAIN_SECONDS = 30
MOST_HUNG = 2  # cells one after the other, each for longer than its time-out


# The scripts of an instrument share one object, unless there is a class for one of them.
INSTRUMENTS: dict[str, Callable[[Sequence[Script], Context], Instrument]] = {
    "bpftrace": Bpftrace,
    "bcc": Bcc,
    "perf stat": Stat,
    "perf profile": StackProfile,
    "ftrace": FtraceInstrument,
}


class Collector:
    """Runs a plan. It writes each result to a file in `out` as soon as it is known."""

    def __init__(self, what: Plan, execution: Execution, out: Path) -> None:
        self._plan = what
        self._execution = execution
        self._out = out
        self._missing: list[dict[str, Any]] = []
        self._held: list[Instrument] = []
        self._done = self._hung = 0
        out.mkdir(mode=0o700, parents=True, exist_ok=True)  # nobody else reads what is measured
        (out / "samples").mkdir()
        (out / CELLS).touch()

    def run(self, wait: Callable[[], str] | None = None) -> None:
        """All passes in order. With `wait`, first attach the plan's scripts: it gives the plan."""
        with ExitStack() as stack:
            with suppress(OSError):  # before Linux 5.8 the kernel counts no runs of BPF programs
                stack.callback(os.close, enable_statistics())
            with ThreadPoolExecutor(1) as pool:
                conditions = pool.submit(environment)
                if wait is not None:
                    self._attach(_by_kind(self._plan.passes[0].scripts), 0)
                _write_json(self._out / ENVIRONMENT, conditions.result())
            if wait is not None:
                self._plan = read_plan(wait())
            self._passes()
        for name in self._plan.checks:  # when nothing is attached any more
            for answer in run_check(name, self._execution.user):
                self._write(CHECKS, answer)
        _write_json(self._out / MISSING, self._missing)

    def _passes(self) -> None:
        """What the next pass wants as well stays attached: attaching and detaching take seconds."""
        try:
            for number, part in enumerate(self._plan.passes):
                wanted = _by_kind(part.scripts)
                kept = wanted.values()
                self._detach([tool for tool in self._held if tuple(tool.quantities) not in kept])
                self._attach(wanted, number)
                for run in part.runs:
                    self._write(CELLS, self._run_cell(run))
                    self._done += 1
            self._detach(list(self._held))
        finally:
            for left in self._held:
                left.stop()

    def _write(self, name: str, line: dict[str, Any]) -> None:
        with (self._out / name).open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(line) + "\n")

    def _attach(self, wanted: dict[str, tuple[str, ...]], number: int) -> None:
        """Attach all new instruments, side by side."""
        began, miss, table = time.monotonic(), partial(reasons.add, self._missing), read_scripts()
        transports = frozenset(cell.transport for cell in self._plan.cells)
        context = Context(self._execution.workload, transports, self._out, number, miss)
        held = {tuple(instrument.quantities) for instrument in self._held}
        new = [
            INSTRUMENTS[kind]([table[name] for name in names], context)
            for kind, names in wanted.items()
            if names not in held
        ]
        if not new:
            return
        self._held += new
        with self._step(f"attaching {_words(new)}"), self._hurried_kernel():
            for instrument in new:
                instrument.attach()
            for instrument in new:
                instrument.scripts = instrument.wait()
        done = sum(len(instrument.scripts) for instrument in new)
        self._progress(f"attached {done} scripts in {time.monotonic() - began:.1f} s")

    def _detach(self, old: list[Instrument]) -> None:
        if not old:
            return
        with self._step(f"detaching {_words(old)}"), self._hurried_kernel():
            for instrument in old:
                instrument.ask_to_finish()
            for instrument in old:
                instrument.finish()
        for instrument in old:
            self._held.remove(instrument)
            instrument.stop()

    @contextmanager
    def _hurried_kernel(self) -> Iterator[None]:
        """In a kernel of our own, expedite RCU grace periods, of which each probe waits for one."""
        if self._execution.own_kernel:
            RCU_EXPEDITED.write_text("1")
        try:
            yield
        finally:
            if self._execution.own_kernel:
                RCU_EXPEDITED.write_text("0")

    def _run_cell(self, run: CellRun) -> dict[str, Any]:
        self._progress(f"{run.cell}, {_words(self._held) or 'no probe'}")
        scripts = [
            name
            for instrument in self._held
            for name in instrument.scripts
            if run.cell.transport not in instrument.blind(name)
        ]
        scripts.sort(key=list(read_scripts()).index)  # whichever was attached first
        record: dict[str, Any] = {
            "id": run.id,
            **{name: value for name, value in vars(run.cell).items() if name != "knob"},
            "repeat": run.repeat,
            "instruments": list(instruments(scripts)),
            "scripts": scripts,
            "error": None,
        }
        # The function tracer slows a round trip down too much for its time to mean anything.
        wanted = self._plan.samples and "ftrace" not in record["instruments"]
        samples = self._out / "samples" / f"{run.id}.u32" if wanted else None
        windows = [instrument.before(run) for instrument in self._held]
        try:
            record |= run_cell(self._execution, self._plan, run, samples, windows)
        except CellError as error:
            record["error"] = str(error)
            self._hung = self._hung + 1 if isinstance(error, HungError) else 0
            if self._hung == MOST_HUNG:
                raise RunError(f"{error} So it did before, and nothing can be measured.") from error
            if samples is not None:
                samples.unlink(missing_ok=True)
        record |= {"lost": 0, "missed": {}, "calls_missed": {}, "bpf_programs": {}}
        for instrument in self._held:
            losses = instrument.after(run)
            record["lost"] += losses.lost
            record["missed"] |= losses.missed
            record["calls_missed"] |= losses.calls_missed
            if losses.ran:
                record["bpf_programs"][instrument.name] = losses.ran
        return record

    @contextmanager
    def _step(self, text: str) -> Iterator[None]:
        """Say a step again and again: on a slow CPU it takes minutes, and silence means stopped."""
        done = threading.Event()

        def say() -> None:
            self._progress(text)
            while not done.wait(SAY_AGAIN_SECONDS):
                self._progress(text)

        with ThreadPoolExecutor(1) as pool:
            pool.submit(say)
            try:
                yield
            finally:
                done.set()

    def _progress(self, text: str) -> None:
        print("@progress", self._done, self._plan.runs, text, flush=True)


def _by_kind(scripts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Kind of instrument → its scripts."""
    table = read_scripts()
    by_kind: dict[str, tuple[str, ...]] = {}
    for name in scripts:
        instrument = table[name].instrument
        kind = alone if (alone := f"{instrument} {name}") in INSTRUMENTS else instrument
        by_kind[kind] = (*by_kind.get(kind, ()), name)
    return by_kind


def _words(held: Iterable[Instrument]) -> str:
    return ", ".join(instrument.name for instrument in held)


def _write_json(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def read_plan(text: str) -> Plan:
    """Read a plan whose checks are among ours. Raises ValueError."""
    plan = load(text)
    if unknown := {*plan.checks} - {*CHECK_NAMES}:
        raise ValueError(f"no plan: there is no check {shown(sorted(unknown)[0])}")
    return plan


def _user(text: str) -> User:
    uid, gid = map(int, text.split(":"))
    return uid, gid


def main(argv: list[str]) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parser = argparse.ArgumentParser(prog="runners.host")
    add = parser.add_argument
    add("plan", type=Path, nargs="?", help="a file (default: standard input)")
    add("out", type=Path)
    add("--workload", required=True, help="the program that runs the cells")
    add("--user", metavar="UID:GID", type=_user, help="who runs it (default: ourselves)")
    add("--own-kernel", action="store_true", help="nobody else uses this kernel")
    add("--wait", action="store_true", help="attach PLAN's scripts, and wait for the plan to run")
    given = parser.parse_args(argv)
    execution = Execution(given.workload, given.user, given.own_kernel)
    try:
        # Not by its name: without dac_override root may not open another user's pipe.
        plan = given.plan.read_text(encoding="utf-8") if given.plan else sys.stdin.read()
        Collector(read_plan(plan), execution, given.out).run(wait_for_plan if given.wait else None)
    except (OSError, ValueError, RunError) as error:
        why = failure(error) if isinstance(error, OSError) else str(error)
        print(f"pathcost: collecting failed: {why.rstrip('.')}.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
