# SPDX-License-Identifier: GPL-2.0-or-later
"""python -m tests.faults: the campaign, in pieces."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from runners.store import invoker
from tests.faults.campaign import Campaign
from tests.faults.sandbox import enter


def main() -> int:
    reader = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    reader.add_argument("part", choices=("signals", "faults"))
    add = reader.add_argument
    add("--state", type=Path, default=Path("/var/tmp/pathcost-faults"), help="layers and output")
    add("--cache", type=Path, default=invoker().cache, help="lies below; its owner invokes run.sh")
    add("--seed", type=int, default=1)
    add("--numbers", default="0-499", help="of signals, such as 17 or 100-149")
    add("--only", default="", help="what matches this regular expression")
    given = reader.parse_args()
    campaign = Campaign(enter(given.state.resolve(), given.cache.resolve()))
    if given.part == "faults":
        return int(campaign.faults(given.only) > 0)
    first, _, last = given.numbers.partition("-")
    numbers = range(int(first), int(last or first) + 1)
    return int(campaign.signals(given.seed, numbers, given.only) > 0)


if __name__ == "__main__":
    sys.exit(main())
