# SPDX-License-Identifier: GPL-2.0-or-later
"""Verdicts on no figures of ours: stated numbers, what checks answered, options that tools have.

`raw/host/checks.jsonl` holds what the programs of runners/checks printed, `raw/host/tools.jsonl`
what tools answered (docs/run-folder.md).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from pydantic import TypeAdapter

from analysis.claims.files import Claim
from analysis.claims.rules import CheckRule, Consistent, Option, Unsettled, fact
from analysis.claims.verdict import (
    CONDITIONAL,
    CONFIRMED,
    NOT_MEASURED,
    REFUTED,
    Finding,
    Verdict,
    separating,
)
from analysis.raw.cells import CheckLine, ToolLine
from analysis.raw.record import M, parse_lines
from analysis.raw.run import Run, Target
from analysis.wording import capital, counted, listed

CHECKS, TOOLS = "checks.jsonl", "tools.jsonl"
KERNEL = "kernel"


class Answer(CheckLine):
    """One run of a check, and where it is recorded."""

    raw: str
    kernel: str = ""  # that answered

    def place(self, name: str) -> str:
        """Its kernel, or its value of a circumstance."""
        return self.kernel if name == KERNEL else self.when.get(name, "none")


class Tool(ToolLine):
    """What a tool answered, and where it is recorded."""

    raw: str


@dataclass(frozen=True)
class Observed:
    """All checks and tools of a run."""

    answers: tuple[Answer, ...] = ()
    tools: dict[str, Tool] = field(default_factory=dict)

    def also(self, other: "Observed", run: str) -> "Observed":
        """Add what another run observed; its answers are told apart by the run's name."""
        named = (
            answer.model_copy(update={"when": answer.when | {"run": run}})
            for answer in other.answers
        )
        return Observed((*self.answers, *named), self.tools | other.tools)


def read_observed(run: Run) -> Observed:
    """Read both files of each target; a run without checks has neither. Raises RunError."""
    answers: list[Answer] = []
    tools: dict[str, Tool] = {}
    for target in run.targets:
        for name, answer in _lines(target, CHECKS, CheckLine):
            answers.append(Answer(**dict(answer), kernel=target.kernel, raw=name))
        for name, line in _lines(target, TOOLS, ToolLine):
            tools[line.tool] = Tool(**dict(line), raw=name)
    return Observed(tuple(answers), tools)


def _lines(target: Target, name: str, model: type[M]) -> Iterable[tuple[str, M]]:
    raw = f"raw/{target.folder}/{name}"
    if (target.path / name).exists():
        for line in parse_lines(target.path / name, TypeAdapter(model)):
            yield raw, line


def judge_answers(claim: Claim, observed: Observed) -> Verdict:
    match claim.rule:
        case Consistent() as rule:
            return _consistent(claim, rule)
        case CheckRule() as rule:
            return _check(claim, rule, observed)
        case Option() as rule:
            return _option(claim, rule, observed)
        case rule:
            return Verdict(claim, NOT_MEASURED, "", rule.why if isinstance(rule, Unsettled) else "")


def _consistent(claim: Claim, rule: Consistent) -> Verdict:
    results = tuple(Finding(*result) for stated in rule.stated for result in stated.results())
    wrong = [result.text for result in results if not result.holds]
    checks = counted(len(results), "check")
    why = f"The stated numbers agree in {checks}."
    if wrong:
        why = f"The stated numbers disagree in {len(wrong)} of {checks}: {'. '.join(wrong)}."
    return Verdict(claim, REFUTED if wrong else CONFIRMED, "", why, findings=results)


def _check(claim: Claim, rule: CheckRule, observed: Observed) -> Verdict:
    """Confirm where every run of the check found these facts, refute where none did.

    What it found in a circumstance that the source does not speak of is shown, and judged nowhere.
    """
    answers = [answer for answer in observed.answers if answer.check == rule.check]
    known = [
        (answer, all(answer.facts[key] == value for key, value in rule.facts.items()))
        for answer in answers
        if not answer.error and rule.facts.keys() <= answer.facts.keys()
    ]
    findings = tuple(Finding(f"{a.kernel}: {_facts(a, rule)}", holds, a.raw) for a, holds in known)
    judged = [(a, holds) for a, holds in known if rule.when.items() <= a.when.items()]
    if not judged:
        return Verdict(claim, NOT_MEASURED, "", _why_not(rule, answers))
    by_kernel: dict[str, list[bool]] = {}
    for answer, holds in judged:
        by_kernel.setdefault(answer.kernel, []).append(holds)
    kernels = tuple((kernel, _verdict(states)) for kernel, states in by_kernel.items())
    verdict, condition = _verdict(holds for _, holds in judged), ""
    if verdict == CONDITIONAL:
        names = (*dict.fromkeys(key for answer, _ in judged for key in answer.when), KERNEL)
        sides = [(answer.place, holds) for answer, holds in judged]
        condition = separating(sides, names) or "several circumstances"
        facts = " ".join(dict.fromkeys(f"{_facts(answer, rule)}." for answer, _ in judged))
    else:
        facts = "; ".join(dict.fromkeys(_words(answer, rule) for answer, _ in judged)) + "."
    count = "This kernel"
    if len(kernels) > 1:
        same = len({verdict for _, verdict in kernels}) == 1
        count = f"{'Each' if same else 'Some'} of {counted(len(kernels), 'kernel')}"
    why = f"{count}: {facts}"
    return Verdict(claim, verdict, condition, why, findings=findings, kernels=kernels)


def _why_not(rule: CheckRule, answers: list[Answer]) -> str:
    """Say why a check has no facts for the rule, in the check's own words where it has some."""
    if errors := "; ".join(dict.fromkeys(answer.error for answer in answers if answer.error)):
        return f"{capital(errors)}."
    if not answers:
        return f"The check {rule.check} did not run."
    lacking = rule.facts.keys() - {key for answer in answers for key in answer.facts}
    when = [f"{key} {value}" for key, value in rule.when.items()]
    return f"The check {rule.check} says nothing of {listed(sorted(lacking) or when)}."


def _verdict(held: Iterable[bool]) -> str:
    states = set(held)
    return CONDITIONAL if len(states) > 1 else CONFIRMED if states == {True} else REFUTED


def _words(answer: Answer, rule: CheckRule) -> str:
    return listed([fact(key, answer.facts[key]) for key in rule.facts])


def _facts(answer: Answer, rule: CheckRule) -> str:
    when = ", ".join(f"{key} {value}" for key, value in answer.when.items())
    return f"{when}: {_words(answer, rule)}" if when else _words(answer, rule)


def _option(claim: Claim, rule: Option, observed: Observed) -> Verdict:
    """Judge whether the tool accepts the option, or lists it in its help."""
    tool = observed.tools.get(rule.tool)
    if tool is None or tool.error:
        why = f"{capital(tool.error or '')}." if tool else f"This run did not start {rule.tool}."
        return Verdict(claim, NOT_MEASURED, "", why)
    in_help = rule.option in tool.help.replace("=", " ").replace(",", " ").split()
    accepted = tool.options.get(rule.option, False)
    accepts = "accepts" if accepted else "rejects"
    lists = "lists it" if in_help else "does not list it"
    words = f"{rule.tool} {accepts} {rule.option}, and its help {lists}"
    holds = accepted or in_help
    finding = Finding(words, holds, tool.raw)
    return Verdict(claim, CONFIRMED if holds else REFUTED, "", f"{words}.", findings=(finding,))
