# SPDX-License-Identifier: GPL-2.0-or-later
"""BCC tools (probes/bcc/): a process for each, of the distribution's Python, which has BCC."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from probes.bcc.frame import MISSING, READY
from probes.scripts import PROBES, Script
from runners.host.instrument import Context
from runners.host.tracer import Child, Tracers

PYTHON = "/usr/bin/python3"


def lacks(printed: str) -> Iterator[dict[str, Any]]:
    """Entries for what a tool cannot count on this kernel, out of what it printed."""
    for line in printed.splitlines():
        if line.startswith(MISSING):
            yield json.loads(line.removeprefix(MISSING))


class BccTool(Child):
    """A tool that counts in the workload's windows."""

    def __init__(self, script: Script, context: Context) -> None:
        out = context.folder("bcc") / script.name
        files = out.with_suffix(".json"), out.with_suffix(".stderr")
        super().__init__(script.name, script.file_name, *files)
        self.quantities = {script.name: script.quantities}
        self._workload = context.workload

    def argv(self) -> list[str]:
        tool = PROBES / "bcc" / self.file
        return [PYTHON, "-B", str(tool), self._workload, "--json", str(self.output)]

    def is_attached(self) -> bool:
        return READY in self.said().splitlines()


class Bcc(Tracers[BccTool]):
    """The BCC tools of a pass."""

    name = "bcc"

    def __init__(self, scripts: Sequence[Script], context: Context) -> None:
        super().__init__(context)
        self.all = [BccTool(script, context) for script in scripts]

    def attach(self) -> None:
        self.attached = [tool for tool in self.all if self.attempt(tool, tool.start)]

    def wait(self) -> list[str]:
        self.attached = [tool for tool in self.attached if self.attempt(tool, tool.wait_attached)]
        for tool in self.attached:
            for entry in lacks(tool.said()):
                self.context.miss(entry | {"by": f"{self.name} {tool.name}"})
        self.freeze()
        return [tool.name for tool in self.attached]
