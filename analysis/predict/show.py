# SPDX-License-Identifier: GPL-2.0-or-later
"""What `watch` prints and stores, and `what-if` prints: pairs, and a prediction for each.

prediction.json has every figure, watch.html the pairs and predictions as a page; the terminal gets
the first of them.
"""

import textwrap
from pathlib import Path

from analysis.predict.connections import unpaired
from analysis.predict.document import document, figures, written
from analysis.predict.model import predict, read_fitted
from analysis.predict.page import watch_page
from analysis.predict.prices import CPUS, Described, Prices, read_prices
from analysis.predict.remarks import remark
from analysis.predict.terminal import WIDTH, lines, width
from analysis.predict.told import change, tell_all
from analysis.raw.programs import Watched
from analysis.raw.record import read_object
from analysis.report import output
from analysis.report.sentences import sentence as worded
from analysis.times.cold import after_work, colder, hot_difference, one_percent_ns
from analysis.wording import capital, number
from probes.contract import WATCH
from probes.messages import FOLDER, RunError

PREDICTION, PAGE = "prediction.json", "watch.html"
WHAT_IF = "what-if.json"


def show_watch(folder: Path, priced: Path, how: str | None) -> None:
    """Write both files, and print the table and the predictions. Raises RunError."""
    prices = read_prices(priced)
    foreign = "" if priced == folder else prices.source
    watched = read_object(folder / WATCH, Watched)
    alone = unpaired(watched)
    told = tell_all(watched, prices)
    said = remark(watched, told, alone, foreign)
    text = written(document(watched, told, alone, prices.source)) + "\n"
    html = watch_page(named(folder), told, said)
    output.write_all(folder, {PREDICTION: text, PAGE: html})
    if how == "json":
        print(text, end="")
    elif how == "quiet":
        print(folder / PAGE)
    elif told:
        print(*lines(told, said, width()), f"Report: {folder / PAGE}", sep="\n")
    if not told:
        raise RunError(said.nothing)


def named(folder: Path) -> str:
    """A run's folder as its page names it, which tells of no other folder of this machine."""
    whole = folder.resolve()
    return f"{FOLDER}/{whole.name}" if whole.parent.name == FOLDER else whole.name


def show_what_if(folder: Path, priced: Path, how: str | None) -> None:
    """Print the prediction. Raises RunError."""
    described = read_object(folder / WHAT_IF, Described)
    prices = read_prices(priced)
    prediction = predict(described.observed(prices), prices, read_fitted())
    text = change(prediction)
    if how == "json":
        told = {"says": text, "verdict": str(prediction.verdict), **figures(prediction)}
        print(written(told | {"observed": prediction.observed.figures}))
        return
    print(textwrap.fill(f"{capital(text)}.", WIDTH))
    if prediction.has_figures:
        print(textwrap.fill(worded("priced", prediction, described, number), WIDTH))
    if described.command:
        print(f"Measure it: {described.command}")
    if not prices.has_cold:
        print("These prices are of a hot path: with work of its own a request gains more.")
    elif least := without_effect(described, prices):
        print(textwrap.fill(worded("without_effect", least), WIDTH))


def without_effect(described: Described, prices: Prices) -> float | None:
    """From which request on the difference is below 1 %, as a report of this machine says it.

    None where the scheduler places both: what it does differs from transport to transport.
    """
    placement = CPUS[described.cpus][0]
    hot = hot_difference(prices.cells, placement, max(described.request, described.answer))
    more = colder(prices.beside_cold)
    if described.cpus == "free" or described.connect or not (hot and more):
        return None
    return one_percent_ns(after_work(hot, more))
