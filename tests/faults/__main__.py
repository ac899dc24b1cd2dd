# SPDX-License-Identifier: GPL-2.0-or-later
"""python -m tests.faults: the campaign, in pieces. What is in the results is not done again."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from tests.faults.campaign import Campaign, Results, commit, latest
from tests.faults.faults import faults
from tests.faults.sandbox import USER, enter
from tests.faults.signals import signals
from tests.faults.starts import PARTS
from tests.faults.table import table


def main() -> int:
    options = parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what it has made goes with it
    state = options.state.resolve()
    if options.part == "table":
        print(table(latest(Results(state / "results.jsonl").rows)))
        return 0
    commit()  # while git still finds the checkout
    sandbox = enter(state, options.user, options.source, options.share)
    results = Results(state / "results.jsonl", options.again)
    campaign = Campaign(sandbox, results, options.minutes, options.repeats)
    without = set(options.without.split(","))
    if options.part == "signals":
        first, _, last = options.numbers.partition("-")
        numbers = range(int(first), int(last or first) + 1)
        signals(campaign, options.seed, numbers, options.only, without)
    elif options.part == "faults":
        faults(campaign, options.only, without)
    else:
        PARTS[options.part](campaign, options.seed, options.times)
    failed = [row for row in results.new() if row["failures"]]
    over = ", and the time is up: start it again to go on" if campaign.time_is_up() else ""
    print(f"{len(results.new())} tried, {len(failed)} with a failure{over}")
    return 1 if failed or over else 0


def parser() -> argparse.ArgumentParser:
    reader = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parts = ("signals", "faults", "pairs", "restarts", "repeated", "disturbed", "table")
    reader.add_argument("part", choices=parts)
    add = reader.add_argument
    add("--state", type=Path, default=Path("/var/tmp/pathcost-faults"), help="cache and results")
    add("--source", type=Path, default=Path.home() / ".cache/pathcost", help="a cache to copy")
    add("--user", type=int, default=os.environ.get("SUDO_UID", USER), help="invokes run.sh")
    add("--minutes", type=float, default=20, help="start nothing new after these")
    add("--seed", type=int, default=1)
    add("--numbers", default="0-499", help="of signals, such as 17 or 100-149")
    add("--only", default="", help="faults that match this, or commands of signals")
    add("--without", default="", help="no runs of these commands, such as guest,full")
    add("--again", action="store_true", help="also what has failed before")
    add("--share", action="store_true", help="lay the overlay over --source itself; copy nothing")
    add("--times", type=int, default=30, help="of pairs, restarts, repeated; minutes of disturbed")
    add("--repeats", type=int, default=0, help="of disturbed, in place of its minutes")
    return reader


if __name__ == "__main__":
    sys.exit(main())
