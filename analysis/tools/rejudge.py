# SPDX-License-Identifier: GPL-2.0-or-later
"""python -m analysis.tools.rejudge RUN_DIR RUN_DIR …: are the verdicts of a second run the same?

Each run is judged alone, then all together: what holds in one run and not in another is
CONDITIONAL, and says so.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from analysis.analyse import judge_again
from analysis.counts.measures import measure_of
from analysis.counts.quantities import TIMES
from analysis.raw.run import Run, read_run
from analysis.tools import print_result
from analysis.verdicts.files import Claim, load_claims
from analysis.verdicts.verdict import NOT_MEASURED, Verdict, tally
from analysis.wording import counted
from probes.messages import UsageError


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m analysis.tools.rejudge",
        description="Compare the verdicts of stored runs, and judge the runs together.",
        epilog="Exit status: 0 compared, 1 failed, 2 asked for the impossible.",
    )
    parser.add_argument("run_dirs", metavar="RUN_DIR", type=Path, nargs="+")
    folders = parser.parse_args(arguments).run_dirs
    return print_result(lambda: compare(_read(folders), load_claims()))


def _read(folders: Sequence[Path]) -> list[Run]:
    if len(set(folders)) < 2:
        raise UsageError("there is nothing to compare: name two runs that are not the same.")
    # Two runs may have one name, in two folders.
    return [replace(read_run(folder), name=str(folder)) for folder in folders]


def compare(runs: Sequence[Run], claims: tuple[Claim, ...]) -> str:
    """Count lines, how many verdicts are the same, and each that is not."""
    alone = [judge_again([run], claims) for run in runs]
    together = judge_again(runs, claims)
    lines = [f"{run.name}  {tally(found)}" for run, found in zip(runs, alone, strict=True)]
    lines.append(f"together  {tally(together)}")
    for words, timed in (("counts and answers", False), ("times", True)):
        found = [
            (both, by_run)
            for both, *by_run in zip(together, *alone, strict=True)
            if _timed(both) is timed and all(v.verdict != NOT_MEASURED for v in by_run)
        ]
        differ = [(both, by_run) for both, by_run in found if len({v.said for v in by_run}) > 1]
        claims_of = counted(len(found), "claim")
        lines.append(f"\nby {words}: {claims_of}, {len(found) - len(differ)} with one verdict")
        for both, by_run in differ:
            lines.append(f"  {both.claim.id}: {both.said}, {both.condition}")
            lines += [
                f"    {run.name}  {v.said}{f', {v.condition}' if v.condition else ''}"
                for run, v in zip(runs, by_run, strict=True)
            ]
    return "\n".join(lines)


def _timed(verdict: Verdict) -> bool | None:
    """Whether it rests on times; None where nothing was measured or answered."""
    if not verdict.settled:
        return None
    measure = measure_of(verdict.claim.quantity)
    return measure is not None and measure.quantity in TIMES


if __name__ == "__main__":
    sys.exit(main())
