# SPDX-License-Identifier: GPL-2.0-or-later
"""Claims as data: one TOML file for each source, under analysis/claims/.

docs/adding-a-claim.md says what each key means and shows a file; the classes below are the schema
that every file must fit. `terms.toml` beside them holds what "about" and "none" mean.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import Field, ValidationError, field_validator, model_validator

from analysis.counts.measures import CALLS, measure_of
from analysis.counts.quantities import MEASURE_BY_ID, program_of
from analysis.raw.record import Model, Positive
from analysis.verdicts.rules import FOLDER, Measured, Rule
from probes.messages import UsageError, shown

TERMS_FILE = "terms.toml"
FIGURE = re.compile(r"\{([^{}]*)\}")
# Where pydantic's own words are of its trade.
WORDS = {
    "extra_forbidden": "is not known",
    "missing": "is missing",
    "union_tag_invalid": "kind {tag} is not known; allowed are {expected_tags}",
    "union_tag_not_found": "kind is missing",
}
# What pydantic calls the types of a union, in an error's place.
TYPES = {"constrained-float", "constrained-sequence", "float", "str", "int", "bool"}
NAME_OF_KEY = re.compile(r"[a-z0-9_]{1,40}")
NAME = r"^[a-z0-9][a-z0-9.-]*$"
# Kind → rule: pydantic puts the kind into an error's place, where no file has it.
KINDS: dict[int | str, Any] = {
    get_args(rule.model_fields["kind"].annotation)[0]: rule for rule in get_args(get_args(Rule)[0])
}


class Source(Model):
    """Where claims were made, as far as the source itself says it."""

    id: str = Field(pattern=NAME)
    description: str
    url: str = Field("", pattern=r"^(https://\S+)?$")
    title: str = ""
    author: str = ""
    date: str = ""
    language: str = ""
    conditions: str = ""


class Scope(Model):
    """The conditions that a claim speaks of, and that have to run to settle it.

    Without a size any size will do.
    """

    pattern: Annotated[tuple[str, ...], Field(strict=False)] = ("pingpong",)
    size: Annotated[tuple[Positive, ...], Field(strict=False)] = ()
    conditions: Annotated[tuple[str, ...], Field(strict=False)] = ("same-cpu", "cross-cpu")

    @property
    def programs(self) -> set[str]:
        """The articles' programs that make its patterns."""
        return {name for name in map(program_of, self.pattern) if name}


class ClaimEntry(Model):
    """A claim as its file has it."""

    id: str = Field(pattern=NAME)
    quote: str
    statement: str
    reading: str
    conditions: str = ""
    quantity: str = ""
    where: Scope = Scope()
    beside: Scope | None = None  # shown with a program's figures, and never judged
    mechanism: str = ""
    headline: bool = False  # shown whatever the run was made for
    measurement: bool = False  # its author's own times, measured on other hardware
    rule: Rule

    @field_validator("quantity")
    @classmethod
    def _quantity(cls, name: str) -> str:
        if name and measure_of(name) is None:
            raise ValueError(f"{shown(name)} is not known; allowed are {_quantities()}")
        return name

    @model_validator(mode="after")
    def _fits(self) -> "ClaimEntry":
        measured = isinstance(self.rule, Measured)
        if self.where.programs and not all(map(program_of, self.where.pattern)):
            raise ValueError("where.pattern: put the workload's patterns into 'beside'")
        if self.where.programs and "conditions" not in self.where.model_fields_set:
            raise ValueError("where.conditions is missing: those in which the program runs")
        if measured and not self.quantity:
            raise ValueError(f"rule '{self.rule.kind}' needs a 'quantity': one of {_quantities()}")
        if not measured and self.quantity:
            raise ValueError(f"rule '{self.rule.kind}' is over no 'quantity': leave it out")
        for name in FIGURE.findall(self.mechanism):
            measure, _, transport = name.rpartition(".")
            if measure_of(measure) is None or not transport:
                raise ValueError(
                    f"mechanism {{{shown(name)[1:-1]}}}: {shown(measure)} is not known; write "
                    f"{{quantity.transport}}; allowed are {_quantities()}"
                )
        return self


