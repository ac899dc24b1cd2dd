# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands that pages show outside transcripts, and what `commands.toml` says of each."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

from runners.process import REPOSITORY

PAGES = (
    *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "reports/README.md")),
    *sorted((REPOSITORY / "docs").rglob("*.md")),
    *sorted((REPOSITORY / "probes").rglob("*.md")),
    *sorted((REPOSITORY / "runners").rglob("*.md")),
)
TABLE = Path(__file__).with_name("commands.toml")
COMMENT = re.compile(r"\s+#\s.*$")
PROGRAM = re.compile(
    r"(sudo )?((\./)?(runners/)?[\w-]+\.sh|runners/workload/build/\S+|python3?|bpftrace|perf|make"
    r"|vagrant|git|uvx?|grep|cd)\s"
)
NAME = re.compile(r"perf [a-z]+|python -m analysis|run\.sh [a-z-]+")  # no command yet
LEFT_OPEN = re.compile(r"…|<\w+>")  # what a reader fills in


@dataclass(frozen=True)
class Entry:
    """How a command is tested: by `run`, in a `tier`; `by` a test that there is; or not at all."""

    run: str | None = None
    tier: str | None = None
    by: str | None = None
    not_run: str | None = None


def entries() -> dict[str, Entry]:
    """Command → how it is tested. A command without a word on that is run as it stands."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    found = {command: Entry(**said) for command, said in table.items()}
    return {
        command: entry if entry.by or entry.not_run else Entry(entry.run or command, entry.tier)
        for command, entry in found.items()
    }


def commands() -> dict[str, list[str]]:
    """Command → the places where it stands, `page:line`."""
    found: dict[str, list[str]] = {}
    for page in PAGES:
        for line, command in _of_page(page.read_text(encoding="utf-8")):
            found.setdefault(command, []).append(f"{page.relative_to(REPOSITORY)}:{line}")
    return found


def _of_page(text: str) -> Iterator[tuple[int, str]]:
    """Lines of blocks that name no language, and code within a sentence that begins like one."""
    for token in MarkdownIt().enable("table").parse(text):
        line = token.map[0] + 1 if token.map else 0
        if token.type == "fence" and not token.info:
            for number, shown in enumerate(token.content.splitlines(), line + 1):
                if command := COMMENT.sub("", shown).strip():
                    yield number, command
        for child in token.children or ():
            code = child.content
            if child.type == "code_inline" and PROGRAM.match(code) and not NAME.fullmatch(code):
                yield line, code


def options(command: str) -> dict[str, set[str]]:
    """Option → its values, of a list each; without what is left to the reader."""
    found: dict[str, set[str]] = {}
    last = ""
    for word in shlex.split(command, comments=True):
        if word.startswith("--"):
            found[last := word] = set()
        elif last:
            found[last] |= set(word.split(","))
    return found


def lost(shown: str, run: str) -> list[str]:
    """Options of a command that a shorter form of it does not have, or with no value of its."""
    has = options(run)
    return [
        option
        for option, values in options(shown).items()
        if option not in has or (_said(values) and not values & has[option])
    ]


def _said(values: set[str]) -> bool:
    """Whether a page names the values, and does not leave them to the reader."""
    return bool(values) and "all" not in values and not any(map(LEFT_OPEN.search, values))
