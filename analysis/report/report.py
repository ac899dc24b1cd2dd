# SPDX-License-Identifier: GPL-2.0-or-later
"""The report of an analysis: answer.json, answer.md, and the page that holds all of it."""

import argparse
import shlex
from collections.abc import Sequence
from itertools import groupby

from analysis.analyse import Analysis
from analysis.answer import PLACES, Document, build_answer, document
from analysis.claims.verdict import ARITHMETIC, NOT_MEASURED, Verdict, tally
from analysis.counts.agreement import WITHIN_PER_MESSAGE, WITHIN_SHARE
from analysis.counts.ledger import MOST_TOGETHER
from analysis.drawing import Drawn
from analysis.machine import loopback_sentences, machine_text
from analysis.paths.cells import Comparison, ExactCell
from analysis.paths.changes import same_table
from analysis.paths.figures import alike_first, one_of_each_family, usual_first
from analysis.report import frames
from analysis.report.render import render, sentence
from analysis.statistics import LEAST_REPEATS
from analysis.wording import size_text

EARLY = "unix_write_space"


class Report:
    """What the templates and the terminal set."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis, self.answer = analysis, build_answer(analysis)
        two = self.answer if self.answer and len(self.answer.transports) > 1 else None
        self.document: Document = document(
            analysis,
            self.answer,
            decision=sentence("decision", two),
            copied_and_run=sentence("copied_and_run", two),
        )
        self.matter = "" if analysis.run.for_claims else sentence("matter", two)

    @property
    def headline(self) -> str:
        """The decision, or what is copied and run; of a run for claims what became of them."""
        if self.analysis.run.for_claims:
            return f"{tally(self.analysis.verdicts)}."
        if self.answer is None:
            return "This run holds no figures: see what is missing."
        size, first = size_text(self.answer.size), self.answer.transports[0]
        answer = self.document.decision or self.document.copied_and_run
        return answer or f"Messages of {size} over {first}"

    @property
    def settled(self) -> list[Verdict]:
        """The verdicts of a run for claims; of another the two headlines."""
        verdicts = [verdict for verdict in self.analysis.verdicts if verdict.settled]
        if self.analysis.run.for_claims:
            return verdicts
        return [verdict for verdict in verdicts if verdict.claim.headline]

    def answer_md(self) -> str:
        """answer.md: one page."""
        return render("answer.md.j2", **self._answer())

    def ledger_md(self) -> str:
        """ledger.md: every row of every ledger, and the times."""
        return render("ledger.md.j2", a=self.analysis, f=frames)

    def markdown(self, figures: Sequence[Drawn] = ()) -> str:
        """report.md: the answer, and all that it rests on; report.html is made of it."""
        drawn = {figure.name: figure for figure in figures}
        return render("report.md.j2", figures=drawn, **self._answer(), **self._rest())

    def _answer(self) -> dict[str, object]:
        return {
            "a": self.analysis,
            "d": self.document,
            "f": frames,
            "headline": self.headline,
            "matter": self.matter,
            "medians": lambda timing: sentence("medians", timing),
            "loopback": loopback_sentences(self.analysis.run),
            "places": PLACES,
            "shown_verdicts": self.settled,
        }

    def _rest(self) -> dict[str, object]:
        analysis = self.analysis
        exact: dict[tuple[str, int], list[Comparison]] = {}
        for comparison in sorted(analysis.exact, key=usual_first):
            exact.setdefault((comparison.kernel, comparison.size), []).append(comparison)
        transports = (
            analysis.ledgers[0].narrow(MOST_TOGETHER).transports if analysis.ledgers else ()
        )
        groups = groupby(analysis.knobs, lambda pair: same_table(pair.after))
        return {
            "measured_verdicts": [verdict for verdict in analysis.verdicts if verdict.settled],
            "stated_verdicts": [v for v in analysis.verdicts if v.kind == ARITHMETIC],
            "open_verdicts": [v for v in analysis.verdicts if v.kind == NOT_MEASURED],
            "machines": self._machines(),
            "shown_kernels": analysis.kernels[analysis.kernels["transport"].isin(transports)],
            "least_repeats": LEAST_REPEATS,
            "within_share": WITHIN_SHARE,
            "within_per_message": WITHIN_PER_MESSAGE,
            "early": self._early(),
            "exact_groups": exact.items(),
            "drawn": next(map(one_of_each_family, alike_first(analysis.exact)), None),
            "knob_groups": [(key, list(pairs)) for key, pairs in groups],
            "not_counted": self._not_counted(),
            "command": shlex.join(analysis.run.manifest.command),
            "again": shlex.join(["python", "-m", "analysis", self._folder()]),
        }

    def _machines(self) -> list[str]:
        """Each machine that figures of the first ledger are from, in their order."""
        rows = (row for ledger in self.analysis.ledgers[:1] for row in ledger.headline())
        lines = (line for row in rows for line in row.best()[:1])
        places = dict.fromkeys((line.target, line.kernel) for line in lines)
        return [machine_text(self.analysis.run, *place) for place in places]

    def _early(self) -> ExactCell | None:
        """The cell in which a reader wakes the sender before it answers."""
        cells = (cell for each in self.analysis.exact[:1] for cell in each.cells)
        return next((cell for cell in cells if cell.calls().get(EARLY)), None)

    def _not_counted(self) -> list[str]:
        """Quantities that nobody requested and that no other source has."""
        missing = self.analysis.tables.missing
        had = {*self.analysis.tables.tidy["quantity"]}
        had |= {name for lack in missing if lack.requested for name in lack.quantities}
        names = (name for lack in missing if not lack.requested for name in lack.quantities)
        return [name for name in dict.fromkeys(names) if name not in had]

    def _folder(self) -> str:
        """The folder that the run's own command named, or the one that run.sh chose."""
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        parser.add_argument("--out", default=f"reports/{self.analysis.run.name}")
        return str(parser.parse_known_args(self.analysis.run.manifest.command)[0].out)
