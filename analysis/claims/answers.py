# SPDX-License-Identifier: GPL-2.0-or-later
"""Verdicts by what a source states itself, and by what this kernel and its tools answered.

`raw/host/checks.jsonl` holds what the programs of runners/checks printed, `raw/host/tools.jsonl`
what tools answered (docs/run-folder.md).
"""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from pydantic import TypeAdapter

from analysis.claims import rules, verdict
from analysis.claims.files import Claim
from analysis.claims.verdict import Finding, Judged
from analysis.raw.cells import CheckLine, ToolLine
from analysis.raw.record import Model, parse_lines
from analysis.raw.run import Run
from analysis.wording import capital, counted, listed


class Recorded(Model):
    """Where an answer is from."""

    raw: str = ""  # its file
    run: str = ""
    kernel: str = ""


class CheckAnswer(CheckLine, Recorded):
    """One run of a check."""


class ToolAnswer(ToolLine, Recorded):
    """What a tool answered."""


ANSWERS: dict[str, TypeAdapter[Any]] = {
    "checks.jsonl": TypeAdapter(CheckAnswer),
    "tools.jsonl": TypeAdapter(ToolAnswer),
}
Answers = Sequence[CheckAnswer | ToolAnswer]


def read_observed(run: Run) -> list[CheckAnswer | ToolAnswer]:
    """Read what checks and tools of each target answered, if any were asked. Raises RunError."""
    observed = []
    for target, (name, adapter) in product(run.targets, ANSWERS.items()):
        if (target.path / name).exists():
            raw = f"raw/{target.folder}/{name}"
            place = {"raw": raw, "run": run.name, "kernel": target.kernel}
            lines = parse_lines(target.path / name, adapter)
            observed += [line.model_copy(update=place) for line in lines]
    return observed


def consistent(claim: Claim, rule: rules.Consistent) -> Judged:
    results = tuple(Finding(*result) for stated in rule.stated for result in stated.results())
    wrong = [result.text for result in results if not result.holds]
    checks = counted(len(results), "check")
    why = f"The stated numbers agree in {checks}."
    if wrong:
        why = f"The stated numbers disagree in {len(wrong)} of {checks}: {'. '.join(wrong)}."
    return Judged(claim, _word([not wrong]), why=why, findings=results)


def check(claim: Claim, rule: rules.CheckRule, observed: Answers) -> Judged:
    """Confirm where every run of the check found these facts, refute where none did.

    What it found in a circumstance that the source does not speak of is shown, and judged nowhere.
    """
    answers = [a for a in observed if isinstance(a, CheckAnswer) and a.check == rule.check]
    known = []
    for answer in answers:
        if not answer.error and rule.facts.keys() <= answer.facts.keys():
            when = ", ".join(f"{key} {value}" for key, value in answer.when.items())
            facts = listed([rules.fact(key, answer.facts[key]) for key in rule.facts])
            holds = all(answer.facts[key] == value for key, value in rule.facts.items())
            known.append((answer, facts, f"{when}: {facts}" if when else facts, holds))
    findings = tuple(Finding(f"{a.kernel}: {text}", holds, a.raw) for a, _, text, holds in known)
    judged = [each for each in known if rule.when.items() <= each[0].when.items()]
    if not judged:
        return Judged(claim, why=_no_facts(rule, answers))
    by_kernel: dict[str, list[bool]] = {}
    for answer, _, _, holds in judged:
        by_kernel.setdefault(answer.kernel, []).append(holds)
    kernels = tuple((kernel, _word(states)) for kernel, states in by_kernel.items())
    word, condition = _word(holds for *_, holds in judged), ""
    facts = "; ".join(dict.fromkeys(facts for _, facts, _, _ in judged)) + "."
    if word == verdict.CONDITIONAL:
        sides = [(a.when | {"run": a.run, "kernel": a.kernel}, holds) for a, *_, holds in judged]
        names = (*dict.fromkeys(key for a, *_ in judged for key in a.when), "run", "kernel")
        condition = verdict.separating(sides, names) or "several circumstances"
        facts = " ".join(dict.fromkeys(f"{text}." for _, _, text, _ in judged))
    count = "This kernel"
    if len(kernels) > 1:
        same = len(set(dict(kernels).values())) == 1
        count = f"{'Each' if same else 'Some'} of {counted(len(kernels), 'kernel')}"
    why = f"{count}: {facts}"
    return Judged(claim, word, condition, why, findings=findings, kernels=kernels)


def _no_facts(rule: rules.CheckRule, answers: list[CheckAnswer]) -> str:
    """Say why a check has no facts for the rule, in the check's own words where it has some."""
    if errors := "; ".join(dict.fromkeys(answer.error for answer in answers if answer.error)):
        return f"{capital(errors)}."
    if not answers:
        return f"The check {rule.check} did not run."
    lacking = rule.facts.keys() - {key for answer in answers for key in answer.facts}
    when = [f"{key} {value}" for key, value in rule.when.items()]
    return f"The check {rule.check} says nothing of {listed(sorted(lacking) or when)}."


def _word(held: Iterable[bool]) -> str:
    states = set(held)
    if len(states) > 1:
        return verdict.CONDITIONAL
    return verdict.CONFIRMED if states == {True} else verdict.REFUTED


def option(claim: Claim, rule: rules.OptionRule, observed: Answers) -> Judged:
    """Judge whether the tool accepts the option, or lists it in its help."""
    tool = next(
        (t for t in observed[::-1] if isinstance(t, ToolAnswer) and t.tool == rule.tool), None
    )
    if tool is None or tool.error:
        why = f"{capital(tool.error or '')}." if tool else f"This run did not start {rule.tool}."
        return Judged(claim, why=why)
    in_help = rule.option in tool.help.replace("=", " ").replace(",", " ").split()
    accepted = tool.options.get(rule.option, False)
    words = (
        f"{rule.tool} {'accepts' if accepted else 'rejects'} {rule.option}, and its help "
        f"{'lists it' if in_help else 'does not list it'}"
    )
    holds = accepted or in_help
    finding = Finding(words, holds, tool.raw)
    return Judged(claim, _word([holds]), why=f"{words}.", findings=(finding,))
