# SPDX-License-Identifier: GPL-2.0-or-later
"""Sentences that stand on a terminal, in JSON and on a page alike: macros of sentences.j2.

Without what draws figures and makes tables, so that the live view of `watch` is there soon.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from analysis import wording
from analysis.times.cold import OTHER_CODE

TEMPLATES = Path(__file__).parent / "templates"


def templates(finalize: Callable[[Any], str], *, autoescape: bool) -> Environment:
    """The folder of templates, which know the words that figures are written with."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=autoescape,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    words = {name: tool for name, tool in vars(wording).items() if callable(tool)}
    made.globals |= words | {"other_code": OTHER_CODE}
    made.filters |= words
    return made


@cache
def macros() -> Any:
    """The macros of sentences.j2, in which nothing is escaped."""
    return templates(str, autoescape=False).get_template("sentences.j2").module


def sentence(name: str, *arguments: Any) -> str:
    """What a macro of sentences.j2 says, on one line and without markup."""
    return " ".join(str(getattr(macros(), name)(*arguments)).split())
