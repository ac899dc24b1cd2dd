# SPDX-License-Identifier: GPL-2.0-or-later
"""BCC tools (probes/bcc/): one process each, of the distribution's Python, which has BCC."""

from __future__ import annotations

import re

from runners.collect.scripts import choose
from runners.collect.tracer import SingleTracers, Tracer

PYTHON = "/usr/bin/python3"
READY = "attached"  # probes.bcc.frame.READY, which this process does not import
LACK = re.compile(r"^missing (.+?): (.+)$", re.MULTILINE)


class BccTracer(Tracer):
    """One tool."""

    def argv(self) -> list[str]:
        script, parameters = choose(self._rows, self._workload)
        return [PYTHON, "-B", str(script.path), *parameters, "--json", str(self.output)]

    def is_attached(self) -> bool:
        return READY in self.said().splitlines()

    def lacks(self) -> list[tuple[str, str]]:
        by_reason: dict[str, list[str]] = {}
        for what, why in LACK.findall(self.said()):
            by_reason.setdefault(why, []).append(what)
        return [
            (f"{', '.join(what)} (bcc {self.name})", f"{why}.") for why, what in by_reason.items()
        ]


class Bcc(SingleTracers):
    """The BCC tools of a pass."""

    name = "bcc"
    tracer = BccTracer
