# SPDX-License-Identifier: GPL-2.0-or-later
"""The checker of sentences: it knows every number of a first screen, and sees any that is wrong."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.audit.folder import Folder, open_folder
from tests.audit.printed import DASH, parse, quotient_fits, tokens
from tests.audit.screen import Screen
from tests.audit.sentences import main, wrong
from tests.audit.test_audit import REFERENCE

REPEATS = 6
# Nanoseconds of the median, and of a message in the whole window.
TIMES = {
    ("same-cpu", "unix"): (10_000, 6_000),
    ("same-cpu", "tcp"): (15_000, 9_600),
    ("cross-cpu", "unix"): (40_000, 25_000),
    ("cross-cpu", "tcp"): (60_000, 35_000),
    ("cross-cpu+spin", "unix"): (4_000, 2_000),
    ("cross-cpu+spin", "tcp"): (9_000, 4_500),
}
CPU = {"unix": 5_000, "tcp": 8_000}  # nanoseconds of both processes for a message
LEDGER = """## The ledger

**The ledger: pingpong, 64 B, per message unless noted**

| measure | One CPU, unix | One CPU, tcp | where from |
| --- | ---: | ---: | --- |
| copies of each payload byte | 2.00 | 2.00 | bpftrace · guest · 6.12.9 |
| context switches per round trip | 3.00 | 3.00 | kernel counters, no probe attached · host · 6.18 |

## Verdicts
"""
TEXT = f"""# pathcost: made up

On this machine TCP adds 5.00 µs (5.00 to 5.00) to a round trip on one CPU and 20.0 µs (20.0 to \
20.0) across two CPUs.

**Two CPUs, never asleep**: both processes poll; +5.00 µs; unix 4.00 µs; tcp 9.00 µs; 95 % \
interval 5.00 to 5.00; 2.25 times as long (2.25 to 2.25); medians, 6 repeats

**CPU share TCP adds, by CPU time at full speed (95 %)**

| requests/s | One CPU | Two CPUs |
| --- | ---: | ---: |
| 100 | 0.06 % (0.06{DASH}0.06) | 0.06 % (0.06{DASH}0.06) |
| 100,000 | 60.0 %\\* (60.0{DASH}60.0) | 60.0 %\\* (60.0{DASH}60.0) |

\\* Round trips a second of one connection: 52,083 on one CPU and 14,286 across two CPUs over TCP.

The difference is below 1 % of a request that takes longer than 500 µs (500 to 500) on one CPU or \
2.00 ms (2.00 to 2.00) across two CPUs.

For a message of 64 B the kernel copies each payload byte 2.00 times over a Unix socket and TCP \
alike (6.12.9).

A round trip of 64 B takes, at the median, on one CPU 10.0 µs over a Unix socket and 15.0 µs over \
TCP (1.50 times as long, 95 % interval 1.50 to 1.50, 6 repeats; 1.60 times by the mean, \
95 % interval 1.60 to 1.60) and across two CPUs 40.0 µs over a Unix socket and \
60.0 µs over TCP (1.50 times as long, 95 % interval 1.50 to 1.50, 6 repeats).

Blocking reads, default scheduler, one connection; no batching: one message per read.

Across two CPUs a message of 64 B takes 10.0 µs (10.0 to 10.0) longer over TCP than over a Unix \
socket: +2.50 µs (2.50 to 2.50), 25 %, in the stack and +7.50 µs (7.50 to 7.50), 75 %, in \
sleeping and waking.

