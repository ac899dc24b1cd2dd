# SPDX-License-Identifier: GPL-2.0-or-later
"""What rests on no figures: numbers that sources state, answers of the kernel and of tools."""

import re
from typing import Any

import pytest

from analysis.claims.answers import CheckAnswer, ToolAnswer
from analysis.claims.files import load_claims
from analysis.claims.judge import judge
from analysis.claims.rules import OptionRule
from tests.analysis.made_claims import claim, measured

FRAME = measured("switches", lambda *_: 1.0)


@pytest.mark.parametrize(
    ("numbers", "expected", "said"),
    [
        ({"larger": 34, "smaller": 17, "times": 3}, "REFUTED", "stated: times 3.00"),
        # What is rounded or cut at its last digit agrees in an equation, and not in a limit.
        ({"part": 100, "whole": 158, "percent_below": 63}, "REFUTED", "in percent = 63.3"),
        ({"larger": 62, "smaller": 34, "times": 2}, "CONFIRMED", "larger / smaller = 1.82"),
        ({"count": 7, "seconds": 4.0, "per_s": 1.7}, "CONFIRMED", "count / seconds = 1.75"),
        ({"larger": 900, "smaller": 450, "saved_percent_least": 51}, "REFUTED", "at least 51.0"),
        ({"parts": [17, 17], "total": 34}, "CONFIRMED", "sum of the parts = 34.0"),
        ({"per_s": 1000, "latency_s": 0.017, "connections": 100}, "REFUTED", "in flight = 17.0"),
    ],
)
def test_stated_numbers(numbers: dict[str, Any], expected: str, said: str) -> None:
    rule = {"kind": "consistent", "stated": [{"what": "made up", **numbers}]}
    (found,) = judge([claim(rule)], FRAME, [])
    assert found.verdict == expected
    assert said in found.findings[0].text


def test_numbers_that_no_check_fits_are_refused() -> None:
    with pytest.raises(ValueError, match="no check fits these numbers"):
        claim({"kind": "consistent", "stated": [{"what": "made up", "larger": 17}]})


def answer(facts: dict[str, Any], kernel: str = "9.9", **when: str) -> CheckAnswer:
    return CheckAnswer(
        check="made-up", when=when, facts=facts, error=None, raw="checks.jsonl", kernel=kernel
    )


@pytest.mark.parametrize(
    ("answers", "expected", "condition"),
    [
        ([answer({"errno": "EMADEUP"})], "CONFIRMED", ""),
        ([answer({"errno": "EOTHER"})], "REFUTED", ""),
        (
            [answer({"errno": "EMADEUP"}, umask="077"), answer({"errno": "ok"}, umask="000")],
            *("CONDITIONAL", "umask: holds for 077, does not hold for 000"),
        ),
        (
            [answer({"errno": "EMADEUP"}, "9.9"), answer({"errno": "ok"}, "8.8")],
            *("CONDITIONAL", "kernel: holds for 9.9, does not hold for 8.8"),
        ),
        ([answer({"other": 17})], "NOT MEASURED", ""),
        ([], "NOT MEASURED", ""),
        ([answer({}).model_copy(update={"error": "it needs root"})], "NOT MEASURED", ""),
    ],
)
def test_checks(answers: list[CheckAnswer], expected: str, condition: str) -> None:
    rule = {"kind": "check", "check": "made-up", "facts": {"errno": "EMADEUP"}}
    (found,) = judge([claim(rule)], FRAME, [], answers)
    assert (found.verdict, found.condition) == (expected, condition)
    assert found.why


def test_a_check_is_judged_in_the_circumstance_that_the_source_speaks_of() -> None:
    """What it finds in others is shown, and decides nothing."""
    rule = {"kind": "check", "check": "made-up", "facts": {"errno": "EMADEUP"}}
    answers = answer({"errno": "EMADEUP"}, umask="077"), answer({"errno": "ok"}, umask="000")
    for umask, expected in (("077", "CONFIRMED"), ("000", "REFUTED"), ("022", "NOT MEASURED")):
        about = claim(rule | {"when": {"umask": umask}})
        (found,) = judge([about], FRAME, [], answers)
        assert found.verdict == expected
        assert len(found.findings) == (0 if expected == "NOT MEASURED" else 2)


def a_tool(help_text: str, options: dict[str, bool], error: str | None = None) -> ToolAnswer:
    return ToolAnswer(
        tool="made-up", help=help_text, options=options, error=error, raw="tools.jsonl"
    )


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        (a_tool("Usage: -c N --made-up=17", {}), "CONFIRMED"),
        (a_tool("", {"--made-up": True}), "CONFIRMED"),
        (a_tool("Usage: --made-up-too", {"--made-up": False}), "REFUTED"),
        (a_tool("", {}, "made-up is not installed"), "NOT MEASURED"),
        (None, "NOT MEASURED"),
    ],
)
def test_options(tool: ToolAnswer | None, expected: str) -> None:
    rule = {"kind": "option", "tool": "made-up", "option": "--made-up"}
    (found,) = judge([claim(rule)], FRAME, [], [tool] if tool else [])
    assert found.verdict == expected


def test_every_option_that_a_source_quotes_is_asked() -> None:
    """By rule, not by name: whoever quotes a command line claims that the tool has the options."""
    asked = {
        (claim.source.id, claim.rule.tool, claim.rule.option)
        for claim in load_claims()
        if isinstance(claim.rule, OptionRule)
    }
    quoted = {
        (claim.source.id, claim.quote.split()[0], option)
        for claim in load_claims()
        for option in re.findall(r"(?<!\S)--[a-z-]+", claim.quote)
    }
    assert quoted <= asked
    assert quoted
