# SPDX-License-Identifier: GPL-2.0-or-later
"""compare-peers.sh: our workload and other programs, in interleaved runs on this machine."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TextIO

from runners.bench import evidence, ours
from runners.bench.awake import kept_awake
from runners.bench.peers import NAMES, PEERS, Load, Peer
from runners.bench.process import Where
from runners.errors import RunError, UsageError
from runners.lock import measuring

DONE, FAILED, IMPOSSIBLE, INTERRUPTED = 0, 1, 2, 130
PLACEMENTS = ("same-cpu", "cross-cpu")
TRANSPORTS = tuple(dict.fromkeys(peer.transport for peer in PEERS))
EPILOG = """\
Each block runs every pair of programs once, in random order; within a pair the order is A B, then
B A in the next block. Peers that are not installed are named and left out. Needs no root.
Exit status: 0 done, 1 failed, 2 asked for something impossible, 130 interrupted."""


class Parser(argparse.ArgumentParser):
    """argparse, but a mistake is one sentence and not a page of usage."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see ./runners/compare-peers.sh --help).")


@dataclass(frozen=True)
class Plan:
    """What is asked for."""

    pairs: tuple[Peer, ...]
    places: tuple[Where, ...]
    load: Load
    blocks: int
    seed: int
    awake: bool = False


def main(argv: list[str]) -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        given = _parser().parse_args(argv)
        plan = _plan(given)
        if given.evidence:
            evidence.show(plan.pairs, plan.places[0], plan.load)
            return DONE
        with measuring(), _regime(plan):
            collect(plan, given.out)
    except UsageError as error:
        return _complain(error, IMPOSSIBLE)
    except (RunError, OSError) as error:
        return _complain(error, FAILED)
    except KeyboardInterrupt:
        return _complain("interrupted; the comparison is not complete.", INTERRUPTED)
    return subprocess.run([sys.executable, "-P", "-m", "analysis.peers", str(given.out)]).returncode


def _parser() -> Parser:
    parser = Parser(
        prog="compare-peers.sh",
        description="Our workload beside other programs that measure a round trip.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--peers", default=",".join(NAMES), metavar="LIST", help=f"of {', '.join(NAMES)}")
    add("--transports", default=",".join(TRANSPORTS), metavar="LIST", help=", ".join(TRANSPORTS))
    add("--placements", default=",".join(PLACEMENTS), metavar="LIST", help="default: both")
    add("--size", type=int, default=64, help="bytes, where the peer can be told (default: 64)")
    add("--blocks", type=int, default=8, help="how often each pair is run (default: 8)")
    add("--round-trips", type=int, default=30000, help="of each run that is counted (30000)")
    add("--seed", type=int, help="of the order (default: drawn, and recorded)")
    add("--keep-awake", action="store_true", help="no CPU idles: a SCHED_IDLE thread spins on each")
    add("--evidence", action="store_true", help="measure nothing: show each program's system calls")
    add("--out", type=Path, default=Path("peers.jsonl"), help="what was measured (peers.jsonl)")
    return parser


def _plan(given: argparse.Namespace) -> Plan:
    names = _words("peer", given.peers, NAMES)
    transports = _words("transport", given.transports, TRANSPORTS)
    for option, least in (("size", 1), ("blocks", 1), ("round_trips", 100)):
        if getattr(given, option) < least:
            raise UsageError(f"--{option.replace('_', '-')} must be at least {least}.")
    if not given.evidence and given.out.exists():
        raise UsageError(f"{given.out} exists already: choose another file with --out.")
    wanted = [one for one in PEERS if one.name in names and one.transport in transports]
    for one in wanted:
        if not one.size and given.size < one.least_size:
            raise UsageError(f"{one.name} sends at least {one.least_size} bytes: see --size.")
    places = tuple(_where(word) for word in _words("placement", given.placements, PLACEMENTS))
    seed = random.SystemRandom().getrandbits(32) if given.seed is None else given.seed
    load = Load(given.size, given.round_trips)
    return Plan(_present(wanted), places, load, given.blocks, seed, given.keep_awake)


def _regime(plan: Plan) -> contextlib.AbstractContextManager[None]:
    if not plan.awake:
        return contextlib.nullcontext()
    return kept_awake(cpu for where in plan.places for cpu in (where.client, where.server))


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
    """Those that are installed; the others are named."""
    absent: dict[str, str] = {}
    for one in wanted:
        for program in one.missing():
            absent[program] = one.package
    for program, package in absent.items():
        _say(f"{program} is not installed (Debian: package {package}), so it is left out.")
    present = tuple(one for one in wanted if not one.missing())
    if not present:
        raise RunError("there is no peer to compare with.")
    return present


def collect(plan: Plan, path: Path) -> None:
    """Writes every figure as it comes; a file that is not complete is not left."""
    try:
        with path.open("x", encoding="utf-8") as out:
            _write(out, _header(plan))
            for block, where, peer, who in schedule(plan):
                _say(f"block {block + 1}/{plan.blocks}: {where.placement} {peer.title}: {who}")
                _write(out, _run(plan, block, where, peer, who))
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def schedule(plan: Plan) -> Iterator[tuple[int, Where, Peer, str]]:
    """A B and B A in turn for each pair, the first of the two at random; pairs in random order."""
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


def _run(plan: Plan, block: int, where: Where, peer: Peer, who: str) -> dict[str, Any]:
    load = Load(peer.size or plan.load.size, plan.load.round_trips)
    if who == "peer":
        ns = peer.measure(where, load)
    else:
        ns = ours.measure(peer.transport, where, load, peer.statistic)
    return {
        "block": block,
        "placement": where.placement,
        "peer": peer.name,
        "transport": peer.transport,
        "size": load.size,
        "statistic": peer.statistic,
        "who": who,
        "ns": round(ns, 1),
    }


def _header(plan: Plan) -> dict[str, Any]:
    return {
        "kernel": platform.release(),
        "cpus": len(os.sched_getaffinity(0)),
        "seed": plan.seed,
        "blocks": plan.blocks,
        "round_trips": plan.load.round_trips,
        "kept_awake": plan.awake,
    }


def _write(out: TextIO, record: dict[str, Any]) -> None:
    out.write(json.dumps(record) + "\n")
    out.flush()


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _complain(what: object, status: int) -> int:
    print(f"compare-peers: {what}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
