# SPDX-License-Identifier: GPL-2.0-or-later
"""The report of an analysis: answer.json, answer.md, and the page that holds all of it."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import pandas as pd

from analysis.analyse import Analysis
from analysis.claims.verdict import ARITHMETIC, NOT_MEASURED, Judged, settled, tally
from analysis.counts.agreement import WITHIN_PER_MESSAGE, WITHIN_SHARE
from analysis.counts.ledger import in_conditions
from analysis.drawing import Drawn
from analysis.machine import loopback_sentences
from analysis.paths.cells import Comparison, ExactCell
from analysis.paths.changes import same_table
from analysis.paths.figures import alike_first, needed, one_of_each_family, usual_first
from analysis.report import exact_frames, frames
from analysis.report.answer import PLACES, RATES, Answer, Share, build_answer
from analysis.report.decision import decision
from analysis.report.document import document
from analysis.report.explained import Explained, explain
from analysis.report.priced import box_times
from analysis.report.render import render
from analysis.report.requested import Requested
from analysis.report.sentences import sentence
from analysis.statistics import LEAST_REPEATS, Compared, Estimate
from analysis.times.cold import priced_before
from analysis.times.timing import Times
from analysis.wording import (
    ABSENT,
    added,
    amount,
    amounts,
    capital,
    counted,
    listed,
    number,
    place,
    size_text,
    title_of,
)
from probes.messages import PROGRAM
from probes.transports import holding

EARLY = "unix_write_space"
RUN, SIZES = PROGRAM, "--target host --sizes 64,2K,16K,64K"
MOSTLY = 0.5  # of the round trips, so that the median one is among them
AFTER_WORK = "after other code"  # the head of a column
COUNTS = {"payload_copies": "copies of each byte", "instructions": "instructions a message"}


class Report:
    """What the templates and the terminal set."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis, self.answer = analysis, build_answer(analysis)
        self.requested = Requested(analysis, self.answer)
        self.explained = explain(analysis)
        drawn_cells = [cell for each in alike_first(analysis.exact) for cell in each.cells]
        self.box_times = box_times(analysis.run, drawn_cells, analysis.cells)
        two = self.answer if self.answer and len(self.answer.transports) > 1 else None
        # The median of a burst lies between those that get through at once and those that wait.
        burst = two.times[0] if two and two.times and two.pattern == "backlog" else None
        waits = " ".join(self.waits(burst.conditions)) if burst else ""
        self.document = document(
            analysis,
            self.answer,
            decision=waits or decision(two),
            copied_and_run=sentence("copied_and_run", two),
        )
        kernels = two.between_kernels if two else None
        self.between_kernels = sentence("between_kernels", *kernels) if kernels else ""
        # A run of exact mode alone; counts of probes have no such headline.
        alone = two and not two.times and analysis.exact
        self.executed = sentence("executed", two) if alone else ""
        self.matter = "" if analysis.run.for_claims or waits else sentence("matter", two)
        cold = self.matter and self.answer and any(each.cold_ns for each in self.answer.times)
        self.priced_before = priced_before(analysis.run) if cold else ""

    @property
    def headline(self) -> str:
        """The decision, or what is copied and run; of a run for claims what became of them."""
        if self.analysis.run.for_claims:
            return tally(self.analysis.verdicts)
        if self.answer is None and self.analysis.survivals:
            programs = sum(len(group.programs) for group in self.analysis.survivals)
            return f"Times of {counted(programs, 'program')} over a Unix socket and over TCP"
        if self.answer is None:
            return "This run holds no figures: see what is missing."
        size, transports = size_text(self.answer.size), listed(list(self.answer.transports))
        document = self.document
        answer = document.decision or self.between_kernels or self.executed
        return answer or document.copied_and_run or f"Messages of {size} over {transports}"

    @property
    def settled(self) -> list[Judged]:
        """The verdicts of a run for claims; of another the two headlines."""
        verdicts = settled(self.analysis.verdicts)
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
            "requested": self.requested,
            "f": frames,
            "headline": self.headline,
            "compared": compared,
            "shares": shares,
            "matter": self.matter,
            "between_kernels": self.between_kernels,
            "executed": self.executed,
            "priced_before": self.priced_before,
            "median": lambda times: sentence("median", times),
            "sleeping": [*self.explanation(), *self.sleeping()],
            "waits": [*self.waits(), *loopback_sentences(self.analysis.run)],
            "explained": self.explained,
            "first_of_kernels": list(first_of_kernels(self.analysis.exact)),
            "unmeasured": list(self.unmeasured()),
            "shown_verdicts": self.settled,
        }

    def unmeasured(self) -> Iterator[tuple[str, str, str]]:
        """What a reader may ask for and this run did not measure: words, command, page."""
        cells = [cell for _, cell in self.analysis.run.cells()]
        timed = {times.conditions for times in self.analysis.timings}
        ran = {str(cell.conditions) for cell in cells}
        ran |= {compared.placement for compared in self.analysis.exact}
        for conditions, option in PLACES.items():
            if conditions not in timed:
                words = title_of(conditions)
                if conditions in ran:
                    words = f"times {place(conditions)}"
                yield words, f"sudo {RUN} {option}", "choosing.md"
        if len(sizes := {cell.size for cell in cells}) == 1:
            yield f"sizes other than {size_text(*sizes)}", f"sudo {RUN} {SIZES}", "choosing.md"
        if not self.analysis.knobs:
            yield "firewall rules", f"{RUN} exact --knob nft=1,nft=10", "knobs.md"
        if "shm" not in {cell.transport for cell in cells}:
            yield "shared memory", f"sudo {RUN} --transports unix,tcp,shm", "choosing.md"
        if len({each.kernel for each in self.analysis.exact}) < 2:
            yield "instructions of other kernels", f"{RUN} exact --kernel all", "path-over-time.md"
        yield "your own rate and size", f"{RUN} what-if --rate 200 --size 2K", "predicting.md"
        yield "times of another kernel", f"{RUN} diff RUN RUN", "run-folder.md"

    def explanation(self) -> Iterator[str]:
        """Say how much of TCP's extra time is told by what it executes, where that is known."""
        if isinstance(self.explained, Explained):
            yield self.explained.sentence

    def waits(self, where: str = "") -> Iterator[str]:
        """Say where a transport itself waits, as the kernel's own counters show."""
        nagle = holding("tcp-nagle")
        for times in (each for each in self.analysis.timings if where in ("", each.conditions)):
            writes_twice = times.pattern == "write-write-read" and times.transport in nagle
            if writes_twice and (delayed := self._counted("delayed_acks", times)) > MOSTLY:
                yield sentence("nagle", times, delayed)
            refused, again = (self._counted(m, times) for m in ("connects_refused", "syns_again"))
            if times.pattern == "backlog" and (refused or again):
                yield sentence("backlog", times, refused, again, self._counted("rtt_max", times))

    def sleeping(self) -> Iterator[str]:
        """Say how much of the difference across two CPUs is sleeping and waking, where resolved."""
        answer = self.answer
        if answer is None or answer.pattern != "pingpong":
            return
        for parts in self.analysis.parts:
            compares = (parts.than, parts.transport) == answer.transports
            if not compares or parts.size != answer.size or parts.placement != "cross-cpu":
                continue
            if parts.rest_share and not parts.figures["total"].spans(0):
                yield sentence("sleeping", parts)

    def _counted(self, measure: str, times: Times) -> float:
        """A measure beside these times, without probes; 0 where nobody counted it."""
        rows = self.analysis.figures.query("target == 'host' and not probed and valid")
        rows = in_conditions(rows, (times.pattern, times.size, times.conditions))
        rows = rows[(rows["measure"] == measure) & (rows["transport"] == times.transport)]
        return 0.0 if rows.empty else float(rows["value"].iloc[0])

    def _rest(self) -> dict[str, object]:
        analysis = self.analysis
        exact: dict[tuple[str, int], list[Comparison]] = {}
        for comparison in sorted(analysis.exact, key=usual_first):
            exact.setdefault((comparison.kernel, comparison.size), []).append(comparison)
        groups = groupby(analysis.knobs, lambda pair: same_table(pair.after))
        return {
            "measured_verdicts": settled(analysis.verdicts),
            "stated_verdicts": [v for v in analysis.verdicts if v.kind == ARITHMETIC],
            "open_verdicts": [v for v in analysis.verdicts if v.kind == NOT_MEASURED],
            "least_repeats": LEAST_REPEATS,
            "within_share": WITHIN_SHARE,
            "within_per_message": WITHIN_PER_MESSAGE,
            "early": self._early(),
            "counted_beside": self._counted,
            "exact": exact_frames,
            "exact_groups": exact.items(),
            "line_groups": list(exact_frames.line_groups(analysis.exact)),
            "needed_for": needed,
            "drawn": next(map(one_of_each_family, alike_first(analysis.exact)), None),
            "knob_groups": [(key, list(pairs)) for key, pairs in groups],
            "command": shlex.join(analysis.run.manifest.command),
        }

    def _early(self) -> ExactCell | None:
        """The cell in which a reader wakes the sender before it answers."""
        cells = (cell for each in alike_first(self.analysis.exact) for cell in each.cells)
        return next((cell for cell in cells if cell.calls().get(EARLY)), None)


