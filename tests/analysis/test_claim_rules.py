# SPDX-License-Identifier: GPL-2.0-or-later
"""Each kind of rule: made-up figures in which one claim is true, false and mixed."""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from analysis.counts.measures import RUN_OF_CELL, measure_all
from analysis.intervals import LEAST_REPEATS
from analysis.raw.run import Missing
from analysis.verdicts.files import Claim, load_claims
from analysis.verdicts.judge import BESIDE, judge
from analysis.verdicts.observed import Answer, Observed, Tool
from analysis.verdicts.rules import TERMS, Consistent, Option
from analysis.verdicts.stated import CHECKS, findings
from analysis.verdicts.verdict import (
    ANSWERED,
    Verdict,
    by_verdict,
    claims_table,
    steadiness,
    tally,
)

SOURCE = {"id": "made-up", "description": "made up"}
PATTERNS = ("pingpong", "connect")
# (transport, pattern, placement, repeat) → the figure.
Figures = Callable[[str, str, str, int], float]


def claim(rule: dict[str, Any], quantity: str = "", **more: Any) -> Claim:
    """A claim about the patterns and placements of `measured`, if `more` does not say otherwise."""
    text = {"id": "one", "quote": "q", "statement": "s", "reading": "r"}
    more = {"where": {"pattern": PATTERNS}} | more
    return Claim(**text, quantity=quantity, rule=rule, source=SOURCE, **more)  # type: ignore[arg-type]


def measured(
    measure: str, figure: Figures, repeats: int = 6, patterns: tuple[str, ...] = PATTERNS
) -> pd.DataFrame:
    """One figure for each transport, pattern, placement and repeat of a made-up run."""
    where = {"size": 77, "target": "host", "kernel": "9.9", "instrument": "kernel"}
    rows = [
        {
            **where,
            "measure": measure,
            "transport": transport,
            "pattern": pattern,
            "conditions": placement,
            "repeat": repeat,
            "probe_level": "function",
            "probed": False,
            "messages": 20,
            "valid": True,
            "value": figure(transport, pattern, placement, repeat),
        }
        for transport in ("unix", "tcp")
        for pattern in patterns
        for placement in ("same-cpu", "cross-cpu")
        for repeat in range(repeats)
    ]
    return pd.DataFrame([row | {"cell": number} for number, row in enumerate(rows, 1)])


def verdict(rule: dict[str, Any], quantity: str, figure: Figures, **more: Any) -> Verdict:
    """Of the claim with this rule; `more` is of the claim."""
    return judge([claim(rule, quantity, **more)], measured(quantity, figure), [])[0]


MIXED = {"same-cpu": 200, "cross-cpu": 100}
PRESENT = {"kind": "present", "on": ["tcp"], "not_on": ["unix"]}
BOUNDS = {"kind": "bounds", "least": {"tcp": 17}, "most": {"unix": 5}}
RATIO = {"kind": "ratio", "over": "tcp", "under": "unix", "least": 3, "most": 5}
ACROSS = {
    **{"kind": "across", "key": "pattern", "over": "connect", "under": "pingpong"},
    **{"transports": ["unix", "tcp"], "least": 2},
}
VALUES = {"kind": "values", "expected": {"unix": 1}, "tolerance": 0.1}


