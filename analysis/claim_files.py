# SPDX-License-Identifier: GPL-2.0-or-later
"""Claims as data: one TOML file for each source, under analysis/claims/.

[source]
id           short name, used in claims.csv
description  what the source is
title, author, date, language, conditions     as far as the source states them

[[claim]]
id         short name, unique over all files
quote      the source's words, in its own language
statement  the same in English
reading    how we read it, and why (which unit, what is counted)
quantity   a measure of analysis/quantities.py
where      optional: the regimes that the claim speaks of, { placement = ["same-cpu"], size = [64] }
mechanism  optional: a sentence with {measure.transport} for measured figures

[claim.rule]
kind = "values"   expected = { TRANSPORT = number, … }, tolerance = number (absolute)
kind = "ratio"    over = TRANSPORT, under = TRANSPORT, least = number, most = number
                  (value of `over` / value of `under`; one of least and most may be left out)
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.errors import RunError
from analysis.quantities import MEASURE_BY_ID

FOLDER = Path(__file__).parent / "claims"
SOURCE_KEYS = {"id": str, "description": str}
SOURCE_OPTIONAL = dict.fromkeys(("title", "author", "date", "language", "conditions"), str)
CLAIM_KEYS = {
    "id": str,
    "quote": str,
    "statement": str,
    "reading": str,
    "quantity": str,
    "rule": dict,
}
CLAIM_OPTIONAL = {"where": dict, "mechanism": str}
VALUES_KEYS = {"kind": str, "expected": dict, "tolerance": float}
RATIO_KEYS = {"kind": str, "over": str, "under": str}
RATIO_OPTIONAL = {"least": float, "most": float}
WHERE_KEYS = {"pattern": str, "size": int, "placement": str, "lane": str, "kernel": str}
FIGURE = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Values:
    """Each transport's figure is the expected one, give or take the tolerance."""

    expected: dict[str, float]
    tolerance: float

    @property
    def transports(self) -> tuple[str, ...]:
        return tuple(self.expected)

    def holds(self, figures: dict[str, float]) -> bool:
        return all(self.fits(transport, figures[transport]) for transport in self.expected)

    def fits(self, transport: str, value: float) -> bool:
        return abs(value - self.expected[transport]) <= self.tolerance


@dataclass(frozen=True)
class RatioRule:
    """The figure of `over`, divided by that of `under`, lies between least and most."""

    over: str
    under: str
    least: float
    most: float

    @property
    def transports(self) -> tuple[str, ...]:
        return (self.over, self.under)

    def holds(self, figures: dict[str, float]) -> bool:
        # Multiplied out, so that a figure of 0 divides nothing.
        over, under = figures[self.over], figures[self.under]
        return self.least * under <= over <= self.most * under


Rule = Values | RatioRule


@dataclass(frozen=True)
class Source:
    """Where a claim was made."""

    id: str
    description: str
    title: str
    author: str
    date: str
    language: str
    conditions: str


@dataclass(frozen=True)
class Claim:
    """One statement that can be settled by measuring."""

    id: str
    source: Source
    quote: str
    statement: str
    reading: str
    quantity: str
    where: dict[str, list[Any]]
    mechanism: str
    rule: Rule


def load_claims(folder: Path = FOLDER) -> tuple[Claim, ...]:
    """All claims of all files, by file name and then in the file's order."""
    claims = [claim for path in sorted(folder.glob("*.toml")) for claim in _load(path)]
    ids = [claim.id for claim in claims]
    for name in ids:
        if ids.count(name) > 1:
            raise RunError(f"claims: two claims have the id '{name}'; give each its own.")
    return tuple(claims)


def _load(path: Path) -> list[Claim]:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise RunError(f"claims/{path.name} is not TOML: {error}.") from None
    table = _table(data, f"claims/{path.name}", {"source": dict, "claim": list}, {})
    where = f"claims/{path.name}, [source]"
    fields = _table(table["source"], where, SOURCE_KEYS, SOURCE_OPTIONAL)
    source = Source(**{key: fields.get(key, "") for key in (*SOURCE_KEYS, *SOURCE_OPTIONAL)})
    return [
        _claim(entry, f"claims/{path.name}, claim {number}", source)
        for number, entry in enumerate(table["claim"], 1)
    ]


def _claim(entry: Any, where: str, source: Source) -> Claim:
    fields = _table(entry, where, CLAIM_KEYS, CLAIM_OPTIONAL)
    where = f"{where} ({fields['id']})"
    _known(fields["quantity"], MEASURE_BY_ID, f"{where}, quantity")
    rule = _rule(fields["rule"], f"{where}, rule")
    mechanism = fields.get("mechanism", "")
    for name in FIGURE.findall(mechanism):
        _known(name.partition(".")[0], MEASURE_BY_ID, f"{where}, mechanism {{{name}}}")
        _known(name.partition(".")[2], rule.transports, f"{where}, mechanism {{{name}}}")
    return Claim(
        id=fields["id"],
        source=source,
        quote=fields["quote"],
        statement=fields["statement"],
        reading=fields["reading"],
        quantity=fields["quantity"],
        where=_where(fields.get("where", {}), f"{where}, where"),
        mechanism=mechanism,
        rule=rule,
    )


def _rule(table: dict[str, Any], where: str) -> Rule:
    kind = table.get("kind")
    _known(kind, ("values", "ratio"), f"{where}, kind")
    if kind == "ratio":
        fields = _table(table, where, RATIO_KEYS, RATIO_OPTIONAL)
        if not RATIO_OPTIONAL.keys() & fields.keys():
            raise RunError(f"{where}: give 'least', 'most' or both.")
        least, most = fields.get("least", 0.0), fields.get("most", float("inf"))
        return RatioRule(fields["over"], fields["under"], float(least), float(most))
    fields = _table(table, where, VALUES_KEYS, {})
    expected = {key: fields["expected"][key] for key in fields["expected"]}
    if not expected or not all(_is(value, float) for value in expected.values()):
        raise RunError(f"{where}, expected: give a number for each transport, as {{ unix = 2 }}.")
    return Values(
        {key: float(value) for key, value in expected.items()}, float(fields["tolerance"])
    )


def _where(table: dict[str, Any], where: str) -> dict[str, list[Any]]:
    for key, values in table.items():
        _known(key, WHERE_KEYS, where)
        if not isinstance(values, list) or not all(_is(v, WHERE_KEYS[key]) for v in values):
            raise RunError(f"{where}, {key}: give a list of {WHERE_KEYS[key].__name__} values.")
    return table


def _table(
    table: Any, where: str, required: Mapping[str, type], optional: Mapping[str, type]
) -> dict[str, Any]:
    """A table with exactly the keys that are allowed."""
    if not isinstance(table, dict):
        raise RunError(f"{where} should be a table of keys and values.")
    allowed = {**required, **optional}
    for key in table:
        _known(key, allowed, where)
    for key, kind in allowed.items():
        if key in required and key not in table:
            raise RunError(f"{where} has no '{key}'; required are {', '.join(required)}.")
        if key in table and not _is(table[key], kind):
            raise RunError(f"{where}: '{key}' should be of type {kind.__name__}.")
    return table


def _known(name: Any, allowed: Any, where: str) -> None:
    if name not in allowed:
        raise RunError(f"{where}: {name!r} is not known; allowed are {', '.join(allowed)}.")


def _is(value: Any, kind: type) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind)
