# SPDX-License-Identifier: GPL-2.0-or-later
"""Predictions beside what was measured: `python -m analysis.tools.calibration ATTEMPT`.

A Markdown table of all cases of an attempt, misses first, and the count of hits.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.predict.model import UNTOLD
from analysis.predict.words import number


@dataclass(frozen=True)
class Case:
    """A predicted and measured difference: what TCP takes more, in microseconds a request."""

    name: str
    low: float
    value: float
    high: float
    measured: float
    error: float
    of: float
    limit: str

    @property
    def hit(self) -> bool:
        return self.low <= self.measured <= self.high

    @property
    def narrow(self) -> bool:
        """Whether the interval is narrower than the gain that it predicts."""
        return self.high - self.low < abs(self.value)

    @property
    def distance(self) -> float:
        """How far outside the interval, in units of half its width; negative inside."""
        half = (self.high - self.low) / 2
        return (abs(self.measured - (self.low + self.high) / 2) - half) / half


def read(folder: Path, figure: str) -> tuple[list[Case], dict[str, str]]:
    """The cases, and why others have no figures."""
    measured: dict[str, Any] = {}
    if (folder / "measured.json").exists():
        measured = json.loads((folder / "measured.json").read_text(encoding="utf-8"))
    found, lacking = [], {}
    lines = (folder / "digests.tsv").read_text(encoding="utf-8").splitlines()
    for name in dict.fromkeys(line.split("\t")[0] for line in lines):
        said = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        seen = measured.get(name, {"failed": "not measured"})
        if why := said.get("failed") or seen.get("failed"):
            lacking[name] = why
            continue
        span, fact = said[figure], seen[figure]
        if said["verdict"] in UNTOLD:
            lacking[name] = said["verdict"]  # its figures are shown to no user
            continue
        found.append(
            Case(name, span["low"], span["value"], span["high"], fact["value"], fact["error"],
                 fact["of"], said["limit"])
        )  # fmt: skip
    return sorted(found, key=lambda case: -case.distance), lacking


def lines(folder: Path, figure: str) -> list[str]:
    cases, lacking = read(folder, figure)
    rows = [
        "| case | predicted, µs | measured, µs | of, µs | inside | what limits |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for case in cases:
        rows.append(
            f"| {case.name} | {number(case.low)} to {number(case.high)} | "
            f"{number(case.measured)} ± {number(1.645 * case.error)} | {number(case.of)} | "
            f"{'yes' if case.hit else '**no**'} | {case.limit} |"
        )
    hits, narrow = sum(case.hit for case in cases), sum(case.narrow for case in cases)
    rows += ["", f"{hits} of {len(cases)} inside; {narrow} intervals narrower than their gain."]
    return rows + [f"Left out: {name}, {why}" for name, why in lacking.items()]


def main(folder: Path) -> int:
    for figure, words in (("elapsed_us", "Time for each request"), ("cpu_us", "CPU time of it")):
        print(f"\n{words}\n")
        print("\n".join(lines(folder, figure)))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