@pytest.mark.parametrize(
    ("rule", "quantity", "figure", "expected", "condition"),
    [
        (PRESENT, "segments_ack", lambda t, *_: 1.0 * (t == "tcp"), "CONFIRMED", ""),
        (PRESENT, "segments_ack", lambda *_: 0.01, "REFUTED", ""),
        (
            *(PRESENT, "segments_ack", lambda t, p, *_: 1.0 * (t == "tcp" and p == "connect")),
            *("CONDITIONAL", "pattern: holds for connect, does not hold for pingpong"),
        ),
        (BOUNDS, "segments_data", lambda t, *_: 17.0 if t == "tcp" else 5.0, "CONFIRMED", ""),
        (BOUNDS, "segments_data", lambda *_: 16.9, "REFUTED", ""),
        (
            *(BOUNDS, "segments_data", lambda t, p, c, r: 20.0 if t == "tcp" else 5 + r % 2),
            *("CONDITIONAL", "repeat: flips from repeat to repeat for"),
        ),
        (RATIO, "rtt_p50", lambda t, p, c, r: 400.0 + r if t == "tcp" else 100, "CONFIRMED", ""),
        (RATIO, "rtt_p50", lambda t, p, c, r: 160.0 + r if t == "tcp" else 100, "REFUTED", ""),
        (
            *(RATIO, "rtt_p50", lambda t, p, c, r: 400.0 if t == "tcp" else MIXED[c]),
            *("CONDITIONAL", "conditions: holds for cross-cpu, does not hold for same-cpu"),
        ),
        (ACROSS, "rtt_p50", lambda t, p, *_: 300.0 if p == "connect" else 100, "CONFIRMED", ""),
        (ACROSS, "rtt_p50", lambda *_: 111.0, "REFUTED", ""),
        (
            *(ACROSS, "rtt_p50", lambda t, p, *_: 300.0 if (p, t) == ("connect", "tcp") else 111),
            *("CONDITIONAL", "transport: holds for tcp, does not hold for unix"),
        ),
    ],
)  # fmt: skip
def test_true_false_and_mixed(
    rule: dict[str, Any], quantity: str, figure: Figures, expected: str, condition: str
) -> None:
    found = verdict(rule, quantity, figure)
    assert found.verdict == expected, found.why
    assert found.condition.startswith(condition) and bool(found.condition) == bool(condition)
    assert found.evidence and all(evidence.cells for evidence in found.evidence)


def on_kernels(rule: dict[str, Any], figure: Callable[[str, str], Figures]) -> Verdict:
    """`figure` of a target and a kernel. Three kernels ran, one of them in two targets."""
    quantity = "segments_data"
    targets = (("host", "9.9"), ("guest", "7.7"), ("guest", "8.8"), ("exact-other", "8.8"))
    frames = [
        measured(quantity, figure(target, kernel)).assign(target=target, kernel=kernel)
        for target, kernel in targets
    ]
    return judge([claim(rule, quantity)], pd.concat(frames), [])[0]


def of_one(wanted: str, wrong: Callable[[str], float]) -> Callable[[str, str], Figures]:
    """The claim holds, but not on kernel `wanted`, whose figure is of the placement."""
    return lambda _, kernel: (
        lambda t, p, c, r: (wrong(c) if kernel == wanted else 20.0) if t == "tcp" else 5.0
    )


@pytest.mark.parametrize(
    ("figure", "expected", "condition", "kernels"),
    [
        (of_one("none", lambda _: 1.0), "CONFIRMED", "", ["CONFIRMED"] * 3),
        (lambda *_: lambda *_: 16.9, "REFUTED", "", ["REFUTED"] * 3),
        (
            of_one("8.8", lambda _: 1.0), "CONDITIONAL",
            "kernel: holds for 7.7 and 9.9, does not hold for 8.8",
            ["CONFIRMED", "CONFIRMED", "REFUTED"],
        ),
        (
            of_one("8.8", lambda c: 1.0 if c == "same-cpu" else 20.0), "CONDITIONAL",
            "conditions and kernel: holds for cross-cpu, same-cpu (7.7) and same-cpu (9.9), "
            "does not hold for same-cpu (8.8)",
            ["CONFIRMED", "CONFIRMED", "CONDITIONAL"],
        ),
    ],
)  # fmt: skip
def test_true_false_and_mixed_across_kernels(
    figure: Callable[[str, str], Figures], expected: str, condition: str, kernels: list[str]
) -> None:
    found = on_kernels(BOUNDS, figure)
    assert found.verdict == expected, found.why
    assert found.condition.startswith(condition) and bool(found.condition) == bool(condition)
    assert dict(found.kernels) == dict(zip(("9.9", "7.7", "8.8"), kernels, strict=True))
    # A mixed verdict is never hidden behind one word.
    assert (len(set(kernels)) == 1) or found.verdict == "CONDITIONAL"


