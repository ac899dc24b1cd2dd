# SPDX-License-Identifier: GPL-2.0-or-later
"""What is said of a pair: its row, its notes, what is predicted for it, and what to do."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from analysis.predict.columns import Cells, cells
from analysis.predict.first import First, first
from analysis.predict.model import Prediction, Verdict, predict, read_fitted, transport_us
from analysis.predict.pairs import Pair, known_programs, pairs
from analysis.predict.party import Party
from analysis.predict.prices import Prices
from analysis.predict.waits import notes, remedies
from analysis.raw.programs import Watched
from analysis.report.sentences import sentence as worded
from analysis.statistics import Estimate
from analysis.wording import amounts, number, size_text
from probes.messages import PROGRAM

UNSETTLED = (Verdict.OPEN, Verdict.PLACED)
# Parts of a request's time that its programs can do something about
AVOIDABLE = ("waits for a timer of TCP", "held back by TCP", "waits to be accepted")
MICROSECONDS = "µs"


@dataclass(frozen=True)
class Told:
    """A pair and what is said of it. Without a prediction it says nothing of a gain."""

    pair: Pair
    prediction: Prediction | None
    cells: Cells
    notes: list[str]
    remedies: list[str]
    advice: list[str]  # lines of configuration, and pitfalls, of programs that are known
    first: First  # whether it is the transport
    says: str = ""  # what a Unix socket would change

    @property
    def gain(self) -> float:
        """What a second of requests would take less, in µs, as far as it is known."""
        made, pair = self.prediction, self.pair
        gain = made.time.value if made and made.verdict is Verdict.GAIN else 0.0
        waits = sum(pair.parts[name] for name in AVOIDABLE) if pair.family == "tcp" else 0.0
        return max(gain, waits) * pair.observed.requests.rate

    @property
    def sentence(self) -> str:
        """What a Unix socket would change, and how to settle it; empty without a prediction."""
        if not self.prediction:
            return ""
        said = f"{self.pair.client.comm} to {self.pair.place}: {self.says}."
        if self.prediction.verdict not in UNSETTLED:
            return said
        return f"{said} To settle it: {prove(self.pair)}"


def predictions(watched: Watched, prices: Prices) -> list[tuple[Pair, Prediction | None]]:
    """Predict for each pair over TCP; None for others, and where nothing was requested."""
    fitted, predicted = read_fitted(), list[tuple[Pair, Prediction | None]]()
    for pair in pairs(watched):
        made = None
        if pair.requests and pair.family == "tcp":
            made = predict(pair.observed, prices, fitted)
            if not pair.share_a_folder:
                made = replace(made, verdict=Verdict.NOT_POSSIBLE)
        predicted.append((pair, made))
    return predicted


def tell_all(watched: Watched, prices: Prices) -> list[Told]:
    """Say what there is to say of each pair; who can gain most comes first."""
    fitted = read_fitted()
    told = [
        tell(pair, made, transport_us(pair.observed, prices, fitted, pair.family))
        for pair, made in predictions(watched, prices)
    ]
    return sorted(told, key=lambda each: -each.gain)


def tell(pair: Pair, prediction: Prediction | None, price_us: float) -> Told:
    """Say what there is to say of a pair."""
    return Told(
        pair=pair,
        prediction=prediction,
        cells=cells(pair),
        notes=notes(pair),
        remedies=remedies(pair),
        advice=[*advice(pair.server, "server"), *advice(pair.client, "client")],
        first=first(pair, prediction, price_us),
        says=change(prediction) if prediction else "",
    )


def change(prediction: Prediction) -> str:
    """Say what a Unix socket would change between a client and a server that could use it."""
    largest = round(max(prediction.observed.requests.request, prediction.observed.requests.answer))
    return worded("change", prediction, size_text(largest), number, span)


def advice(party: Party, role: str) -> Iterator[str]:
    """How a known program uses a Unix socket in this role, and what to heed."""
    program = known_programs().get(party.comm, {})
    if role in program:
        yield f"{party.comm}: {program[role]}"
        if "pitfall" in program:
            yield program["pitfall"]


def prove(pair: Pair) -> str:
    """The command that runs both programs over both transports."""
    port = pair.place.rpartition(":")[2]
    return f"sudo {PROGRAM} prove --port {port} --server COMMAND --client COMMAND"


def span(gain: Estimate, unit: str) -> str:
    """Write `18.0 to 27.0 µs`; what may be a loss begins at 0."""
    low, high = ends(gain, unit)
    least, most = amounts((low, high), shown_in(unit))
    return f"{least if low > 0 else 0} to {most}"


def ends(gain: Estimate, unit: str) -> tuple[float, float]:
    """Both ends, in the unit of `shown_in`."""
    low, high = gain.ends
    return (1000 * low, 1000 * high) if unit == MICROSECONDS else (low, high)


def shown_in(unit: str) -> str:
    """Times are written from ns, so that a long one is in ms."""
    return "ns" if unit == MICROSECONDS else unit
