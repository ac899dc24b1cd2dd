# SPDX-License-Identifier: GPL-2.0-or-later
"""bpftrace scripts, merged into one process a probe level, which prints its maps when it ends."""

import re
import subprocess
from collections.abc import Container, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from probes import program
from probes.reasons import Reason, ReasonError, reason
from probes.scripts import Script
from runners.host.instrument import Child, Context, Tracers
from runners.process import answer

# bpftrace prints this when every probe is attached and this variable is set: its own tests use it.
NOTIFY = "__BPFTRACE_NOTIFY_PROBES_ATTACHED"
# How it reports an attach point that does not exist: some versions go on without that probe.
ABSENT = re.compile(
    r"could not attach probe (\S+?),? skipping|tracepoint not found: (\S+)|(\S+) is not traceable"
)


@cache
def checking() -> list[str]:
    """The option by which bpftrace reports a map that is full; from 0.19 on it always does."""
    usage = answer(["bpftrace", "--help"], stderr=subprocess.STDOUT)
    return ["-k"] if "(except read functions)" in usage else []


class Part(NamedTuple):
    """What a script counts of some transports, or of all."""

    script: Script
    blocks: list[program.Block]

    @property
    def programs(self) -> set[str]:
        """Names of the programs of its attach points: bpftrace's, cut to the kernel's length."""
        return {re.sub(r"\W", "_", block.probe)[:15] for block in self.blocks}


class Group(Child):
    """A bpftrace process with several scripts, whose merged text stays beside their output."""

    environment: Mapping[str, str] = {NOTIFY: "1"}

    def __init__(self, name: str, parts: Sequence[Part], out: Path) -> None:
        self.parts = parts
        self.quantities = {part.script.name: part.script.quantities for part in parts}
        files = ", ".join(self.quantities)
        super().__init__(name, files, out / f"{name}.maps", out / f"{name}.words")
        self._out = out

    def argv(self) -> list[str]:
        script = self._out / f"{self.name}.bt"
        script.write_text(program.merge((part.script.name, part.blocks) for part in self.parts))
        return ["bpftrace", *checking(), "-f", "json", "-o", str(self.output), str(script)]

    def is_attached(self) -> bool:
        return NOTIFY in self.printed()

    def check_attached(self) -> None:
        """Without one of its probes a script counts too little, which would pass for a zero."""
        if absent := self.absent():
            raise ReasonError(*absent.values())

    def absent(self) -> dict[str, Reason]:
        """Script → which of its hooks this kernel lacks."""
        absent = {name for names in ABSENT.findall(self.printed()) for name in names if name}
        reasons = {}
        for part in self.parts:
            hooks = dict.fromkeys(
                block.probe
                for block in part.blocks
                if absent & {block.probe, block.probe.partition(":")[2]}
            )
            if hooks:
                reasons[part.script.name] = reason("no-hook", hook=", ".join(hooks))
        return reasons

    def scripts_of(self, bpf: str) -> Sequence[str]:
        """Names of programs are cut, so a program may belong to several scripts."""
        scripts = dict.fromkeys(part.script.name for part in self.parts if bpf in part.programs)
        return list(scripts) or super().scripts_of(bpf)

    def finish(self) -> None:
        """Then turn what it printed into what each script would have printed alone."""
        super().finish()
        with self.output.open(encoding="utf-8") as lines:
            texts = program.split(lines, list(self.quantities))
        for name, text in texts.items():
            (self._out / f"{name}.json").write_text(text, encoding="utf-8")
            (self._out / f"{name}.stderr").write_text(self.printed(), encoding="utf-8")
        self.output.unlink()
        self.words.unlink()


class Bpftrace(Tracers[Group]):
    """The bpftrace scripts of a pass."""

    name = "bpftrace"

    def __init__(self, scripts: Sequence[Script], context: Context) -> None:
        super().__init__(scripts, context)
        self._scripts = scripts
        self._blind: dict[str, set[str]] = {}

    def blind(self, script: str) -> Container[str]:
        return self._blind.get(script, ())

    def attach(self) -> None:
        """One bpftrace a probe level: two compile side by side, and a third would only wait."""
        parts: dict[str, list[Part]] = {}
        for script in self._scripts:
            parts.setdefault(script.probe_level, []).extend(self._parts(script))
        for probe_level, level in parts.items():
            if level:
                self._start(probe_level, level)

    def wait(self) -> list[str]:
        self.attached = [group for started in list(self.all) for group in self._settle(started)]
        self.freeze()
        names = {name for group in self.attached for name in group.quantities}
        return [script.name for script in self._scripts if script.name in names]

    def _parts(self, script: Script) -> list[Part]:
        """What the run's transports need of a script, which is blind to those that lack a hook."""
        parts: list[Part] = []
        blind = self._blind.setdefault(script.name, set())
        wanted, seen = self.context.transports, set[str]()
        for transports, counters in program.parts(script, wanted).items():
            try:
                if script.text and not transports:
                    parts.append(Part(script, program.written(script, self.context.workload)))
                if counters:
                    parts.append(Part(script, program.made(counters, self.context.workload)))
            except ReasonError as error:
                self.miss({script.name: script.quantities}, error)
                if not transports:
                    return []
                blind.update(transports)
            seen |= set(transports or wanted)
        if unseen := wanted - seen:
            why = reason("off-path", transports=", ".join(sorted(unseen)), script=script.name)
            self.miss({script.name: script.quantities}, ReasonError(why))
            blind.update(unseen)
        return parts

    def _start(self, name: str, parts: Sequence[Part]) -> Group:
        group = Group(name, parts, self.context.folder(self.name))
        self.all.append(group)
        group.start()
        return group

    def _settle(self, group: Group) -> list[Group]:
        """Attach the group; else its scripts without what this kernel lacks; else each alone."""
        try:
            group.wait_attached()
            return [group]
        except ReasonError as error:
            group.stop()
            absent, why = group.absent(), error.reasons[0]
            # What hangs together hangs alone, and each would be waited for.
            if not absent and (len(group.quantities) == 1 or why.code == "slow-to-attach"):
                absent = dict.fromkeys(group.quantities, why)
        for name, why in absent.items():
            self.miss({name: group.quantities[name]}, ReasonError(why))
        left = [part for part in group.parts if part.script.name not in absent]
        again = {group.name: left}
        if not absent:
            again = {n: [part for part in left if part.script.name == n] for n in group.quantities}
        started = [self._start(name, parts) for name, parts in again.items() if parts]
        return [attached for each in started for attached in self._settle(each)]
