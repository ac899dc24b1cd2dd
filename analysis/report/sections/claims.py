# SPDX-License-Identifier: GPL-2.0-or-later
"""The verdicts on what the sources claim, each with its evidence, and the cell runs behind them."""

from collections import Counter
from collections.abc import Iterable
from itertools import groupby

from analysis.analyse import Analysis
from analysis.claims.files import Source
from analysis.claims.rules import TERMS
from analysis.claims.verdict import (
    VERDICTS,
    Evidence,
    Finding,
    Verdict,
    by_verdict,
    steadiness,
    tally,
)
from analysis.report.blocks import Article, Column, Group, Items, Row, Table, Text, numbers
from analysis.report.inline import code, faint, joined, say, spanned
from analysis.report.sections.counts import Blocks, Figures
from analysis.statistics import LEAST_REPEATS, Estimate
from analysis.wording import counted, number


def claims(analysis: Analysis, _: Figures) -> Blocks:
    """The run's own verdicts; folded are those besides it, and those that it cannot give."""
    yield (
        f"{tally(analysis.verdicts)}. A count is judged in each repeat; a ratio of times by its "
        f"95 % interval, of at least {LEAST_REPEATS} pairs of repeats. “About N” means within "
        f"{number(TERMS.about * 100)} % of N; {number(TERMS.none)} a message or less is none. "
        f"{steadiness(analysis.verdicts)}"
    )
    yield _sources(analysis.verdicts)
    open_ = [v for v in analysis.verdicts if v.verdict == "NOT MEASURED"]
    judged = [v for v in analysis.verdicts if v.settled]
    stated = [v for v in analysis.verdicts if v.claim.rule.kind == "consistent"]
    first = [v for v in judged if analysis.run.for_claims or v.claim.headline]
    rest = [v for v in judged if v not in first]
    yield from _by_source(analysis, first)
    if rest:
        summary = f"Also settled by this run: {tally(rest).partition(': ')[2]}"
        yield Group("closed", summary, list(_by_source(analysis, rest)))
    if stated:
        summary = f"Arithmetic: {tally(stated).partition(': ')[2]}"
        yield Group("closed", summary, [_article(analysis, verdict) for verdict in stated])
    if open_:
        all_ = code("sudo ./runners/run.sh --claims all")
        lines = [f"{verdict.claim.statement} {verdict.why}" for verdict in open_]
        summary = say("{} not measured here: {} measures them", counted(len(open_), "claim"), all_)
        yield Group("closed", summary, [Items(lines)])


def _sources(verdicts: Iterable[Verdict]) -> Table:
    """Which source is right how often."""
    by_source: dict[Source, Counter[str]] = {}
    for verdict in verdicts:
        by_source.setdefault(verdict.claim.source, Counter())[verdict.verdict] += 1
    names = [name for name in VERDICTS if any(name in found for found in by_source.values())]
    rows = [
        (source.id, *(str(found[n]) for n in names), source.description)
        for source, found in by_source.items()
        if any(found[n] for n in names)
    ]
    heads = ["source", *numbers(*map(str.lower, names)), Column("what it is", "from")]
    return Table("Verdicts by source", heads, rows, "narrow")


def _by_source(analysis: Analysis, verdicts: Iterable[Verdict]) -> Blocks:
    name = '<strong translate="no">{}</strong>: {}{}'
    for _, found in groupby(verdicts, lambda verdict: verdict.claim.source.id):
        first, *rest = found
        source = first.claim.source
        yield Text("source", say(name, source.id, source.description, _link(source)))
        yield from (_article(analysis, verdict) for verdict in (first, *rest))


def _link(source: Source) -> str:
    return say(' <a href="{}">{}</a>', source.url, source.url) if source.url else ""


def _article(analysis: Analysis, verdict: Verdict) -> Article:
    claim, source = verdict.claim, verdict.claim.source
    language = say(' lang="{}"', source.language) if source.language else ""
    work = [
        say(' · <span translate="no">{}</span>', value)
        for value in (source.title, source.author, source.date)
        if value
    ]
    conditions = say(". Conditions it states: {}.", claim.stated_conditions or "none")
    origin = say("{}{}{}{}", source.description, joined(work, ""), conditions, _link(source))
    kernels = f"Each kernel alone: {by_verdict(verdict.kernels)}."
    evidence = Group("closed", "The claim, how we read it, the evidence", [
        say("<q{}>{}</q><br> {}", language, claim.quote, faint(origin)),
        f"{claim.reading} {claim.rule.words()}",
        kernels if len(verdict.kernels) > 1 else None,
        _evidence(analysis, verdict) if verdict.evidence else None,
        Items(list(map(_finding, verdict.findings))) if verdict.findings else None,
    ])  # fmt: skip
    depends = say("<strong>Depends on {}.</strong>", verdict.condition)
    kin = [say('<a href="#claim-{}">{}</a>', name, name) for name in verdict.kin]
    blocks = [
        verdict.lacks or None,
        depends if verdict.condition else None,
        verdict.why,
        verdict.mechanism or None,
        say("On the same figures: {}.", joined(kin)) if kin else None,
        evidence,
    ]
    return Article(f"claim-{claim.id}", verdict.text, claim.statement, blocks)


def _evidence(analysis: Analysis, verdict: Verdict) -> Table:
    rows = []
    for one in verdict.evidence:
        found = [one.figure(label) for label in verdict.labels]
        figures = [spanned(Estimate(f.value, f.low, f.high)) if f else "" for f in found]
        cells = _cells(one, analysis.folders[one.machine])
        rows.append((one.words(), *figures, f"{one.held} of {one.repeats}", cells))
    heads = numbers(*verdict.labels, "holds in")
    return Table(
        f"Evidence, {verdict.unit}" if verdict.unit else "Evidence",
        ["condition and source", *heads, Column("cell runs", "from")], rows, "evidence",
    )  # fmt: skip


def _cells(one: Evidence, folder: str) -> str:
    """Links to the lines of its cell runs, and to the file that holds them."""
    links = [
        say('<a href="#{}">{}</a>', _anchor(one.file, folder, cell), cell) for cell in one.cells
    ]
    return say('{} in <a href="raw/{}/{}">{}</a>', joined(links), folder, one.file, folder)


def _anchor(file: str, folder: str, cell: int) -> str:
    return f"{'cell' if file == 'cells.jsonl' else 'program'}-{folder}-{cell}"


def _finding(one: Finding) -> str:
    raw = say(' (<a href="{}">{}</a>)', one.raw, one.raw) if one.raw else ""
    return say("{}: {}{}", "holds" if one.holds else "does not hold", one.text, raw)


def cell_runs(analysis: Analysis, _: Figures) -> Blocks:
    rows = []
    for file, folder, cell, words, files in analysis.raw_cells():
        raw = joined(say('<a href="raw/{}/{}">{}</a>', folder, name, name) for name in files)
        cells = (folder, str(cell), words or "exact mode", raw)
        rows.append(Row(cells, id=_anchor(file, folder, cell)))
    if rows:
        heads = ["target", *numbers("id"), "what ran", Column("raw files", "from")]
        table = Table("One line of cells.jsonl each", heads, rows, "narrow")
        yield Group("closed", f"{counted(len(rows), 'cell run')}, each with its raw files", [table])