def test_kernels_are_compared_where_all_of_them_were_measured() -> None:
    """A cell that is invalid on one kernel makes no difference between kernels."""

    def placed(transport: str, _: str, placement: str, repeat: int) -> float:
        return (1.0 if placement == "same-cpu" else 20.0) if transport == "tcp" else 5.0

    both = measured("segments_data", placed).assign(kernel="7.7")
    only = both[both["conditions"] == "cross-cpu"].assign(kernel="8.8")
    (found,) = judge([claim(BOUNDS, "segments_data")], pd.concat([both, only]), [])
    assert found.condition == "conditions: holds for cross-cpu, does not hold for same-cpu"
    assert found.kernels == (("7.7", "CONFIRMED"), ("8.8", "CONFIRMED"))
    elsewhere = both[both["conditions"] == "same-cpu"].assign(kernel="9.9")
    (found,) = judge([claim(BOUNDS, "segments_data")], pd.concat([elsewhere, only]), [])
    assert found.kernels == ()


def test_how_many_kernels_say_so_is_told() -> None:
    same = on_kernels(BOUNDS, lambda *_: lambda *_: 16.9)
    mixed = on_kernels(BOUNDS, of_one("8.8", lambda _: 1.0))
    assert steadiness([same]).endswith("more than one kernel: all agree across kernels.")
    assert "1 of 2 agree across kernels" in steadiness([same, mixed])
    assert by_verdict(mixed.kernels) == "REFUTED on 8.8; CONFIRMED on 7.7 and 9.9"
    one = judge([claim(BOUNDS, "segments_data")], measured("segments_data", lambda *_: 1.0), [])
    assert steadiness(one) == ""


def test_a_kernel_in_two_targets_is_one_kernel() -> None:
    """Its guest and exact mode may differ, and then the target is what the verdict depends on."""
    here = measured("segments_data", lambda t, *_: 20.0 if t == "tcp" else 5.0).assign(kernel="7.7")
    there = here.assign(target="exact-fifo")
    (found,) = judge([claim(BOUNDS, "segments_data")], pd.concat([here, there]), [])
    assert found.kernels == (("7.7", "CONFIRMED"),)
    assert steadiness([found]) == ""
    there = there.assign(value=1.0)
    (found,) = judge([claim(BOUNDS, "segments_data")], pd.concat([here, there]), [])
    assert found.condition == "target: holds for host, does not hold for exact-fifo"


def test_part_of_a_scope_is_said_and_tallied_apart() -> None:
    """A claim about two sizes and two placements, in a run that has one of each pair."""
    scope = {"size": [77, 4096], "conditions": ["same-cpu", "cross-cpu"]}
    figures = measured("segments_data", lambda *_: 16.9, patterns=("pingpong",))
    about = claim(BOUNDS, "segments_data", where=scope)
    (found,) = judge([about], figures[figures["conditions"] == "same-cpu"], [])
    assert (found.verdict, found.coverage.measured, found.coverage.of) == ("REFUTED", 1, 4)
    assert found.said == "REFUTED in 1 of 4 conditions of its scope"
    assert set(found.coverage.lacking) == {
        "pingpong · 77 B · cross-cpu",
        "pingpong · 4 KiB · same-cpu",
        "pingpong · 4 KiB · cross-cpu",
    }
    assert "--claims one" in found.lacks
    whole = verdict(BOUNDS, "segments_data", lambda *_: 16.9)
    assert (whole.said, whole.coverage.lacking, whole.lacks) == ("REFUTED", (), "")
    assert "(1 refuted; in part of their scope 1 refuted)" in tally([whole, found])
    table = claims_table([whole, found], {})
    assert list(dict.fromkeys(table["coverage"])) == ["4 of 4", "1 of 4"]


def test_a_rule_across_patterns_has_both_in_one_condition() -> None:
    found = verdict(ACROSS, "rtt_p50", lambda *_: 111.0)
    assert (found.coverage.measured, found.coverage.of) == (4, 4)  # placements, transports


@pytest.mark.parametrize("rule", [RATIO, BOUNDS, ACROSS])
def test_times_of_five_repeats_settle_nothing(rule: dict[str, Any]) -> None:
    """Whichever way they lie; counts of two repeats do."""
    for value in (1.0, 400.0):
        few = measured("rtt_p50", lambda t, *_, v=value: v if t == "tcp" else 100.0, repeats=5)
        (found,) = judge([claim(rule, "rtt_p50")], few, [])
        assert found.verdict == "NOT MEASURED" and found.evidence
        assert f"--repeats {LEAST_REPEATS}" in found.why
        assert tally([found]) == "1 claim: 1 not measured"
    counts = measured("segments_data", lambda *_: 16.9, repeats=2)
    assert judge([claim(BOUNDS, "segments_data")], counts, [])[0].verdict == "REFUTED"


