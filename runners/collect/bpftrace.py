# SPDX-License-Identifier: GPL-2.0-or-later
"""bpftrace scripts: put together, one process for each rung, which prints its maps when it ends."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from runners.collect import merge
from runners.collect.instrument import AttachError, Context
from runners.collect.scripts import Script, choose
from runners.collect.tracer import Child, Tracers

# bpftrace prints this when every probe is attached and this variable is set: its own tests use it.
NOTIFY = "__BPFTRACE_NOTIFY_PROBES_ATTACHED"
# What it says of an attach point that does not exist: some versions go on without it.
ABSENT = re.compile(
    r"could not attach probe (\S+?),? skipping|tracepoint not found: (\S+)|(\S+) is not traceable"
)


@cache
def checking() -> list[str]:
    """The option by which bpftrace reports a map that is full; from 0.19 on it always does."""
    usage = subprocess.run(["bpftrace", "--help"], capture_output=True, text=True, check=False)
    return ["-k"] if "(except read functions)" in usage.stdout + usage.stderr else []


@dataclass(frozen=True)
class Part:
    """A script that is to be attached with others."""

    script: Script
    blocks: list[merge.Block]

    @property
    def name(self) -> str:
        return self.script.name

    @property
    def file(self) -> str:
        return Path(self.script.file).name

    @property
    def programs(self) -> set[str]:
        """What bpftrace calls the programs of its attach points, cut as the kernel cuts it."""
        return {re.sub(r"\W", "_", block.probe)[:15] for block in self.blocks}


class Group(Child):
    """One bpftrace with several scripts. Its script stays beside what each of them printed."""

    def __init__(self, name: str, parts: Sequence[Part], out: Path) -> None:
        files = ", ".join(part.file for part in parts)
        super().__init__(name, files, out / f"{name}.maps", out / f"{name}.words")
        self.parts = parts
        self._out = out

    def argv(self) -> list[str]:
        script = self._out / f"{self.name}.bt"
        script.write_text(merge.merge((part.name, part.blocks) for part in self.parts))
        return ["bpftrace", *checking(), "-f", "json", "-o", str(self.output), str(script)]

    def environment(self) -> dict[str, str]:
        return {NOTIFY: "1"}

    def is_attached(self) -> bool:
        return NOTIFY in self.said()

    def check_attached(self) -> None:
        """Without one of its probes a script counts too little, which would pass for a zero."""
        if absent := self.absent():
            raise AttachError(" ".join(absent.values()))

    def absent(self) -> dict[str, str]:
        """Script → the sentence that says which of its hooks this kernel lacks."""
        found = {name for names in ABSENT.findall(self.said()) for name in names if name}
        sentences = {}
        for part in self.parts:
            hooks = dict.fromkeys(
                block.probe
                for block in part.blocks
                if found & {block.probe, block.probe.partition(":")[2]}
            )
            if hooks:
                sentences[part.name] = f"{part.file}: this kernel has no {', '.join(hooks)}."
        return sentences

    def scripts_of(self, program: str) -> list[str]:
        """Whose attach points a program may be for: names are cut, so there may be several."""
        found = [part.name for part in self.parts if program in part.programs]
        return found or [part.name for part in self.parts]

    def deal_out(self) -> None:
        """What it printed becomes what each script would have printed alone."""
        names = [part.name for part in self.parts]
        with self.output.open(encoding="utf-8") as lines:
            texts = merge.split(lines, names)
        for name, text in texts.items():
            (self._out / f"{name}.json").write_text(text, encoding="utf-8")
            (self._out / f"{name}.stderr").write_text(self.said(), encoding="utf-8")
        self.output.unlink()
        self.words.unlink()


class Bpftrace(Tracers[Group]):
    """The bpftrace scripts of a pass."""

    name = "bpftrace"

    def __init__(self, scripts: Sequence[Sequence[Script]], context: Context) -> None:
        super().__init__(context)
        self._scripts = scripts
        self._quantities = {rows[0].name: rows[0].quantities for rows in scripts}

    def attach(self) -> None:
        """One bpftrace for each rung: two compile side by side, and a third would only wait."""
        parts = [part for rows in self._scripts if (part := self._part(rows))]
        for rung in dict.fromkeys(part.script.rung for part in parts):
            self._start(rung, [part for part in parts if part.script.rung == rung])

    def wait(self) -> list[str]:
        self.attached = [done for group in list(self.all) for done in self._settle(group)]
        self.freeze()
        names = {part.name for group in self.attached for part in group.parts}
        return [rows[0].name for rows in self._scripts if rows[0].name in names]

    def finish(self) -> None:
        for group in self.attached:
            try:
                group.finish()
                group.deal_out()
            except AttachError as error:
                self._miss(group.parts, str(error))

    def scripts_of(self, tracer: Group, program: str) -> list[str]:
        return tracer.scripts_of(program)

    def _part(self, rows: Sequence[Script]) -> Part | None:
        try:
            script, parameters = choose(rows, self.context.workload)
        except AttachError as error:
            self.context.miss(", ".join(rows[0].quantities), str(error))
            return None
        return Part(script, merge.parse(script.path.read_text(encoding="utf-8"), parameters))

    def _start(self, name: str, parts: Sequence[Part]) -> Group:
        group = Group(name, parts, self.context.folder(self.name))
        self.all.append(group)
        group.start()
        return group

    def _settle(self, group: Group) -> list[Group]:
        """The group, attached; else without what this kernel lacks; else each script alone."""
        try:
            group.wait_attached()
            return [group]
        except AttachError as error:
            group.stop()
            absent = group.absent()
            if not absent and len(group.parts) == 1:
                absent = {group.parts[0].name: str(error)}
        for part in group.parts:
            if part.name in absent:
                self._miss([part], absent[part.name])
        left = [part for part in group.parts if part.name not in absent]
        if absent:
            again = [self._start(group.name, left)] if left else []
        else:
            again = [self._start(part.name, [part]) for part in left]
        return [done for one in again for done in self._settle(one)]

    def _miss(self, parts: Sequence[Part], why: str) -> None:
        for part in parts:
            self.context.miss(", ".join(self._quantities[part.name]), why)
