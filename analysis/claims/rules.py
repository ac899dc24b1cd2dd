# SPDX-License-Identifier: GPL-2.0-or-later
"""The kinds of rule that a claim can have. docs/adding-a-claim.md shows one of each.

Rules over measured figures (`values`, `bounds`, `ratio`, `present`, `across`, `part`) compare the
figures of one condition and one repeat. `consistent` computes with numbers that the source itself
states. `check` and `option` read what this kernel and its tools answered.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import product
from math import inf, nextafter
from operator import mul, truediv
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from analysis.raw.record import Model
from analysis.wording import listed, number
from probes.files import read_rows, typed
from probes.messages import shown

FOLDER = Path(__file__).parent
# Within these bounds no formula below divides by 0 or overflows.
LARGEST = 1e18
Number = Annotated[float, Field(gt=0, le=LARGEST)]
Bounded = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
Numbers = dict[str, Bounded]
Names = Annotated[tuple[str, ...], Field(strict=False)]


# "About N" is from N / 1.25 to N * 1.25: the articles round to one or two digits, and no two
# machines give one ratio of times.
ABOUT = 1.25
# A count is "none" where fewer than one message in twenty has it: pure ACKs and wake-ups of a long
# run's edges and of its background stay below.
NONE = 0.05


class Limits(Model):
    """The base of rules that compare figures with limits: `ranges` has them by label."""

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        raise NotImplementedError

    @property
    def side(self) -> str:
        """The column that tells the rule's sides apart."""
        return "transport"

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.ranges)

    def fits(self, label: str, value: float) -> bool:
        low, high = self.ranges[label]
        return low <= value <= high

    def holds(self, figures: Numbers) -> bool:
        return all(self.fits(label, figures[label]) for label in self.labels)

    def words(self) -> str:
        each = [f"{label} is {_range(*limits)}" for label, limits in self.ranges.items()]
        return f"It holds where {listed(each)}."

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.labels or any(low > high for low, high in self.ranges.values()):
            raise ValueError("its limits leave out nothing, or everything")
        return self


def _range(low: float, high: float) -> str:
    texts = [f"at least {number(low)}"] if low > -inf else []
    return listed(texts + ([f"at most {number(high)}"] if high < inf else []))


class ValuesRule(Limits):
    """Each transport's figure is the expected one, give or take the tolerance."""

    kind: Literal["values"]
    expected: Numbers = Field(min_length=1)
    tolerance: Bounded = Field(ge=0)

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        tolerance = self.tolerance
        return {name: (v - tolerance, v + tolerance) for name, v in self.expected.items()}


class Bounds(Limits):
    """Each transport's figure is at least, or at most, so much."""

    kind: Literal["bounds"]
    least: Numbers = Field(default={})
    most: Numbers = Field(default={})

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        names = dict.fromkeys((*self.least, *self.most))
        return {name: (self.least.get(name, -inf), self.most.get(name, inf)) for name in names}


class Present(Limits):
    """There is any of it at all: more than `none` a message on some, and not on others."""

    kind: Literal["present"]
    on: Names = ()
    not_on: Names = ()

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        some, none = (nextafter(NONE, inf), inf), (-inf, NONE)
        return {**dict.fromkeys(self.on, some), **dict.fromkeys(self.not_on, none)}


class Quotient(Limits):
    """What `ratio` and `across` share: over / under is at least, at most, or about so much."""

    over: str
    under: str
    least: Bounded | None = None
    most: Bounded | None = None
    about: Number | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.over, self.under)

    @property
    def quotient(self) -> str:
        return f"{self.over} / {self.under}"

    @property
    def range(self) -> tuple[float, float]:
        if self.about is not None:
            return self.about / ABOUT, self.about * ABOUT
        return self.least or 0.0, inf if self.most is None else self.most

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        return {self.quotient: self.range}

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        if (self.least is None and self.most is None) == (self.about is None):
            raise ValueError("give either 'about', or 'least', 'most' or both")
        if self.over == self.under:
            raise ValueError("'over' and 'under' are the same, so the ratio is always 1")
        return self

    def holds(self, figures: Numbers) -> bool:
        # Multiplied out, so that a figure of 0 divides nothing. 0 / 0 is no ratio.
        (least, most), over, under = self.range, figures[self.over], figures[self.under]
        within = least * under <= over and (most == inf or over <= most * under)
        return within and (over, under) != (0, 0)


class RatioRule(Quotient):
    """The figure of one transport, divided by that of another."""

    kind: Literal["ratio"]


class Across(Quotient):
    """One transport in two patterns, placements or sizes: the first divided by the second."""

    kind: Literal["across"]
    key: Literal["pattern", "conditions", "size"]
    transports: Names = Field(min_length=1)

    @property
    def side(self) -> str:
        return self.key


class PartOfDifference(Limits):
    """Of the time that one transport takes longer, so much is left where nobody sleeps or switches.

    The cells that show it are those of `analysis.times.parts`, which divides the time in reports.
    """

    kind: Literal["part"]
    over: str
    under: str
    least: Annotated[float, Field(gt=0, lt=1)]

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.over, self.under)

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        return {f"share left of {self.over} - {self.under}": (self.least, inf)}

    def words(self) -> str:
        return (
            f"It holds where at least {number(self.least)} of the time that {self.over} takes "
            f"longer than {self.under} is left where nobody sleeps or switches."
        )


