# SPDX-License-Identifier: GPL-2.0-or-later
"""Compares our workload with sockperf and perf bench: `python3 -m runners.programs.peers`.

Each block runs every pair of programs once; the order is A B, and B A in the next block. Both
sides of each program are pinned. A peer that prints only a mean is compared by the mean. Needs no
root.
"""

import argparse
import array
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pandas as pd

from analysis.statistics import compared
from probes.files import read_rows, typed
from runners.host.workload import private_directory
from runners.process import WORKLOAD, RunError, command, free_port, last_words
from runners.programs.experiments import interleaved

PLACEMENTS = ("same-cpu", "cross-cpu")
PATIENCE = 60.0  # seconds, for a run of a second or two
CELL = ["placement", "transport", "peer", "size", "statistic"]


@dataclass(frozen=True)
class Peer:
    """A row of peers.tsv."""

    name: str
    transport: str
    statistic: str
    size: int
    answer: str
    client: str
    server: str

    def parse(self, text: str) -> float:
        """Return the printed figure in ns. Raises RunError where the program printed none."""
        match = re.search(self.answer, text)
        if not match or not float(match[1]) > 0:
            raise RunError(f"{self.name} {self.transport} printed no figure: {last_words(text)}.")
        return float(match[1]) * 1000


ROWS = read_rows(Path(__file__).with_suffix(".tsv"))
PEERS = tuple(Peer(**typed(Peer, row)) for row in ROWS)


def measure_peer(peer: Peer, cpus: tuple[int, int], size: int, round_trips: int) -> float:
    """Run the peer once. Returns the median or mean of a round trip in ns."""
    client, server = cpus
    port = free_port(socket.SOCK_STREAM if peer.transport == "tcp" else socket.SOCK_DGRAM)
    argv = peer.client.format(port=port, size=size, round_trips=round_trips).split()
    if not peer.server:
        return peer.parse(run(argv, client, server))
    with started(peer.server.format(port=port).split(), server, subprocess.DEVNULL) as process:
        deadline = time.monotonic() + PATIENCE
        while not is_open(port, peer.transport):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RunError(f"{peer.name}'s server does not open its port.")
            time.sleep(0.01)
        return peer.parse(run(argv, client))


def measure_ours(peer: Peer, cpus: tuple[int, int], size: int, round_trips: int) -> float:
    """Run our workload. Returns the statistic that `peer` prints, of a round trip in ns.

    A mean needs no clock reading in each round trip.
    """
    with private_directory(None) as directory:
        samples = directory / "samples"
        argv = [str(WORKLOAD), "--transport", peer.transport, "--dir", str(directory)]
        argv += ["--size", str(size), "--messages", str(2 * round_trips)]
        argv += ["--placement", PLACEMENTS[cpus[0] != cpus[1]]]
        argv += ["--cpus", ",".join(map(str, cpus))]
        if peer.statistic == "p50":
            argv += ["--samples", str(samples)]
        result = json.loads(run(argv, None))  # it pins its two processes itself
        if peer.statistic == "p50":
            return float(statistics.median(array.array("I", samples.read_bytes())))
    return float(result["window_ns"] / result["round_trips"])


@contextlib.contextmanager
def started(argv: Sequence[str], cpu: int | None, output: int) -> Iterator[subprocess.Popen[str]]:
    """Start a program in a session whose processes all end with the block."""
    pinned = argv if cpu is None else ["taskset", "-c", str(cpu), *argv]
    process = subprocess.Popen(
        command(pinned), stdin=subprocess.DEVNULL, stdout=output,
        stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run(argv: Sequence[str], cpu: int | None, child: int | None = None) -> str:
    """Run a client, and move the server that it forks to the CPU `child`. Returns its output."""
    with started(argv, cpu, subprocess.PIPE) as process:
        if child is not None and child != cpu:
            pin_child(process, child)
        try:
            text, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise RunError(f"{argv[0]} did not end within {PATIENCE:.0f} s.") from None
    if process.returncode != 0:
        raise RunError(f"{argv[0]} failed (status {process.returncode}): {last_words(text)}.")
    return text


def pin_child(process: subprocess.Popen[str], cpu: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        with contextlib.suppress(OSError):
            if pids := children.read_text().split():
                return os.sched_setaffinity(int(pids[0]), {cpu})
        time.sleep(0.002)
    raise RunError("the peer forked no server that could be pinned.")


def is_open(port: int, kind: str) -> bool:
    """Return whether a socket has this local port. A connection would disturb the server."""
    with Path(f"/proc/net/{kind}").open() as table:
        return any(line.split()[1].endswith(f":{port:04X}") for line in list(table)[1:])


def measure(
    peers: Sequence[Peer], placements: Sequence[str], size: int, round_trips: int, blocks: int
) -> pd.DataFrame:
    """Measure all. Returns a row for each run: CELL, block, program (ours or peer), ns."""
    cpus = sorted(os.sched_getaffinity(0))
    rows = []
    cells = list(product(placements, peers, ("ours", "peer")))
    for block, (placement, peer, program) in interleaved(cells, blocks):
        print(f"block {block + 1}/{blocks}: {placement} {peer.name} {program}", file=sys.stderr)
        pair = cpus[0], cpus[placement == "cross-cpu"]
        own = peer.size or size
        ns = (measure_ours if program == "ours" else measure_peer)(peer, pair, own, round_trips)
        cell = placement, peer.transport, peer.name, own, peer.statistic
        rows.append((*cell, block, program, ns))
    return pd.DataFrame(rows, columns=[*CELL, "block", "program", "ns"])


def markdown(runs: pd.DataFrame) -> str:
    """Return the trimmed means over blocks, and our time over the peer's, paired by block."""
    lines = [
        "| placement | transport | peer | size | compared | ours, µs | peer, µs | ratio | 95 % |",
        "| --- | --- | --- | ---: | --- | ---: | ---: | ---: | --- |",
    ]
    for cell, of_cell in runs.groupby(CELL):
        pairs = of_cell.pivot(index="block", columns="program", values="ns")
        _, peer, ours, ratio = compared(pairs["peer"].to_numpy(), pairs["ours"].to_numpy())
        span = "too few blocks" if ratio.low is None else f"{ratio.low:.2f}-{ratio.high:.2f}"
        times = f"{ours.value / 1000:.2f} | {peer.value / 1000:.2f}"
        lines.append(f"| {' | '.join(map(str, cell))} | {times} | {ratio.value:.2f} | {span} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser("python3 -m runners.programs.peers", description=__doc__)
    add = parser.add_argument
    add("--placements", nargs="+", choices=PLACEMENTS, default=PLACEMENTS)
    add("--size", type=int, default=64, help="message bytes; sockperf sends 14 or more (64)")
    add("--blocks", type=int, default=8, help="how often each pair runs (8)")
    add("--round-trips", type=int, default=30000, help="of each run (30000)")
    given = parser.parse_args()
    peers = [peer for peer in PEERS if shutil.which(peer.name)]
    print(f"peers: {' '.join(sorted({peer.name for peer in peers})) or 'none'}")
    how = given.size, given.round_trips, given.blocks
    print(markdown(measure(peers, given.placements, *how)))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RunError, OSError) as error:
        sys.exit(f"pathcost: {error}")