def test_somebodys_times_are_not_refuted_by_another_machine() -> None:
    found = verdict(RATIO, "rtt_p50", lambda *_: 100.0, measurement=True)
    assert found.verdict == "NOT REPRODUCED"
    assert "1 not reproduced" in tally([found])
    found = verdict(
        RATIO, "rtt_p50", lambda t, *_: 400.0 if t == "tcp" else 100.0, measurement=True
    )
    assert found.verdict == "CONFIRMED"


def test_nothing_over_nothing_is_no_ratio() -> None:
    rule = {"kind": "ratio", "over": "tcp", "under": "unix", "least": 1}
    found = verdict(rule, "segments_data", lambda *_: 0.0)
    assert found.verdict == "REFUTED"
    assert "no ratio" in found.why
    assert not any(one.figure("tcp / unix") for one in found.evidence)


@pytest.mark.parametrize(
    ("quantity", "size", "lacks"),
    [
        ("segments_data", 4096, {"4 KiB"}),
        ("skb_allocs", 77, {"made up: not run"}),
        ("skb_allocs", 4096, {"4 KiB", "made up: not run"}),
    ],
)
def test_what_lacks_is_named_cell_or_instrument(quantity: str, size: int, lacks: set[str]) -> None:
    """The run counted segments, in messages of 77 bytes."""
    missing = [Missing("skbs", "host", "made up: not run", quantities=("skb_allocs",))]
    where = {"size": [size], "conditions": ["same-cpu"]}
    figures = measured("segments_data", lambda *_: 1.0)
    (found,) = judge([claim(BOUNDS, quantity, where=where)], figures, missing)
    assert found.verdict == "NOT MEASURED"
    assert {word for word in ("4 KiB", "made up: not run") if word in found.why} == lacks


def test_claims_that_rest_on_one_ratio_are_a_family() -> None:
    """Two about switches of both transports, one about unix alone; one of another quantity."""
    table = pd.concat([measured(name, lambda *_: 3.0) for name in ("switches", "segments_data")])
    about: dict[str, tuple[dict[str, Any], str]] = {
        "a": (VALUES, "switches"),
        "b": (RATIO, "switches"),
        "c": (PRESENT, "segments_data"),
        "d": (RATIO | {"most": 9}, "switches"),
        "e": (ACROSS, "switches"),
    }
    claims = [claim(*rule).model_copy(update={"id": name}) for name, rule in about.items()]
    found = judge(claims, table, [])
    assert {verdict.family for verdict in found} == {("a", "b", "d"), ("c",), ("e",)}
    assert "5 measured" in tally(found) and "rest on 2 quantities" in tally(found)
    csv = claims_table(found, {}).drop_duplicates("claim").set_index("claim")["family"]
    assert csv["a"] == csv["b"] == csv["d"] != csv["c"]


def test_an_interval_across_the_limit_leaves_it_open() -> None:
    found = verdict(RATIO, "rtt_p50", lambda t, p, c, r: 270.0 + 12 * r if t == "tcp" else 100)
    assert found.verdict == "CONDITIONAL"


def test_a_time_of_zero_leaves_a_quotient_open() -> None:
    """Of 6 repeats' kernel time one is below what ticks see: there is no median quotient."""
    found = verdict(RATIO, "cpu_system", lambda t, p, c, r: 0.0 if t == "unix" and r == 3 else 100)
    assert (found.verdict, {evidence.holds for evidence in found.evidence}) == (
        "CONDITIONAL",
        {None},
    )
    assert "noise" in found.condition
    assert verdict(RATIO, "cpu_system", lambda *_: 100).verdict == "REFUTED"


