# SPDX-License-Identifier: GPL-2.0-or-later
"""The kinds of rule that a claim can have. docs/adding-a-claim.md shows one of each.

Rules over measured figures (`values`, `bounds`, `ratio`, `present`, `across`) compare the figures
of one condition and one repeat; judge.py finds these. `consistent` computes with numbers that the
source itself states (stated.py); `check` and `option` read what this kernel
and its tools answered (observed.py).
"""

import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from analysis.raw.record import Model
from analysis.verdicts.stated import LARGEST, Stated
from analysis.wording import listed, number

FOLDER = Path(__file__).parents[1] / "claims"
Names = Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
Bounded = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
Numbers = dict[str, Bounded]


class Terms(Model):
    """What the registry means by its words: analysis/claims/terms.toml, stated once."""

    about: float = Field(gt=0)
    none: float = Field(gt=0)


TERMS = Terms(**tomllib.loads((FOLDER / "terms.toml").read_text(encoding="utf-8")))


class Values(Model):
    """Each transport's figure is the expected one, give or take the tolerance."""

    kind: Literal["values"]
    expected: Numbers = Field(min_length=1)
    tolerance: Bounded = Field(ge=0)

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.expected)

    def holds(self, figures: Numbers) -> bool:
        return all(self.fits(name, figures[name]) for name in self.expected)

    def fits(self, name: str, value: float) -> bool:
        return abs(value - self.expected[name]) <= self.tolerance

    def words(self) -> str:
        said = [f"{name} is {number(value)}" for name, value in self.expected.items()]
        return f"It holds where {listed(said)}, give or take {number(self.tolerance)}."


class Bounds(Model):
    """Each transport's figure is at least, or at most, so much."""

    kind: Literal["bounds"]
    least: Numbers = Field(default={})
    most: Numbers = Field(default={})

    @model_validator(mode="after")
    def _any(self) -> "Bounds":
        if not self.labels:
            raise ValueError("give 'least', 'most' or both, as { tcp = 2 }")
        if any(self.least[name] > self.most.get(name, LARGEST) for name in self.least):
            raise ValueError("'least' is above 'most', so nothing can hold")
        return self

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.least, *self.most)))

    def holds(self, figures: Numbers) -> bool:
        return all(figures[name] >= value for name, value in self.least.items()) and all(
            figures[name] <= value for name, value in self.most.items()
        )

    def words(self) -> str:
        said = [f"{name} is at least {number(value)}" for name, value in self.least.items()]
        said += [f"{name} is at most {number(value)}" for name, value in self.most.items()]
        return f"It holds where {listed(said)}."


class Present(Model):
    """There is any of it at all: more than `none` a message on some, and not on others."""

    kind: Literal["present"]
    on: Annotated[tuple[str, ...], Field(strict=False)] = ()
    not_on: Annotated[tuple[str, ...], Field(strict=False)] = ()

    @model_validator(mode="after")
    def _any(self) -> "Present":
        if not self.labels:
            raise ValueError("give 'on', 'not_on' or both, as [\"tcp\"]")
        if set(self.on) & set(self.not_on):
            raise ValueError("'on' and 'not_on' share a transport, so nothing can hold")
        return self

    @property
    def labels(self) -> tuple[str, ...]:
        return (*self.on, *self.not_on)

    def holds(self, figures: Numbers) -> bool:
        return all(figures[name] > TERMS.none for name in self.on) and all(
            figures[name] <= TERMS.none for name in self.not_on
        )

    def words(self) -> str:
        none, said = number(TERMS.none), []
        if on := listed(list(self.on)):
            said.append(f"{on} has more than {none} of it")
        if not_on := listed(list(self.not_on)):
            said.append(f"{not_on} has {none} of it at most")
        return f"It holds where {listed(said)} ({none} and less are none)."


class Quotient(Model):
    """What `ratio` and `across` share: over / under is at least, at most, or about so much."""

    over: str
    under: str
    least: Bounded | None = None
    most: Bounded | None = None
    about: float | None = Field(None, gt=0, le=LARGEST)

    @model_validator(mode="after")
    def _any(self) -> "Quotient":
        if self.about is None and self.least is None and self.most is None:
            raise ValueError("give 'least', 'most' or both, or 'about'")
        if self.about is not None and (self.least is not None or self.most is not None):
            raise ValueError("give either 'about', or 'least' and 'most'")
        if self.least is not None and self.most is not None and self.least > self.most:
            raise ValueError("'least' is above 'most', so nothing can hold")
        if self.over == self.under:
            raise ValueError("'over' and 'under' are the same, so the ratio is always 1")
        return self

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.over, self.under)

    @property
    def quotient(self) -> str:
        return f"{self.over} / {self.under}"

    @property
    def range(self) -> tuple[float, float]:
        if self.about is not None:
            return self.about / (1 + TERMS.about), self.about * (1 + TERMS.about)
        return self.least or 0.0, float("inf") if self.most is None else self.most

    def holds(self, figures: Numbers) -> bool:
        # Multiplied out, so that a figure of 0 divides nothing. 0 / 0 is no ratio.
        (least, most), over, under = self.range, figures[self.over], figures[self.under]
        within = least * under <= over and (most == float("inf") or over <= most * under)
        return within and (over, under) != (0, 0)

    def words(self) -> str:
        least, most = self.range
        limits = [f"at least {number(least)}"] if least else []
        limits += [f"at most {number(most)}"] if most < float("inf") else []
        within = listed(limits)
        if not self.about:
            return f"It holds where {self.quotient} is {within}."
        return (
            f"It holds where {self.quotient} is {within} (about {number(self.about)}: within "
            f"{TERMS.about:.0%})."
        )


class RatioRule(Quotient):
    """The figure of one transport, divided by that of another."""

    kind: Literal["ratio"]


class Across(Quotient):
    """One transport in two patterns, placements or sizes: the first divided by the second."""

    kind: Literal["across"]
    key: Literal["pattern", "conditions", "size"]
    transports: Names


class Consistent(Model):
    """Numbers that the source states: whatever can be computed from some agrees with the others."""

    kind: Literal["consistent"]
    stated: Annotated[tuple[Stated, ...], Field(strict=False, min_length=1)]

    def words(self) -> str:
        return (
            "It holds where what follows from the stated numbers agrees with them, "
            "each taken as rounded or cut to its last digit."
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


class Option(Model):
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


Measured = Values | Bounds | RatioRule | Present | Across
Rule = Annotated[
    Measured | Consistent | CheckRule | Option | Unsettled, Field(discriminator="kind")
]


def fact(key: str, value: str | int | bool) -> str:
    """How what a check found is written: `longest path bytes: 108`, `file exists: no`."""
    plain = ("no", "yes")[value] if isinstance(value, bool) else value
    return f"{key.replace('_', ' ')}: {plain}"
