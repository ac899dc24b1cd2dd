# SPDX-License-Identifier: GPL-2.0-or-later
"""Verdicts flip when the data do; a wrong claims file ends in a sentence."""

import json
from pathlib import Path

import pandas as pd
import pytest

from analysis.analyse import analyse
from analysis.claims.files import load_claims
from analysis.claims.judge import DISTURBED
from analysis.claims.verdict import Verdict, claims_table
from analysis.raw.run import read_run
from probes.messages import UsageError
from probes.reasons import missing, reason
from tests.analysis.conftest import Analyse
from tests.analysis.make_run import MadeUp, make_run


def as_claimed(transport: str) -> tuple[int, int]:
    return (4, 0) if transport == "tcp" else (1, 1)


def verdict(analysed: Analyse, made: MadeUp, claim: str = "context-switches") -> Verdict:
    return next(v for v in analysed(made).verdicts if v.claim.id == claim)


def test_refuted_says_what_was_measured_and_what_fits(analysed: Analyse) -> None:
    found = verdict(analysed, MadeUp(switches=lambda t, p, r: (2, 0)))
    assert found.verdict == "REFUTED"
    assert found.why == (
        "Context switches per round trip, in 2 measurements: "
        "tcp 2.00 (claimed: 4.00); unix 2.00 (claimed: 2.00). "
        f"Within 0.25 of what is claimed: tcp in 0 of 2, unix in 2 of 2. {DISTURBED}"
    )


def test_placement_that_flips_it_is_named(analysed: Analyse) -> None:
    made = MadeUp(switches=lambda t, p, r: as_claimed(t) if p == "same-cpu" else (9, 0))
    found = verdict(analysed, made)
    assert found.verdict == "CONDITIONAL"
    assert found.condition == "conditions: holds for same-cpu, does not hold for cross-cpu"
    assert "Where it does not: tcp 9.00 (claimed: 4.00)" in found.why


def test_not_measured_gives_the_reason_of_the_run(analysed: Analyse) -> None:
    why = reason("no-kprobes")
    lacks = [missing(["copy_bytes", "copy_calls"], why)]
    found = verdict(analysed, MadeUp(guest=False, missing=lacks), "packet-copies")
    assert found.verdict == "NOT MEASURED"
    assert f"{why} (--target guest has them)." in found.why


def test_what_a_guest_has_the_probes_for_is_not_missing(analysed: Analyse) -> None:
    lacks = [
        missing(["copy_bytes"], reason("no-kprobes")),
        missing(["cycles"], reason("no-hook", hook="made_up")),
    ]
    assert [lack.what for lack in analysed(MadeUp(missing=lacks)).run.missing] == ["cycles"]


def test_mechanism_holds_measured_figures(analysed: Analyse) -> None:
    found = verdict(analysed, MadeUp(maps={"@skb_clones": {"3": 0, "4": 8}}), "packet-copies")
    assert "5.00 from one place in the kernel to another" in found.mechanism
    assert "TCP cloned 1.00 socket buffers" in found.mechanism


def test_claims_table(analysed: Analyse) -> None:
    analysis = analysed(MadeUp(guest=False))
    table = claims_table(analysis.verdicts, analysis.folders)
    columns = ["claim", "source", "verdict", "coverage", "lacking", "family", "condition"]
    assert list(table.columns) == [
        *columns, *("value", "low", "high", "unit", "why", "cells", "raw"),
    ]  # fmt: skip
    switches = table[table["claim"] == "context-switches"]
    assert len(switches) == 4  # two placements, two transports
    assert set(switches["value"]) == {3.0}
    assert set(switches["unit"]) == {"count per round trip"}
    copies = table[table["claim"] == "packet-copies"]
    assert list(copies["verdict"]) == ["NOT MEASURED"]
    # From a figure to the cell runs that it was made from.
    assert set(switches["raw"]) == {"raw/host/cells.jsonl"}
    assert all(len(cells.split()) == 2 * 3 for cells in switches["cells"])


def test_the_cell_runs_of_a_claim_name_raw_files_that_are_there(
    plain_report: tuple[Path, str],
) -> None:
    run, _ = plain_report
    claims = pd.read_csv(run / "claims.csv").query("claim == 'context-switches'")
    wanted = {int(cell) for cells in claims["cells"] for cell in cells.split()}
    assert len(wanted) == 2 * 2 * 3  # placements, transports, repeats
    rows = pd.read_csv(run / "cells.csv").query("folder == 'host'").set_index("cell")
    for cell in wanted:
        files = str(rows["raw"][cell]).split()
        assert files == ["raw/host/cells.jsonl", f"raw/host/samples/{cell}.u32"]
        assert all((run / file).exists() for file in files)


def test_a_run_for_one_claim_is_silent_about_what_it_did_not_settle(tmp_path: Path) -> None:
    run = make_run(tmp_path, MadeUp(guest=False))
    manifest = json.loads((run / "run.json").read_text())
    manifest["options"]["claims"] = ["packet-copies"]
    (run / "run.json").write_text(json.dumps(manifest))
    verdicts = {verdict.claim.id: verdict.verdict for verdict in analyse(read_run(run)).verdicts}
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
VALUES = 'kind = "values"\nexpected = { unix = 17 }\ntolerance = 1'


@pytest.mark.parametrize(
    ("more", "rule", "place"),
    [
        ('colour = "red"', VALUES, "claim.1.colour"),
        ("", 'kind = "guess"', "claim.1.rule"),
        ("", 'kind = "ratio"\nover = "tcp"\nunder = "unix"', "claim.1.rule.ratio"),
        ("", VALUES + "\nabout = 2", "claim.1.rule.values.about"),
        ("scope = { size = 64 }", VALUES, "claim.1.scope.size"),
        (
            'scope = { pattern = ["stream", "go-echo"], conditions = ["free"] }',
            *(VALUES, "put the workload's patterns into 'workload'"),
        ),
        ('scope = { pattern = ["none-such"] }', VALUES, "claim.1.scope: no pattern is 'none-such'"),
        ("scope = { conditions = [] }", VALUES, "claim.1.scope.conditions"),
        ('scope = { conditions = ["free+spni"] }', VALUES, "no conditions of a claim are"),
        ("", 'kind = "present"\non = ["tpc"]', "no transport is 'tpc'"),
        ('scope = { pattern = ["go-echo"] }', VALUES, "scope.conditions is missing"),
        ('mechanism = "{switch.unix}"', VALUES, "claim.1.mechanism: 'switch' is not known"),
        ("", "kind = 'option'\ntool = 'wrk'\noption = '-c'", "is over no 'quantity'"),
        ("= 3", VALUES, "is not TOML"),
    ],
)
def test_wrong_claims_file(tmp_path: Path, more: str, rule: str, place: str) -> None:
    (tmp_path / "made-up.toml").write_text(CLAIM.format(more=more, rule=rule))
    with pytest.raises(UsageError) as error:
        load_claims(tmp_path)
    assert str(error.value).startswith("claims/made-up.toml") and place in str(error.value)
