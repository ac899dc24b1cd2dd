# SPDX-License-Identifier: GPL-2.0-or-later
"""Verdicts: of made-up figures by each kind of rule, of made-up runs, and of wrong files."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.claims.files import load_claims
from analysis.claims.judge import BESIDE, judge
from analysis.claims.rules import ABOUT
from analysis.claims.verdict import Judged, by_source, claims_table, more_text, tally
from analysis.raw.run import Missing
from analysis.statistics import LEAST_REPEATS
from analysis.wording import extent
from probes.messages import UsageError
from probes.reasons import missing, reason
from tests.analysis.conftest import Analyse
from tests.analysis.made_claims import (
    ACROSS,
    BOUNDS,
    MIXED,
    PRESENT,
    RATIO,
    VALUES,
    Figures,
    claim,
    measured,
    verdict,
)  # fmt: skip
from tests.analysis.make_run import MadeUp


@pytest.mark.parametrize(
    ("rule", "quantity", "figure", "expected", "condition"),
    [
        (PRESENT, "segments_ack", lambda *_: 0.01, "REFUTED", ""),
        (
            *(PRESENT, "segments_ack", lambda t, p, *_: 1.0 * (t == "tcp" and p == "connect")),
            *("CONDITIONAL", "pattern: holds for connect, does not hold for pingpong"),
        ),
        (
            *(BOUNDS, "segments_data", lambda t, p, c, r: 20.0 if t == "tcp" else 5 + r % 2),
            *("CONDITIONAL", "repeat: flips from repeat to repeat for"),
        ),
        (RATIO, "rtt_p50", lambda t, p, c, r: 400.0 + r if t == "tcp" else 100, "CONFIRMED", ""),
        (RATIO, "rtt_p50", lambda t, p, c, r: 160.0 + r if t == "tcp" else 100, "REFUTED", ""),
        (
            *(RATIO, "rtt_p50", lambda t, p, c, r: 296.0 + 9 * (r % 2) if t == "tcp" else 100),
            *("CONDITIONAL", "this run's noise: its interval crosses the limit"),
        ),
        (
            *(RATIO, "rtt_p50", lambda t, p, c, r: 400.0 if t == "tcp" else MIXED[c]),
            *("CONDITIONAL", "conditions: holds for cross-cpu, does not hold for same-cpu"),
        ),
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


@pytest.mark.parametrize(
    ("fails", "condition", "kernel"),
    [
        (bool, "kernel: holds for 7.7 and 9.9, does not hold for 8.8", "REFUTED"),
        (
            "same-cpu".__eq__,
            "conditions and kernel: holds for cross-cpu, same-cpu (7.7) and same-cpu (9.9), "
            "does not hold for same-cpu (8.8)",
            "CONDITIONAL",
        ),
    ],
)
def test_a_claim_that_fails_on_one_of_three_kernels(
    fails: Callable[[str], bool], condition: str, kernel: str
) -> None:
    """One of the kernels ran in two targets."""

    def figure(name: str) -> Figures:
        return lambda transport, _, placement, __: (
            5.0 if transport == "unix" else 1.0 if name == "8.8" and fails(placement) else 20.0
        )

    targets = (("host", "9.9"), ("guest", "7.7"), ("guest", "8.8"), ("exact-other", "8.8"))
    frames = [
        measured("segments_data", figure(name)).assign(target=target, kernel=name)
        for target, name in targets
    ]
    (found,) = judge([claim(BOUNDS, "segments_data")], pd.concat(frames), [])
    assert (found.verdict, found.condition) == ("CONDITIONAL", condition)
    assert dict(found.kernels) == {"9.9": "CONFIRMED", "7.7": "CONFIRMED", "8.8": kernel}


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


def test_part_of_a_scope_is_said_and_tallied_apart() -> None:
    """A claim about two sizes and two placements, in a run that has one of each pair."""
    scope = {"size": [77, 4096], "conditions": ["same-cpu", "cross-cpu"]}
    figures = measured("segments_data", lambda *_: 16.9, patterns=("pingpong",))
    about = claim(BOUNDS, "segments_data", scope=scope)
    (found,) = judge([about], figures[figures["conditions"] == "same-cpu"], [])
    assert (found.verdict, found.measured, found.scope) == ("REFUTED", 1, 4)
    assert found.text == "REFUTED where measured (1 of 4 conditions; 3 not measured)"
    assert "pingpong · 4 KiB · cross-cpu" in found.lacking
    assert "--claims one" in found.lacks
    whole = verdict(BOUNDS, "segments_data", lambda *_: 16.9)
    assert (whole.text, whole.lacking, whole.lacks) == ("REFUTED", (), "")
    assert "2 refuted (1 of the 2 in part of the scope)" in tally([whole, found])
    table = claims_table([whole, found], {})
    assert list(dict.fromkeys(table["coverage"])) == ["4 of 4", "1 of 4"]


@pytest.mark.parametrize("rule", [RATIO, BOUNDS, ACROSS])
def test_times_of_five_repeats_settle_nothing(rule: dict[str, Any]) -> None:
    """Whichever way they lie; counts of two repeats do."""
    for value in (1.0, 400.0):
        few = measured("rtt_p50", lambda t, *_, v=value: v if t == "tcp" else 100.0, repeats=5)
        (found,) = judge([claim(rule, "rtt_p50")], few, [])
        assert found.verdict == "NOT MEASURED" and found.evidence
        assert f"--repeats {LEAST_REPEATS}" in found.why
        assert tally([found]) == "Of 1 claim 1 was not measured."
    counts = measured("segments_data", lambda *_: 16.9, repeats=2)
    assert judge([claim(BOUNDS, "segments_data")], counts, [])[0].verdict == "REFUTED"


def test_somebodys_times_are_not_refuted_by_another_machine() -> None:
    found = verdict(RATIO, "rtt_p50", lambda *_: 100.0, measurement=True)
    assert found.verdict == "NOT REPRODUCED"
    assert "1 not reproduced" in tally([found])


def test_nothing_over_nothing_is_no_ratio() -> None:
    rule = {"kind": "ratio", "over": "tcp", "under": "unix", "least": 1}
    found = verdict(rule, "segments_data", lambda *_: 0.0)
    assert found.verdict == "REFUTED"
    assert "no ratio" in found.why
    assert not any(one.figures.get("tcp / unix") for one in found.evidence)


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
    absent = [Missing("skbs", "host", "made up: not run", quantities=("skb_allocs",))]
    where = {"size": [size], "conditions": ["same-cpu"]}
    figures = measured("segments_data", lambda *_: 1.0)
    (found,) = judge([claim(BOUNDS, quantity, scope=where)], figures, absent)
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
    csv = claims_table(found, {}).drop_duplicates("claim").set_index("claim")["family"]
    assert csv["a"] == csv["b"] == csv["d"] != csv["c"]


def test_our_own_claims_are_counted_apart() -> None:
    theirs = verdict(BOUNDS, "segments_data", lambda *_: 16.9)
    source = theirs.claim.source.model_copy(update={"ours": True})
    ours = replace(theirs, claim=theirs.claim.model_copy(update={"source": source}))
    assert tally([ours, theirs]) == (
        "Of 1 claim 1 was measured: 1 refuted. Of 1 claim of our own 1 was measured: 1 refuted."
    )
    assert more_text([theirs, ours, ours], [theirs]) == "2 more verdicts (2 on claims of our own)"
    assert more_text([theirs], []) == "1 verdict", "no more than those that nothing shows"
    assert "made-up (ours)" in list(by_source([theirs, ours])["source"])


@pytest.mark.parametrize(
    ("rule", "accepted"),
    [
        (RATIO, f"tcp / unix {extent(3, 5)}"),
        (PRESENT, "tcp at least 0.05, unix at most 0.05"),
        (
            {"kind": "ratio", "over": "tcp", "under": "unix", "about": 4},
            f"tcp / unix {extent(3.2, 5)}",
        ),
    ],
)
def test_a_verdict_shows_what_it_accepts(rule: dict[str, Any], accepted: str) -> None:
    assert verdict(rule, "segments_data", lambda *_: 1.0).accepted == accepted


PART = {"kind": "part", "over": "tcp", "under": "unix", "least": 0.5}


@pytest.mark.parametrize(
    ("asleep", "expected"), [(400.0, "CONFIRMED"), (900.0, "REFUTED"), (None, "NOT MEASURED")]
)
def test_how_much_of_the_extra_time_is_left_where_nobody_sleeps(
    asleep: float | None, expected: str
) -> None:
    """TCP takes 300 longer in all, of which it takes 200 or 50 where both poll."""
    extra = {"pingpong": 300.0, "polled": {400.0: 200.0}.get(asleep or 0.0, 50.0)}
    frame = measured(
        "rtt_p50", lambda t, p, c, r: 100.0 + r + extra[p] * (t == "tcp"),
        patterns=("pingpong", "polled"),
    )  # fmt: skip
    frame = frame[frame["conditions"] == "cross-cpu"]
    polled = frame["pattern"] == "polled"
    frame.loc[polled, ["pattern", "conditions"]] = ["pingpong", "cross-cpu+spin"]
    frame = frame if asleep else frame[~polled]
    scope = {"size": [77], "conditions": ["cross-cpu"]}
    (found,) = judge([claim(PART, "rtt_p50", scope=scope)], frame, [])
    assert found.verdict == expected


def test_a_ratio_of_times_is_the_quotient_of_the_figures_beside_it() -> None:
    """Each transport is slow in other repeats than the other: all figures are of the same ones."""
    slow = {"tcp": (410, 402, 436, 405, 420, 400), "unix": (90, 120, 104, 96, 111, 99)}
    found = verdict(RATIO, "rtt_p50", lambda t, p, c, r: float(slow[t][r]))
    for evidence in found.evidence:
        tcp, unix, ratio = (evidence.figures.get(name) for name in ("tcp", "unix", "tcp / unix"))
        assert tcp and unix and ratio
        assert ratio.value == pytest.approx(tcp.value / unix.value)


def test_a_time_of_zero_leaves_a_quotient_open() -> None:
    """Of 6 repeats' kernel time one is below what ticks see: there is no median quotient."""
    found = verdict(RATIO, "cpu_system", lambda t, p, c, r: 0.0 if t == "unix" and r == 3 else 100)
    assert found.verdict == "CONDITIONAL"
    assert {evidence.holds for evidence in found.evidence} == {None}
    assert "noise" in found.condition
    assert verdict(RATIO, "cpu_system", lambda *_: 100).verdict == "REFUTED"