def first_of_kernels(comparisons: Sequence[Comparison]) -> Iterator[Comparison]:
    """Each kernel's comparison that is like the first in all else."""
    for each in comparisons:
        if each._replace(kernel="", cells=()) == comparisons[0]._replace(kernel="", cells=()):
            yield each


def compared(found: Answer, timings: Iterable[Times]) -> pd.DataFrame:
    """Times with their p99, CPU time, copies and instructions, each with its difference.

    Of times it also has the difference after other work, where that was measured.
    """
    known = frames.latencies(found, timings)
    lines: list[frames.Line] = []
    for placed in found.times:
        own = (known.get((placed.conditions, name)) for name in found.transports)
        slow = [one.p99 for one in own if one and one.p99]
        p99 = "; ".join(amounts([each.value for each in slow], "ns"))
        if overlap(slow):
            p99 = f"({p99})"
        cold = added(placed.cold_ns, "ns") if placed.cold_ns else ABSENT
        lines.append((title_of(placed.conditions), *_both(placed.iteration_ns), cold, p99))
    for placed in found.asleep:
        if placed.cpu_ns:
            name = f"CPU time a message, {title_of(placed.conditions)}"
            lines.append((name, *_both(placed.cpu_ns), "", ""))
    counts = found.kernels or filter(None, map(found.count, COUNTS))
    for count in counts:
        if len(count.figures) > 1:
            name = COUNTS[count.measure] + (f", {count.kernel}" if found.kernels else "")
            for at in count.by_place:
                times = f"{number(at.ratio)} times" if at.ratio else ABSENT
                where = f"{name}, {title_of(at.conditions)}"
                lines.append((where, *at.figures.values(), times, "", ""))
            if not count.by_place:
                each = (*count.figures.values(), "none" if count.alike else count.times)
                lines.append((name, *each, "", ""))
    title = f"{found.iteration}, {size_text(found.size)}"
    if found.pattern != "pingpong":  # what options named is named
        title = f"{found.pattern}: {title}"
    slowest = f"p99: {'; '.join(found.transports)}"
    heads = (title, *found.transports, "difference (95 %)", AFTER_WORK, slowest)
    frame = frames.frame(heads, lines)
    if not any(placed.cold_ns for placed in found.times):
        frame = frame.drop(columns=AFTER_WORK, errors="ignore")
    if not found.times:
        frame = frame.drop(columns=slowest, errors="ignore")
    return frame


def overlap(figures: Sequence[Estimate]) -> bool:
    """Whether there are two figures, and the interval of each reaches the other's."""
    if len(figures) < 2:
        return False
    (low, high), (low2, high2) = (each.ends for each in figures)
    return low <= high2 and low2 <= high


def _both(ns: Compared) -> tuple[str, str, str]:
    """Both times, and by how much the second is longer."""
    return amount(ns.first.value, "ns"), amount(ns.second.value, "ns"), added(ns.added, "ns")


def shares(found: Answer) -> pd.DataFrame:
    """The share of a CPU that the second transport takes more, at three rates."""
    heads = ["requests/s", *(capital(title_of(placed.conditions)) for placed in found.asleep)]
    places = [placed.shares for placed in found.asleep]
    by_rate = zip(RATES, *places, strict=True)
    return frames.frame(heads, [(f"{rate:,}", *map(_share, each)) for rate, *each in by_rate])


def _share(share: Share) -> str:
    text = added(share.cpu_share * 100, "%")
    return f"{text}*" if share.beyond else text
