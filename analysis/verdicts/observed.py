# SPDX-License-Identifier: GPL-2.0-or-later
"""What this kernel did when it was asked, and what tools said about their options.

`raw/host/checks.jsonl` holds what the programs of runners/checks printed, `raw/host/tools.jsonl`
what tools answered (docs/run-folder.md).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations

from analysis.raw.checks import CheckLine, ToolLine
from analysis.raw.record import M, read_lines
from analysis.raw.run import Run, Target
from analysis.verdicts.files import Claim
from analysis.verdicts.rules import Check, Option, fact
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
    kernel: str = ""
    """Target and kernel that answered."""

    def place(self, name: str) -> str:
        """Its kernel, or its value of a circumstance."""
        if name == KERNEL:
            return self.kernel
        return self.when.get(name, "none")

    def circumstances(self) -> str:
        return ", ".join(f"{key} {value}" for key, value in self.when.items())


class Tool(ToolLine):
    """What a tool answered, and where it is recorded."""

    raw: str


@dataclass(frozen=True)
class Observed:
    """All of a run."""

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
        kernel, raw = f"{target.kind} {target.kernel}", f"raw/{target.folder}/{CHECKS}"
        for answer in _lines(target, CHECKS, CheckLine):
            answers.append(Answer(**dict(answer), kernel=kernel, raw=raw))
        for line in _lines(target, TOOLS, ToolLine):
            tools[line.tool] = Tool(**dict(line), raw=f"raw/{target.folder}/{TOOLS}")
    return Observed(tuple(answers), tools)


def _lines(target: Target, name: str, model: type[M]) -> Iterable[M]:
    path = target.path / name
    why = "the claims that need it cannot be settled"
    return read_lines(path, f"raw/{target.folder}/{name}", model, why) if path.exists() else ()


def judge_check(claim: Claim, rule: Check, observed: Observed) -> Verdict:
    """Confirmed where every run of the check found these facts, refuted where none did."""
    answers = [one for one in observed.answers if one.check == rule.check]
    found = [one for one in answers if not one.error and rule.facts.keys() <= one.facts.keys()]
    if not found:
        return Verdict(claim, NOT_MEASURED, "", _why_not(rule, answers))
    held = [all(one.facts[k] == v for k, v in rule.facts.items()) for one in found]
    findings = tuple(
        Finding(f"{one.kernel}: {_facts(one, rule)}", holds, one.raw)
        for one, holds in zip(found, held, strict=True)
    )
    kernels = _on_each_kernel(found, held)
    if all(held) or not any(held):
        said = "; ".join(dict.fromkeys(_words(one, rule) for one in found))
        why = f"{_asked(kernels)}: {said}."
        return Verdict(claim, _verdict(held), "", why, findings=findings, kernels=kernels)
    condition = _flips(found, held)
    facts = " ".join(dict.fromkeys(f"{_facts(one, rule)}." for one in found))
    why = f"{_asked(kernels)}: {facts}"
    return Verdict(claim, CONDITIONAL, condition, why, findings=findings, kernels=kernels)


def _why_not(rule: Check, answers: list[Answer]) -> str:
    """Why a check found nothing that the rule is over: in its own words, where it has some."""
    errors = "; ".join(dict.fromkeys(one.error for one in answers if one.error))
    if errors:
        return f"{capital(errors)}."
    if not answers:
        return f"The check {rule.check} did not run."
    lacking = sorted(rule.facts.keys() - {key for one in answers for key in one.facts})
    return f"The check {rule.check} says nothing of {listed(lacking)}."


def _verdict(held: Iterable[bool]) -> str:
    states = set(held)
    return CONDITIONAL if len(states) > 1 else CONFIRMED if states == {True} else REFUTED


def _on_each_kernel(found: list[Answer], held: list[bool]) -> tuple[tuple[str, str], ...]:
    by_kernel: dict[str, list[bool]] = {}
    for one, holds in zip(found, held, strict=True):
        by_kernel.setdefault(one.kernel, []).append(holds)
    return tuple((kernel, _verdict(held)) for kernel, held in by_kernel.items())


def _asked(kernels: tuple[tuple[str, str], ...]) -> str:
    """Which kernels said so."""
    if len(kernels) == 1:
        return "This kernel"
    if len({said for _, said in kernels}) == 1:
        return f"Each of {counted(len(kernels), 'kernel')}"
    return f"Some of {counted(len(kernels), 'kernel')}"


def _words(one: Answer, rule: Check) -> str:
    return listed([fact(key, one.facts[key]) for key in rule.facts])


def _facts(one: Answer, rule: Check) -> str:
    when = one.circumstances()
    return f"{when}: {_words(one, rule)}" if when else _words(one, rule)


def _flips(found: list[Answer], held: list[bool]) -> str:
    """The circumstance that tells the sides apart, or the kernel, or two of these; both sides."""
    names = (*dict.fromkeys(key for one in found for key in one.when), KERNEL)
    for chosen in (*((name,) for name in names), *combinations(names, 2)):
        sides: dict[bool, dict[str, None]] = {True: {}, False: {}}
        for one, holds in zip(found, held, strict=True):
            sides[holds][_place(one, chosen, found, held)] = None
        if not sides[True].keys() & sides[False].keys():
            yes, no = (listed(list(side)) for side in (sides[True], sides[False]))
            return f"{listed(list(chosen))}: holds for {yes}, does not hold for {no}"
    return "several circumstances"


def _place(one: Answer, names: tuple[str, ...], found: list[Answer], held: list[bool]) -> str:
    """What this answer has of the first; of the second where the first is on both sides."""
    place = one.place(names[0])
    mixed = {holds for o, holds in zip(found, held, strict=True) if o.place(names[0]) == place}
    return f"{place} ({one.place(names[1])})" if len(names) > 1 and len(mixed) > 1 else place


def judge_option(claim: Claim, rule: Option, observed: Observed) -> Verdict:
    """Whether the tool accepts the option, or lists it in its help."""
    tool = observed.tools.get(rule.tool)
    if tool is None:
        return Verdict(claim, NOT_MEASURED, "", f"This run did not ask {rule.tool}.")
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