class Relation(NamedTuple):
    """A row of relations.tsv."""

    name: str
    needs: tuple[str, ...]
    by: str
    formula: str


COMPUTED: dict[str, Callable[..., float]] = {
    "quotient": truediv,
    "saving": lambda larger, smaller: 100 * (1 - smaller / larger),
    "share": lambda part, total: 100 * part / total,
    "sum": float,
    # Little's law: what is in a system is what arrives a second times the time that each stays
    # (Little, Operations Research 9, 1961). A load generator that keeps N connections busy has N in
    # flight.
    "product": mul,
}
CHECKS = tuple(Relation(**typed(Relation, row)) for row in read_rows(FOLDER / "relations.tsv"))
LIMITS = {"_least": "at least ", "_below": "below "}  # one-sided, by the end of the name


class Stated(Model, extra="allow"):
    """Numbers that belong together, by what they are: the names that the checks above need."""

    what: str
    __pydantic_extra__: dict[str, Number | Annotated[Sequence[Number], Field(min_length=1)]]

    @model_validator(mode="after")
    def _check(self) -> Self:
        known = {name for check in CHECKS for name in check.needs}
        if unknown := self.numbers().keys() - known:
            raise ValueError(
                f"{shown(min(unknown))} is not known; allowed are {', '.join(sorted(known))}"
            )
        if not self.checks():
            each = "; ".join(f"{check.name}: {', '.join(check.needs)}" for check in CHECKS)
            raise ValueError(f"no check fits these numbers. There is {each}")
        return self

    def numbers(self) -> dict[str, float]:
        """The numbers by name; a list of numbers as their sum."""
        numbers = self.__pydantic_extra__.items()
        return {k: float(v if isinstance(v, int | float) else sum(v)) for k, v in numbers}

    def checks(self) -> list[Relation]:
        """Every check that has the numbers it needs: an arithmetic slip is found by rule."""
        return [check for check in CHECKS if set(check.needs) <= self.numbers().keys()]

    def results(self) -> list[tuple[str, bool]]:
        """Make each check. Returns its text, and whether the numbers agree.

        A stated number stands for every number that rounds to it, or is cut to it, at its last
        digit. A relation holds where numbers that it may stand for fulfil it. A limit ("at least",
        "below") is meant as it stands, and so is what it is compared with.
        """
        numbers, results = self.numbers(), []
        for check in self.checks():
            *given, against = check.needs
            # Every formula grows or falls with each number, so the corners have the extremes.
            corners = product(*(stands_for(numbers[name]) for name in given))
            values = [COMPUTED[check.by](*corner) for corner in corners]
            value = COMPUTED[check.by](*(numbers[name] for name in given))
            low, high = stands_for(numbers[against])
            end = next((end for end in LIMITS if against.endswith(end)), "")
            agrees = {
                "": min(values) <= high and max(values) >= low,
                "_least": value >= numbers[against],
                "_below": value < numbers[against],
            }[end]
            name = against.removesuffix(end).replace("_", " ")
            stated = f"{name} {LIMITS.get(end, '')}{number(numbers[against])}"
            formula = f"{self.what}: {check.name}: {check.formula}"
            results.append((f"{formula} = {number(value)}; stated: {stated}", agrees))
        return results


def stands_for(value: float) -> tuple[float, float]:
    """The least and the largest number that rounds or is cut to `value`."""
    digits = 0 if value.is_integer() else Decimal(repr(value)).as_tuple().exponent
    assert isinstance(digits, int)  # a stated number is no infinity
    last = 10.0**digits
    return value - last / 2, value + last


class Consistent(Model):
    """Numbers that the source states: whatever can be computed from some agrees with the others."""

    kind: Literal["consistent"]
    stated: Annotated[tuple[Stated, ...], Field(strict=False, min_length=1)]

    def words(self) -> str:
        return (
            "It holds where what follows from the stated numbers agrees with them, "
            "each taken as rounded or cut to its last digit, but in a limit as it stands."
        )


class CheckRule(Model):
    """What a program of runners/checks found out about this kernel."""

    kind: Literal["check"]
    check: str
    facts: dict[str, str | int | bool] = Field(min_length=1)
    # The circumstance that the source speaks of; empty: every one.
    when: dict[str, str] = Field(default={})

    def words(self) -> str:
        facts = listed([fact(key, value) for key, value in self.facts.items()])
        when = "".join(f", {key} {value}," for key, value in self.when.items())
        return f"It holds where the check {self.check}{when} finds {facts}."


class OptionRule(Model):
    """A tool has an option: the tool itself tells."""

    kind: Literal["option"]
    tool: str = Field(pattern=r"^[a-z0-9][a-z0-9+.-]*$")
    option: str = Field(pattern=r"^--?[A-Za-z0-9-]+$")

    def words(self) -> str:
        return f"It holds where {self.tool} accepts {self.option}, or its help lists it."


class Unsettled(Model):
    """No rule settles it yet: why not."""

    kind: Literal["unsettled"]
    why: str

    def words(self) -> str:
        return ""


Measured = ValuesRule | Bounds | RatioRule | Present | Across | PartOfDifference
Rule = Annotated[
    Measured | Consistent | CheckRule | OptionRule | Unsettled, Field(discriminator="kind")
]


def fact(key: str, value: str | int | bool) -> str:
    """Write what a check found: `longest path bytes: 108`, `file exists: no`."""
    plain = ("no", "yes")[value] if isinstance(value, bool) else value
    return f"{key.replace('_', ' ')}: {plain}"