class Claim(ClaimEntry):
    """One statement that can be settled, with its source."""

    source: Source

    @property
    def measured(self) -> Measured | None:
        """Its rule, where that is over measured figures."""
        return self.rule if isinstance(self.rule, Measured) else None

    @property
    def where_said(self) -> str:
        """The conditions that go with it: its own, or its source's."""
        return self.conditions or self.source.conditions

    @property
    def command(self) -> str:
        """What runs all of its scope."""
        programs = ",".join(sorted(self.where.programs))
        return f"./runners/run.sh --claims {self.id}{programs and f' --program {programs}'}"


class ClaimFile(Model):
    """A whole file."""

    source: Source
    claim: Annotated[tuple[ClaimEntry, ...], Field(strict=False, min_length=1)]


def load_claims(folder: Path = FOLDER) -> tuple[Claim, ...]:
    """All claims of all files, by file name and then in the file's order. Raises UsageError."""
    files = [path for path in sorted(folder.glob("*.toml")) if path.name != TERMS_FILE]
    claims = [claim for path in files for claim in _load(path)]
    ids = [claim.id for claim in claims]
    for name in ids:
        if ids.count(name) > 1:
            raise UsageError(f"claims: two claims have the id '{name}'; give each its own.")
    return tuple(claims)


def quantities(claims: Iterable[Claim]) -> set[str]:
    """Every quantity that claims and their mechanisms speak of."""
    claims = tuple(claims)
    named = {name.rpartition(".")[0] for c in claims for name in FIGURE.findall(c.mechanism)}
    return named | {claim.quantity for claim in claims if claim.quantity}


def _load(path: Path) -> list[Claim]:
    name = f"claims/{path.name}"
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{name} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise UsageError(f"{name} is not UTF-8 text.") from None
    except (ValueError, RecursionError) as error:  # a number too long, brackets too deep
        raise UsageError(f"{name} is not TOML: {error}.") from None
    try:
        file = ClaimFile(**data)
    except (ValidationError, TypeError) as error:
        raise UsageError(_sentence(name, data, error)) from None
    return [Claim(**dict(entry), source=file.source) for entry in file.claim]


def _sentence(name: str, data: Mapping[str, Any], error: ValidationError | TypeError) -> str:
    """File, key, what is wrong with it and what is allowed: the first error of a file."""
    if not isinstance(error, ValidationError):
        return f"{name}: {error}."
    first = error.errors()[0]
    path = [part for part in first["loc"] if part not in KINDS and part not in TYPES]
    where, keys = [name], [str(part) for part in path]
    if keys[:1] == ["claim"] and len(keys) > 1:
        entry = data["claim"][int(keys[1])]
        known = entry.get("id") if isinstance(entry, dict) else None
        where.append(f"claim {int(keys[1]) + 1}" + (f" ({shown(known)})" if known else ""))
        keys = keys[2:]
    what = ".".join(key if NAME_OF_KEY.fullmatch(key) else shown(key) for key in keys)
    where += [what] if what else []
    said = first["msg"].removeprefix("Value error, ").replace("tuple", "list").rstrip(".")
    ctx = first.get("ctx", {})
    if first["type"] in WORDS:
        said = WORDS[first["type"]].format(**{**ctx, "tag": shown(ctx.get("tag"))})
    allowed = _allowed(first)
    return f"{', '.join(where)}: {said}{f'; allowed are {allowed}' if allowed else ''}."


def _allowed(first: Any) -> str:
    """The keys that are allowed, where pydantic's own words do not name them."""
    if first["type"] not in ("extra_forbidden", "missing"):
        return ""
    model: Any = ClaimFile
    for part in first["loc"][:-1]:
        if part in KINDS:
            model = KINDS[part]
        elif isinstance(part, str):
            # The model inside `tuple[Model, ...]`, or the annotation itself.
            annotation = model.model_fields[part].annotation
            model = next(iter(get_args(annotation)), annotation)
    return ", ".join(model.model_fields)


def _quantities() -> str:
    return f"{CALLS}FUNCTION, {', '.join(MEASURE_BY_ID)}"
