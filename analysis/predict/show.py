# SPDX-License-Identifier: GPL-2.0-or-later
"""What `watch` prints and stores, and `what-if` prints: pairs, and a prediction for each.

prediction.json has every figure, watch.html the pairs and predictions as a page; the terminal gets
the first of them.
"""

import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.predict.model import Prediction, Verdict, predict, read_fitted
from analysis.predict.pairs import Pair, Party, known_programs, pairs, unpaired
from analysis.predict.prices import Described, Prices, read_prices
from analysis.predict.waits import notes, number, remedies
from analysis.raw.programs import Watched
from analysis.raw.record import read_object
from analysis.report import output
from analysis.report.render import page, render
from analysis.report.render import sentence as worded
from analysis.statistics import Estimate
from analysis.wording import DASH, capital, counted
from probes.messages import FOLDER, PROGRAM, RunError

WATCH, PREDICTION, PAGE = "watch.json", "prediction.json", "watch.html"
WHAT_IF, WIDTH = "what-if.json", 100
MOST_NAMES = 3
MOST_ROWS, MOST_SENTENCES = 10, 4
# In a terminal, of the columns of `row`
HEADS = ("client", "server", "at", "req/s", "bytes", "opened/s", "µs", "sleeps", "CPUs", "kernel")
Predicted = tuple[Pair, Prediction | None]
UNSETTLED = (Verdict.OPEN, Verdict.PLACED)


def show_watch(folder: Path, priced: Path, how: str | None) -> None:
    """Write both files, and print the table and the predictions. Raises RunError."""
    watched = read_object(folder / WATCH, Watched)
    prices = read_prices(priced)
    predicted, foreign = predictions(watched, prices), prices.source if priced != folder else ""
    text = written(document(watched, predicted) | {"prices": prices.source}) + "\n"
    whole = folder.resolve()
    usual = whole.parent.name == FOLDER  # the page names no other folder of this machine
    name = f"{FOLDER}/{whole.name}" if usual else whole.name
    html = watch_page(name, watched, predicted, foreign)
    output.write_all(folder, {PREDICTION: text, PAGE: html})
    if how == "json":
        print(text, end="")
    elif how == "quiet":
        print(folder / PAGE)
    elif predicted:
        print(*lines(watched, predicted), *priced_by(foreign), f"Report: {folder / PAGE}", sep="\n")
    if not predicted:
        raise RunError(nothing(watched))


def written(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False)


def predictions(watched: Watched, prices: Prices) -> list[Predicted]:
    """Predict for each pair over TCP; None for others, and where nothing was requested."""
    fitted, predicted = read_fitted(), list[Predicted]()
    for pair in pairs(watched):
        made = None
        if pair.requests and pair.family == "tcp":
            made = predict(pair.observed, prices, fitted)
            made = made if pair.share_a_folder else replace(made, verdict=Verdict.NOT_POSSIBLE)
        predicted.append((pair, made))
    return predicted


def nothing(watched: Watched) -> str:
    """Say why there is no pair."""
    if watched.only.ports:
        return f"no pair that talked uses port {watched.only.ports[0]}: choose another, or none."
    if watched.only.pids:
        return f"process {watched.only.pids[0]} talked to nobody on this machine meanwhile."
    return "no two processes of this machine talked meanwhile over TCP or a Unix socket."


# The terminal


def lines(watched: Watched, predicted: Sequence[Predicted]) -> Iterator[str]:
    """At most 25 lines."""
    yield cost_line(watched)
    rows = [row(pair).values() for pair, _ in predicted[:MOST_ROWS]]
    head, *table = pd.DataFrame(rows, columns=HEADS).to_string(index=False).splitlines()
    yield head
    for line, (pair, _) in zip(table, predicted, strict=False):
        yield line
        if noted := "; ".join(notes(pair)):
            yield f"    {noted}"
    if len(predicted) > MOST_ROWS:
        yield f"and {len(predicted) - MOST_ROWS} pairs with fewer requests (--json has all)"
    asked = [(pair, made) for pair, made in predicted if made or remedies(pair)]
    for pair, prediction in asked[:MOST_SENTENCES]:
        for text in ([spoken(pair, prediction)] if prediction else []) + remedies(pair):
            yield from textwrap.wrap(text, WIDTH, subsequent_indent="  ")
        if prediction and prediction.time.ends[0] > 0 and (known := "; ".join(advice(pair))):
            yield from [f"  {text}" for text in textwrap.wrap(known, WIDTH - 2)[:2]]
    yield from remarks(watched, predicted)


def spoken(pair: Pair, prediction: Prediction) -> str:
    words = f"{pair.client.comm} to {pair.place}: {change(prediction)}."
    return f"{words} To settle it: {prove(pair)}" if prediction.verdict in UNSETTLED else words


