# SPDX-License-Identifier: GPL-2.0-or-later
"""A report says what lay on loopback's path beside the network stack, and only where it did."""

from pathlib import Path
from typing import Any

import pytest

from analysis.analyse import Analysis, analyse
from analysis.counts.measures import rows_of
from analysis.diff.compare import compare
from analysis.machine import loopback_sentences
from analysis.main import main
from analysis.raw.run import read_run
from tests.analysis.conftest import Analyse
from tests.analysis.make_run import MadeUp, make_run

Record = dict[str, Any]
RULES = [f"inet made_up {name} (hook {name}, priority 0, rules 7)" for name in "abcde"]
FIREWALL: Record = {"nf_tables": {"found": RULES}, "conntrack": {"found": ["active"]}}
NOTHING: Record = {"nf_tables": {"found": []}, "conntrack": {"found": []}}
UNKNOWN: Record = {"nf_tables": {"unknown": "made up: permission"}, "conntrack": {"found": []}}
IPV6: Record = {
    "nf_tables": {"found": ["ip6 made_up input (hook input, priority 0, rules 7)"]},
    "ip6tables": {"found": ["filter"]},
}
SENTENCE = "On their way TCP's packets also met"


def test_the_answer_says_that_tcp_met_a_firewall(analysed: Analyse) -> None:
    assert loopback_sentences(analysed(MadeUp(loopback=FIREWALL)).run) == (
        f"{SENTENCE} nf_tables (inet made_up a, inet made_up b, inet made_up c and 2 more) and "
        "conntrack (host): TCP's times and counts include that; a Unix socket's have none of it.",
    )


@pytest.mark.parametrize("record", [None, {}, NOTHING, UNKNOWN, IPV6])
def test_the_answer_says_nothing_where_none_was_met(
    record: Record | None, analysed: Analyse
) -> None:
    """What is for IPv6 alone, TCP over IPv4 did not meet."""
    assert loopback_sentences(analysed(MadeUp(loopback=record)).run) == ()


def test_what_is_for_ipv6_is_met_by_tcp6(analysed: Analyse) -> None:
    def over_ipv6(cell: dict[str, Any]) -> None:
        cell["transport"] = cell["transport"].replace("tcp", "tcp6")

    (said,) = loopback_sentences(analysed(MadeUp(loopback=IPV6, guest=False, change=over_ipv6)).run)
    assert said.startswith(f"{SENTENCE} nf_tables (ip6 made_up input) and ip6tables (filter)")


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (FIREWALL, f"nf_tables: {', '.join(RULES)}; conntrack: active"),
        (NOTHING, "nothing (checked: nf_tables, conntrack)"),
        (UNKNOWN, "nothing (checked: conntrack); not known: nf_tables (made up: permission)"),
    ],
)
def test_the_environment_names_all_that_was_asked(
    record: Record, said: str, tmp_path: Path
) -> None:
    run = make_run(tmp_path, MadeUp(loopback=record))
    assert main([str(run), "--quiet"]) == 0
    row = f"<td>also active on lo</td>\n<td>{said}</td>"
    assert row in (run / "report.html").read_text(encoding="utf-8")


def test_a_run_of_before_it_was_asked_says_nothing_of_it(plain_report: tuple[Path, str]) -> None:
    assert "also active on lo" not in plain_report[1]


def test_a_comparison_shows_it_as_a_difference_of_the_machines(tmp_path: Path) -> None:
    records = (NOTHING, FIREWALL, UNKNOWN, None)
    before, after, unknown, old = (
        analyse(read_run(make_run(tmp_path / str(number), MadeUp(loopback=record))))
        for number, record in enumerate(records)
    )
    rows = ("host", "loopback: conntrack"), ("host", "loopback: nf_tables")
    assert settings(before, before) == []
    assert settings(before, after) == [
        (*rows[0], "none", "active"),
        (*rows[1], "none", ", ".join(RULES)),
    ]
    assert settings(before, unknown) == [(*rows[1], "none", "unknown: made up: permission")]
    assert settings(old, before) == [(*row, "absent", "none") for row in rows]


def settings(before: Analysis, after: Analysis) -> list[tuple[str, ...]]:
    """What differs between the two machines."""
    return list(map(tuple, rows_of(compare(before, after).settings)))
