# SPDX-License-Identifier: GPL-2.0-or-later
"""What `watch` prints and stores: pairs, and a prediction for each.

prediction.json has every figure, watch.html the pairs and predictions as a page; the terminal gets
the first of them.
"""

import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.predict.model import Interval, Prediction, Verdict, observe, predict, read_fitted
from analysis.predict.pairs import Pair, pairs, unpaired
from analysis.predict.prices import Prices, read_prices
from analysis.predict.words import WIDTH, advice, figures, number, sentence, size, span, verdict_of
from analysis.raw.programs import Watched
from analysis.raw.record import read_object
from analysis.report import output
from analysis.report.render import page, render
from analysis.wording import DASH, counted
from probes.messages import RunError

WATCH, PREDICTION, PAGE = "watch.json", "prediction.json", "watch.html"
MOST_ROWS, MOST_SENTENCES = 10, 4
HEADS = ("client", "server", "at", "req/s", "bytes", "opened/s", "µs", "sleeps", "CPUs", "kernel")
PAIRS = (
    *("client", "server", "at", "requests/s", "bytes, request / answer", "opened/s"),
    *("µs to the answer", "sleeps a request, client / server", "CPUs"),
    "in the kernel, client / server",
)
GAINS = (
    *("pair", "requests/s", "to the answer", "time, 90 % interval", "CPU time, 90 % interval"),
    *("requests/s at most", "what limits them"),
)
Predicted = tuple[Pair, Prediction | None]


def show_watch(folder: Path, priced: Path, how: str | None) -> None:
    """Write both files, and print the table and the predictions. Raises RunError."""
    watched = read_object(folder / WATCH, Watched)
    predicted = predictions(watched, read_prices(priced))
    text = json.dumps(document(watched, predicted), indent=1, ensure_ascii=False) + "\n"
    html = watch_page(folder.resolve().name, watched, predicted)
    output.write_all(folder, {PREDICTION: output.text(text), PAGE: output.text(html)})
    if how == "json":
        print(text, end="")
    elif how == "quiet":
        print(folder / PAGE)
    elif predicted:
        print("\n".join((*lines(watched, predicted), f"Report: {folder / PAGE}")))
    if not predicted:
        raise RunError(nothing(watched))


def predictions(watched: Watched, prices: Prices) -> list[Predicted]:
    """Predict for each pair; None where nothing was requested."""
    fitted = read_fitted()
    return [
        (pair, predict(observe(pair, watched.idle_cpus), prices, fitted) if pair.requests else None)
        for pair in pairs(watched)
    ]


def nothing(watched: Watched) -> str:
    """Say why there is no pair."""
    if watched.only.ports:
        return f"no pair that talked uses port {watched.only.ports[0]}: choose another, or none."
    if watched.only.pids:
        return f"process {watched.only.pids[0]} talked to nobody on this machine meanwhile."
    return "no two processes of this machine talked meanwhile over TCP or a Unix socket."


def over_tcp(predicted: Sequence[Predicted]) -> list[tuple[Pair, Prediction]]:
    """The pairs over TCP, which could use a Unix socket instead."""
    return [
        (pair, prediction) for pair, prediction in predicted if pair.family == "tcp" and prediction
    ]


# The terminal


