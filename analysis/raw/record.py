# SPDX-License-Identifier: GPL-2.0-or-later
"""JSON of a run folder, read against its models.

Each model describes one object of the contract between runners and analysis; `analysis.raw.schema`
writes them all as docs/run-folder.schema.json, with the comments on their fields. A field that no
model names is refused.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from probes.files import read_regular
from probes.messages import RunError, shown

EXACT_IN_JSON = 2**53 - 1  # the largest whole number that every reader of JSON keeps

Count = Annotated[int, Field(ge=0, le=EXACT_IN_JSON)]
Positive = Annotated[int, Field(ge=1, le=EXACT_IN_JSON)]
NotNegative = Annotated[float, Field(ge=0)]
Change = Annotated[int, Field(ge=-EXACT_IN_JSON, le=EXACT_IN_JSON)]
# It names files and columns. A transport, a placement and a folder are such words.
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+~-]*$", max_length=200)]
Name = Annotated[str, Field(min_length=1, max_length=200)]

PACKED = "raw.tar.xz"  # of a run that this repository keeps


class Model(BaseModel):
    """An object of a run folder. Numbers and texts are taken as they are, never converted."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


M = TypeVar("M")


def damaged(place: object, error: object) -> RunError:
    """The error of a file that cannot be used; `place` is its path, and perhaps a line."""
    return RunError(f"{place}: {error}. Restore the file from a copy, or measure again.")


def read_bytes(path: Path) -> bytes:
    """The content of a regular file. Raises RunError."""
    try:
        return read_regular(path)
    except OSError as error:
        for folder in path.parents:
            if (packed := folder / PACKED).exists():
                unpack = f"tar -C {folder} -xf {packed}"
                raise RunError(f"the raw files of {folder} are packed: {unpack}") from None
        raise damaged(path, error.strerror) from None


def read_text(path: Path) -> str:
    """The text of a file. Raises RunError."""
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise damaged(path, error) from None


def read_object(path: Path, model: type[M]) -> M:
    """A file that holds one JSON object. Raises RunError."""
    return check(path, TypeAdapter(model).validate_json, read_bytes(path))


def parse_lines(path: Path, adapter: TypeAdapter[M]) -> Iterator[M]:
    """A file that holds one JSON object a line. Raises RunError."""
    for number, line in enumerate(read_bytes(path).splitlines(), 1):
        yield check(f"{path}, line {number}", adapter.validate_json, line)


def check(place: object, validate: Callable[[Any], M], value: object) -> M:
    """A value as its model has it. Raises RunError, which says what pydantic says."""
    try:
        return validate(value)
    except ValidationError as errors:
        error = errors.errors(include_url=False)[0]
        # A union calls its choices by names in brackets, which no file has.
        field = ".".join(str(name) for name in error["loc"] if not str(name).startswith("("))
        given = "" if error["type"] in ("missing", "json_invalid") else shown(error["input"])
        place = f"{place}, {shown(field)}" if field else place
        raise damaged(place, error["msg"] + (f" (it is {given})" if given else "")) from None


def read_table(path: Path, head: str, adapter: TypeAdapter[list[Any]]) -> list[Any]:
    """The columns of each line of a TSV file below its head; nothing below another head.

    Raises RunError for a damaged file.
    """
    text = read_text(path)
    first, *lines = text.splitlines() or [""]
    if first != head:
        return []
    if not text.endswith("\n"):
        raise damaged(path, "its last line is not whole")
    return check(path, adapter.validate_python, [line.split("\t") for line in lines])


def failed(line: Any) -> str:
    """Tell lines of what failed from the others, for a union of both."""
    return "(failed)" if isinstance(line, dict) and line.get("error") is not None else "(counted)"
