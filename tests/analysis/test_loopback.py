# SPDX-License-Identifier: GPL-2.0-or-later
"""A report says what lay on loopback's path beside the network stack, and only where it did."""

from pathlib import Path
from typing import Any

import pytest

from analysis.machine import loopback_sentences
from analysis.raw.run import Run, read_run
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


def run(folder: Path, record: Record | None, **more: Any) -> Run:
    return read_run(make_run(folder, MadeUp(loopback=record, guest=False, **more)))


def test_tcp_met_a_firewall(tmp_path: Path) -> None:
    assert tuple(loopback_sentences(run(tmp_path, FIREWALL))) == (
        f"{SENTENCE} nf_tables (inet made_up a, inet made_up b, inet made_up c and 2 more) and "
        "conntrack (host): TCP's times and counts include that; a Unix socket's have none of it.",
    )


@pytest.mark.parametrize("record", [None, NOTHING, UNKNOWN, IPV6])
def test_nothing_was_met(record: Record | None, tmp_path: Path) -> None:
    """What is for IPv6 alone, TCP over IPv4 did not meet."""
    assert not list(loopback_sentences(run(tmp_path, record)))


def test_what_is_for_ipv6_is_met_by_tcp6(tmp_path: Path) -> None:
    def over_ipv6(cell: dict[str, Any]) -> None:
        cell["transport"] = cell["transport"].replace("tcp", "tcp6")

    (sentence,) = loopback_sentences(run(tmp_path, IPV6, change=over_ipv6))
    assert sentence.startswith(f"{SENTENCE} nf_tables (ip6 made_up input) and ip6tables (filter)")
