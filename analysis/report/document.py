# SPDX-License-Identifier: GPL-2.0-or-later
"""answer.json: the answer and all that a run has beside it.

docs/json.md has examples; `python -m analysis.report.document > docs/report.schema.json` writes the
schema.
"""

import json
from collections.abc import Iterable
from typing import Any

import pandas as pd

from analysis.analyse import Analysis
from analysis.claims.verdict import Judged
from analysis.counts.measures import MEASURES, WORKLOAD
from analysis.machine import machine_text
from analysis.report.answer import Answer, Part
from analysis.times.timing import Times

# A row for each figure of the ledger: median over repeats, of times the mean; lowest, highest.
LEDGER = [
    *("pattern", "size", "measure", "per", "unit", "instrument", "target", "kernel"),
    *("probe_level", "probed", "conditions", "transport", "value", "low", "high"),
    *("repeats", "valid"),
]
TIME_FIELDS = {
    "kernel": "kernel",
    "p50_ns": "p50",
    "p99_ns": "p99",
    "messages_per_s": "messages_per_s",
}
RATIOS = {"than": "than", "median": "ratio", "all": "ratio_all"}
FlatRow = dict[str, Any]


class Document(Part):
    """answer.json: a run's answer, ledger, times, verdicts and machines."""

    pathcost: str  # the version that measured
    run: str
    decision: str  # empty in a run without times
    copied_and_run: str
    answer: Answer | None  # null where no cell has figures
    ledger: list[FlatRow]  # pattern, size, measure, … as in ledger.csv
    times: list[FlatRow]  # of each transport and conditions: p50_ns, p99_ns, messages_per_s
    ratios: list[FlatRow]  # of two transports: median, all (the time of all iterations)
    verdicts: list[FlatRow]
    disturbed: str  # what else ran beside the times; empty in a run without times
    machines: list[FlatRow]
    missing: list[FlatRow]  # what, target, why


def document(
    found: Analysis, answer: Answer | None, decision: str, copied_and_run: str
) -> Document:
    """Gather answer.json of an analysis."""
    return Document.model_validate(
        {
            "pathcost": found.run.manifest.pathcost,
            "run": found.run.name,
            "decision": decision,
            "copied_and_run": copied_and_run,
            "answer": answer,
            "ledger": ledger_frame(found.figures).to_dict("records"),
            "times": _records(found.timings, TIME_FIELDS),
            "ratios": _records([t for t in found.timings if t.ratio], RATIOS),
            "verdicts": [_verdict(verdict) for verdict in found.verdicts],
            "disturbed": found.disturbed.words() if found.timings else "",
            "machines": _machines(found),
            "missing": [
                {"what": lack.what, "target": lack.target, "why": lack.why}
                for lack in found.tables.missing
                if lack.why
            ],
        }
    )


def _verdict(verdict: Judged) -> FlatRow:
    return {
        "claim": verdict.claim.id,
        "source": verdict.claim.source.id,
        "ours": verdict.claim.source.ours,
        "url": verdict.claim.source.url,
        "statement": verdict.claim.statement,
        "verdict": verdict.verdict,
        "accepted": verdict.accepted,
        "rests_on": verdict.kind,
        "measured_conditions": verdict.measured,
        "conditions": verdict.scope,  # of its scope
        "lacking": verdict.lacking,
        "why": verdict.why,
    }


def _records(timings: Iterable[Times], fields: dict[str, str]) -> list[FlatRow]:
    """A record of each; `fields`: its names beside those of the conditions → their attributes."""
    names = {name: name for name in (*WORKLOAD, "transport")} | fields
    return [{name: getattr(t, field) for name, field in names.items()} for t in timings]


def ledger_frame(figures: pd.DataFrame) -> pd.DataFrame:
    """ledger.csv: every figure of every source, in the order of measures.tsv."""
    measures = pd.DataFrame(
        [(m.id, m.per, m.unit) for m in MEASURES if m.ledger], columns=["measure", "per", "unit"]
    )
    rows = measures.reset_index(names="place").merge(figures, on="measure")
    rows = rows.sort_values(["pattern", "size", "place"], kind="stable")
    return rows[LEDGER]


def _machines(found: Analysis) -> list[FlatRow]:
    names = ("cpu", "cpus", "distribution")
    machines: dict[tuple[str, str], FlatRow] = {
        (target.kind, target.kernel): {name: getattr(target.environment, name) for name in names}
        for target in found.run.targets
    }
    for each in found.exact:
        cpu = {"cpu": each.cells[0].cpu, "cpus": None, "distribution": None}
        machines.setdefault((f"exact-{each.sched}", each.kernel), cpu)
    return [
        {"target": kind, "kernel": kernel, "words": machine_text(found.run, kind, kernel), **facts}
        for (kind, kernel), facts in machines.items()
    ]


if __name__ == "__main__":
    schema = Document.model_json_schema(mode="serialization")
    print(json.dumps(schema, indent=1, ensure_ascii=False))
