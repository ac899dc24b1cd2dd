# SPDX-License-Identifier: GPL-2.0-or-later
"""The analysis as one JSON document for other programs: docs/json.md has examples.

python -m analysis.report.document > docs/report.schema.json
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasPath, BeforeValidator, ConfigDict, Field, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from analysis.analyse import Analysis
from analysis.machine import machine_text
from analysis.raw.record import Model
from analysis.raw.schema import Untitled, described


class Part(Model):
    """A part of the document, read from the attributes of what the analysis made."""

    model_config = ConfigDict(from_attributes=True, populate_by_name=True, strict=False)


def _at(*path: str) -> Any:
    """A field that stands elsewhere in what the analysis made."""
    return Field(validation_alias=AliasPath(path[0], *path[1:]))


class FigureJson(Part):
    value: float
    low: float | None  # of the 95 % interval; null below six repeats
    high: float | None
    repeats: int


class PairJson(Part):
    first: FigureJson
    second: FigureJson
    added: FigureJson  # second less first, paired by repeat
    ratio: FigureJson  # second through first


class ShareJson(Part):
    requests_per_s: int
    cpu_share: FigureJson  # of one CPU, that the second transport takes more; 1 is all of it
    beyond: bool  # some transport's connection did not reach so many requests a second


class AnswerTimesJson(Part):
    conditions: str
    iteration_ns: PairJson = _at("iteration")  # the median iteration: of ping-pong a round trip
    cpu_ns: PairJson | None = _at("cpu")  # of both processes for a message; null where they poll
    shares: tuple[ShareJson, ...]
    one_percent_ns: FigureJson = _at("large")  # a request of which the difference is one percent


class AnswerCountJson(Part):
    measure: str = _at("row", "measure", "id")  # as in claims' `quantity`
    words: str = _at("row", "measure", "words")
    figures: dict[str, str]  # of each transport, as the report writes them
    alike: bool
    counted: str = _at("counter")  # where


class AnswerJson(Part):
    decision: str  # empty in a run without times
    copied_and_run: str
    pattern: str
    size: int
    transports: tuple[str, ...] = _at("names")
    times: tuple[AnswerTimesJson, ...] = _at("placed")
    counts: tuple[AnswerCountJson, ...] = _at("counted")


class EntryJson(Part):
    conditions: str
    transport: str
    value: float
    low: float  # lowest and highest repeat
    high: float
    repeats: int
    valid: bool


def _entries(found: Any) -> Any:
    """The entries of a ledger's line as a list; a document that is read has one."""
    if not isinstance(found, Mapping):
        return found
    return [
        {"conditions": conditions, "transport": transport, **asdict(entry)}
        for (conditions, transport), entry in found.items()
    ]


class SourceJson(Part):
    instrument: str
    target: str
    kernel: str
    probe_level: str
    probed: bool
    figures: Annotated[tuple[EntryJson, ...], BeforeValidator(_entries)] = _at("entries")


class RowJson(Part):
    measure: str = _at("measure", "id")  # as in claims' `quantity`
    words: str = _at("measure", "words")
    per: str = _at("measure", "per")
    unit: str = _at("measure", "unit")  # empty for a count
    sources: tuple[SourceJson, ...] = _at("lines")  # the best one first
    missing: str = _at("why_missing")  # why there is none


class LedgerJson(Part):
    pattern: str
    size: int
    rows: tuple[RowJson, ...]


class LatencyJson(Part):
    transport: str
    kernel: str
    p50_ns: FigureJson | None = _at("p50")
    p99_ns: FigureJson | None = _at("p99")
    messages_per_s: FigureJson | None


class RatioJson(Part):
    transport: str = _at("transport", "transport")
    than: str = _at("than", "transport")
    median: FigureJson
    all: FigureJson | None  # of the time of all iterations


class TimesJson(Part):
    pattern: str
    size: int
    conditions: str
    latencies: tuple[LatencyJson, ...]
    ratios: tuple[RatioJson, ...]


class VerdictJson(Part):
    claim: str = _at("claim", "id")
    source: str = _at("claim", "source", "id")
    url: str = _at("claim", "source", "url")  # empty where the source names none
    statement: str = _at("claim", "statement")
    verdict: str
    rests_on: str = _at("kind")  # measured, answered, arithmetic, not measured
    measured_conditions: int = _at("coverage", "measured")
    conditions: int = _at("coverage", "of")  # of its scope
    lacking: tuple[str, ...] = _at("coverage", "lacking")
    why: str


class MachineJson(Part):
    target: str
    kernel: str
    words: str
    cpu: str | None
    cpus: int | None
    distribution: str | None


class MissingJson(Part):
    what: str
    target: str
    why: str


class ReportJson(Part):
    """A run's answer, ledgers, times, verdicts and machines."""

    pathcost: str  # the version that measured
    run: str
    report: str  # the path of report.html
    answer: AnswerJson | None  # null where no cell has figures
    ledgers: tuple[LedgerJson, ...]
    times: tuple[TimesJson, ...]
    verdicts: tuple[VerdictJson, ...]
    machines: tuple[MachineJson, ...]
    missing: tuple[MissingJson, ...]


def document(analysis: Analysis, report: Path) -> str:
    """One object, indented."""
    found = {
        "pathcost": analysis.run.manifest.pathcost,
        "run": analysis.run.name,
        "report": str(report),
        "answer": analysis.answer,
        "ledgers": analysis.ledgers,
        "times": analysis.timings,
        "verdicts": analysis.verdicts,
        "machines": _machines(analysis),
        "missing": [lack for lack in analysis.tables.missing if str(lack.why)],
    }
    return ReportJson.model_validate(found).model_dump_json(indent=1)


def _machines(analysis: Analysis) -> list[MachineJson]:
    found = [
        MachineJson(
            target=target.kind,
            kernel=target.kernel,
            words=machine_text(analysis.run, target.kind, target.kernel),
            cpu=target.environment.cpu,
            cpus=target.environment.cpus,
            distribution=target.environment.distribution,
        )
        for target in analysis.run.targets
    ]
    for comparison in analysis.exact:
        kind, cell = f"exact-{comparison.sched}", comparison.cells[0]
        words = machine_text(analysis.run, kind, comparison.kernel)
        exact = MachineJson(
            target=kind, kernel=comparison.kernel, words=words, cpu=cell.cpu, cpus=None,
            distribution=None,
        )  # fmt: skip
        found += [exact] if exact not in found else []
    return found


def schema() -> dict[str, Any]:
    """The schema of the document, with the comments on its fields."""
    found = TypeAdapter(ReportJson).json_schema(mode="serialization", schema_generator=Untitled)
    models = found.pop("$defs")
    root = described({**models, "ReportJson": found}).pop("ReportJson")
    return {"$schema": GenerateJsonSchema.schema_dialect, **root, "$defs": described(models)}


if __name__ == "__main__":
    print(json.dumps(schema(), indent=1, ensure_ascii=False))