def test_a_claim_about_a_program_is_judged_by_that_program() -> None:
    """In C TCP took four times as long, with redis as long as a Unix socket."""
    speed = "requests_per_s"
    where = {"pattern": ["redis-new"], "conditions": ["same-cpu", "cross-cpu"]}
    about = claim(RATIO, speed, where=where, beside={"pattern": ["connect"]})

    def figure(transport: str, pattern: str, *_: object) -> float:
        return 400.0 if (transport, pattern) == ("tcp", "connect") else 100.0

    def judged(*patterns: str) -> Verdict:
        return judge([about], measured(speed, figure, patterns=patterns), [])[0]

    both = judged("connect", "redis-new")
    assert (both.verdict, both.condition, both.coverage.lacking) == ("REFUTED", "", ())
    assert "in 2 measurements: tcp 100; unix 100; tcp / unix 1.00." in both.why
    assert both.why.endswith(BESIDE)
    assert {evidence.condition["pattern"] for evidence in both.evidence} == {"connect", "redis-new"}
    alone = judged("connect")
    assert (alone.verdict, len(alone.evidence)) == ("NOT MEASURED", 2)
    assert "--program redis" in alone.why
    assert judged("redis-new").verdict == "REFUTED"


def test_about_is_what_the_registry_says() -> None:
    rule = {"kind": "ratio", "over": "tcp", "under": "unix", "about": 4}
    limit = 4 * (1 + TERMS.about)

    def of(value: float) -> str:
        return verdict(rule, "rtt_p50", lambda t, *_: value if t == "tcp" else 1.0).verdict

    assert (of(limit), of(1.01 * limit)) == ("CONFIRMED", "REFUTED")
    assert f"within {TERMS.about:.0%}" in claim(rule, "rtt_p50").rule.words()


@pytest.mark.parametrize(
    ("numbers", "expected", "said"),
    [
        ({"larger": 34, "smaller": 17, "times": 2}, "CONFIRMED", "larger / smaller = 2.00"),
        ({"larger": 34, "smaller": 17, "times": 3}, "REFUTED", "stated: times 3.00"),
        ({"larger": 62.9, "smaller": 17.1, "times": 3.5}, "REFUTED", "larger / smaller = 3.68"),
        ({"part": 17, "whole": 27, "percent_below": 50}, "REFUTED", "percent below 50.0"),
        # What is rounded or cut at its last digit agrees, in a limit as in an equation.
        ({"part": 100, "whole": 158, "percent_below": 63}, "CONFIRMED", "in percent = 63.3"),
        ({"larger": 62, "smaller": 34, "times": 2}, "CONFIRMED", "larger / smaller = 1.82"),
        ({"count": 7, "seconds": 4.0, "per_s": 1.7}, "CONFIRMED", "count / seconds = 1.75"),
        ({"larger": 900, "smaller": 450, "saved_percent_least": 51}, "REFUTED", "at least 51.0"),
        ({"parts": [17, 17], "total": 34}, "CONFIRMED", "sum of the parts = 34.0"),
        ({"per_s": 1000, "latency_s": 0.017, "connections": 17}, "CONFIRMED", "in flight = 17.0"),
        ({"per_s": 1000, "latency_s": 0.017, "connections": 100}, "REFUTED", "in flight = 17.0"),
        ({"count": 34, "seconds": 17, "per_s": 2}, "CONFIRMED", "count / seconds = 2.00"),
    ],
)
def test_stated_numbers(numbers: dict[str, Any], expected: str, said: str) -> None:
    rule = {"kind": "consistent", "stated": [{"what": "made up", **numbers}]}
    (found,) = judge([claim(rule)], measured("switches", lambda *_: 1.0), [])
    assert found.verdict == expected
    assert said in found.findings[0].text


def test_numbers_that_no_check_fits_are_refused() -> None:
    with pytest.raises(ValueError, match="no check fits these numbers"):
        claim({"kind": "consistent", "stated": [{"what": "made up", "larger": 17}]})


def answer(facts: dict[str, Any], kernel: str = "9.9", **when: str) -> Answer:
    return Answer(
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
        (
            [
                answer({"errno": said}, kernel, umask=umask)
                for kernel, umask, said in (
                    ("9.9", "077", "EMADEUP"),
                    ("9.9", "000", "ok"),
                    ("8.8", "077", "EMADEUP"),
                    ("8.8", "000", "EMADEUP"),
                )
            ],
            "CONDITIONAL",
            "umask and kernel: holds for 077 and 000 (8.8), does not hold for 000 (9.9)",
        ),
        ([answer({"other": 17})], "NOT MEASURED", ""),
        ([], "NOT MEASURED", ""),
        ([answer({}).model_copy(update={"error": "it needs root"})], "NOT MEASURED", ""),
    ],
)
def test_checks(answers: list[Answer], expected: str, condition: str) -> None:
    rule = {"kind": "check", "check": "made-up", "facts": {"errno": "EMADEUP"}}
    frame = measured("switches", lambda *_: 1.0)
    (found,) = judge([claim(rule)], frame, [], Observed(tuple(answers)))
    assert (found.verdict, found.condition) == (expected, condition)
    assert found.why