{LEDGER}"""


def rows() -> Iterator[dict[str, object]]:
    """Rows of a tidy table whose repeats are all alike."""
    host = {"target": "host", "kernel": "6.18", "probe_level": "tracepoint", "probed": False}
    guest = {"target": "guest", "kernel": "6.12.9", "probe_level": "function", "probed": True}
    same = {"run": "made up", "pattern": "pingpong", "size": 64, "messages": 1000, "valid": True}
    cell = 0
    for repeat in range(REPEATS):
        for (conditions, transport), (median, message) in TIMES.items():
            cell += 1
            what = {"transport": transport, "conditions": conditions, "repeat": repeat}
            for instrument, quantity, key, value, unit in (
                ("workload", "rtt_ns", "p50", median, "ns"),
                ("workload", "messages_per_s", "", 1e9 / message, "1/s"),
                ("workload", "reads", "", 1000, "count"),
                ("kernel", "cpu_ns", "system", 1000 * (CPU[transport] - 100), "ns"),
                ("kernel", "cpu_ns", "user", 1000 * 100, "ns"),
                ("kernel", "switches", "voluntary", 1100, "count"),
                ("kernel", "switches", "involuntary", 400, "count"),
            ):
                figure = {"quantity": quantity, "key": key, "value": value, "unit": unit}
                yield {**same, **host, **what, "instrument": instrument, "cell": cell, **figure}
            for key, value in (("in", 64_000), ("out", 64_000), ("kernel", 0)):
                figure = {"quantity": "copy_bytes", "key": key, "value": value, "unit": "bytes"}
                yield {**same, **guest, **what, "instrument": "bpftrace", "cell": cell, **figure}


@pytest.fixture(scope="module")
def screen(tmp_path_factory: pytest.TempPathFactory) -> Screen:
    """The first screen of a run that holds a table and no raw files."""
    path = tmp_path_factory.mktemp("sentences")
    table = list(rows())
    with (path / "measurements.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    targets = [{"kernel": "6.18"}, {"kernel": "6.12.9"}]
    return Screen(Folder(path, path / "raw", {"targets": targets}), TEXT)


def said(screen: Screen, text: str) -> list[str]:
    """What the checker says of a text."""
    screen.read(text)
    return list(wrong(screen))


def test_what_is_right_passes(screen: Screen) -> None:
    assert said(screen, TEXT) == []


def test_each_number_matters(screen: Screen) -> None:
    """A first screen in which the last digit of one number is another."""
    top = TEXT.partition("\n## Verdicts")[0]
    unseen = []
    for begin, end, number in tokens(top):
        changed = f"{number[:-1]}{(int(number[-1]) + 5) % 10}"
        if not said(screen, f"{TEXT[:begin]}{changed}{TEXT[end:]}"):
            unseen.append(f"{number} in {top[begin - 20 : end + 20]!r}")
    assert unseen == []


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("adds 5.00", "adds 4.00", "same-cpu, added"),
        ("to 5.00) to a", "to 6.00) to a", "same-cpu, added, upper end"),
        ("than 500 µs", "than 400 µs", "same-cpu, request"),
        ("poll; +5.00", "poll; +4.00", "cross-cpu+spin, added"),
        ("connection: 52,083", "connection: 52,084", "reached, same-cpu"),
        ("| 0.06 % (", "| 0.07 % (", "same-cpu, 100 requests a second"),
        ("60.0 %\\*", "60.0 %", "marked wrongly as beyond reach"),
        ("one connection;", "17 connections;", "a number that nobody checks: 17"),
        ("(1.50 times as long", "(1.44 times as long", "1.44 is not the ratio of 15.0"),
        ("each payload byte 2.00", "each payload byte 1.00", "copies of each payload byte"),
        (", 6 repeats; 1", ", 7 repeats; 1", "same-cpu, repeats: printed 7, computed 6"),
        (" (10.0 to 10.0) longer", " longer", "its interval is not said"),
        ("(6.12.9)", "(6.12.8)", "a number that nobody checks: 6.12"),
        ("| context switches", "| surprises", "a row of the ledger that nobody checks: surprises"),
    ],
)
def test_what_is_wrong_is_said(screen: Screen, old: str, new: str, sentence: str) -> None:
    assert old in TEXT
    found = said(screen, TEXT.replace(old, new, 1))
    assert any(sentence in one for one in found), found


def test_a_ratio_may_say_that_it_is_paired(screen: Screen) -> None:
    """A mean of ratios need not be the ratio of the means that stand beside it."""
    text = TEXT.replace("1.50, 6 repeats; 1", "1.50, 6 repeats, paired; 1")
    assert said(screen, text) == []


@pytest.mark.parametrize(
    ("over", "under", "ratio", "fits"),
    [
        ("15.2 µs", "10.9 µs", "1.39", True),
        ("15.2 µs", "10.9 µs", "1.44", False),
        ("1.2 ms", "900 µs", "1.33", True),
    ],
)
def test_the_quotient_of_rounded_figures(over: str, under: str, ratio: str, fits: bool) -> None:
    assert quotient_fits(parse(over), parse(under), parse(ratio)) is fits


def test_the_reference_report(tmp_path: Path) -> None:
    text = (REFERENCE / "report.md").read_text(encoding="utf-8")
    assert list(wrong(Screen(open_folder(REFERENCE, tmp_path), text))) == []


@pytest.mark.parametrize("arguments", [[], ["--help"], ["no-such-run"]])
def test_what_cannot_be_checked_is_a_sentence(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_report_without_a_ledger_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(REFERENCE, tmp_path / "run", ignore=shutil.ignore_patterns("figures"))
    (tmp_path / "run/report.md").write_text("# no figures\n", encoding="utf-8")
    assert main([str(tmp_path / "run")]) == 2
    assert "no ledger" in capsys.readouterr().err
