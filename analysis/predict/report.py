# SPDX-License-Identifier: GPL-2.0-or-later
"""What --watch leaves: prediction.json, watch.html, and a table in the terminal."""

import json
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from analysis.predict.model import Interval, Prediction, Verdict
from analysis.predict.pairs import Pair
from analysis.predict.prices import read_prices
from analysis.predict.show import (
    Found,
    cost_line,
    document,
    lines,
    nothing,
    predictions,
    read_watch,
    remarks,
    row,
    talking,
)
from analysis.predict.words import advice, core, impossible, number, percent, sentence, span
from analysis.raw.watch import Watched
from analysis.report import output
from analysis.report.blocks import (
    Bar,
    Blocks,
    Card,
    Cards,
    Column,
    Items,
    Page,
    Section,
    Table,
    Text,
    numbers,
)
from analysis.report.html import html
from analysis.report.inline import above, code, joined, say
from analysis.wording import DASH, counted
from probes.messages import RunError

PREDICTION, PAGE = "prediction.json", "watch.html"
SEEN = (
    "client → server",
    *numbers("requests/s", "bytes, request / answer", "opened/s", "µs to the answer",
             "sleeps a request, client / server", "CPUs", "in the kernel, client / server"),
)  # fmt: skip
EVEN = "not measurable"


def show_watch(folder: Path, priced: Path, how: str | None) -> None:
    """Write both files, and print the table and the predictions. Raises RunError."""
    watched = read_watch(folder)
    found = predictions(watched, read_prices(priced))
    text = json.dumps(document(watched, found), indent=1, ensure_ascii=False) + "\n"
    page = html(watch_page(folder.resolve().name, watched, found), sortable=False)
    output.write_all(folder, {PREDICTION: output.text(text), PAGE: output.text(page)})
    if how == "json":
        print(text, end="")
    elif how == "quiet":
        print(folder / PAGE)
    elif found:
        print("\n".join((*lines(watched, found), f"Report: {folder / PAGE}")))
    if not found:
        raise RunError(nothing(watched))


def watch_page(name: str, watched: Watched, found: Sequence[Found]) -> Page:
    """`name`: of the run's folder."""
    said = talking(found)
    sections = [Section("pairs", "Who talks to whom", _pairs(watched, found))]
    if said:
        sections.append(Section("saving", "What a Unix socket would save", _saving(name, said)))
    if said and said[0][1].told and not impossible(said[0][0]):
        sections.insert(0, Section("busiest", "", [Cards(_cards(watched, *said[0]))]))
    heading = _spoken(*said[0]) if said else "No pair talks over TCP." if found else ""
    return Page(
        f"pathcost: {name}", f"pathcost --watch · {name} · {watched.cpus} CPUs", (),
        [heading or _sentence(nothing(watched)), f"{cost_line(watched)}."], sections,
    )  # fmt: skip


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _spoken(pair: Pair, prediction: Prediction) -> str:
    return f"{pair.client.comm} to {pair.place}: {sentence(pair, prediction)}."


def _pairs(watched: Watched, found: Sequence[Found]) -> Blocks:
    unseen = [_sentence(text) for text in remarks(watched)]
    if watched.sampled:
        unseen.append("Calls in the time in which the probes did not count; rates are of the rest.")
    unseen.append("What messages hold: only their sizes are read.")
    unseen.append("Whose CPU time and sleeps: both are a process's, with all else that it does.")
    return [
        Table(counted(len(found), "pair"), SEEN, [_seen(*row(pair)) for pair, _ in found]),
        Text("heading", "What was not seen"),
        Items(unseen),
    ]


def _seen(client: str, server: str, place: str, *figures: str) -> tuple[str, ...]:
    return above(f"{client} → {server}", place), *figures


def _cards(watched: Watched, pair: Pair, found: Prediction) -> list[Card]:
    """The busiest TCP pair, now and as predicted, and what watching took."""
    seen, even = found.observed, found.verdict is Verdict.NONE
    cpu = seen.busy * seen.elapsed_us
    rate = [
        1e6 / max(1.0, seen.elapsed_us - less)
        for less in (found.elapsed.value, found.elapsed.low, found.elapsed.high)
    ]
    growth = Interval(*(seen.rate - value for value in rate))
    share = watched.probes.share
    took = "unknown" if share is None else f"{100 * share:.2f} %"
    limit = f"if the client sends as fast as it gets answers; what limits it: {found.limit}"
    return [
        _card("From request to answer", seen.answer_us, found.time, "µs", "90 % interval", even),
        _card("CPU time of both", cpu, found.cpu, "µs",
              f"for a request; {percent(core(found))} of a core at this rate"),
        _card("Requests a second", seen.rate, growth, "", limit, even),
        Card("What watching took", "of the watched processes' CPU time", took, (),
             [f"{watched.probes.runs:,} runs of the probes; {watched.own_cpu_ms / 1000:.1f} s of "
              "the tool's own, mostly before it watches"], ()),
    ]  # fmt: skip


def _card(title: str, now: float, less: Interval, unit: str, note: str, even: bool = False) -> Card:
    """A figure over TCP as it was seen, and over a Unix socket as it is predicted."""
    ends = sorted(max(0.0, now - end) for end in (less.low, less.high))
    then = max(0.0, now - less.value)
    longest = max(now, ends[1]) or 1.0
    bars = [
        Bar("tcp", f"{number(now)} {unit}", now / longest, now / longest, now / longest),
        Bar("unix", f"{number(then)} {unit}", then / longest, *(end / longest for end in ends)),
    ]
    return Card(title, "", change_text(less, unit, even), bars, [note], ())


def change_text(less: Interval, unit: str, even: bool = False) -> str:
    """`18 to 27 µs less`; `even`: the verdict on the pair is that there is no measurable gain."""
    low, high = sorted((less.low, less.high))
    if even or low <= 0 <= high:
        return EVEN
    return f"{span(less if low > 0 else less * -1, unit).strip()} {'less' if low > 0 else 'more'}"


def _marked(text: str) -> Markup:
    """What stands between backticks is code."""
    parts = text.split("`")
    return joined((code(part) if number % 2 else part for number, part in enumerate(parts)), "")


def _saving(name: str, said: Sequence[tuple[Pair, Prediction]]) -> Blocks:
    rows = [
        (
            above(f"{pair.client.comm} → {pair.server.comm}", pair.place),
            number(pair.rate), f"{number(pair.answer_us)} µs",
            *((
                change_text(prediction.time, "µs", prediction.verdict is Verdict.NONE),
                change_text(prediction.cpu, "µs"), str(prediction.limit),
            ) if prediction.told and not impossible(pair) else (
                DASH, DASH,
                "not possible as they are" if impossible(pair) else str(prediction.verdict),
            )),
        )
        for pair, prediction in said
    ]  # fmt: skip
    heads = numbers("requests/s", "to the answer", "time, 90 % interval", "CPU time, 90 % interval")
    columns = ["pair", *heads, Column("what limits the rate", "from")]
    words = []
    for pair, prediction in said:
        known = advice(pair) if prediction.verdict is Verdict.GAIN else []
        words.append(joined([_spoken(pair, prediction), *map(_marked, known)], Markup("<br>")))
    return [
        Table("For each request, over a Unix socket", columns, rows),
        Items(words),
        Text("note", say(
            "Prices of the C workload on this machine times what was observed; the interval is "
            "what 90 of 100 measured cases of its kind were, as multiples of their prediction "
            "(<code>docs/predicting.md</code>). To make this page again:"
        )),
        Text("pre", f"python -m analysis --watch reports/{name}"),
    ]  # fmt: skip
