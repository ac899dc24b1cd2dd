# SPDX-License-Identifier: GPL-2.0-or-later
"""report.html and report.md: the same content, two templates."""

import re
import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from analysis import drawing, intervals, loopback, wording
from analysis.analyse import Analysis
from analysis.counts import agreement
from analysis.counts.ledger import MOST_TOGETHER, Column, Entry, Line, Row
from analysis.drawing import Drawn
from analysis.exact import figures as exact_figures
from analysis.functions import crosscheck
from analysis.programs import table
from analysis.times import words as time_words
from analysis.verdicts import rules as claim_rules
from analysis.verdicts import verdict as verdicts

TEMPLATES = Path(__file__).parent / "templates"
SHOWN_DISAGREEMENTS = 4
# Colours of a figure that the page's style sheet decides.
THEMED = {
    drawing.INK: "var(--ink)",
    drawing.FAINT: "var(--faint)",
    drawing.RULE: "var(--rule)",
    drawing.CARD: "var(--card)",
    drawing.COLOURS["unix"]: "var(--unix)",
    drawing.COLOURS["tcp"]: "var(--tcp)",
}
COST_NOTE = (
    "Round trip: median (p50) over repeats, on the host only, with its range; switches per round "
    "trip by the kernel's own count: where they change, another timing is compared, and the "
    "difference is not the probes' alone. Events: runs of BPF programs, other processes' events "
    "included, counted and timed by the kernel (BPF_ENABLE_STATS); perf has no program, and what "
    "it counted is shown. An added event holds the way into the kernel's tracing and back, which "
    "a program's own time does not. Where the CPU is emulated no time is shown: what instruments "
    "cost in instructions, beside others in use, is in docs/cost-of-instruments.md."
)
SVG_NOISE = re.compile(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>", re.DOTALL)


def html(analysis: Analysis, figures: Sequence[Drawn]) -> str:
    """One self-contained page that needs no network; its script sorts and searches tables only."""
    template = html_environment().get_template("report.html.j2")
    return template.render(_context(analysis, figures))


@cache  # compiling the templates takes longer than filling them in
def html_environment() -> Environment:
    """Templates of pages: everything escaped, figures inline."""
    environment = _environment(autoescape=True)
    environment.filters["inline"] = inline_svg
    return environment


def markdown(analysis: Analysis, figures: Sequence[Drawn]) -> str:
    """The same for a terminal, a diff or a forge."""
    template = _markdown_environment().get_template("report.md.j2")
    return re.sub(r"\n{3,}", "\n\n", template.render(_context(analysis, figures)))


@cache
def _markdown_environment() -> Environment:
    environment = _environment(autoescape=False)
    environment.finalize = _escape_markdown
    environment.filters["mark"] = Markup
    return environment


def _environment(autoescape: bool) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=autoescape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(number=wording.number, size=wording.size_text, listed=wording.listed)
    environment.globals.update(
        on_loopback=loopback.row,
        amount=wording.amount,
        counted=wording.counted,
        words=time_words,
        entry=entry_text,
        figure_text=figure_text,
        source=line_source,
        spread=wording.spread,
        transports=table.transports,
        branches=exact_figures.branches,
        least_branch=exact_figures.LEAST_SHARE,
        equally=crosscheck.EQUAL,
        different=crosscheck.DIFFERENT,
        unseen=crosscheck.UNSEEN,
        tally=verdicts.tally,
        steadiness=verdicts.steadiness,
        by_verdict=verdicts.by_verdict,
        terms=claim_rules.TERMS,
        outside=crosscheck.OUTSIDE,
    )
    return environment


def _context(analysis: Analysis, figures: Sequence[Drawn]) -> dict[str, Any]:
    manifest = analysis.run.manifest
    ledger = analysis.ledgers[0] if analysis.ledgers else None
    main = [
        timing
        for timing in analysis.timings
        if ledger and (timing.pattern, timing.size) == (ledger.pattern, ledger.size)
    ]
    return {
        "a": analysis,
        "ledger": ledger,
        "first_screen": ledger.narrow(MOST_TOGETHER) if ledger else None,
        "figures": {figure.name: figure for figure in figures},
        "manifest": manifest,
        "command": shlex.join(manifest.command),
        "shown_disagreements": analysis.disagreements[:SHOWN_DISAGREEMENTS],
        "within": agreement.WITHIN_SHARE,
        "within_per_message": agreement.WITHIN_PER_MESSAGE,
        "resamples": intervals.RESAMPLES,
        "least_repeats": intervals.LEAST_REPEATS,
        "missing_mark": wording.NOT_MEASURED,
        "clock_cost": _clock_cost(analysis),
        "cost_note": COST_NOTE,
        "absent": [one for one in analysis.tables.missing if one.transport],
        "main_timings": main,
        "other_timings": [timing for timing in analysis.timings if timing not in main],
    }


def _clock_cost(analysis: Analysis) -> float | None:
    """The dearest clock reading of the host's cells, in nanoseconds."""
    costs = [
        cell.result.clock_cost_ns
        for target in analysis.run.targets
        for cell in target.cells
        if target.timed and cell.result and cell.result.clock_cost_ns is not None
    ]
    return max(costs, default=None)


def line_source(line: Line) -> str:
    return wording.source_text(line.instrument, line.target, line.kernel, line.probed)


def entry_text(row: Row, line: Line, column: Column) -> dict[str, Any]:
    """What a ledger's cell says: the figure, its spread over repeats, and whether it is valid."""
    return figure_text(row, line.entries.get(column))


def figure_text(row: Row, entry: Entry | None) -> dict[str, Any]:
    """The same for a figure on its own."""
    if entry is None:
        return {"text": wording.NOT_MEASURED, "spread": "", "valid": True}
    unit = row.measure.unit
    return {
        "text": wording.amount(entry.value, unit),
        "spread": wording.spread(entry.low, entry.high, unit),
        "valid": entry.valid,
    }


def inline_svg(figure: Drawn) -> Markup:
    """A figure for the page: without prolog, in the page's colours, with ids of its own."""
    svg = SVG_NOISE.sub("", figure.svg).strip()
    for colour, variable in THEMED.items():
        svg = svg.replace(colour, variable)
    svg = re.sub(r'\bid="', f'id="{figure.name}-', svg)
    svg = re.sub(r'(url\(#|href="#)', rf"\g<1>{figure.name}-", svg)
    label = Markup('<svg role="img" aria-label="{}" ').format(figure.alt)
    # The text in it was escaped by matplotlib.
    return Markup(svg.replace("<svg ", label, 1))


def _escape_markdown(value: Any) -> Any:
    """Table bars, HTML and line ends in data must not become structure."""
    if isinstance(value, Markup):
        return value
    text = str(value).replace("&", "&amp;").replace("<", "&lt;").replace("\n", " ")
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", text)
