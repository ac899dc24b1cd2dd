# SPDX-License-Identifier: GPL-2.0-or-later
"""python -m tests.faults: the campaign, in pieces. What has passed is not done again."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from runners.store import invoker
from tests.faults.campaign import Campaign, Results, commit, faults, repeated, signals
from tests.faults.sandbox import enter


def main() -> int:
    given = parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what it has made goes with it
    state = given.state.resolve()
    if given.part == "table":
        print(Results(state / "results.jsonl").table())
        return 0
    commit()  # while git still finds the checkout
    sandbox = enter(state, given.cache.resolve())
    results = Results(state / "results.jsonl")
    known, campaign = len(results.rows), Campaign(sandbox, results, given.minutes)
    if given.part == "signals":
        first, _, last = given.numbers.partition("-")
        numbers = range(int(first), int(last or first) + 1)
        signals(campaign, given.seed, numbers, given.only)
    elif given.part == "faults":
        faults(campaign, given.only)
    else:
        repeated(campaign)
    tried = [row for row in results.rows[known:] if "name" in row]
    failed = [row for row in tried if row["failures"]]
    over = ", and the time is up: start it again to go on" if campaign.time_is_up() else ""
    print(f"{len(tried)} tried, {len(failed)} with a failure{over}")
    return 1 if failed or over else 0


def parser() -> argparse.ArgumentParser:
    reader = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    reader.add_argument("part", choices=("signals", "faults", "repeated", "table"))
    add = reader.add_argument
    add("--state", type=Path, default=Path("/var/tmp/pathcost-faults"), help="results and layers")
    add("--cache", type=Path, default=invoker().cache, help="lies below; its owner invokes run.sh")
    add("--minutes", type=float, default=20, help="start nothing new after these")
    add("--seed", type=int, default=1)
    add("--numbers", default="0-499", help="of signals, such as 17 or 100-149")
    add("--only", default="", help="what matches this regular expression")
    return reader


if __name__ == "__main__":
    sys.exit(main())
