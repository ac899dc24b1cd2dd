# SPDX-License-Identifier: GPL-2.0-or-later
"""The report of an analysis: answer.json, answer.md, and the page that holds all of it."""

import argparse
import shlex
from collections.abc import Sequence
from functools import cached_property
from itertools import groupby

from analysis.analyse import Analysis
from analysis.answer import PLACES, Document, document
from analysis.claims.verdict import Verdict, tally
from analysis.counts.agreement import WITHIN_PER_MESSAGE, WITHIN_SHARE
from analysis.drawing import Drawn
from analysis.machine import loopback_sentences, machine_text
from analysis.paths.cells import DEFAULT, Comparison, ExactCell
from analysis.paths.changes import costs_of_one, same_table
from analysis.paths.figures import usual_first
from analysis.paths.functions import CELL, EQUAL, OUTSIDE, UNSEEN, hits_text
from analysis.report import frames
from analysis.report.render import render, sentence
from analysis.statistics import LEAST_REPEATS
from analysis.wording import size_text

MOST_BESIDE = 4  # transports side by side in a table; more are rows
EARLY = "unix_write_space"


class Report:
    """What the templates and the terminal set."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis, self.answer = analysis, analysis.answer
        two = self.answer if self.answer and len(self.answer.transports) > 1 else None
        self.document: Document = document(
            analysis, sentence("decision", two, "this machine"), sentence("copied_and_run", two)
        )

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
        return render("answer.md.j2", **self._answer)

    def ledger_md(self) -> str:
        """ledger.md: every row of every ledger, and the times."""
        return render("ledger.md.j2", a=self.analysis, f=frames)

    def markdown(self, figures: Sequence[Drawn] = ()) -> str:
        """report.md: the answer, and all that it rests on; report.html is made of it."""
        drawn = {figure.name: figure for figure in figures}
        return render("report.md.j2", figures=drawn, **self._answer, **self._rest())

    @cached_property
    def _answer(self) -> dict[str, object]:
        return {
            "a": self.analysis,
            "d": self.document,
            "f": frames,
            "headline": self.headline,
            "large": sentence("large", self.answer) if self.answer else "",
            "medians": lambda timing: sentence("medians", timing),
            "loopback": loopback_sentences(self.analysis.run),
            "places": PLACES,
            "shown_verdicts": self.settled,
        }

    def _rest(self) -> dict[str, object]:
        found = self.analysis
        settled = [verdict for verdict in found.verdicts if verdict.settled]
        first = found.ledgers[0] if found.ledgers else None
        main = [
            times for times in found.timings
            if not first or (times.pattern, times.size) == (first.pattern, first.size)
        ]  # fmt: skip
        kernel = found.exact[0].kernel if found.exact else ""
        return {
            "own_verdicts": self.settled,
            "other_verdicts": [verdict for verdict in settled if verdict not in self.settled],
            "machines": self._machines(),
            "main_times": main,
            "other_times": [times for times in found.timings if times not in main],
            "least_repeats": LEAST_REPEATS,
            "within_share": WITHIN_SHARE,
            "within_per_message": WITHIN_PER_MESSAGE,
            "early": self._early(),
            "hits": hits_text(found.crosscheck),
            "scheduler_groups": list(_scheduler_groups(found.exact)),
            "exact_order": sorted(
                found.exact, key=lambda each: (each.kernel != kernel, *usual_first(each))
            ),
            "equal": EQUAL,
            "unseen": UNSEEN,
            "outside": OUTSIDE,
            "crosschecks": [
                (rows.iloc[0], rows, rows["verdict"].value_counts())
                for _, rows in (
                    () if found.crosscheck.empty else found.crosscheck.groupby(CELL, sort=False)
                )
            ],
            "knob_groups": [
                (key, pairs, list(costs_of_one(pairs)))
                for key, pairs in (
                    (key, list(group))
                    for key, group in groupby(found.knobs, lambda pair: same_table(pair.after))
                )
            ],
            "not_counted": self._not_counted(),
            "command": shlex.join(found.run.manifest.command),
            "again": shlex.join(["python", "-m", "analysis", self._folder()]),
        }

    def _machines(self) -> list[str]:
        """Each machine that figures of the first ledger are from, in their order."""
        ledgers = self.analysis.ledgers[:1]
        lines = (line for one in ledgers for row in one.headline() for line in row.best())
        found = dict.fromkeys((line.target, line.kernel) for line in lines)
        return [machine_text(self.analysis.run, *place) for place in found]

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


def _scheduler_groups(found: Sequence[Comparison]) -> list[tuple[str, list[Comparison]]]:
    """The comparisons of each kernel and size, where few enough transports stand side by side."""
    groups: dict[tuple[str, int], list[Comparison]] = {}
    for each in found:
        groups.setdefault((each.kernel, each.size), []).append(each)
    shown = []
    for (kernel, size), group in groups.items():
        group.sort(key=lambda each: (each.placement != "same-cpu", each.sched != DEFAULT))
        if len({cell.transport for each in group for cell in each.cells}) <= MOST_BESIDE:
            caption = f"Instructions of a round trip by scheduler, {kernel}, {size_text(size)}"
            shown.append((caption, group))
    return shown
