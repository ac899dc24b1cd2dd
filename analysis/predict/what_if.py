# SPDX-License-Identifier: GPL-2.0-or-later
"""What `what-if` prints: a prediction for a pair that its user describes."""

import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from analysis.predict.model import predict, read_fitted
from analysis.predict.pairs import UNKNOWN_PLACEMENT, Observed
from analysis.predict.prices import Prices, cpu_of, read_prices
from analysis.predict.show import WIDTH, change, figures, span, written
from analysis.predict.waits import number
from analysis.raw.record import Model, NotNegative, Positive, read_object
from analysis.report.render import sentence as worded
from analysis.wording import capital
from probes.messages import UsageError

WHAT_IF = "what-if.json"
# CPUs for both → the placement that a run measures, the share of messages received on the sender's
# CPU, and how many CPUs they may use.
CPUS = {
    "1": ("same-cpu", 1.0, 1), "2": ("cross-cpu", 0.0, 2), "free": ("free", UNKNOWN_PLACEMENT, None)
}  # fmt: skip


class Described(Model):
    """what-if.json: what the user says of the pair."""

    rate: NotNegative  # requests a second, of all clients together
    request: Positive  # bytes
    answer: Positive
    work_us: NotNegative  # what the server does for a request
    clients: Positive
    connect: bool  # each request has a connection of its own
    cpus: Literal["1", "2", "free"]

    def observed(self, prices: Prices) -> Observed:
        """What `watch` would see of it over TCP. Raises UsageError where its CPUs are too few."""
        pattern = "connect" if self.connect and prices.connects else "pingpong"
        _, near, cpus = CPUS[self.cpus]
        request, back = (prices.over_tcp(pattern, near, n) for n in (self.request, self.answer))
        cpu = cpu_of(request + back) / 2
        answer = self.work_us + float(request[0] + back[0]) / 2
        serving = self.rate * (cpu / 2 + self.work_us) / 1e6
        busy = self.rate * (cpu + self.work_us) / 1e6
        if cpus and busy > cpus:
            raise UsageError(
                f"{number(self.rate)} such requests a second take {number(busy)} CPUs, and "
                f"--cpus gives them {cpus}: lower --rate or --work."
            )
        return Observed(
            rate=self.rate, request=self.request, answer=self.answer, sends=2,
            opened=float(self.connect), near=near, bound=cpus is not None,
            # Who is busy all the time never sleeps.
            waiting=max(0.0, 1 - serving),
            at_once=min(self.clients, self.rate * answer / 1e6), answer_us=answer,
            server_wants=min(1.0, serving), server_busy=min(1.0, serving),
            busy=busy, idle=max(0.0, cpus - busy) if cpus else 1.0,
        )  # fmt: skip

    @property
    def command(self) -> str:
        """The command that runs the C workload so; empty where its pattern `paced` cannot."""
        counted = self.rate and self.rate == round(self.rate)
        if self.connect or not counted or self.request != self.answer:
            return ""
        work = f" --work {self.work_us:.0f}us" if self.work_us >= 1 else ""
        return (
            "./runners/run.sh --target host --instruments kernel --patterns paced "
            f"--placements {CPUS[self.cpus][0]} "
            f"--rate {self.rate:.0f} --sizes {self.request} --clients {self.clients}{work}"
        )


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
        print(textwrap.fill(worded("priced", prediction, described, number, span), WIDTH))
    if described.command:
        print(f"Measure it: {described.command}")
    if not prices.has_cold:
        print("These prices are of a hot path: with work of its own a request gains more.")
