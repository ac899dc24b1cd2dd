# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables of docs/your-server.md, made from the rows in reports/reference/proofs.csv.

The last table has five of them beside what a prediction and a report say.

    python -m tests.docs.proofs             # fill the page again
    python -m tests.docs.proofs FOLDER …    # first put the rows of these proofs in their place

A row is a program over TCP and by its own Unix option, and rerouted; times are ns of a request.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.predict.model import read_fitted
from analysis.predict.prove import outcome
from analysis.predict.runs import Proof
from analysis.raw.record import read_object
from analysis.statistics import Estimate
from analysis.wording import amount, extent, spanned
from probes.contract import PROOF
from runners.process import REPOSITORY

ROWS = REPOSITORY / "reports/reference/proofs.csv"
PAGE = REPOSITORY / "docs/your-server.md"
REFRESH = "python -m tests.docs.proofs"
TABLE = re.compile(r"(?m)(^\|.*\n)+")
NAMES, CPUS = ("free", "bound"), (2, 1)
HEADS = ["program", "free: less", "option", "rerouted", "bound: less", "option", "rerouted",
         "settled"]  # fmt: skip
SERVERS = ("postgresql", "pgbouncer", "mariadb", "redis", "memcached", "nginx-uwsgi", "nginx-php",
           "nginx-gunicorn", "uvicorn", "puma", "haproxy", "node-http")  # fmt: skip
SETTING = ["program", "case", "cpus"]
PART = ("", "_low", "_high")
PREDICTIONS = REPOSITORY / "docs/predictions.tsv"
ANSWER = REPOSITORY / "reports/reference/default/answer.json"
# Programs whose predictions are of one CPU, and neither connect nor work for long.
SEVERAL_WAYS = (("redis", "keep"), ("memcached", "get"), ("postgresql", "select"),
                ("haproxy", "get"), ("node-http", "get"))  # fmt: skip
WAYS = ["program", "a request over TCP", "report", "what-if", "prove"]


def take(folders: list[Path]) -> pd.DataFrame:
    """The stored rows, with those of these proofs instead of theirs, or behind them."""
    new = pd.DataFrame(_row(read_object(folder / PROOF, Proof)) for folder in folders)
    return pd.concat([pd.read_csv(ROWS), new]).drop_duplicates(SETTING, keep="last")


def _row(proof: Proof) -> dict[str, Any]:
    made, each = outcome(proof), 1 / proof.timed[0].requests
    assert made.by_option
    figures = {
        "tcp": made.by_option.second * each,
        "unix": made.by_option.first * each,
        "less": made.by_option.added * each,
        "own": made.own,
        "rerouted": made.speed.speedup,
        "filter": made.filter,
    }
    about = {"program": Path(proof.program).stem, "case": proof.case, "cpus": proof.cpus}
    ends = {
        f"{name}{part}": value
        for name, figure in figures.items()
        for part, value in zip(PART, _ends(figure), strict=True)
    }
    repeats = made.elapsed.added.repeats
    run = {"kernel": proof.kernel.split("-")[0], "date": proof.date, "repeats": repeats}
    return about | run | ends


def _ends(figure: Estimate | None) -> tuple[float | None, ...]:
    return (figure.value, figure.low, figure.high) if figure else (None, None, None)


def table(rows: pd.DataFrame) -> str:
    """A line for each server's first case, in Markdown."""
    lines = [HEADS, ["---", *["---:"] * (len(HEADS) - 2), "---"]]
    for server in SERVERS:
        placed = rows[rows["program"] == server].drop_duplicates("cpus").set_index("cpus")
        both = [placed.loc[cpus] for cpus in CPUS]
        sure = (row["own_low"] > 1 and row["less_low"] > 0 for row in both)
        gains = [name for name, gain in zip(NAMES, sure, strict=True) if gain]
        cells = [cell for row in both for cell in _cells(row)]
        lines.append([f"{server}/{both[0]['case']}", *cells, ", ".join(gains) or "open"])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cells(row: Any) -> Iterator[str]:
    yield spanned(Estimate(row["less"], row["less_low"], row["less_high"]), "ns")
    for name in ("own", "rerouted"):
        value, low, high = (row[f"{name}{part}"] for part in PART)
        yield "open" if value != value else f"{value:.2f} ({extent(low, high)})"


def several_ways(rows: pd.DataFrame) -> str:
    """A line for each program: what is saved by three ways, in per cent of its request's time."""
    times = json.loads(ANSWER.read_text(encoding="utf-8"))["answer"]["times"]
    (placed,) = (each for each in times if each["conditions"] == "same-cpu")
    predictions = pd.read_csv(PREDICTIONS, sep="\t")
    fitted = predictions[(predictions["attempt"] == "fit") & (predictions["figure"] == "time")]
    predicted = fitted.set_index("case")["predicted_us"]
    least, most = read_fitted().ratios["plain"]
    lines = [WAYS, ["---", *["---:"] * (len(WAYS) - 1)]]
    for program, case in SEVERAL_WAYS:
        chosen = (rows["program"] == program) & (rows["case"] == case) & (rows["cpus"] == 1)
        (row,) = rows[chosen].to_dict("records")
        told = 1000 * predicted[f"{program}.{case}"]
        ways = (
            Estimate(**placed["iteration_ns"]["added"]),
            Estimate(told, least * told, most * told),
            Estimate(row["less"], row["less_low"], row["less_high"]),
        )
        each = [spanned(way * (100 / row["tcp"]), "%") for way in ways]
        lines.append([f"{program}/{case}", amount(row["tcp"], "ns"), *each])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def page(rows: pd.DataFrame) -> str:
    """Return the page with its first table and its last one made of these rows."""
    text = TABLE.sub(lambda _: table(rows), PAGE.read_text(encoding="utf-8"), count=1)
    *_, last = TABLE.finditer(text)
    return text[: last.start()] + several_ways(rows) + text[last.end() :]


def main() -> None:
    if folders := [Path(name) for name in sys.argv[1:]]:
        take(folders).to_csv(ROWS, index=False, float_format="%.5g")
    PAGE.write_text(page(pd.read_csv(ROWS)), encoding="utf-8")


if __name__ == "__main__":
    from tests.docs import figures  # which imports this module

    main()
    figures.fill()
