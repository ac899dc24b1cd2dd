# SPDX-License-Identifier: GPL-2.0-or-later
"""--what-if: the prediction for a client and a server that somebody describes."""

import json
import textwrap
from dataclasses import asdict
from pathlib import Path

from analysis.predict.model import Observed, Prediction, predict, read_fitted
from analysis.predict.prices import Prices, read_prices
from analysis.predict.words import change, core, number, percent, span
from analysis.raw.record import Model, NotNegative, Positive, read_object

FILE, WIDTH = "what-if.json", 100
UNKNOWN = 0.5  # who does not know the placement has both, in equal shares
HOT = "These prices are of a hot path: with work of its own a request gains more."


class Described(Model):
    """what-if.json: what the user says of the pair."""

    rate: NotNegative  # requests a second, of all clients together
    size: Positive  # bytes of a request, and of its answer
    work_us: NotNegative  # what the server does for a request
    clients: Positive
    connect: bool  # each request has a connection of its own

    def observed(self, prices: Prices) -> Observed:
        """What --watch would see of it over TCP."""
        pattern = "connect" if self.connect and prices.connects else "pingpong"
        path = [
            prices.price("tcp", pattern, where, self.size) for where in ("same-cpu", "cross-cpu")
        ]
        time = sum(price.time for price in path) / 2
        cpu = sum(price.cpu for price in path) / 2
        answer = self.work_us + time
        serving = self.rate * (cpu / 2 + self.work_us) / 1e6
        return Observed(
            rate=self.rate, request=self.size, answer=self.size, sends=2,
            opened=1.0 if self.connect else 0.0, near=UNKNOWN, bound=False,
            # Who is busy all the time never sleeps.
            waiting=max(0.0, 1 - serving),
            at_once=min(self.clients, self.rate * answer / 1e6), answer_us=answer,
            server_wants=min(1.0, serving), server_busy=min(1.0, serving),
            busy=self.rate * (cpu + self.work_us) / 1e6, idle=1.0,
        )  # fmt: skip


def show_what_if(folder: Path, priced: Path, how: str | None) -> None:
    """Print the prediction. Raises RunError."""
    described = read_object(folder / FILE, Described)
    prices = read_prices(priced)
    found = predict(described.observed(prices), prices, read_fitted())
    if how == "json":
        print(json.dumps(document(found), indent=1, ensure_ascii=False))
        return
    for line in said(described, found):
        print(line)
    if not prices.has_cold:
        print(HOT)


def said(described: Described, found: Prediction) -> list[str]:
    """The prediction in a few lines."""
    text = change(found)
    lines = textwrap.wrap(f"{text[0].upper()}{text[1:]}.", WIDTH)
    if found.told:
        lines.append(
            f"By the prices of this machine, a request takes {number(found.observed.answer_us)} µs "
            f"over TCP. {number(described.work_us)} of them are the server's work, and the "
            f"transport takes {span(found.time, 'µs')} and {percent(core(found))} of a core more "
            "than a Unix socket."
        )
    wrapped = [part for line in lines for part in textwrap.wrap(line, WIDTH)]
    return [*wrapped, *(f"Measure it: {command}" for command in [measuring(described)] if command)]


def measuring(described: Described) -> str:
    """The command that runs the C workload so; empty where its pattern `paced` cannot."""
    if described.connect or described.rate != round(described.rate) or not described.rate:
        return ""
    work = f" --work {described.work_us:.0f}us" if described.work_us >= 1 else ""
    return (
        "./runners/run.sh --target host --instruments kernel --patterns paced "
        f"--rate {described.rate:.0f} --sizes {described.size} --clients {described.clients}{work}"
    )


def document(found: Prediction) -> dict[str, object]:
    return {
        "says": change(found),
        "verdict": str(found.verdict),
        "time_us": asdict(found.time),
        "cpu_us": asdict(found.cpu),
        "core_at_this_rate": asdict(core(found)),
        "observed": asdict(found.observed),
    }
