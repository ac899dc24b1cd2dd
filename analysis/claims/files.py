# SPDX-License-Identifier: GPL-2.0-or-later
"""Claims as data: one TOML file here for each source, and what has to run to settle them.

docs/adding-a-claim.md says what each key means and shows a file; the classes below are the schema
that every file must fit.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import date
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator, model_validator

from analysis.claims.rules import (
    FOLDER,
    Across,
    CheckRule,
    Measured,
    Names,
    OptionRule,
    PartOfDifference,
    Rule,
)
from analysis.counts.measures import CALLS, MEASURE_BY_ID, Measure, is_time, measure_of, program_of
from analysis.raw.record import Model, Positive
from analysis.times.parts import STACK_CELLS
from analysis.wording import listed
from probes.cell import PATTERNS, PLACEMENTS, TRANSPORTS, Conditions
from probes.files import read_toml
from probes.functions import told
from probes.messages import PROGRAM, UsageError, shown
from probes.transports import read_transports

PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
CLAIM_ID = r"^[a-z0-9][a-z0-9.-]*$"
CLAIM_CONDITIONS = (
    "placement",
    "wait",
    "sched",
    "topology",
    "in_flight",
)  # the conditions that claims have
USUAL_SIZE = 64  # where any size will do: that of the main job
EXACT_ONLY = ("exact",)  # the instruments of a measure that only a run without --claims has


class Source(Model):
    """Where claims were made, as far as the source itself says it."""

    id: str = Field(pattern=CLAIM_ID)
    ours: bool = False  # a page of this repository, whose claims are counted apart
    description: str
    url: str = Field("", pattern=r"^(https://\S+)?$")
    title: str = ""
    author: str = ""
    date: str = ""
    language: str = ""
    conditions: str = ""

    @field_validator("date")
    @classmethod
    def _check_date(cls, text: str) -> str:
        day = f"{text}-01-01"[:10]
        with suppress(ValueError):
            if not text or (len(text) in (4, 7, 10) and str(date.fromisoformat(day)) == day):
                return text
        raise ValueError(f"{shown(text)} is no date like 2025-05-02, 2025-05 or 2025")


class Scope(Model):
    """The cells that a claim speaks of, and that have to run to settle it.

    Without a size any size will do.
    """

    pattern: Annotated[Names, Field(min_length=1)] = ("pingpong",)
    size: Annotated[tuple[Positive, ...], Field(strict=False)] = ()
    conditions: Annotated[Names, Field(min_length=1)] = ("same-cpu", "cross-cpu")

    @model_validator(mode="after")
    def _check(self) -> "Scope":
        for name in self.pattern:
            if name not in PATTERNS and not program_of(name):
                raise ValueError(f"no pattern is {shown(name)}; there is {', '.join(PATTERNS)}")
        for text in self.conditions:
            parsed = Conditions.parse(text)
            more = (parsed.clients or parsed.rate or parsed.work) and not self.programs
            if parsed.placement not in PLACEMENTS or parsed.knob or more:
                raise ValueError(f"no conditions of a claim are {shown(text)}")
        return self

    @property
    def cells(self) -> list[tuple[str, str]]:
        """Each pattern in each of the conditions."""
        return list(product(self.pattern, self.conditions))

    @property
    def programs(self) -> set[str]:
        """The articles' programs that make its patterns."""
        return {name for name in map(program_of, self.pattern) if name}


def _measure_named(name: str) -> str:
    if measure_of(name) is None:
        known = f"{CALLS}FUNCTION, {', '.join(MEASURE_BY_ID)}"
        raise ValueError(f"{shown(name)} is not known; allowed are {known}")
    for function in name.removeprefix(CALLS).split("+") if name.startswith(CALLS) else ():
        if told(function, "layer") is None:
            raise ValueError(f"probes/functions.tsv knows no kernel function {shown(function)}")
    return name


def transports(rule: Rule) -> tuple[str, ...]:
    """The transports that a rule compares."""
    if isinstance(rule, Across):
        return rule.transports
    return rule.labels if isinstance(rule, Measured) else ()


