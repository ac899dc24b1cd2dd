# SPDX-License-Identifier: GPL-2.0-or-later
"""A lab of docs/labs: its questions, a student's own variant, and the recorded answers.

`questions.toml` of a lab has

    title, minutes   of the lab
    record           the commands that count every variant (python -m tests.docs.labs)
    draws            a word of the handout → its possible values, of which each student gets one
    questions        in their order, each with an `id`, its `part`, `points`, what it asks (`ask`)
                     and a `hint` for a wrong answer; and its answer: `accept`, a list of words,
                     or a `figure` of the recorded `cell`, `minus` that of another cell; with `own`
                     what is not recorded is of the student's own run

Points for a prediction shrink with its distance from the answer: nothing is left where one is
`factor` times the other, or where they are `off` apart; on a `scale` of words, two steps. Anything
else has all its points or none. Words of `draws` have the student's value wherever they stand.
"""

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from probes.files import read_rows, read_toml
from probes.messages import shown
from runners.process import REPOSITORY, UsageError

LABS = REPOSITORY / "docs/labs"
RECORDED = REPOSITORY / "reports/reference/labs"
QUESTIONS, HANDOUT = "questions.toml", "handout.md"
PREDICTED, BY_RUN = "prediction", "measured"  # the parts of a lab
LARGEST_ANSWER = 200  # characters
LARGEST_NUMBER_GIVEN = 10**18
STUDENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}", re.ASCII)
Truth = int | str
Answer = int | float | str


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question, with a student's own values in its words."""

    id: str
    part: str
    points: float
    ask: str
    hint: str = ""
    cell: str = ""
    figure: str = ""
    minus: str = ""
    own: bool = False
    accept: tuple[str, ...] = ()
    factor: float = 0
    off: float = 0
    scale: tuple[str, ...] = ()

    def nearness(self, given: Answer, truth: Truth) -> float:
        """How much of the points an answer is worth, from 0 to 1."""
        if isinstance(truth, str) or isinstance(given, str):
            if self.scale and {given, truth} <= {*self.scale}:
                steps = abs(self.scale.index(str(given)) - self.scale.index(str(truth)))
                return max(0.0, 1 - steps / 2)
            return float(str(given).strip("` ()") in (self.accept or str(truth).split("|")))
        if self.off:
            return max(0.0, 1 - abs(given - truth) / self.off)
        if self.factor:
            if given <= 0 or truth <= 0:
                return float(given == truth)
            return max(0.0, 1 - abs(math.log(given / truth)) / math.log(self.factor))
        return float(given == truth)


@dataclass(frozen=True)
class Lab:
    """A lab as its files have it."""

    number: int
    folder: Path
    data: Mapping[str, Any]

    @property
    def title(self) -> str:
        return str(self.data["title"])

    @property
    def draws(self) -> Mapping[str, Sequence[str]]:
        drawn: Mapping[str, Sequence[str]] = self.data["draws"]
        return drawn

    def variant(self, student: str) -> dict[str, str]:
        """Word → the student's value: SHA-256 of lab, word and student, modulo their number."""
        return {
            word: values[_drawn(f"pathcost lab {self.number}, {word}: {student}") % len(values)]
            for word, values in self.draws.items()
        }

    def questions(self, variant: Mapping[str, str]) -> list[Question]:
        """The questions of a variant."""
        rows = []
        for row in self.data["questions"]:
            filled: dict[str, Any] = {
                name: fill(value, variant) if isinstance(value, str) else value
                for name, value in row.items()
            }
            filled |= {name: tuple(row[name]) for name in ("accept", "scale") if name in row}
            rows.append(Question(**filled))
        return rows

    @cached_property
    def recorded(self) -> dict[tuple[str, str], Truth]:
        """Cell and figure → what was recorded; `kernel` is the kernel that was counted."""
        path = RECORDED / f"{self.number}.tsv"
        rows = read_rows(path) if path.exists() else []
        return {(row["cell"], row["figure"]): truth_of(row["value"]) for row in rows}


def _drawn(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def fill(text: str, variant: Mapping[str, str]) -> str:
    """The text with a student's own values in place of the words that are drawn."""
    if not variant:
        return text
    words = "|".join(map(re.escape, variant))
    return re.sub(rf"\b(?:{words})\b", lambda word: variant[word[0]], text)


def truth_of(text: str) -> Truth:
    """A recorded value: a whole number, or a word."""
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def answer_of(value: object) -> Answer | None:
    """What a student has written, commas for thousands allowed; None where nothing is."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if not isinstance(value, str):
        return value if abs(value) <= LARGEST_NUMBER_GIVEN else None  # no NaN either
    text = value.strip()[:LARGEST_ANSWER]
    number = text.replace(",", "")
    if re.fullmatch(r"[+-]?\d{1,18}", number, re.ASCII):
        return int(number)
    if re.fullmatch(r"[+-]?\d{1,18}\.\d{1,18}", number, re.ASCII):
        return float(number)
    return text or None


def labs() -> dict[int, Path]:
    """Number → the folder of a lab: `docs/labs/1-two-paths`."""
    found = (path for path in LABS.glob("[1-9]*-*") if (path / QUESTIONS).is_file())
    return {int(path.name.partition("-")[0]): path for path in sorted(found)}


def read_lab(number: str | int) -> Lab:
    """The lab of this number. Raises UsageError."""
    folders = labs()
    if str(number) not in map(str, folders):
        known = ", ".join(map(str, folders))
        raise UsageError(f"there is no lab {shown(str(number))}: there is {known}.")
    folder = folders[int(number)]
    return Lab(int(number), folder, read_toml(folder / QUESTIONS))