def lines(watched: Watched, predicted: Sequence[Predicted]) -> Iterator[str]:
    """At most 25 lines."""
    yield cost_line(watched)
    rows = [HEADS, *(row(pair) for pair, _ in predicted[:MOST_ROWS])]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for line in rows:
        cells = [
            cell.ljust(width) if place < 3 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
    if len(predicted) > MOST_ROWS:
        yield f"and {len(predicted) - MOST_ROWS} pairs with fewer requests (--json has all)"
    for pair, prediction in over_tcp(predicted)[:MOST_SENTENCES]:
        yield from textwrap.wrap(spoken(pair, prediction), WIDTH, subsequent_indent="  ")
        if prediction.time.low > 0 and (known := "; ".join(advice(pair))):
            yield from [f"  {text}" for text in textwrap.wrap(known, WIDTH - 2)[:2]]
    yield from remarks(watched)


def spoken(pair: Pair, prediction: Prediction) -> str:
    return f"{pair.client.comm} to {pair.place}: {sentence(pair, prediction)}."


def remarks(watched: Watched) -> Iterator[str]:
    """What could not be seen."""
    if ends := unpaired(watched):
        yield (
            f"{counted(ends, 'end')} without the other: that did not talk in this time, is on "
            "another machine, or behind an address translation."
        )
    if watched.lost:
        yield f"{watched.lost} ends were not counted: the kernel's table was full."
    for pid in watched.only.pids:
        if watched.owner(pid).ended:
            yield f"process {pid} ended while it was watched."


def cost_line(watched: Watched) -> str:
    probes, active = watched.probes, 100 * watched.active_s / max(watched.seconds, 1e-9)
    share = "unknown" if probes.share is None else f"{100 * probes.share:.2f} %"
    calls = f"counted in {active:.0f} % of the time" if watched.sampled else "every call counted"
    return (
        f"{watched.seconds:.1f} s, {calls}; the probes ran {probes.runs:,} times and took "
        f"{share} of the watched processes' CPU time"
    )


def row(pair: Pair) -> tuple[str, ...]:
    """The cells of HEADS."""
    parties = (pair.client, pair.server)
    return (
        *(_named(party.comm, list(party.owners)) for party in parties),
        pair.place if len(pair.place) <= 24 else f"…{pair.place[-23:]}",
        number(pair.rate),
        " / ".join(size(party.per_turn) for party in parties),
        number(pair.opened),
        number(pair.answer_us),
        " / ".join(number(min(99, pair.slept(party))) for party in parties),
        ",".join(map(str, sorted({cpu for party in parties for cpu in party.cpus}))),
        " / ".join(f"{party.used('system_ms') / 10 / pair.seconds:.0f} %" for party in parties),
    )


def _named(comm: str, pids: list[int]) -> str:
    return f"{comm} {pids[0]}" if len(pids) == 1 else f"{comm} ({len(pids)} processes)"


# prediction.json


def document(watched: Watched, predicted: Sequence[Predicted]) -> dict[str, Any]:
    return {
        **watched.model_dump(include={"seconds", "active_s"}),
        "sampled": watched.sampled,
        "probes": watched.probes.model_dump(),
        "unpaired": unpaired(watched),
        "lost": watched.lost,
        "pairs": [entry(pair, prediction) for pair, prediction in predicted],
    }


def entry(pair: Pair, prediction: Prediction | None) -> dict[str, Any]:
    sides = {
        name: {
            "comm": party.comm,
            "pids": list(party.owners),
            "sends": party.sum("sends"),
            "bytes": party.sum("sent"),
            "sizes": {str(low): count for low, count in sorted(party.sizes.items())},
            "cpus": party.cpus,
            "slept_per_request": round(pair.slept(party), 4),
            "cpu": round(pair.busy(party), 4),
            "system_ms": party.used("system_ms"),
            "user_ms": party.used("user_ms"),
        }
        for name, party in (("client", pair.client), ("server", pair.server))
    }
    return {
        "family": pair.family,
        "place": pair.place,
        "requests": pair.requests,
        "requests_per_s": round(pair.rate, 3),
        "connections": len(pair.client.ends),
        "opened_per_s": round(pair.opened, 3),
        "answer_us": round(pair.answer_us, 3),
        "work_us": round(pair.work_us, 3),
        "near": round(pair.near, 4),
        **sides,
        "prediction": prediction_of(pair, prediction),
    }


def prediction_of(pair: Pair, prediction: Prediction | None) -> dict[str, Any] | None:
    """The prediction; None of a pair that uses a Unix socket already."""
    if prediction is None or pair.family != "tcp":
        return None
    return {
        "says": sentence(pair, prediction),
        "verdict": verdict_of(pair, prediction),
        "limit": str(prediction.limit),
        "elapsed_us": asdict(prediction.elapsed),
        **figures(prediction),
        "advice": advice(pair),
    }


# watch.html


def watch_page(name: str, watched: Watched, predicted: Sequence[Predicted]) -> str:
    """Make the page of a run's folder of this name; it needs no network."""
    unseen = [*remarks(watched), "What messages hold: only their sizes are read."]
    if watched.sampled:
        unseen.append("Calls in the time in which the probes did not count; rates are of the rest.")
    unseen.append("Whose CPU time and sleeps: both are a process's, with all else that it does.")
    gains, texts = [], []
    for pair, prediction in over_tcp(predicted):
        known = advice(pair) if prediction.verdict is Verdict.GAIN else []
        texts.append((spoken(pair, prediction), *known))
        changes, limit = (DASH, DASH, DASH), verdict_of(pair, prediction)
        if prediction.has_figures and pair.share_a_folder:
            even = prediction.verdict is Verdict.NONE
            changes = (
                change_text(prediction.time, even),
                change_text(prediction.cpu),
                change_text(prediction.growth * -1, even, unit=""),
            )
            limit = str(prediction.limit)
        ends = f"{pair.client.comm} → {pair.server.comm}, {pair.place}"
        gains.append((ends, number(pair.rate), f"{number(pair.answer_us)} µs", *changes, limit))
    text = render(
        "watch.md.j2",
        name=name,
        nothing="No pair talks over TCP." if predicted else nothing(watched),
        cost=cost_line(watched),
        texts=texts,
        gains=pd.DataFrame(gains, columns=GAINS) if gains else None,
        pairs=pd.DataFrame([row(pair) for pair, _ in predicted], columns=PAIRS),
        unseen=unseen,
    )
    return page(text, f"pathcost: {name}")


def change_text(less: Interval, even: bool = False, unit: str = "µs") -> str:
    """Write `18 to 27 µs less`; `even`: there is no measurable gain."""
    low, high = sorted((less.low, less.high))
    if even or low <= 0 <= high:
        return "not measurable"
    return f"{span(less if low > 0 else less * -1, unit)} {'less' if low > 0 else 'more'}"
