# SPDX-License-Identifier: GPL-2.0-or-later
"""What checks found out about this kernel, and which options its tools have.

`raw/host/checks.jsonl` holds what the programs of runners/checks printed, `raw/host/tools.jsonl`
what tools answered (docs/run-folder.md).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from pydantic import TypeAdapter

from analysis.raw.cells import CheckLine, ToolLine
from analysis.raw.record import M, parse_lines
from analysis.raw.run import Run, Target
from analysis.verdicts.conditions import separating
from analysis.verdicts.files import Claim
from analysis.verdicts.rules import CheckRule, Option, fact
from analysis.verdicts.verdict import (
    CONDITIONAL,
    CONFIRMED,
    NOT_MEASURED,
    REFUTED,
    Finding,
    Verdict,
)
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
        """With what another run observed, whose answers are told apart by its name."""
        named = (
            answer.model_copy(update={"when": answer.when | {"run": run}})
            for answer in other.answers
        )
        return Observed((*self.answers, *named), self.tools | other.tools)


def read_observed(run: Run) -> Observed:
    """Both files of each target; a run that did not ask has neither. Raises RunError."""
    answers: list[Answer] = []
    tools: dict[str, Tool] = {}
    for target in run.targets:
        raw = f"raw/{target.folder}/{CHECKS}"
        for answer in _lines(target, CHECKS, CheckLine):
            answers.append(Answer(**dict(answer), kernel=target.kernel, raw=raw))
        for line in _lines(target, TOOLS, ToolLine):
            tools[line.tool] = Tool(**dict(line), raw=f"raw/{target.folder}/{TOOLS}")
    return Observed(tuple(answers), tools)


def _lines(target: Target, name: str, model: type[M]) -> Iterable[M]:
    path = target.path / name
    return parse_lines(path, TypeAdapter(model)) if path.exists() else ()


def judge_check(claim: Claim, rule: CheckRule, observed: Observed) -> Verdict:
    """Confirmed where every run of the check found these facts, refuted where none did.

    What it found in a circumstance that the source does not speak of is shown, and judged nowhere.
    """
    answers = [answer for answer in observed.answers if answer.check == rule.check]
    answered = [
        (answer, all(answer.facts[key] == value for key, value in rule.facts.items()))
        for answer in answers
        if not answer.error and rule.facts.keys() <= answer.facts.keys()
    ]
    findings = tuple(
        Finding(f"{answer.kernel}: {_facts(answer, rule)}", holds, answer.raw)
        for answer, holds in answered
    )
    answered = [(a, holds) for a, holds in answered if rule.when.items() <= a.when.items()]
    if not answered:
        return Verdict(claim, NOT_MEASURED, "", _why_not(rule, answers))
    by_kernel: dict[str, list[bool]] = {}
    for answer, holds in answered:
        by_kernel.setdefault(answer.kernel, []).append(holds)
    kernels = tuple((kernel, _verdict(states)) for kernel, states in by_kernel.items())
    verdict, condition = _verdict(holds for _, holds in answered), ""
    if verdict == CONDITIONAL:
        names = (*dict.fromkeys(key for answer, _ in answered for key in answer.when), KERNEL)
        sides = [(answer.place, holds) for answer, holds in answered]
        condition = separating(sides, names) or "several circumstances"
        facts = " ".join(dict.fromkeys(f"{_facts(answer, rule)}." for answer, _ in answered))
    else:
        facts = "; ".join(dict.fromkeys(_words(answer, rule) for answer, _ in answered)) + "."
    why = f"{_kernels_text(kernels)}: {facts}"
    return Verdict(claim, verdict, condition, why, findings=findings, kernels=kernels)


def _why_not(rule: CheckRule, answers: list[Answer]) -> str:
    """Why a check found nothing that the rule is over: in its own words, where it has some."""
    errors = "; ".join(dict.fromkeys(answer.error for answer in answers if answer.error))
    if errors:
        return f"{capital(errors)}."
    if not answers:
        return f"The check {rule.check} did not run."
    lacking = rule.facts.keys() - {key for answer in answers for key in answer.facts}
    when = [f"{key} {value}" for key, value in rule.when.items()]
    return f"The check {rule.check} says nothing of {listed(sorted(lacking) or when)}."


def _verdict(held: Iterable[bool]) -> str:
    states = set(held)
    return CONDITIONAL if len(states) > 1 else CONFIRMED if states == {True} else REFUTED


def _kernels_text(kernels: tuple[tuple[str, str], ...]) -> str:
    """Which kernels gave these facts."""
    if len(kernels) == 1:
        return "This kernel"
    if len({said for _, said in kernels}) == 1:
        return f"Each of {counted(len(kernels), 'kernel')}"
    return f"Some of {counted(len(kernels), 'kernel')}"


def _words(answer: Answer, rule: CheckRule) -> str:
    return listed([fact(key, answer.facts[key]) for key in rule.facts])


def _facts(answer: Answer, rule: CheckRule) -> str:
    when = ", ".join(f"{key} {value}" for key, value in answer.when.items())
    return f"{when}: {_words(answer, rule)}" if when else _words(answer, rule)


def judge_option(claim: Claim, rule: Option, observed: Observed) -> Verdict:
    """Whether the tool accepts the option, or lists it in its help."""
    tool = observed.tools.get(rule.tool)
    if tool is None:
        return Verdict(claim, NOT_MEASURED, "", f"This run did not start {rule.tool}.")
    if tool.error:
        return Verdict(claim, NOT_MEASURED, "", f"{capital(tool.error)}.")
    listed_there = rule.option in tool.help.replace("=", " ").replace(",", " ").split()
    accepted = tool.options.get(rule.option, False)
    accepts = "accepts" if accepted else "rejects"
    lists = "lists it" if listed_there else "does not list it"
    words = f"{rule.tool} {accepts} {rule.option}, and its help {lists}"
    holds = accepted or listed_there
    finding = Finding(words, holds, tool.raw)
    return Verdict(claim, CONFIRMED if holds else REFUTED, "", f"{words}.", findings=(finding,))
