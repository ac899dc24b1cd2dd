# SPDX-License-Identifier: GPL-2.0-or-later
"""Lines of raw/<target>/checks.jsonl and tools.jsonl: what kernels and tools answered."""

from analysis.raw.record import Model


class CheckLine(Model):
    """One circumstance under which a program of runners/checks ran."""

    check: str
    when: dict[str, str]  # circumstance → value: `{"umask": "022"}`, `{}`
    facts: dict[str, str | int | bool]  # what it found; empty when it failed
    error: str | None  # why it found nothing, in one sentence


class ToolLine(Model):
    """A tool that was asked about its options."""

    tool: str
    help: str  # what `--help` printed
    options: dict[str, bool]  # option → whether the tool took it
    error: str | None  # why it could not be asked, in one sentence