class ClaimEntry(Model):
    """A claim as its file has it."""

    id: str = Field(pattern=CLAIM_ID)
    quote: str
    statement: str
    reading: str
    conditions: str = ""
    quantity: str = ""
    scope: Scope = Scope()
    workload: Scope | None = None  # shown with a program's figures, and never judged
    mechanism: str = ""
    judged: str = ""  # what the verdict is over, where its quantity's name does not say it
    headline: bool = False  # shown whatever the run was made for
    measurement: bool = False  # its author's own times, measured on other hardware
    rule: Rule

    @field_validator("quantity")
    @classmethod
    def _check_quantity(cls, name: str) -> str:
        return _measure_named(name) if name else name

    @field_validator("mechanism")
    @classmethod
    def _check_mechanism(cls, text: str) -> str:
        for name in PLACEHOLDER.findall(text):
            measure, _, transport = name.rpartition(".")
            if not transport:
                raise ValueError("write {quantity.transport}")
            _measure_named(measure)
        return text

    @model_validator(mode="after")
    def _check(self) -> "ClaimEntry":
        if self.scope.programs and not all(map(program_of, self.scope.pattern)):
            raise ValueError("scope.pattern: put the workload's patterns into 'workload'")
        if self.workload and self.workload.programs:
            raise ValueError("workload.pattern: put programs' patterns into 'scope'")
        if self.scope.programs and "conditions" not in self.scope.model_fields_set:
            raise ValueError("scope.conditions is missing: those in which the program runs")
        where = {("pingpong", conditions) for conditions in STACK_CELLS}
        if isinstance(self.rule, PartOfDifference) and not where.issuperset(self.scope.cells):
            raise ValueError("scope: rule 'part' is of pingpong in " + ", ".join(STACK_CELLS))
        if unknown := set(transports(self.rule)) - TRANSPORTS.keys():
            raise ValueError(f"rule: no transport is {shown(min(unknown))}")
        patterns = {*self.scope.pattern, *(self.workload.pattern if self.workload else ())}
        for name in transports(self.rule):
            if lacks := patterns & read_transports()[name].lacks:
                raise ValueError(f"rule: {name} has no pattern '{min(lacks)}'")
        if isinstance(self.rule, Measured) != bool(self.quantity):
            needs = "needs a" if isinstance(self.rule, Measured) else "is over no"
            raise ValueError(f"rule '{self.rule.kind}' {needs} 'quantity'")
        return self


class Claim(ClaimEntry):
    """One statement that can be settled, with its source."""

    source: Source

    @property
    def measure(self) -> Measure | None:
        return measure_of(self.quantity)

    @property
    def timed(self) -> bool:
        return self.measure is not None and is_time(self.measure.quantity)

    @property
    def transports(self) -> tuple[str, ...]:
        return transports(self.rule)

    @property
    def stated_conditions(self) -> str:
        """The conditions that go with it: its own, or its source's."""
        return self.conditions or self.source.conditions

    @property
    def command(self) -> str:
        """The command that runs all of its scope."""
        if self.measure and self.measure.instruments == EXACT_ONLY:
            return f"{PROGRAM} --sizes {','.join(map(str, self.scope.size))}"
        programs = ",".join(sorted(self.scope.programs))
        return f"{PROGRAM} --claims {self.id}{programs and f' --program {programs}'}"


class ClaimFile(Model):
    """A file."""

    source: Source
    claim: Annotated[tuple[ClaimEntry, ...], Field(strict=False, min_length=1)]


def load_claims(folder: Path = FOLDER) -> tuple[Claim, ...]:
    """Read all claims, by file name and then in the file's order. Raises UsageError."""
    claims = [claim for path in sorted(folder.glob("*.toml")) for claim in _load(path)]
    for name, times in Counter(claim.id for claim in claims).items():
        if times > 1:
            raise UsageError(f"claims: two claims have the id '{name}'; give each its own.")
    return tuple(claims)


def _load(path: Path) -> list[Claim]:
    name = f"claims/{path.name}"
    try:
        file = ClaimFile.model_validate(read_toml(path, name))
    except ValidationError as error:
        raise UsageError(f"{name}, {_first_error(error)}.") from None
    return [Claim(**dict(entry), source=file.source) for entry in file.claim]


