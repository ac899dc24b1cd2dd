# SPDX-License-Identifier: GPL-2.0-or-later
"""How figures are written."""

import pytest

from analysis.wording import (
    amount,
    extent,
    listed,
    number,
    probes_text,
    size_text,
    spread,
    transport_text,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0, "0"), (0.0001, "<0.001"), (0.004, "0.004"), (1, "1.00")),
        *((17.17, "17.2"), (1717, "1,717"), (-17.17, "\N{MINUS SIGN}17.2")),
    ],
)
def test_number(value: float, text: str) -> None:
    assert number(value) == text


def test_amount() -> None:
    assert amount(1500, "ns") == "1.50 µs"
    assert amount(17, "functions") == "17"
    assert amount(1717, "1/s") == "1,717"
    assert amount(-1500, "ns") == "\N{MINUS SIGN}1.50 µs"


def test_spread_is_empty_where_it_would_say_nothing() -> None:
    assert spread(1.001, 1.002) == ""
    assert spread(1000, 2000, "ns") == "1.00\N{EN DASH}2.00 µs"
    assert spread(1000, 2e6, "ns") == "1.00 µs\N{EN DASH}2.00 ms"
    assert spread(-1000, 2e6, "ns") == "\N{MINUS SIGN}1.00 µs \N{HORIZONTAL ELLIPSIS} 2.00 ms"


def test_what_a_sentence_says_of_a_range() -> None:
    assert extent(1.001, 1.002) == "1.00"
    assert extent(1000, 2000, "ns") == "1.00\N{EN DASH}2.00 µs"
    assert extent(0, 0.0001) == "<0.001"
    assert extent(0, 0) == "0"


def test_sizes_and_lists() -> None:
    assert [size_text(n) for n in (64, 1500, 4096, 1 << 20)] == ["64 B", "1500 B", "4 KiB", "1 MiB"]
    assert listed(["a", "b", "c"]) == "a, b and c"


def test_probes_in_words() -> None:
    assert probes_text("", "") == "no probe"
    assert probes_text("ftrace", "") == "ftrace"
    assert probes_text("bpftrace, bcc", "copies, counts") == "bpftrace, bcc (copies, counts)"


def test_names_in_words() -> None:
    assert listed(["a", "b"], "or") == "a or b"
    assert [transport_text(name) for name in ("unix", "tcp", "shm")] == [
        "a Unix socket",
        "TCP",
        "shm",
    ]
