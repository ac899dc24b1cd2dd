# SPDX-License-Identifier: GPL-2.0-or-later
"""JSON of a run folder, read against its models: a damaged file ends in a sentence.

Each model describes one object of the contract between runners and analysis; `analysis.raw.schema`
writes them all as docs/run-folder.schema.json, with the comments on their fields. A field that no
model names is refused.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from analysis.errors import RunError
from probes.messages import shown

AGAIN = "Restore the file from a copy, or measure again."
EXACT_IN_JSON = 2**53 - 1  # the largest whole number that every reader of JSON keeps

Count = Annotated[int, Field(ge=0, le=EXACT_IN_JSON)]
Positive = Annotated[int, Field(ge=1, le=EXACT_IN_JSON)]
NotNegative = Annotated[float, Field(ge=0)]
Change = Annotated[int, Field(ge=-EXACT_IN_JSON, le=EXACT_IN_JSON)]
# It names files and columns. A transport, a placement and a folder are such words.
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+~-]*$", max_length=200)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
NOT_A_WORD = "and only letters, digits and . _ + ~ - are allowed, because it names files or columns"

# The type of a pydantic error → what is wrong with a field, by the error's own values.
WRONG = {
    "missing": "is missing",
    "extra_forbidden": "is not known to this pathcost",
    "string_pattern_mismatch": f"is {{value}}, {NOT_A_WORD}",
    "string_too_short": "is {value}, and should not be empty",
    "string_too_long": "is {value}, longer than {max_length} characters",
    "literal_error": "is {value}, and this pathcost knows {expected}",
    "greater_than_equal": "is {value}, below {ge}",
    "less_than_equal": "is {value}, above {le}",
    "int_type": "is {value}, and should be a whole number",
    "float_type": "is {value}, and should be a number",
    "finite_number": "is {value}, and should be a finite number",
    "string_type": "is {value}, and should be text",
    "bool_type": "is {value}, and should be true or false",
    "tuple_type": "is {value}, and should be a list",
    "dict_type": "is {value}, and should be an object",
    "model_type": "is {value}, and should be an object",
    "union_tag_invalid": "is of the kind {tag!r:.60}, which this pathcost does not know",
    "value_error": "{error}",
}
CHOICE = "("  # begins what a union calls its choices, which no file has


class Model(BaseModel):
    """An object of a run folder. Numbers and texts are taken as they are, never converted."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


M = TypeVar("M")


def read_bytes(path: Path, name: str, breaks: str) -> bytes:
    """The content of `path`; a message calls it `name` and says what its lack `breaks`."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise RunError(f"{name} is not there: {breaks}. {AGAIN}") from None
    except OSError as error:
        raise RunError(f"{name} cannot be read ({error.strerror}): {breaks}.") from None


def read_text(path: Path, name: str, breaks: str) -> str:
    """The text of `path`; a message calls it `name` and says what its lack `breaks`."""
    try:
        return read_bytes(path, name, breaks).decode()
    except UnicodeDecodeError:
        raise RunError(f"{name} is not UTF-8 text: {breaks}. {AGAIN}") from None


def read_object(path: Path, name: str, model: type[M], breaks: str) -> M:
    """A file that holds one JSON object."""
    return _parse(read_bytes(path, name, breaks), name, TypeAdapter(model), breaks)


def parse_lines(path: Path, name: str, adapter: TypeAdapter[M], breaks: str) -> Iterator[M]:
    """A file that holds one JSON object a line."""
    for number, line in enumerate(read_bytes(path, name, breaks).splitlines(), 1):
        yield _parse(line, f"{name}, line {number}", adapter, breaks)


def _parse(text: bytes, name: str, adapter: TypeAdapter[M], breaks: str) -> M:
    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        raise RunError(_sentence(error, name, breaks)) from None


def _sentence(error: ValidationError, name: str, breaks: str) -> str:
    """File, field, what is wrong with it, what that breaks and what to do: the first error."""
    first = error.errors(include_url=False)[0]
    context = first.get("ctx", {})
    if first["type"] == "json_invalid":
        return f"{name} is not complete JSON ({context['error']}): {breaks}. {AGAIN}"
    field = _field(first["loc"])
    words = WRONG.get(first["type"])
    value = shown(first["input"])
    wrong = words.format(value=value, **context) if words else f"is {value}: {first['msg'].lower()}"
    return f"{name}{f': {shown(field)}' if field else ''} {wrong}: {breaks}. {AGAIN}"


def _field(place: tuple[int | str, ...]) -> str:
    """`targets[0].folder`."""
    names = [part for part in place if not str(part).startswith(CHOICE)]
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in names)[1:]