def test_a_claim_about_a_program_is_judged_by_that_program() -> None:
    """In C TCP took four times as long, with redis as long as a Unix socket."""
    speed = "requests_per_s"
    where = {"pattern": ["redis-new"], "conditions": ["same-cpu", "cross-cpu"]}
    about = claim(RATIO, speed, scope=where, workload={"pattern": ["connect"]})

    def figure(transport: str, pattern: str, *_: object) -> float:
        return 400.0 if (transport, pattern) == ("tcp", "connect") else 100.0

    def judged(*patterns: str) -> Judged:
        return judge([about], measured(speed, figure, patterns=patterns), [])[0]

    both = judged("connect", "redis-new")
    assert (both.verdict, both.condition, both.lacking) == ("REFUTED", "", ())
    assert "in 2 measurements: tcp 100; unix 100; tcp / unix 1.00." in both.why
    assert both.why.endswith(BESIDE)
    assert {evidence.place["pattern"] for evidence in both.evidence} == {"connect", "redis-new"}
    alone = judged("connect")
    assert (alone.verdict, len(alone.evidence)) == ("NOT MEASURED", 2)
    assert "--program redis" in alone.why
    assert judged("redis-new").verdict == "REFUTED"


def test_about_is_what_the_registry_says() -> None:
    rule = {"kind": "ratio", "over": "tcp", "under": "unix", "about": 4}
    limit = 4 * ABOUT

    def of(value: float) -> str:
        return verdict(rule, "rtt_p50", lambda t, *_: value if t == "tcp" else 1.0).verdict

    assert (of(limit), of(1.01 * limit)) == ("CONFIRMED", "REFUTED")


