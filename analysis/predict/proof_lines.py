# SPDX-License-Identifier: GPL-2.0-or-later
"""What `prove` prints of its figures, and what of a gain a rerouted run cannot show."""

import json
from collections.abc import Iterator
from pathlib import Path

from analysis.predict.first import MOST
from analysis.predict.pairs import Pair
from analysis.predict.prices import read_prices
from analysis.predict.prove import STARTED, Outcome, lost, read_outcome
from analysis.predict.told import predictions
from analysis.raw.programs import Watched
from analysis.raw.record import read_object
from analysis.report import output
from analysis.wording import amount, counted, number, spanned, times
from probes.contract import WATCH
from probes.differences import differences
from probes.messages import PROGRAM, RunError
from probes.reasons import Reason

RESULT = "proof.json"
FAST = " as fast as TCP"


def predicted(folder: Path, made: Outcome) -> Iterator[str]:
    """What a request takes less, by what was watched over TCP and as measured."""
    if not (folder / WATCH).exists():
        yield f"Not predicted: {PROGRAM} watch measures this machine's prices, once."
        return
    seen = predictions(read_object(folder / WATCH, Watched), read_prices(folder))
    if libraries := {name for pair, _ in seen if pair.client.tls for name in pair.server.tls}:
        yield f"Client and server may encrypt ({min(libraries)} in both). {which_is_tls(made)}"
    yield from filter(None, (waits_to_connect(pair) for pair, _ in seen))
    told = [each.elapsed for _, each in seen if each and each.has_figures]
    if not told:
        yield "Not predicted: what was watched is no pair that asks and answers."
        return
    measured = spanned(made.less, "ns") if made.less else "open"
    yield (
        f"A request takes less: {spanned(told[0] * 1000, 'ns')} by what watch saw of TCP, "
        f"measured {measured}."
    )


def waits_to_connect(pair: Pair) -> str:
    """What a rerouted run cannot show, since the filter answers connect(2) as TCP does.

    Empty where little of a request passes until its client looks whether it is connected.
    """
    if not pair.requests or pair.family != "tcp":
        return ""
    wait = pair.parts.get("connected, nothing sent yet", 0.0)
    if wait < MOST * pair.request_us:
        return ""
    return (
        f"{amount(1000 * wait, 'ns')} of a request pass between a connect(2) without blocking and "
        "the first byte. Rerouted they still do: such a connect(2) is pending, as over TCP. Where "
        "the program itself connects to a Unix socket, it is connected at once."
    )


def which_is_tls(made: Outcome) -> str:
    """What of a gain is the transport's, where both ends may encrypt."""
    less = made.less_by_option
    rerouted, own = (made.speed.saved.value, less.value if less else 0.0)
    if not made.speed.speedup or not 0 < rerouted < own:
        return (
            "Rerouted they still do, and a program's own Unix option mostly does not: then it "
            "gains more."
        )
    return (
        f"Its own option saves {number(100 * own)} % of a run, and the transport alone "
        f"{number(100 * rerouted)} %: the rest goes with what the option leaves out, mostly TLS."
    )


def lines(made: Outcome) -> Iterator[str]:
    """What the terminal gets; of unequal loads nothing follows."""
    if made.unequal:
        return
    yield from _speed_lines(made)
    tcp, unix = (amount(time.value, "ns") for time in (made.elapsed.first, made.elapsed.second))
    repeats = made.elapsed.added.repeats
    yield f"A run takes {tcp} over TCP and {unix} over a Unix socket, {repeats} repeats."
    if made.loads and made.loads.rate:
        unit = made.loads.rate_of
        yield f"The client runs for a fixed time, so the ratio is of the {unit} of probed runs."
    outside = f"{number(100 * made.outside_turns)} % of a run over TCP is outside its turns"
    if made.is_mostly_start:
        yield (
            f"{outside}, as the client starts and works for itself. Have it ask more often in a "
            "run, to see what a request takes."
        )
    elif made.connects_in_between and made.outside_turns > STARTED:
        yield f"{outside}: most of them have a connection of their own, which is made there."
    if metric := made.metric:
        tcp, unix = number(metric.first.value), number(metric.second.value)
        yield f"The client's own figure: {tcp} → {unix}, {times(metric.ratio)}."
    told = ", which is not told from nothing" if made.filter.spans(0) else ""
    without = "; the ratio is without it" if made.speed.speedup else ""
    added = spanned(made.filter * 100, "%")
    yield f"The seccomp filter adds {added} to a run over TCP{told}{without}."
    if made.loads:
        turns, moved = (made.loads.turns.first.value, made.loads.moved.first.value)
        had = counted(round(turns), "turn")
        yield f"Each run had {had} and moved {moved:,.0f} bytes over TCP."
    known = differences()
    yield from (f"Other than over TCP: {known[name]}." for name in made.proof.met if name in known)
    if count := lost(made.proof):
        yield (
            f"Neither request times nor loads are told: the probes had no room for {count:,} of "
            "the processes that a run of the client has."
        )
    for lack in made.proof.lacks:
        why = Reason(lack["code"], lack["values"])
        yield f"Neither request times nor loads were seen: {why}."


def _speed_lines(made: Outcome) -> Iterator[str]:
    """How many times as fast it is rerouted, and by the program's own option."""
    quantiles = ", ".join(
        f"p{percent} {number(quantile.first.value / 1000)} → "
        f"{number(quantile.second.value / 1000)} µs"
        for percent, quantile in (made.loads.quantiles if made.loads else {}).items()
    )
    seen = f" ({quantiles})" if quantiles else ""
    own = ""
    if made.own:
        p50 = f" (p50 {number(made.own_p50.value / 1000)} µs)" if made.own_p50 else ""
        own = f"By its own option, a Unix socket is {times(made.own, FAST)}{p50}."
    if made.speed.speedup is None:
        if own:
            yield own
        way = "" if own else f"; use the program's own option, or {PROGRAM} watch"
        yield f"Rerouted, it stays open: {made.speed.open}{way}{seen}."
        return
    more = made.cpu.value < 0
    cpu = spanned((-made.cpu if more else made.cpu) * 100, "%")
    sure = "Not settled: " if made.speed.speedup.spans(1) else ""
    yield (
        f"{sure}unix is {times(made.speed.speedup, FAST)}{seen}, and takes {cpu} "
        f"{'more' if more else 'less'} CPU."
    )
    if own:
        yield own


def show_proof(folder: Path, how: str | None) -> None:
    """Write proof.json, and print what follows. Raises RunError where the loads are unequal."""
    made = read_outcome(folder)
    text = json.dumps(made.document(), indent=1) + "\n"
    output.write_all(folder, {RESULT: text})
    said = list(lines(made))
    if not made.unequal:
        said += predicted(folder, made)
    said.append(f"Stored: {folder}")
    print(text if how == "json" else "\n".join(said))
    if made.unequal:
        raise RunError(made.unequal)
