# SPDX-License-Identifier: GPL-2.0-or-later
"""compare-peers.sh: our workload and other programs, in interleaved runs on this machine."""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runners.bench import evidence
from runners.bench.peers import NAMES, PEERS, Load, Peer, measure_ours
from runners.bench.process import Where, kept_awake
from runners.cli import DONE, STATUS, Parser, run_main
from runners.lock import measuring
from runners.process import RunError, UsageError

PLACEMENTS = ("same-cpu", "cross-cpu")
TRANSPORTS = tuple(dict.fromkeys(peer.transport for peer in PEERS))
EPILOG = f"""\
Each block runs every pair of programs once, in random order; within a pair the order is A B, then
B A in the next block. Peers that are not installed are named and left out. Needs no root.
{STATUS}"""


@dataclass(frozen=True)
class ComparisonPlan:
    """The runs of a comparison."""

    pairs: tuple[Peer, ...]
    places: tuple[Where, ...]
    load: Load
    blocks: int
    seed: int
    awake: bool = False


def main(argv: list[str]) -> int:
    """Compare, and print the table. Returns the exit status."""
    return run_main(lambda: _main(_parser().parse(argv)))


def _main(given: argparse.Namespace) -> int:
    plan = _plan(given)
    if given.evidence:
        evidence.show(plan.pairs, plan.places[0], plan.load)
        return DONE
    cpus = [cpu for where in plan.places for cpu in (where.client, where.server) if plan.awake]
    with measuring(), kept_awake(cpus):
        collect(plan, given.out)
    analysis = [sys.executable, "-P", "-m", "analysis.tools.peers", str(given.out)]
    return subprocess.run(analysis).returncode


def _parser() -> Parser:
    parser = Parser(
        "compare-peers.sh", "Our workload beside other programs that measure a round trip.", EPILOG
    )
    add = parser.add_argument
    add("--peers", default=",".join(NAMES), metavar="LIST", help=f"of {', '.join(NAMES)}")
    add("--transports", default=",".join(TRANSPORTS), metavar="LIST", help=", ".join(TRANSPORTS))
    add("--placements", default=",".join(PLACEMENTS), metavar="LIST", help="default: both")
    add("--size", type=int, default=64, help="message bytes, where a peer lets us choose (64)")
    add("--blocks", type=int, default=8, help="how often each pair runs (default: 8)")
    add("--round-trips", type=int, default=30000, help="of each counted run (default: 30000)")
    add("--seed", type=int, help="of the order (default: random, and recorded)")
    add("--keep-awake", action="store_true", help="no CPU idles: a SCHED_IDLE thread spins on each")
    add("--evidence", action="store_true", help="measure nothing: show each program's system calls")
    add("--out", type=Path, default=Path("peers.jsonl"), help="file for the results (peers.jsonl)")
    return parser


def _plan(given: argparse.Namespace) -> ComparisonPlan:
    names = _words("peer", given.peers, NAMES)
    transports = _words("transport", given.transports, TRANSPORTS)
    for option, least in (("size", 1), ("blocks", 1), ("round_trips", 100)):
        if getattr(given, option) < least:
            raise UsageError(f"--{option.replace('_', '-')} must be at least {least}.")
    if not given.evidence and given.out.exists():
        raise UsageError(f"{given.out} exists already: choose another file with --out.")
    wanted = [peer for peer in PEERS if peer.name in names and peer.transport in transports]
    for peer in wanted:
        if not peer.size and given.size < peer.least_size:
            raise UsageError(f"{peer.name} sends at least {peer.least_size} bytes: see --size.")
    places = tuple(_where(word) for word in _words("placement", given.placements, PLACEMENTS))
    seed = random.SystemRandom().getrandbits(32) if given.seed is None else given.seed
    load = Load(given.size, given.round_trips)
    return ComparisonPlan(_present(wanted), places, load, given.blocks, seed, given.keep_awake)


def _words(what: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(text.split(",")))
    for word in found:
        if word not in known:
            raise UsageError(f'unknown {what} "{word}": there is {", ".join(known)}.')
    return found


def _where(placement: str) -> Where:
    cpus = sorted(os.sched_getaffinity(0))
    if placement == "cross-cpu" and len(cpus) < 2:
        raise UsageError("cross-cpu needs two CPUs, and only one may be used here.")
    return Where(placement, cpus[0], cpus[placement == "cross-cpu"])


def _present(wanted: list[Peer]) -> tuple[Peer, ...]:
    """The installed peers. Names the others."""
    absent = {program: peer.package for peer in wanted for program in peer.missing()}
    for program, package in absent.items():
        _say(f"{program} is not installed (Debian: package {package}), so it is left out.")
    present = tuple(peer for peer in wanted if not peer.missing())
    if not present:
        raise RunError("there is no peer to compare with.")
    return present


def collect(plan: ComparisonPlan, path: Path) -> None:
    """Write each figure as soon as it is measured. Removes the file if it is not complete."""
    header = {
        "kernel": platform.release(),
        "cpus": len(os.sched_getaffinity(0)),
        "seed": plan.seed,
        "blocks": plan.blocks,
        "round_trips": plan.load.round_trips,
        "kept_awake": plan.awake,
    }
    try:
        with path.open("x", encoding="utf-8") as out:
            print(json.dumps(header), file=out, flush=True)
            for block, where, peer, who in schedule(plan):
                _say(f"block {block + 1}/{plan.blocks}: {where.placement} {peer.title}: {who}")
                record = {"block": block, **_run(plan, where, peer, who)}
                print(json.dumps(record), file=out, flush=True)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def schedule(plan: ComparisonPlan) -> Iterator[tuple[int, Where, Peer, str]]:
    """Pairs in random order; within each pair A B and B A in turn, beginning at random."""
    dice = random.Random(plan.seed)
    orders: dict[tuple[str, str], list[str]] = {}
    for block in range(plan.blocks):
        cells = [(where, peer) for where in plan.places for peer in plan.pairs]
        dice.shuffle(cells)
        for where, peer in cells:
            key = where.placement, peer.title
            if block % 2:
                orders[key].reverse()
            else:
                orders[key] = dice.sample(["ours", "peer"], 2)
            for who in orders[key]:
                yield block, where, peer, who


def _run(plan: ComparisonPlan, where: Where, peer: Peer, who: str) -> dict[str, Any]:
    load = Load(peer.size or plan.load.size, plan.load.round_trips)
    ns = peer.measure(where, load) if who == "peer" else measure_ours(peer, where, load)
    return {
        "placement": where.placement,
        "peer": peer.name,
        "transport": peer.transport,
        "size": load.size,
        "statistic": peer.statistic,
        "who": who,
        "ns": round(ns, 1),
    }


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