def of_run(analysed: Analyse, made: MadeUp, claim: str = "context-switches") -> Judged:
    return next(v for v in analysed(made).verdicts if v.claim.id == claim)


def test_not_measured_gives_the_reason_of_the_run(analysed: Analyse) -> None:
    why = reason("no-kprobes")
    lacks = [missing(["copy_bytes", "copy_calls"], why)]
    found = of_run(analysed, MadeUp(guest=False, missing=lacks), "packet-copies")
    assert found.verdict == "NOT MEASURED"
    assert f"{why} (--target guest has them)." in found.why


def test_mechanism_holds_measured_figures(analysed: Analyse) -> None:
    found = of_run(analysed, MadeUp(maps={"@skb_clones": {"3": 0, "4": 8}}), "packet-copies")
    assert "5.00 from one place in the kernel to another" in found.mechanism
    assert "TCP cloned 1.00 socket buffers" in found.mechanism


def test_claims_table_goes_from_a_figure_to_its_cell_runs(plain_report: tuple[Path, str]) -> None:
    run, _ = plain_report
    claims = pd.read_csv(run / "claims.csv").query("claim == 'context-switches'")
    wanted = {int(cell) for cells in claims["cells"] for cell in cells.split()}
    assert len(wanted) == 2 * 2 * 3  # placements, transports, repeats
    assert set(claims["unit"]) == {"count per round trip"}
    assert all((run / file).exists() for file in claims["raw"])