def prove(pair: Pair) -> str:
    """The command that runs both programs over both transports."""
    port = pair.place.rpartition(":")[2]
    return f"sudo {PROGRAM} prove --port {port} --server COMMAND --client COMMAND"


def unbound() -> str:
    """What these predictions are worth without CPUs of their own; docs/af-unix: one that loses."""
    inside, gains = read_fitted().unbound_inside
    return (
        "A Unix socket may change where the scheduler puts programs that are bound to no CPU, for "
        f"better or worse: of programs new to it, the interval held {inside} of {gains} gains. "
        f"Measure it: sudo {PROGRAM} prove --help"
    )


def remarks(watched: Watched, predicted: Sequence[Predicted]) -> Iterator[str]:
    """What could not be seen."""
    if any(prediction and not pair.observed.bound for pair, prediction in predicted):
        yield unbound()
    if ends := unpaired(watched):
        yield (
            f"{counted(ends, 'end')} without the other: that did not talk in this time, is on "
            "another machine, or behind an address translation."
        )
    if watched.lost:
        yield f"{watched.lost} ends were not counted: the kernel's table was full."
    parties = (party for pair, _ in predicted for party in (pair.client, pair.server))
    ended = {_named(party): party.read for party in parties if party.ended or not party.read}
    if names := [name for name, read in ended.items() if read]:
        yield f"{several(names)} ended while it was watched: rates are of the whole time."
    if names := [name for name, read in ended.items() if not read]:
        yield f"{several(names)} ended too soon to be read: CPU time and sleeps are not known."


def several(names: Sequence[str]) -> str:
    """The first names, and how many there are beside."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def priced_by(foreign: str) -> Iterator[str]:
    """Whose the prices are, where they were not stored with what was watched."""
    if foreign:
        yield f"Prices are of {foreign}; where this was watched, messages may cost more or less."


def cost_line(watched: Watched) -> str:
    probes, active = watched.probes, 100 * watched.active_s / max(watched.seconds, 1e-9)
    share = "unknown" if probes.share is None else f"{100 * probes.share:.2f} %"
    of_cpu = (probes.ns + probes.entry_ns * probes.runs) / 1e7 / max(watched.seconds, 1e-9)
    calls = f"{watched.seconds:.1f} s, every call counted"
    if watched.sampled:
        calls = f"a sample: counted in {active:.0f} % of {watched.seconds:.1f} s (--limit)"
    return (
        f"{calls}; the probes ran {probes.runs:,} times and took "
        f"{share} of the watched processes' CPU time, {number(of_cpu)} % of a CPU"
    )


def row(pair: Pair) -> dict[str, str]:
    parties, seen = (pair.client, pair.server), pair.observed
    kernel = (f"{party.used('system_ms') / 10:.0f} %" if party.read else "?" for party in parties)
    sleeps = (number(min(99, pair.slept(party))) if party.read else "?" for party in parties)
    return {
        "client": _named(pair.client),
        "server": _named(pair.server),
        "at": pair.place if len(pair.place) <= 24 else f"…{pair.place[-23:]}",
        "requests/s": number(seen.rate),
        "bytes, request / answer": f"{size(seen.request)} / {size(seen.answer)}",
        "opened/s": number(seen.opened * seen.rate),
        "µs to the answer": number(seen.answer_us),
        "sleeps a request, client / server": " / ".join(sleeps),
        "CPUs": ",".join(map(str, sorted({cpu for party in parties for cpu in party.cpus}))),
        "in the kernel, client / server": " / ".join(kernel),
    }


def _named(party: Party) -> str:
    count, inside = len(party.owners), party.container and f" in {party.container}"
    return f"{party.comm} {f'({count} processes)' if count > 1 else min(party.owners)}{inside}"


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
            "container": party.container,
            "pids": list(party.owners),
            "sends": party.sum("sends"),
            "bytes": party.sum("sent"),
            "received": party.sum("received"),
            "cpus": party.cpus,
            "slept_per_request": pair.slept(party) if party.read else None,
            "cpu": party.busy if party.read else None,
        }
        for name, party in (("client", pair.client), ("server", pair.server))
    }
    told = prediction and {
        "says": change(prediction),
        "verdict": str(prediction.verdict),
        **figures(prediction),
        "advice": [*remedies(pair), *advice(pair)],
    }
    return {
        "family": pair.family,
        "place": pair.place,
        "requests": pair.requests,
        "connections": len(pair.client.ends),
        "failed_connects": pair.failed,
        "parts_us": pair.parts,
        "notes": notes(pair),
        "work_us": pair.server.mean_us("work"),
        **sides,
        "observed": asdict(pair.observed),
        "prediction": told,
    }


def figures(prediction: Prediction) -> dict[str, Any]:
    estimates = {"time_us": prediction.time, "elapsed_us": prediction.elapsed,
                 "cpu_us": prediction.cpu, "core_at_this_rate": prediction.core}  # fmt: skip
    ends = {
        name: {"value": it.value, "low": it.low, "high": it.high} for name, it in estimates.items()
    }
    return {"limit": str(prediction.limit), **ends}


# watch.html


def watch_page(
    name: str, watched: Watched, predicted: Sequence[Predicted], foreign: str = ""
) -> str:
    """Make the page of a run's folder of this name; it needs no network."""
    unseen = [
        *remarks(watched, predicted),
        *priced_by(foreign),
        "What messages hold: only their sizes are read.",
    ]
    if watched.sampled:
        unseen.append("Calls in the time in which the probes did not count; rates are of the rest.")
    unseen.append("Whose CPU time and sleeps: both are a process's, with all else that it does.")
    gains, rows, parts, texts = [], [], [], list[Sequence[str]]()
    for pair, prediction in predicted:
        seen, who = pair.observed, f"{pair.client.comm} → {pair.server.comm}, {pair.place}"
        rows.append(row(pair) | {"seen": "; ".join(notes(pair)) or DASH})
        if seen.answer_us:
            each = {name: number(part) for name, part in pair.parts.items()}
            parts.append({"pair": who, "µs to the answer": number(seen.answer_us)} | each)
        if prediction is None:
            texts += [remedies(pair)] if remedies(pair) else []
            continue
        gain = prediction.verdict in (Verdict.GAIN, Verdict.NOT_POSSIBLE)
        texts.append((spoken(pair, prediction), *remedies(pair), *(advice(pair) if gain else ())))
        even, known = prediction.verdict is Verdict.NONE, prediction.has_figures
        still = even or prediction.verdict is Verdict.PLACED
        gains.append({
            "pair": who,
            "requests/s": number(seen.rate),
            "to the answer": f"{number(seen.answer_us)} µs",
            "time, 90 % interval": change_text(prediction.time, even) if known else DASH,
            "CPU time, 90 % interval": change_text(prediction.cpu) if known else DASH,
            "requests/s at most": change_text(-prediction.growth, still, "") if known else DASH,
            "what limits them": str(prediction.limit if known else prediction.verdict),
        })  # fmt: skip
    text = render(
        "watch.md.j2",
        name=name,
        program=PROGRAM,
        nothing="No pair talks over TCP." if predicted else nothing(watched),
        cost=cost_line(watched),
        texts=texts,
        gains=pd.DataFrame(gains),
        pairs=pd.DataFrame(rows),
        parts=pd.DataFrame(parts),
        unseen=unseen,
        foreign=foreign,
    )
    return page(text, f"pathcost: {name}")


