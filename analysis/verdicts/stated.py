# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers that a source states, and what must hold between them whatever was measured.

A claim lists numbers by what they are, and every check whose numbers are there is made; none knows
a source. So an arithmetic slip is found by rule.

Little's law: what is in a system is what arrives a second times the time that each stays (Little,
Operations Research 9, 1961). A load generator that keeps N connections busy has N requests in
flight.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, NamedTuple

from pydantic import Field, model_validator

from analysis.raw.record import Model
from analysis.wording import number


class Stated(Model):
    """Numbers that belong together; all but `what` are optional."""

    what: str
    # A quotient: `larger` is `times` as much as `smaller`, or `percent` of it is saved.
    larger: float | None = None
    smaller: float | None = None
    times: float | None = None
    times_least: float | None = None
    saved_percent: float | None = None
    saved_percent_least: float | None = None
    # A share: `part` of `whole`.
    part: float | None = None
    whole: float | None = None
    percent: float | None = None
    percent_below: float | None = None
    # A sum.
    parts: Annotated[tuple[float, ...] | None, Field(strict=False)] = None
    total: float | None = None
    # A rate.
    count: float | None = None
    seconds: float | None = None
    per_s: float | None = None
    seconds_each: float | None = None
    # A load generator that keeps its connections busy.
    latency_s: float | None = None
    connections: float | None = None
    # Payload through memory: each copy reads it and writes it.
    bytes_per_s: float | None = None
    memory_bytes_per_s: float | None = None
    memory_percent: float | None = None

    @model_validator(mode="after")
    def _checkable(self) -> "Stated":
        if not any(set(check.needs) <= self.given().keys() for check in CHECKS):
            ways = "; ".join(f"{check.name}: {', '.join(check.needs)}" for check in CHECKS)
            raise ValueError(f"no check fits these numbers. There is {ways}")
        return self

    def given(self) -> dict[str, float]:
        """The numbers that are there, by name; sums as their total."""
        found = {k: v for k, v in self if isinstance(v, int | float)}
        return found | ({"parts": sum(self.parts)} if self.parts else {})


class Relation(NamedTuple):
    """One relation: `computed` from the numbers is held against the one named `against`."""

    name: str
    needs: tuple[str, ...]  # the last one is what the others must agree with
    formula: str
    computed: Callable[[Mapping[str, float]], float]
    # agree: within the rounding; about: within the registry's "about"; least, below: one-sided.
    relation: str = "agree"


def _saved(n: Mapping[str, float]) -> float:
    return 100 * (1 - n["smaller"] / n["larger"])


def _memory(n: Mapping[str, float]) -> float:
    # At least one copy in and one copy out, each of which reads and writes every byte.
    return 100 * 4 * n["bytes_per_s"] / n["memory_bytes_per_s"]


CHECKS = (
    Relation("quotient", ("larger", "smaller", "times"), "larger / smaller",
          lambda n: n["larger"] / n["smaller"]),
    Relation("quotient", ("larger", "smaller", "times_least"), "larger / smaller",
          lambda n: n["larger"] / n["smaller"], "least"),
    Relation("saving", ("larger", "smaller", "saved_percent"),
          "1 - smaller / larger, in percent", _saved),
    Relation("saving", ("larger", "smaller", "saved_percent_least"),
          "1 - smaller / larger, in percent", _saved, "least"),
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
          lambda n: n["per_s"] * n["latency_s"], "about"),
    Relation("memory bandwidth", ("bytes_per_s", "memory_bytes_per_s", "memory_percent"),
          "two copies, each of which reads and writes, in percent of the bandwidth",
          _memory),
)  # fmt: skip


def findings(
    stated: tuple[Stated, ...], about: float, rounding: float
) -> tuple[tuple[str, bool], ...]:
    """Every check on every set of numbers for which it has what it needs: its text, its result."""
    return tuple(
        _made(check, numbers, about, rounding)
        for numbers in stated
        for check in CHECKS
        if set(check.needs) <= numbers.given().keys()
    )


def _made(check: Relation, stated: Stated, about: float, rounding: float) -> tuple[str, bool]:
    numbers = stated.given()
    computed, wanted = check.computed(numbers), numbers[check.needs[-1]]
    holds = {
        "agree": _close(computed, wanted, rounding) or _rounds_to(computed, wanted),
        "about": _close(computed, wanted, about),
        "least": computed >= wanted,
        "below": computed < wanted,
    }[check.relation]
    name = check.needs[-1].removesuffix("_least").removesuffix("_below").replace("_", " ")
    limit = {"least": "at least ", "below": "below "}.get(check.relation, "")
    made = f"{check.name}: {check.formula} = {number(computed)}"
    return f"{stated.what}: {made}; stated: {name} {limit}{number(wanted)}", holds


def _close(first: float, second: float, share: float) -> bool:
    low, high = sorted((abs(first), abs(second)))
    return first == second or ((first > 0) == (second > 0) and high <= low * (1 + share))


def _rounds_to(computed: float, wanted: float) -> bool:
    """Whether `computed` is written like `wanted`, with as many decimals as that has."""
    decimals = len(repr(wanted).partition(".")[2]) if wanted != int(wanted) else 0
    return round(computed, decimals) == wanted