def test_a_run_for_one_claim_is_silent_about_what_it_did_not_settle(analysed: Analyse) -> None:
    asked = MadeUp(guest=False, options={"claims": ["packet-copies"]})
    verdicts = {verdict.claim.id: verdict.verdict for verdict in analysed(asked).verdicts}
    assert verdicts["packet-copies"] == "NOT MEASURED"  # asked for, so it is said
    assert verdicts["context-switches"] == "REFUTED"  # its cells settle this one too
    others = [name for name, said in verdicts.items() if said == "NOT MEASURED"]
    assert others == ["packet-copies"]


CLAIM = """
[source]
id = "made-up"
description = "made up"

[[claim]]
id = "one"
quote = "q"
statement = "s"
reading = "r"
quantity = "switches"
{more}

[claim.rule]
{rule}
"""
UNIX_17 = 'kind = "values"\nexpected = { unix = 17 }\ntolerance = 1'


@pytest.mark.parametrize(
    ("more", "rule", "place"),
    [
        ('colour = "red"', UNIX_17, "claim.1.colour"),
        ("", 'kind = "guess"', "claim.1.rule"),
        (
            'scope = { pattern = ["stream", "go-echo"], conditions = ["free"] }',
            *(UNIX_17, "put the workload's patterns into 'workload'"),
        ),
        (
            'scope = { pattern = ["none-such"] }',
            UNIX_17,
            "claim.1.scope: no pattern is 'none-such'",
        ),
        ("", 'kind = "present"\non = ["tpc"]', "no transport is 'tpc'"),
        (
            'scope = { pattern = ["pingpong", "connect"] }',
            *('kind = "present"\non = ["tcp", "shm"]', "rule: shm has no pattern 'connect'"),
        ),
        ('mechanism = "{calls:ip_rcv+tpc_ack.tcp}"', UNIX_17, "no kernel function 'tpc_ack'"),
        ('mechanism = "{switch.unix}"', UNIX_17, "claim.1.mechanism: 'switch' is not known"),
        ("", "kind = 'option'\ntool = 'wrk'\noption = '-c'", "is over no 'quantity'"),
    ],
)
def test_wrong_claims_file(tmp_path: Path, more: str, rule: str, place: str) -> None:
    (tmp_path / "made-up.toml").write_text(CLAIM.format(more=more, rule=rule))
    with pytest.raises(UsageError) as error:
        load_claims(tmp_path)
    assert str(error.value).startswith("claims/made-up.toml") and place in str(error.value)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        *((text, True) for text in ("", "2024", "2024-02", "2024-02-29")),
        *((text, False) for text in ("a Friday, 1 April", "2023-02-29", "2024-2", "2024-02-291")),
    ],
)
def test_a_date_is_a_day_a_month_or_a_year(tmp_path: Path, text: str, right: bool) -> None:
    dated = CLAIM.replace("[[claim]]", f'date = "{text}"\n[[claim]]', 1)
    (tmp_path / "made-up.toml").write_text(dated.format(more="", rule=UNIX_17))
    if right:
        assert load_claims(tmp_path)[0].source.date == text
        return
    with pytest.raises(UsageError, match=r"^claims/made-up.toml, source.date: .* is no date like"):
        load_claims(tmp_path)
