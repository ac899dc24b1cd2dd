# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers that a source states, and what must hold between them whatever was measured.

A claim lists numbers by what they are, and every check whose numbers are there is made; none knows
a source. So an arithmetic slip is found by rule.

One rule of tolerance for all: a stated number stands for every number that rounds to it, or that is
cut to it, at its last digit. A relation holds where numbers that it may stand for fulfil it.

Little's law: what is in a system is what arrives a second times the time that each stays (Little,
Operations Research 9, 1961). A load generator that keeps N connections busy has N requests in
flight.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from itertools import product
from typing import Annotated, NamedTuple

from pydantic import Field, model_validator

from analysis.raw.record import Model
from analysis.wording import number
from probes.messages import shown

# Within these bounds no formula below divides by 0 or overflows.
LARGEST = 1e18
Number = Annotated[float, Field(gt=0, le=LARGEST)]


class Stated(Model, extra="allow"):
    """Numbers that belong together, by what they are: the names that the checks below need."""

    what: str
    __pydantic_extra__: dict[str, Number | Annotated[Sequence[Number], Field(min_length=1)]]

    @model_validator(mode="after")
    def _checkable(self) -> "Stated":
        known = {name for check in CHECKS for name in check.needs}
        if unknown := self.given().keys() - known:
            raise ValueError(
                f"{shown(min(unknown))} is not known; allowed are {', '.join(sorted(known))}"
            )
        if not any(set(check.needs) <= self.given().keys() for check in CHECKS):
            ways = "; ".join(f"{check.name}: {', '.join(check.needs)}" for check in CHECKS)
            raise ValueError(f"no check fits these numbers. There is {ways}")
        return self

    def given(self) -> dict[str, float]:
        """The numbers by name; a list of numbers as their sum."""
        numbers = self.__pydantic_extra__.items()
        return {k: float(v if isinstance(v, int | float) else sum(v)) for k, v in numbers}


class Relation(NamedTuple):
    """One relation: `computed` from the numbers is held against the one named `against`."""

    name: str
    needs: tuple[str, ...]  # the last one is what the others must agree with
    formula: str
    computed: Callable[[Mapping[str, float]], float]
    limit: str = ""  # "at least" and "below" are one-sided


def _saved(n: Mapping[str, float]) -> float:
    return 100 * (1 - n["smaller"] / n["larger"])


# A quotient: `larger` is `times` as much as `smaller`, or so much is saved. A share: `part` of
# `whole`. Little's law is of a load generator that keeps its connections busy.
CHECKS = (
    Relation("quotient", ("larger", "smaller", "times"), "larger / smaller",
          lambda n: n["larger"] / n["smaller"]),
    Relation("saving", ("larger", "smaller", "saved_percent"),
          "1 - smaller / larger, in percent", _saved),
    Relation("saving", ("larger", "smaller", "saved_percent_least"),
          "1 - smaller / larger, in percent", _saved, "at least"),
    Relation("share", ("part", "whole", "percent"), "part / whole, in percent",
          lambda n: 100 * n["part"] / n["whole"]),
    Relation("share", ("part", "whole", "percent_below"), "part / whole, in percent",
          lambda n: 100 * n["part"] / n["whole"], "below"),
    Relation("sum", ("parts", "total"), "the sum of the parts", lambda n: n["parts"]),
    Relation("rate", ("count", "seconds", "per_s"), "count / seconds",
          lambda n: n["count"] / n["seconds"]),
    Relation("time of each", ("count", "seconds", "seconds_each"), "seconds / count",
          lambda n: n["seconds"] / n["count"]),
    Relation("Little's law", ("per_s", "latency_s", "connections"),
          "requests a second times latency: requests in flight",
          lambda n: n["per_s"] * n["latency_s"]),
)  # fmt: skip


def findings(stated: tuple[Stated, ...]) -> tuple[tuple[str, bool], ...]:
    """Every check on every set of numbers for which it has what it needs: its text, its result."""
    return tuple(
        _made(check, numbers)
        for numbers in stated
        for check in CHECKS
        if set(check.needs) <= numbers.given().keys()
    )


def _made(check: Relation, stated: Stated) -> tuple[str, bool]:
    numbers = stated.given()
    *given, against = check.needs
    # Every formula grows or falls with each of its numbers, so the corners have the extremes.
    corners = product(*(stands_for(numbers[name]) for name in given))
    found = [check.computed(dict(zip(given, corner, strict=True))) for corner in corners]
    low, high = stands_for(numbers[against])
    holds = {
        "": min(found) <= high and max(found) >= low,
        "at least": max(found) >= low,
        "below": min(found) < high,
    }[check.limit]
    name = against.removesuffix("_least").removesuffix("_below").replace("_", " ")
    limit = f"{check.limit} " if check.limit else ""
    made = f"{check.name}: {check.formula} = {number(check.computed(numbers))}"
    return f"{stated.what}: {made}; stated: {name} {limit}{number(numbers[against])}", holds


def stands_for(value: float) -> tuple[float, float]:
    """The least and the largest number that rounds or is cut to `value` at its last digit."""
    digits = 0 if value.is_integer() else Decimal(repr(value)).as_tuple().exponent
    assert isinstance(digits, int)  # a stated number is no infinity
    last = 10.0**digits
    return value - last / 2, value + last
