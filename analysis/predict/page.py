# SPDX-License-Identifier: GPL-2.0-or-later
"""watch.html: a page of pairs and predictions, which needs no network."""

from collections.abc import Sequence

import pandas as pd

from analysis.predict.model import Prediction, Verdict
from analysis.predict.pairs import Pair
from analysis.predict.remarks import Remarks
from analysis.predict.told import Told, ends, shown_in, span
from analysis.report.render import page, render
from analysis.statistics import Estimate
from analysis.wording import ABSENT, DASH, amount, extent, number
from probes.messages import PROGRAM

# Here it is of use how the programs use a Unix socket.
ADVISED = (Verdict.GAIN, Verdict.NOT_POSSIBLE)
NOT_GROWING = (Verdict.NONE, Verdict.PLACED)


def watch_page(name: str, told: Sequence[Told], said: Remarks) -> str:
    """Make the page of a run's folder of this name."""
    text = render(
        "watch.md.j2",
        name=name,
        program=PROGRAM,
        heading=heading(told) or said.nothing,
        firsts=[each.first.sentence for each in told[1:]],
        cost=said.cost,
        texts=[lines for each in told if (lines := sentences(each))],
        gains=pd.DataFrame([gain(each.pair, each.prediction) for each in told if each.prediction]),
        pairs=pd.DataFrame([row(each) for each in told]),
        parts=pd.DataFrame(
            [parts(each.pair) for each in told if each.pair.observed.waits.answer_us]
        ),
        unseen=[*said.unseen, *said.never_seen],
        foreign=said.foreign,
    )
    return page(text, f"pathcost: {name}")


def heading(told: Sequence[Told]) -> str:
    """The first line of the pair with most to gain; empty without a pair."""
    return told[0].first.sentence.rstrip(".") if told else ""


def who(pair: Pair) -> str:
    return f"{pair.client.comm} → {pair.server.comm}, {pair.place}"


def sentences(told: Told) -> list[str]:
    """What is predicted for a pair, and what to do; empty where there is nothing to say."""
    if not told.prediction:
        return told.remedies
    advice = told.advice if told.prediction.verdict in ADVISED else []
    return [told.sentence, *told.remedies, *advice]


def row(told: Told) -> dict[str, str]:
    """A line of who talks to whom."""
    seen = "; ".join(told.notes) or DASH
    return {**{column.title: text for column, text in told.cells}, "seen": seen}


def parts(pair: Pair) -> dict[str, str]:
    """A line of where a request's time goes."""
    answer = number(pair.observed.waits.answer_us)
    each = {name: number(part) for name, part in pair.parts.items()}
    each["not accounted for"] = each.pop("open")
    return {"pair": who(pair), "µs to the answer": answer, **each}


def gain(pair: Pair, prediction: Prediction) -> dict[str, str]:
    """A line of what a Unix socket would save."""
    seen, answer = pair.observed, pair.observed.waits.answer_us
    known = {
        "time, 90 % interval": DASH,
        "CPU time, 90 % interval": DASH,
        "requests/s at most": DASH,
        "what limits them": str(prediction.verdict),
    }
    if prediction.has_figures:
        even, still = prediction.verdict is Verdict.NONE, prediction.verdict in NOT_GROWING
        known = {
            "time, 90 % interval": change_text(prediction.time, "µs", even),
            "CPU time, 90 % interval": change_text(prediction.cpu, "µs"),
            "requests/s at most": change_text(prediction.growth, "", still, ("more", "fewer")),
            "what limits them": str(prediction.limit),
        }
    return {
        "pair": who(pair),
        "requests/s": number(seen.requests.rate),
        "to the answer": amount(1000 * answer, "ns") if answer else ABSENT,
        **known,
    }


def change_text(
    change: Estimate, unit: str, even: bool = False, words: tuple[str, str] = ("less", "more")
) -> str:
    """Write `18.0 to 27.0 µs less`; where it may be more or less, the lower end has a minus.

    `words` are for above 0 and below; `even`: there is no measurable gain.
    """
    above, below = words
    if even:
        return "not measurable"
    if change.spans(0):
        return f"{extent(*ends(change, unit), shown_in(unit))} {above}"
    return f"{span(change, unit)} {above}" if change.value > 0 else f"{span(-change, unit)} {below}"
