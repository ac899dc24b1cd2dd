# SPDX-License-Identifier: GPL-2.0-or-later
"""The report as a list of sections, which is written as report.html and as report.md."""

from collections.abc import Callable, Sequence

from analysis.analyse import Analysis
from analysis.drawing import Drawn
from analysis.report.blocks import Page, Section
from analysis.report.sections import (
    answer,
    atlas,
    claims,
    counts,
    exact,
    programs,
    run,
    times,
    unasked,
)  # fmt: skip
from analysis.report.sections.counts import Blocks, Figures

# In the order in which a reader asks: the answer, what it costs, and how that was found.
SECTIONS: tuple[tuple[str, str, Callable[[Analysis, Figures], Blocks]], ...] = (
    ("answer", "", answer.first_screen),
    ("atlas", "Every transport", atlas.atlas),
    ("choosing", "Which transport to take", atlas.choosing),
    ("colleagues", "Say it to your colleagues", answer.colleagues),
    ("in-words", "The answer in words", lambda found, _: iter(found.summary)),
    ("ledger", "The ledger", counts.first_ledger),
    ("verdicts", "Verdicts", claims.claims),
    ("counts", "What a message costs", lambda _, drawn: iter([drawn.get("ledger")])),
    ("times", "Time", times.times),
    ("programs", "In real programs", programs.programs),
    ("switches", "Context switches", counts.switches),
    ("path", "Between send and receive", times.path),
    ("wakeups", "Who wakes whom", times.wakeups),
    ("profile", "Where the time on the CPU goes", times.profile),
    ("functions", "Kernel functions", counts.kernel_functions),
    ("exact", "Every instruction", exact.instructions),
    ("knobs", "What one thing changes", exact.knobs),
    ("kernels", "Kernel by kernel", counts.kernels),
    ("unasked", "What this run did not ask", unasked.unasked),
    ("ledger-full", "Every row, every instrument", counts.full_ledgers),
    ("agreement", "Do the instruments agree?", counts.agreement),
    ("probe-cost", "What the probes cost", run.probe_cost),
    ("cells", "The cell runs behind the verdicts", claims.cell_runs),
    ("validity", "Validity and what is missing", run.validity),
    ("environment", "Where it was measured", run.environment),
    ("reproduce", "How to reproduce it", run.reproduce),
)


def report_page(analysis: Analysis, figures: Sequence[Drawn]) -> Page:
    drawn = {figure.name: figure for figure in figures}
    sections = [Section(id_, title, list(of(analysis, drawn))) for id_, title, of in SECTIONS]
    name, alerts = analysis.run.name, list(run.alerts(analysis))
    shown = [section for section in sections if any(block is not None for block in section.blocks)]
    return Page(f"pathcost: {name}", answer.kicker(analysis), alerts, _heading(analysis), shown)


def _heading(analysis: Analysis) -> list[str]:
    """The decision, and what is copied and run; of a run for claims what became of them."""
    found = analysis.answer
    said = [found.decision, found.copied_and_run] if found else []
    if analysis.run.for_claims or not any(said):
        said = [analysis.summary[0], *said]
    return list(filter(None, said))
