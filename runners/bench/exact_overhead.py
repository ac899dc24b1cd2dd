# SPDX-License-Identifier: GPL-2.0-or-later
"""Measures the cost of the recorder: equal cells from one stored machine, with and without it.

    python3 -m runners.bench.exact_overhead

prints a table of QEMU's processor seconds. The two kinds of run take turns (A B B A), and each
ratio compares two neighbours. `whole run` is a cell as run.sh counts it, with its warm-up, which
is not recorded. `window alone` is what a longer window adds.
"""

import statistics
import sys
from dataclasses import replace

from runners.bench.process import cpu_seconds
from runners.exact.cells import ExactCell, plan
from runners.exact.machine.boot import recorder_options, run_qemu
from runners.exact.machine.guest import ExactGuest, prepare_guest, scratch
from runners.invoker import invoker

KERNEL = "6.12"
ROUNDS = 6
LONGER = 8_000  # messages


Pair = tuple[float, float]
"""Seconds of one cell without the recorder and with it."""


def measure(guest: ExactGuest, cell: ExactCell, rounds: int) -> list[Pair]:
    """Pairs of neighbouring runs, every second pair in reverse order."""
    pairs = []
    for number in range(rounds):
        order = (False, True) if number % 2 == 0 else (True, False)
        seconds = {recorded: _seconds(guest, cell, recorded) for recorded in order}
        pairs.append((seconds[False], seconds[True]))
    return pairs


def _seconds(guest: ExactGuest, cell: ExactCell, recorded: bool) -> float:
    with scratch() as folder:
        options = ["-incoming", f"file:{guest.stored}"]
        if recorded:
            options += recorder_options(folder, guest.plugin)
        return sum(cpu_seconds(lambda: run_qemu(guest.machine, options, cell.order)))


def _row(what: str, pairs: list[Pair]) -> str:
    ratios = [recorded / plain for plain, recorded in pairs]
    plain, recorded = (statistics.median(seconds) for seconds in zip(*pairs, strict=True))
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    return f"| {what} | {plain:.2f} | {recorded:.2f} | {statistics.median(ratios):.2f} | {spread} |"


def main(rounds: int) -> None:
    """Print the table. Raises GuestError."""
    guest = prepare_guest(invoker().cache, KERNEL, lambda text: print(text, file=sys.stderr))
    print("| | without, s | with, s | ratio | ratios |\n| --- | ---: | ---: | ---: | --- |")
    for cell in plan(("unix", "tcp"), (64,)):
        whole = measure(guest, cell, rounds)
        print(_row(f"{cell}: whole run", whole), flush=True)
        longer = measure(guest, replace(cell, messages=LONGER), rounds)
        alone = [
            (long[0] - short[0], long[1] - short[1])
            for short, long in zip(whole, longer, strict=True)
        ]
        print(_row(f"{cell}: window alone", alone), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