def change_text(less: Estimate, even: bool = False, unit: str = "µs") -> str:
    """Write `18 to 27 µs less`, or both sides; `even`: there is no measurable gain."""
    if even:
        return "not measurable"
    if less.spans(0):
        low, high = less.ends
        return f"{number(-low)} more to {number(high)} {unit}".strip() + " less"
    return f"{span(less, unit)} less" if less.value > 0 else f"{span(-less, unit)} more"


# Words


def change(prediction: Prediction) -> str:
    """Say what a Unix socket would change between a client and a server that could use it."""
    largest = size(max(prediction.observed.request, prediction.observed.answer))
    return worded("change", prediction, largest, number, span)


def advice(pair: Pair) -> list[str]:
    """Lines of configuration, and pitfalls, for the programs of a pair that are known."""
    texts = []
    for party, role in ((pair.server, "server"), (pair.client, "client")):
        if (program := known_programs().get(party.comm)) and role in program:
            texts.append(f"{party.comm}: {program[role]}")
            texts += [program["pitfall"]] if "pitfall" in program else []
    return texts


def span(estimate: Estimate, unit: str) -> str:
    """Write `18 to 27 µs`."""
    low, high = estimate.ends
    return f"{number(max(0.0, low))} to {number(high)} {unit}".strip()


def size(count: float) -> str:
    for unit, factor in (("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= factor:
            return f"{number(count / factor)} {unit}"
    return f"{number(count)} B"


# what-if


def show_what_if(folder: Path, priced: Path, how: str | None) -> None:
    """Print the prediction. Raises RunError."""
    described = read_object(folder / WHAT_IF, Described)
    prices = read_prices(priced)
    prediction = predict(described.observed(prices), prices, read_fitted())
    text = change(prediction)
    if how == "json":
        told = {"says": text, "verdict": str(prediction.verdict), **figures(prediction)}
        print(written(told | {"observed": asdict(prediction.observed)}))
        return
    print(textwrap.fill(f"{capital(text)}.", WIDTH))
    if prediction.has_figures:
        print(textwrap.fill(worded("priced", prediction, described, number), WIDTH))
    if described.command:
        print(f"Measure it: {described.command}")
    if not prices.has_cold:
        print("These prices are of a hot path: with work of its own a request gains more.")
