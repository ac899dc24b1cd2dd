# SPDX-License-Identifier: GPL-2.0-or-later
"""BCC tools (probes/bcc/): a process for each, of the distribution's Python, which has BCC."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from probes.bcc import frame
from runners.host.instrument import Context
from runners.host.scripts import Script, choose
from runners.host.tracer import Child, Tracers

PYTHON = "/usr/bin/python3"
READY = frame.READY


def lacks(said: str) -> Iterator[dict[str, Any]]:
    """Entries for what a tool cannot count on this kernel, out of what it printed."""
    for line in said.splitlines():
        if line.startswith(frame.MISSING):
            yield json.loads(line.removeprefix(frame.MISSING))


class BccTool(Child):
    """A tool that counts in the workload's windows."""

    def __init__(self, rows: Sequence[Script], workload: str, out: Path) -> None:
        name = rows[0].name
        super().__init__(name, rows[0].file_name, out / f"{name}.json", out / f"{name}.stderr")
        self.quantities = {name: rows[0].quantities}
        self._rows = rows
        self._workload = workload

    def argv(self) -> list[str]:
        script, parameters = choose(self._rows, self._workload)
        return [PYTHON, "-B", str(script.path), *parameters, "--json", str(self.output)]

    def is_attached(self) -> bool:
        return READY in self.said().splitlines()


class Bcc(Tracers[BccTool]):
    """The BCC tools of a pass."""

    name = "bcc"

    def __init__(self, scripts: Sequence[Sequence[Script]], context: Context) -> None:
        super().__init__(context)
        folder = context.folder(self.name)
        self.all = [BccTool(rows, context.workload, folder) for rows in scripts]

    def attach(self) -> None:
        self.attached = [tool for tool in self.all if self.attempt(tool, tool.start)]

    def wait(self) -> list[str]:
        self.attached = [tool for tool in self.attached if self.attempt(tool, tool.wait_attached)]
        for tool in self.attached:
            for entry in lacks(tool.said()):
                self.context.miss(entry | {"by": f"{self.name} {tool.name}"})
        self.freeze()
        return [tool.name for tool in self.attached]