def _first_error(error: ValidationError) -> str:
    """The place of a file's first error, and pydantic's words; a claim counts from 1."""
    first = error.errors(include_url=False)[0]
    place = (
        str(part + 1) if isinstance(part, int) else part if part.isidentifier() else shown(part)
        for part in first["loc"]
    )
    return f"{'.'.join(place)}: {first['msg'].removeprefix('Value error, ').rstrip('.')}"


def quantities(claims: Iterable[Claim]) -> set[str]:
    """Every quantity that claims and their mechanisms speak of."""
    claims = tuple(claims)
    named = {name.rpartition(".")[0] for c in claims for name in PLACEHOLDER.findall(c.mechanism)}
    return named | {claim.quantity for claim in claims if claim.quantity}


def choose(names: Iterable[str]) -> tuple[Claim, ...]:
    """The claims with these ids or sources; all without names. Raises UsageError."""
    claims, names = load_claims(), set(names)
    sources = {claim.source.id for claim in claims}
    known = {claim.id for claim in claims} | sources
    for name in sorted(names - known):
        near = get_close_matches(name, known, 1)
        all_sources = f"; sources are {listed(sorted(sources))}."
        hint = f": did you mean '{near[0]}'?" if near else all_sources
        raise UsageError(f"there is no claim or source '{name}'{hint}")
    return tuple(c for c in claims if not names or {c.id, c.source.id} & names)


def needs(claims: Iterable[Claim]) -> dict[str, Any]:
    """What these claims need; every cell is there once, however many claims need it.

    `timed`: cells that run for their times, on the host only; `unprobed`: cells that are counted
    without probes; `counted`: cells with probes; `quantities`: what these cells have to count;
    `functions`: whether calls of kernel functions are among them; `programs`: articles' own
    experiments; `checks`: programs that test the kernel; `tools`: tool → options to try; `claims`:
    how many claims that settles.
    """
    claims = tuple(claims)
    cells: dict[str, dict[tuple[Any, ...], None]] = {"timed": {}, "unprobed": {}, "counted": {}}
    counted: set[str] = set()
    tools: dict[str, list[str]] = {}
    for claim in claims:
        if isinstance(claim.rule, OptionRule):
            tools.setdefault(claim.rule.tool, []).append(claim.rule.option)
        if claim.measure is None or claim.measure.instruments == EXACT_ONLY:
            continue
        wanted = dict.fromkeys(_cells(claim))
        kind = "timed" if claim.timed else "unprobed" if claim.measure.unprobed else "counted"
        cells[kind].update(wanted)
        # A timed claim reuses counts that other claims request; it adds no cell.
        probed = {m.quantity for m in map(measure_of, quantities([claim])) if m and not m.unprobed}
        if kind != "timed" and probed:
            cells["counted"].update(wanted)
            counted |= probed
    return {
        "claims": len(claims),
        **{kind: [_fields(*cell) for cell in group] for kind, group in cells.items()},
        "quantities": sorted(counted - {"function_calls"}),
        "functions": "function_calls" in counted,
        "programs": sorted({name for claim in claims for name in claim.scope.programs}),
        "checks": sorted({c.rule.check for c in claims if isinstance(c.rule, CheckRule)}),
        "tools": tools,
    }


def _cells(claim: Claim) -> Iterator[tuple[Any, ...]]:
    scope = claim.workload if claim.scope.programs else claim.scope
    if scope is None:
        return
    sizes = scope.size or (USUAL_SIZE,)
    cells = scope.cells
    if isinstance(claim.rule, PartOfDifference):
        cells += [STACK_CELLS[name][0] for name in scope.conditions]
    for (pattern, conditions), size, name in product(cells, sizes, claim.transports):
        yield pattern, size, conditions, name


def _fields(pattern: str, size: int, conditions: str, transport: str) -> dict[str, Any]:
    """A cell's fields; `in_flight` is null where a claim leaves it open."""
    parsed = Conditions.parse(conditions)
    fields = {name: getattr(parsed, name) for name in CLAIM_CONDITIONS}
    return {"pattern": pattern, "size": size, "transport": transport, **fields}
