# SPDX-License-Identifier: GPL-2.0-or-later
"""JSON objects read with checks: a damaged file ends in a sentence, not in a traceback."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.errors import RunError

AGAIN = "Restore the file from a copy, or measure again."


def read_text(path: Path, name: str, breaks: str) -> str:
    """The text of `path`; a message calls it `name` and says what its lack `breaks`."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RunError(f"{name} is not there: {breaks}. {AGAIN}") from None
    except UnicodeDecodeError:
        raise RunError(f"{name} is not UTF-8 text: {breaks}. {AGAIN}") from None
    except OSError as error:
        raise RunError(f"{name} cannot be read ({error.strerror}): {breaks}.") from None


def parse_object(text: str, name: str, breaks: str) -> "Record":
    """One JSON object."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        raise RunError(f"{name} is not complete JSON: {breaks}. {AGAIN}") from None
    return Record(value, name)


@dataclass(frozen=True)
class Record:
    """A JSON object and the name by which messages call it."""

    fields: Any
    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.fields, dict):
            raise RunError(f"{self.name} is not a JSON object, so it cannot be read. {AGAIN}")

    def _need(self, key: str, kind: type, said: str) -> Any:
        value = self.fields.get(key)
        # bool is an int in Python, never in a run folder.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            problem = "has no" if key not in self.fields else "has a wrong"
            raise RunError(
                f"{self.name} {problem} '{key}' (wanted: {said}), so the run "
                f"cannot be read. {AGAIN}"
            )
        return value

    def whole(self, key: str, least: int = 0) -> int:
        value: int = self._need(key, int, f"a whole number from {least} up")
        if value < least:
            raise RunError(f"{self.name}: '{key}' is {value}, below {least}. {AGAIN}")
        return value

    def text(self, key: str) -> str:
        value: str = self._need(key, str, "text")
        return value

    def texts(self, key: str) -> list[str]:
        values: list[Any] = self._need(key, list, "a list of texts")
        if not all(isinstance(value, str) for value in values):
            raise RunError(f"{self.name}: '{key}' should hold texts only. {AGAIN}")
        return values

    def object(self, key: str) -> "Record":
        return Record(self._need(key, dict, "an object"), f"{self.name}, '{key}'")

    def objects(self, key: str) -> list["Record"]:
        values: list[Any] = self._need(key, list, "a list of objects")
        return [Record(value, f"{self.name}, '{key}' {i}") for i, value in enumerate(values, 1)]

    def optional(self, key: str, kind: type) -> Any:
        """The value when it has the kind, else None: for what is shown and never computed with."""
        value = self.fields.get(key)
        return value if isinstance(value, kind) else None
