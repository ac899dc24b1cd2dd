# SPDX-License-Identifier: GPL-2.0-or-later
"""Judge predictions by what `prove` measured: rows of docs/predictions.tsv, and what they come to.

    python docs/blind/judge.py ATTEMPT PREDICTIONS PROOFS

PREDICTIONS/CASE.json is what `watch --json` printed, prices.json its prices, PROOFS/CASE/ what
`prove` left. Two rules stand beside: that nothing is gained, and that the C ping-pong's gain is.
"""

import json
import sys
from operator import attrgetter
from pathlib import Path
from statistics import mean

from analysis.predict.prices import cpu_of, read_prices
from analysis.predict.prove import read_outcome
from analysis.predict.runs import column

OPPOSITE = {"gain": -1, "you would lose": 1}


def judge(attempt: str, predictions: Path, proofs: Path) -> None:
    prices = read_prices(predictions)
    rule = sum(prices.saved("pingpong", near, 64) for near in (0, 1)) / 2
    rules = {"time": rule[0], "cpu": cpu_of(rule)}
    errors, inside, opposite = {}, {"time": [], "cpu": []}, []
    for path in sorted(predictions.glob("*.*.json")):
        told = json.loads(path.read_text())["pairs"][0]["prediction"]
        if not (proofs / path.stem).exists():
            print(f"{path.stem}: not measured")
            continue
        result = read_outcome(proofs / path.stem)
        proof = result.proof
        turns = column(proof.probed, "tcp", lambda run: run.turns).mean()
        for figure, name, saved, each in (
            ("time", "elapsed_us", result.speed.saved, attrgetter("window_ns")),
            ("cpu", "cpu_us", result.cpu, attrgetter("cpu_ns")),
        ):
            of = column(proof.timed, "plain", each).mean() / turns / 1000
            gain, least, most = (share * of for share in (saved.value, *saved.ends))
            # Where a run mostly passes outside its turns (a client that pauses, or starts and ends
            # slowly): the median of the turns' own times, which a single late one does not decide.
            if figure == "time" and result.is_mostly_start and result.loads:
                median = result.loads.quantiles[50]
                less, name = -median.added * 1e-3, "time_us"
                gain, least, most, of = less.value, *less.ends, median.first.value / 1000
            point, low, high = (told[name][end] for end in ("value", "low", "high"))
            holds = low <= gain <= high
            inside[figure].append(holds)
            sign = int(least > 0) - int(most < 0)
            if figure == "time" and sign and sign == OPPOSITE.get(told["verdict"]):
                opposite.append(path.stem)
            for rival, guess in (("point", point), ("none", 0), ("ping-pong", rules[figure])):
                errors.setdefault((figure, rival), []).append(abs(guess - gain) / of)
            numbers = (point, low, high, gain, (most - least) / 2, of)
            written = (f"{number:.3g}" for number in numbers)
            print(attempt, told["verdict"], path.stem, figure, *written, "yes" if holds else "no",
                  told["limit"], sep="\t")  # fmt: skip
    for figure, held in inside.items():
        rivals = {r: f"{100 * mean(e):.1f}" for (f, r), e in errors.items() if f == figure}
        print(f"{figure}: {sum(held)} of {len(held)} inside; mean error in % of it: {rivals}")
    print(f"verdict opposite to the measured sign: {', '.join(opposite) or 'never'}")


if __name__ == "__main__":
    judge(sys.argv[1], *map(Path, sys.argv[2:]))