def test_a_check_is_judged_in_the_circumstance_that_the_source_speaks_of() -> None:
    """What it finds in others is shown, and decides nothing."""
    rule = {"kind": "check", "check": "made-up", "facts": {"errno": "EMADEUP"}}
    answers = answer({"errno": "EMADEUP"}, umask="077"), answer({"errno": "ok"}, umask="000")
    frame = measured("switches", lambda *_: 1.0)
    for umask, expected in (("077", "CONFIRMED"), ("000", "REFUTED"), ("022", "NOT MEASURED")):
        about = claim(rule | {"when": {"umask": umask}})
        (found,) = judge([about], frame, [], Observed(answers))
        assert found.verdict == expected
        assert len(found.findings) == (0 if expected == "NOT MEASURED" else 2)


def a_tool(help_text: str, options: dict[str, bool], error: str | None = None) -> Tool:
    return Tool(tool="made-up", help=help_text, options=options, error=error, raw="tools.jsonl")


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
def test_options(tool: Tool | None, expected: str) -> None:
    rule = {"kind": "option", "tool": "made-up", "option": "--made-up"}
    tools = {"made-up": tool} if tool else {}
    frame = measured("switches", lambda *_: 1.0)
    (found,) = judge([claim(rule)], frame, [], Observed((), tools))
    assert found.verdict == expected
    answered = f"1 answered by the kernel or a tool (1 {expected.lower()})"
    assert tally([found]) == f"1 claim: {answered if found.kind == ANSWERED else '1 not measured'}"


def test_every_claim_that_is_measured_says_what_makes_it_so() -> None:
    """A verdict is a figure and its mechanism: counts, or where the time went."""
    assert [claim.id for claim in load_claims() if claim.measured and not claim.mechanism] == []


def test_every_option_that_a_source_quotes_is_asked() -> None:
    """By rule, not by name: whoever quotes a command line claims that the tool has the options."""
    asked = {
        (claim.source.id, claim.rule.tool, claim.rule.option)
        for claim in load_claims()
        if isinstance(claim.rule, Option)
    }
    quoted = {
        (claim.source.id, claim.quote.split()[0], option)
        for claim in load_claims()
        for option in re.findall(r"(?<!\S)--[a-z-]+", claim.quote)
    }
    assert quoted <= asked
    assert quoted


def test_every_arithmetic_check_is_made_of_whatever_has_its_numbers() -> None:
    """Of all sets of numbers in the registry, no check that could be made is left out."""
    made: Counter[str] = Counter()
    for claim in load_claims():
        if isinstance(claim.rule, Consistent):
            fitting = [
                check
                for numbers in claim.rule.stated
                for check in CHECKS
                if set(check.needs) <= numbers.given().keys()
            ]
            found = findings(claim.rule.stated)
            assert len(found) == len(fitting) >= len(claim.rule.stated)
            made.update(check.name for check in fitting)
    assert {"quotient", "Little's law", "rate", "sum", "share", "saving"} <= made.keys()


def test_calls_of_a_function_are_zero_where_it_was_watched() -> None:
    where = dict.fromkeys(RUN_OF_CELL, "x") | {
        "messages": 17,
        "size": 10,
        "valid": True,
        "probed": True,
    }
    rows = [
        where | {"quantity": "function_calls", "key": key, "cell": cell, "value": 34.0}
        for cell, key in ((1, "made_up_1"), (2, "made_up_2"))
    ]
    found = measure_all(pd.DataFrame(rows), ["calls:made_up_1", "calls:made_up_3"])
    calls = found[found["measure"] == "calls:made_up_1"]
    assert dict(zip(calls["cell"], calls["value"], strict=True)) == {1: 2.0, 2: 0.0}
    assert "calls:made_up_3" not in set(found["measure"])  # nobody watched it
