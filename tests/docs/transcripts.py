# SPDX-License-Identifier: GPL-2.0-or-later
"""The transcripts of the documentation: run again, compared, and refreshed.

A fenced block `console` holds commands, each after `$ `, and below each what it printed on standard
output; `console exact` says that every digit of it holds. Elsewhere numbers, their units and
intervals may differ from run to run, the words and their order may not. A line without words, such
as what a second instrument counted, may come and go, and so may the mark of a disturbed cell.

    python -m tests.docs.transcripts docs/lessons/*.md     # write what the commands print now
"""

import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

from runners.host.root import mount_tracing
from runners.process import REPOSITORY
from tests.processes import captured

SECONDS = 900
PROMPT = "$ "
WORD = re.compile(r"\b[A-Za-z_]{3,}\b")  # units are shorter
MARKS = {"invalid"}
# Whether probes change a cell's switches differs from run to run.
PROBED = re.compile(r"; [^|;]* unprobed \([^)]*\)")
RELEASE = re.compile(r"\d+\.\d+\.\d+[\w.+-]*-cloud-amd64")
SUDO = re.compile(r"\bsudo ")


@dataclass(frozen=True)
class Step:
    """A command of a page and what stands below it; `line` counts from 1."""

    page: Path
    line: int
    command: str
    shown: tuple[str, ...]
    exact: bool

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(REPOSITORY)}:{self.line}"


def steps(page: Path) -> Iterator[Step]:
    """The commands of a page, in their order."""
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        words = token.info.split()
        if token.type != "fence" or token.map is None or words[:1] != ["console"]:
            continue
        lines = token.content.splitlines()
        starts = [n for n, line in enumerate(lines) if line.startswith(PROMPT)]
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            yield Step(
                page,
                token.map[0] + 2 + start,
                lines[start].removeprefix(PROMPT),
                tuple(lines[start + 1 : end]),
                "exact" in words,
            )


def run(step: Step, folder: Path) -> list[str]:
    """Run the command in `folder` and return its lines; raises RuntimeError where it fails.

    As root it runs without sudo, which a container may not have, and finds mounted what run.sh
    mounts for itself.
    """
    root = os.geteuid() == 0
    command = SUDO.sub("", step.command) if root else step.command
    done = captured(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        timeout=SECONDS,
        preexec_fn=mount_tracing if root else None,
    )
    if done.returncode:
        raise RuntimeError(f"{step.name}: status {done.returncode}\n{done.stderr[-2000:]}")
    return [line.rstrip() for line in done.stdout.splitlines()]


def masked(lines: Sequence[str]) -> list[str]:
    """All words in their order, wherever a line is broken."""
    words = (word for line in lines for word in WORD.findall(PROBED.sub("", line)))
    return [word for word in words if word not in MARKS]


def releases(text: str) -> set[str]:
    """Guests' kernels that a text names: other ones have other functions."""
    return set(RELEASE.findall(text))


def differences(step: Step, printed: Sequence[str]) -> str:
    """A unified diff from what the page shows to what was printed; empty where it holds."""
    shown, now = list(step.shown), list(printed)
    if not step.exact:
        shown, now = masked(shown), masked(now)
    return "\n".join(difflib.unified_diff(shown, now, step.name, "printed", lineterm="", n=1))


def refresh(page: Path, folder: Path) -> None:
    """Put what each command prints now below it."""
    lines = page.read_text(encoding="utf-8").splitlines()
    printed = [(step, run(step, folder)) for step in steps(page)]
    for step, now in reversed(printed):
        lines[step.line : step.line + len(step.shown)] = now
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def clone(folder: Path) -> None:
    """Copy the tree's files as a clone would have them; what a run leaves stays in the copy.

    An index of our own, which is empty, names them wherever the tree comes from: an archive is no
    repository, and git takes none that belongs to another user.
    """
    with tempfile.TemporaryDirectory() as index:
        captured(["git", "init", "--quiet", index], check=True)
        own = [f"--git-dir={index}/.git", f"--work-tree={REPOSITORY}"]
        words = ["git", *own, "ls-files", "-z", "--others", "--exclude-standard"]
        listed = captured(words, check=True, cwd=REPOSITORY)
    for name in listed.stdout.split("\0")[:-1]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(REPOSITORY / name, folder / name)


if __name__ == "__main__":
    from tests.docs import figures  # which imports this module

    with tempfile.TemporaryDirectory() as place:
        clone(Path(place))
        for page in sys.argv[1:]:
            print(page, file=sys.stderr)
            try:
                refresh(Path(page).resolve(), Path(place))
            except RuntimeError as error:
                sys.exit(f"{page} is as it was, since a command of it failed: {error}")
    figures.fill()
