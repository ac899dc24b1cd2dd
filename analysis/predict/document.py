# SPDX-License-Identifier: GPL-2.0-or-later
"""prediction.json: every figure of each pair."""

import json
from collections.abc import Sequence
from typing import Any

from analysis.predict.model import Prediction
from analysis.predict.pairs import Pair
from analysis.predict.party import Party
from analysis.predict.told import Told
from analysis.raw.programs import Watched
from analysis.statistics import Estimate
from probes.watch import COUNTED


def written(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False)


def document(
    watched: Watched, told: Sequence[Told], unpaired: int, priced_by: str
) -> dict[str, Any]:
    """What was watched, and each pair. `priced_by`: whose the prices are."""
    return {
        **watched.model_dump(include={"seconds", "active_s"}),
        "sampled": watched.sampled,
        "probes": watched.probes.model_dump(),
        "unpaired": unpaired,
        "lost": watched.lost,
        "pairs": [entry(each) for each in told],
        "prices": priced_by,
    }


def entry(told: Told) -> dict[str, Any]:
    """A pair."""
    pair = told.pair
    return {
        "family": pair.family,
        "place": pair.place,
        "requests": pair.requests,
        "connections": len(pair.client.ends),
        "failed_connects": pair.failed,
        "first": told.first.sentence,
        "limited_by": told.first.limit,
        "request_us": pair.request_us,
        "parts_us": pair.parts,
        "notes": told.notes,
        "work_us": pair.server.mean_us("work"),
        "client": side(pair, pair.client),
        "server": side(pair, pair.server),
        "observed": pair.observed.figures,
        "prediction": prediction(told),
    }


def side(pair: Pair, party: Party) -> dict[str, Any]:
    """Client or server, with the counts of probes/watch.tsv that have a name here."""
    return {
        "comm": party.comm,
        "container": party.container,
        "pids": list(party.owners),
        **{column.json: party.sum(column.key) for column in COUNTED if column.json},
        "cpus": party.cpus,
        "slept_per_request": pair.slept(party) if party.read else None,
        "cpu": party.busy if party.read else None,
    }


def prediction(told: Told) -> dict[str, Any] | None:
    """What is predicted for a pair; None where nothing is."""
    if not told.prediction:
        return None
    return {
        "says": told.says,
        "verdict": str(told.prediction.verdict),
        **figures(told.prediction),
        "advice": [*told.remedies, *told.advice],
    }


def figures(made: Prediction) -> dict[str, Any]:
    """What limits the rate, and each figure with its interval."""
    return {
        "limit": str(made.limit),
        "time_us": ends(made.time),
        "elapsed_us": ends(made.elapsed),
        "cpu_us": ends(made.cpu),
        "core_at_this_rate": ends(made.core),
    }


def ends(figure: Estimate) -> dict[str, float | None]:
    return {"value": figure.value, "low": figure.low, "high": figure.high}
