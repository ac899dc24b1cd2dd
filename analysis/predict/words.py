# SPDX-License-Identifier: GPL-2.0-or-later
"""A prediction in words, of a watched pair or of one that somebody describes (`what-if`)."""

import json
import textwrap
import tomllib
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from analysis.predict.model import (
    SOMETIMES,
    Interval,
    Limit,
    Observed,
    Prediction,
    Verdict,
    predict,
    read_fitted,
)
from analysis.predict.pairs import Pair
from analysis.predict.prices import Prices, read_prices
from analysis.raw.record import Model, NotNegative, Positive, read_object

WHAT_IF, WIDTH = "what-if.json", 100
PROGRAMS = Path(__file__).with_name("programs.toml")
SMALL = 0.01  # of the time from request to answer: nobody would see less
UNKNOWN_PLACEMENT = 0.5  # both placements, in equal shares


def sentence(pair: Pair, prediction: Prediction) -> str:
    """Say what a Unix socket would change for this pair, or why nothing."""
    if pair.family == "unix":
        return "already a Unix socket"
    return change(prediction) if pair.share_a_folder else NO_FOLDER


NO_FOLDER = (
    "not possible as they are: they see no folder in common, such as /tmp or /run. Mount one "
    "into both, and put the socket there"
)


def verdict_of(pair: Pair, prediction: Prediction) -> str:
    return str(prediction.verdict if pair.share_a_folder else Verdict.NOT_POSSIBLE)


def change(prediction: Prediction) -> str:
    """Say what a Unix socket would change between a client and a server that could use it."""
    observed, time = prediction.observed, prediction.time
    share = time.value / observed.answer_us if observed.answer_us else 0
    largest = size(max(observed.request, observed.answer))
    verdict = prediction.verdict
    if verdict is Verdict.STREAM:
        sends = number(observed.sends)
        return f"not predicted: it streams ({sends} sends in a request), and prices are of requests"
    if verdict is Verdict.LARGE:
        return f"not predicted: how a program reads messages of {largest} decides, not their price"
    if verdict is Verdict.LOSS:
        return f"you would lose {span(time * -1, 'µs')} of each request (messages of {largest})"
    if verdict is Verdict.NONE or share < SMALL:
        return f"no measurable gain: {why_none(prediction)}"
    often = observed.opened > SOMETIMES  # the answer's time does not contain the connection's
    of_time = "with its connection" if often else f"(of {number(observed.answer_us)})"
    return (
        f"over a Unix socket each request would take {span(time, 'µs')} less {of_time}, and "
        f"{percent(prediction.core)} of a core less at this rate"
    )


def why_none(prediction: Prediction) -> str:
    """Say why nobody would see the difference."""
    observed, time = prediction.observed, prediction.time
    if observed.answer_us and time.value < 0.05 * observed.answer_us:
        return (
            f"a request takes {number(observed.answer_us)} µs, and of these the transport's "
            f"difference is {number(max(0, time.low))} to {number(time.high)}; the rest is other "
            "work"
        )
    if prediction.limit is Limit.BETWEEN:
        return "requests wait for each other more than for the transport"
    return "the difference is within what one measurement differs from the next"


@cache
def known_programs() -> dict[str, dict[str, str]]:
    """The name of a process → how its program uses a Unix socket, and what to heed."""
    return tomllib.loads(PROGRAMS.read_text(encoding="utf-8"))


def advice(pair: Pair) -> list[str]:
    """Lines of configuration, and pitfalls, for the programs of a pair that are known."""
    texts = []
    for party, role in ((pair.server, "server"), (pair.client, "client")):
        if (program := known_programs().get(party.comm)) and role in program:
            texts.append(f"{party.comm}: {program[role]}")
            texts += [program["pitfall"]] if "pitfall" in program else []
    return texts


def span(interval: Interval, unit: str) -> str:
    """Write `18 to 27 µs`."""
    low, high = sorted((interval.low, interval.high))
    return f"{number(max(0.0, low))} to {number(high)} {unit}".strip()


def percent(interval: Interval) -> str:
    return span(interval * 100, "%")


def number(value: float) -> str:
    """Write two significant digits; whole numbers from 10 on."""
    if abs(value) >= 10 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.2g}"


def size(count: float) -> str:
    for unit, factor in (("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= factor:
            return f"{number(count / factor)} {unit}"
    return f"{number(count)} B"


def figures(prediction: Prediction) -> dict[str, Any]:
    return {
        "time_us": asdict(prediction.time),
        "cpu_us": asdict(prediction.cpu),
        "core_at_this_rate": asdict(prediction.core),
        "observed": asdict(prediction.observed),
    }


class Described(Model):
    """what-if.json: what the user says of the pair."""

    rate: NotNegative  # requests a second, of all clients together
    size: Positive  # bytes of a request, and of its answer
    work_us: NotNegative  # what the server does for a request
    clients: Positive
    connect: bool  # each request has a connection of its own

    def observed(self, prices: Prices) -> Observed:
        """What `watch` would see of it over TCP."""
        pattern = "connect" if self.connect and prices.connects else "pingpong"
        path = [
            prices.price("tcp", pattern, place, self.size) for place in ("same-cpu", "cross-cpu")
        ]
        cpu = sum(price.cpu for price in path) / 2
        answer = self.work_us + sum(price.time for price in path) / 2
        serving = self.rate * (cpu / 2 + self.work_us) / 1e6
        return Observed(
            rate=self.rate, request=self.size, answer=self.size, sends=2,
            opened=float(self.connect), near=UNKNOWN_PLACEMENT, bound=False,
            # Who is busy all the time never sleeps.
            waiting=max(0.0, 1 - serving),
            at_once=min(self.clients, self.rate * answer / 1e6), answer_us=answer,
            server_wants=min(1.0, serving), server_busy=min(1.0, serving),
            busy=self.rate * (cpu + self.work_us) / 1e6, idle=1.0,
        )  # fmt: skip

    @property
    def command(self) -> str:
        """The command that runs the C workload so; empty where its pattern `paced` cannot."""
        if self.connect or self.rate != round(self.rate) or not self.rate:
            return ""
        work = f" --work {self.work_us:.0f}us" if self.work_us >= 1 else ""
        return (
            "./runners/run.sh --target host --instruments kernel --patterns paced "
            f"--rate {self.rate:.0f} --sizes {self.size} --clients {self.clients}{work}"
        )


def show_what_if(folder: Path, priced: Path, how: str | None) -> None:
    """Print the prediction. Raises RunError."""
    described = read_object(folder / WHAT_IF, Described)
    prices = read_prices(priced)
    prediction = predict(described.observed(prices), prices, read_fitted())
    text = change(prediction)
    if how == "json":
        document = {"says": text, "verdict": str(prediction.verdict), **figures(prediction)}
        print(json.dumps(document, indent=1, ensure_ascii=False))
        return
    texts = [f"{text[0].upper()}{text[1:]}."]
    if prediction.has_figures:
        texts.append(
            f"By the prices of this machine, a request takes "
            f"{number(prediction.observed.answer_us)} µs over TCP. {number(described.work_us)} of "
            f"them are the server's work, and the transport takes {span(prediction.time, 'µs')} "
            f"and {percent(prediction.core)} of a core more than a Unix socket."
        )
    for text in texts:
        print("\n".join(textwrap.wrap(text, WIDTH)))
    if described.command:
        print(f"Measure it: {described.command}")
    if not prices.has_cold:
        print("These prices are of a hot path: with work of its own a request gains more.")
