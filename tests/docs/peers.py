# SPDX-License-Identifier: GPL-2.0-or-later
"""Compares our workload with sockperf and perf bench: `python -m tests.docs.peers`.

Each block runs every pair of programs once, in the order A B B A, with both sides pinned. A peer
that prints only a mean is compared by the mean. Writes a row for each run, and prints the table of
docs/comparison-with-peers.md. Needs no root.
"""

import array
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pandas as pd

from analysis.statistics import compared
from analysis.wording import extent
from probes.bcc.people import listening
from probes.files import read_rows, typed
from runners.host.workload import private_directory
from runners.process import WORKLOAD, RunError, command, free_port, last_words, stop
from runners.programs.experiments import interleaved

PLACEMENTS = ("same-cpu", "cross-cpu")
SIZE, ROUND_TRIPS, BLOCKS = 64, 30_000, 8
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

    def measure(self, cpus: tuple[int, int]) -> float:
        """The peer's own median or mean of a round trip, ns. Raises RunError."""
        client, server = ("taskset", "-c", str(cpus[0])), ("taskset", "-c", str(cpus[1]))
        port = free_port()  # of TCP; UDP's of this number is as free
        given = {"port": port, "size": SIZE, "round_trips": ROUND_TRIPS}
        words = self.client.format(**given).split()
        if not self.server:
            return self.parse(_output([*client, *words], child=cpus[1]))
        serving = [*server, *self.server.format(**given).split()]
        process = subprocess.Popen(command(serving), stdout=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + PATIENCE
            while not self._is_open(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RunError(f"{self.name}'s server does not open its port.")
                time.sleep(0.01)
            return self.parse(_output([*client, *words]))
        finally:
            stop(process)

    def _is_open(self, port: int) -> bool:
        """Whether its server has the port. A connection would disturb the server."""
        table = Path("/proc/net", self.transport)
        return port in listening(table) or f":{port:04X} 00000000:0000 07" in table.read_text()

    def measure_ours(self, cpus: tuple[int, int]) -> float:
        """The same of our workload; a mean needs no clock reading in each round trip."""
        with private_directory(None) as directory:
            samples = directory / "samples"
            words = [WORKLOAD, "--transport", self.transport, "--dir", directory]
            words += ["--size", self.size or SIZE, "--messages", 2 * ROUND_TRIPS]
            words += ["--placement", PLACEMENTS[cpus[0] != cpus[1]]]
            words += ["--cpus", ",".join(map(str, cpus))]
            words += ["--samples", samples] if self.statistic == "p50" else []
            result = json.loads(_output([str(word) for word in words]))  # it pins itself
            if self.statistic == "p50":
                return float(statistics.median(array.array("I", samples.read_bytes())))
        return float(result["window_ns"] / result["round_trips"])


PEERS = tuple(Peer(**typed(Peer, row)) for row in read_rows(Path(__file__).with_suffix(".tsv")))


def _output(words: Sequence[str], child: int | None = None) -> str:
    """What a client printed; the server that it forks runs on the CPU `child`. Raises RunError."""
    with subprocess.Popen(
        command(words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        forked = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while child is not None and process.poll() is None:
            with suppress(OSError, IndexError):
                os.sched_setaffinity(int(forked.read_text().split()[0]), {child})
                break
        try:
            text, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise RunError(f"{words[-1]} did not end within {PATIENCE:.0f} s.") from None
    if process.returncode != 0:
        raise RunError(f"{' '.join(words)} failed: {last_words(text)}.")
    return text


def measure() -> pd.DataFrame:
    """A row for each run: CELL, block, program (ours or peer), ns. Raises RunError."""
    first, *_, last = sorted(os.sched_getaffinity(0))
    rows = []
    for block, (placement, peer, program) in interleaved(
        list(product(PLACEMENTS, PEERS, ("ours", "peer"))), BLOCKS
    ):
        cpus = first, last if placement == "cross-cpu" else first
        ns = (peer.measure_ours if program == "ours" else peer.measure)(cpus)
        cell = placement, peer.transport, peer.name, peer.size or SIZE, peer.statistic
        rows.append((*cell, block, program, ns))
    return pd.DataFrame(rows, columns=[*CELL, "block", "program", "ns"])


def markdown(runs: pd.DataFrame) -> str:
    """The trimmed means over blocks, and our time over the peer's, paired by block."""
    lines = [
        "| placement | transport | peer | size | compared | ours, µs | peer, µs | ratio | 95 % |",
        "| --- | --- | --- | ---: | --- | ---: | ---: | ---: | --- |",
    ]
    for cell, of_cell in runs.groupby(CELL):
        pairs = of_cell.pivot(index="block", columns="program", values="ns")
        both = compared(pairs["peer"].to_numpy(), pairs["ours"].to_numpy())
        ratio = both.ratio
        span = "too few blocks" if ratio.low is None else extent(*ratio.ends)
        times = f"{both.second.value / 1000:.2f} | {both.first.value / 1000:.2f}"
        lines.append(f"| {' | '.join(map(str, cell))} | {times} | {ratio.value:.2f} | {span} |")
    return "".join(f"{line}\n" for line in lines)


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        raise SystemExit("usage: python -m tests.docs.peers ROWS.csv, a file that it writes")
    runs = measure()
    runs.to_csv(sys.argv[1], index=False)
    print(markdown(runs), end="")


if __name__ == "__main__":
    try:
        main()
    except (RunError, OSError) as error:
        sys.exit(f"pathcost: {error}")
