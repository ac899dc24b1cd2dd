# SPDX-License-Identifier: GPL-2.0-or-later
"""The terminal's table stays a table, however long its figures are."""

from __future__ import annotations

from analysis.report.brief import WIDTH, table


def test_long_figures_keep_apart_and_below_each_other() -> None:
    rows = [
        ("pingpong, 64 B", "unix", "tcp", "difference (95 %)"),
        ("instructions a message, emulated", "8,250-10,875", "14,400-17,615", "1.62 times"),
        ("round trip, two CPUs, never asleep", "3.71 µs", "8.41 µs", "4.70 µs (3.85 to 5.55)"),
    ]
    lines = list(table(rows))
    assert max(map(len, lines)) <= WIDTH
    for line, row in zip(lines, rows, strict=True):
        assert line.split()[-len(" ".join(row[1:]).split()) :] == " ".join(row[1:]).split()
    assert len({line.index(row[3]) for line, row in zip(lines, rows, strict=True)}) == 1
