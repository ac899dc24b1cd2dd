# SPDX-License-Identifier: GPL-2.0-or-later
"""Finding call instructions in machine code."""

from __future__ import annotations

from pathlib import Path

import pytest

from probes import callsite

# push %rbp; call +0x10; nop; call -0x1c (that is, to the byte before `code`); ret
CODE = bytes.fromhex("55 e8 10000000 90 e8 f3ffffff c3")


def test_calls_are_found_by_where_they_land() -> None:
    assert callsite.find_calls(CODE, 0x1000, 0x1016) == [1]
    assert callsite.find_calls(CODE, 0x1000, 0x0FFF) == [7]
    assert callsite.find_calls(CODE, 0x1000, 0x2000) == []


def test_symbols_end_where_the_next_begins(tmp_path: Path) -> None:
    table = tmp_path / "kallsyms"
    table.write_text(
        "ffffffff81000000 T first\nffffffff81000040 t second\n"
        "ffffffff81000050 D data\nffffffffc0000000 t foreign\t[module]\n"
        "ffffffffc0000030 t first\t[module]\nffffffffc0000050 t more\t[another]\n"
    )
    symbols = callsite.read_symbols(table)
    assert symbols["first"] == (0xFFFFFFFF81000000, 0x40)
    assert symbols["foreign"] == (0xFFFFFFFFC0000000, 0x30), "a module's function"
    assert symbols["more"][1] == symbols["second"][1] == 0, "nobody knows where the last one ends"
    assert "data" not in symbols


def test_hidden_addresses_are_an_error(tmp_path: Path) -> None:
    table = tmp_path / "kallsyms"
    table.write_text("0000000000000000 T first\n")
    with pytest.raises(callsite.CallSiteError, match="needs root"):
        callsite.read_symbols(table)


def test_a_call_that_already_has_a_kprobe_is_still_found() -> None:
    probed = bytearray(CODE)
    probed[1] = callsite.INT3
    assert callsite.find_calls(bytes(probed), 0x1000, 0x1016) == [1]
