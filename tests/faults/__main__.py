# SPDX-License-Identifier: GPL-2.0-or-later
"""python -m tests.faults: the campaign, in pieces. What is in the results is not done again."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tests.faults.campaign import Campaign, Results, commit
from tests.faults.faults import faults
from tests.faults.sandbox import USER, enter
from tests.faults.signals import signals
from tests.faults.starts import PARTS
from tests.faults.table import table


def main() -> int:
    options = parser().parse_args()
    state = options.state.resolve()
    if options.part == "table":
        print(table(Results(state / "results.jsonl").rows))
        return 0
    commit()  # while git still finds the checkout
    sandbox = enter(state, options.user, options.source)
    campaign = Campaign(sandbox, Results(state / "results.jsonl"), options.minutes)
    known = len(campaign.results.rows)
    if options.part == "signals":
        first, _, last = options.numbers.partition("-")
        signals(campaign, options.seed, range(int(first), int(last or first) + 1))
    elif options.part == "faults":
        faults(campaign, options.only)
    else:
        PARTS[options.part](campaign, options.seed, options.times)
    failed = [row for row in campaign.results.rows[known:] if row.get("failures")]
    print(f"{len(campaign.results.rows) - known} rows, {len(failed)} failed")
    return 1 if failed else 0


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
    add("--only", default="", help="faults whose names contain this")
    add("--times", type=int, default=30, help="of pairs, restarts and repeated")
    return reader


if __name__ == "__main__":
    sys.exit(main())
