# SPDX-License-Identifier: GPL-2.0-or-later
"""A table of a TOML file, read key by key. A mistake is one sentence that names its place."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from runners.process import UsageError

PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")
Word = str | list[str]
Command = tuple[str, ...]
KINDS = {
    **{str: "text", int: "a whole number", list: "a list", dict: "a table"},
    bool: "true or false",
}


@dataclass
class Table:
    """A table of the file; `place` names it in messages."""

    place: str
    data: dict[str, Any]

    def __post_init__(self) -> None:
        self.known: set[str] = set()

    def get(self, key: str, kind: type, default: Any = None) -> Any:
        """The value of a key, which must be of this kind, and there unless it has a default."""
        self.known.add(key)
        value = self.data.get(key, default)
        if value is None:
            raise UsageError(f"{self.place} lacks the key {key}.")
        if not isinstance(value, kind) or isinstance(value, bool) != (kind is bool):
            raise UsageError(f"{self.place}: {key} is not {KINDS[kind]}.")
        return value

    def command(self, key: str, default: list[str] | None = None) -> Command:
        return texts(f"{self.place}: {key}", self.get(key, list, default))

    def commands(self, key: str) -> tuple[Command, ...]:
        return tuple(texts(f"{self.place}: {key}", line) for line in self.get(key, list, []))

    def table(self, key: str) -> "Table":
        return Table(f"{self.place}, [{key}]", self.get(key, dict, {}))

    def tables(self, key: str) -> Iterator["Table"]:
        for number, data in enumerate(self.get(key, list, []), 1):
            if not isinstance(data, dict):
                raise UsageError(f"{self.place}: {key} is not a list of tables ([[{key}]]).")
            yield Table(f"{self.place}, [[{key}]] {number}", data)

    def pattern(self, key: str) -> re.Pattern[str]:
        text = self.get(key, str)
        try:
            pattern = re.compile(text, re.MULTILINE)
        except re.error as error:
            raise UsageError(f"{self.place}: {key} is not a pattern ({error}).") from None
        if pattern.groups != 1:
            raise UsageError(f"{self.place}: {key} needs one group (…), which is the number.")
        return pattern

    def words(self) -> dict[str, Word]:
        """All keys that nobody has asked for, as placeholders."""
        found: dict[str, Word] = {}
        for key, value in self.data.items():
            if key in self.known:
                continue
            if isinstance(value, list):
                found[key] = list(texts(f"{self.place}: {key}", value))
            elif isinstance(value, (str, int)) and not isinstance(value, bool):
                found[key] = str(value)
            else:
                raise UsageError(f"{self.place}: {key} is neither text, a number nor a list.")
            if not PLACEHOLDER.fullmatch(f"{{{key}}}"):
                raise UsageError(f"{self.place}: {key} cannot be the name of a placeholder.")
        return found

    def close(self) -> None:
        """Raise UsageError for a key that nobody has asked for."""
        if unknown := sorted(self.data.keys() - self.known):
            raise UsageError(
                f"{self.place} has the unknown key {unknown[0]}: "
                f"there is {', '.join(sorted(self.known))}."
            )


def texts(place: str, value: Any) -> Command:
    """A list of texts. Raises UsageError for anything else."""
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise UsageError(f"{place} is not a list of texts.")
    return tuple(value)
