# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the verdicts of stored runs: `python -m analysis.diff.rejudge RUN_DIR RUN_DIR …`.

Each run is judged alone, then all together: what holds in one run and not in another is
CONDITIONAL, and says so.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from analysis.analyse import judge_again
from analysis.claims.files import Claim, load_claims
from analysis.claims.verdict import NOT_MEASURED, tally
from analysis.counts.measures import TIMES, measure_of
from analysis.raw.run import Run, read_run
from analysis.wording import counted
from probes.messages import UsageError, exit_status


def main(arguments: Sequence[str]) -> None:
    folders = dict.fromkeys(map(Path, arguments))
    if len(folders) < 2:
        raise UsageError("there is nothing to compare: name two runs that are not the same.")
    # Two runs may have one name, in two folders.
    runs = [replace(read_run(folder), name=str(folder)) for folder in folders]
    print(compare(runs, load_claims()))


def compare(runs: Sequence[Run], claims: tuple[Claim, ...]) -> str:
    """Count the verdicts that are the same in all runs, and list the others."""
    alone = [judge_again([run], claims) for run in runs]
    together = judge_again(runs, claims)
    lines = [f"{run.name}  {tally(verdicts)}" for run, verdicts in zip(runs, alone, strict=True)]
    lines.append(f"together  {tally(together)}")
    for words, timed in (("counts and answers", False), ("times", True)):
        rows = [
            (both, by_run)
            for both, *by_run in zip(together, *alone, strict=True)
            if both.settled and all(v.verdict != NOT_MEASURED for v in by_run)
            if bool((m := measure_of(both.claim.quantity)) and m.quantity in TIMES) is timed
        ]
        differ = [(both, by_run) for both, by_run in rows if len({v.text for v in by_run}) > 1]
        claims_of = counted(len(rows), "claim")
        lines.append(f"\nby {words}: {claims_of}, {len(rows) - len(differ)} with one verdict")
        for both, by_run in differ:
            lines.append(f"  {both.claim.id}: {both.text}, {both.condition}")
            lines += [
                f"    {run.name}  {v.text}{f', {v.condition}' if v.condition else ''}"
                for run, v in zip(runs, by_run, strict=True)
            ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
