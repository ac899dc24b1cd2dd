# SPDX-License-Identifier: GPL-2.0-or-later
"""The payload's way, on a made-up kernel and in a real boot."""

from __future__ import annotations

import pytest

from runners.exact.cells import ExactCell
from runners.exact.count import follow_payload
from runners.exact.decode.payload import OTHER, STRING, register_of, spans
from runners.exact.machine.guest import ExactGuest


@pytest.mark.parametrize(
    ("code", "store", "register"),
    [
        ("f348a5", False, STRING),  # rep movsq
        ("f3a4", True, STRING),  # rep movsb
        ("4c8b06", False, 8),  # mov (%rsi),%r8
        ("4c8907", True, 8),  # mov %r8,(%rdi)
        ("8a06", False, 0),  # mov (%rsi),%al
        ("8807", True, 0),  # mov %al,(%rdi)
        ("0fb606", False, 0),  # movzbl (%rsi),%eax
        ("480306", False, OTHER),  # add (%rsi),%rax: a checksum's way to read
        ("4c8b06", True, OTHER),
        ("48ab", True, OTHER),  # stos
    ],
)
def test_who_carries_is_read_from_the_instruction(code: str, store: bool, register: int) -> None:
    assert register_of(bytes.fromhex(code), store) == register


@pytest.mark.parametrize(
    ("ends", "whole"),
    [
        ([(0x2871, 0x3000), (0x7000, 0x16871)], True),  # pages that are not neighbours
        ([(0x2871, 0x3001), (0x7001, 0x16871)], True),  # a move of 8 bytes began before their edge
        ([(0x2871, 0x12871)], True),
        ([(0x2871, 0x2971), (0x7010, 0x16F80)], False),  # neither a message nor a part of one
    ],
)
def test_a_message_may_lie_in_several_pages(ends: list[tuple[int, int]], whole: bool) -> None:
    found = [byte for begin, end in ends for byte in range(begin, end)]
    assert spans(found, 64 << 10) == (set(found) if whole else set())


@pytest.mark.emulated
@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_payload_copied_in_and_out_is_messages_times_size(
    exact_guest: ExactGuest, transport: str
) -> None:
    payload = follow_payload(exact_guest, ExactCell(1, transport, 64, "fifo", messages=46))
    assert payload.copied["in"] == payload.copied["out"] == 46 * 64
    assert payload.copiers.total() == payload.copied.total()
    # Each copied byte is loaded once and stored once, beside all else.
    for traffic in (payload.loaded, payload.stored):
        assert all(traffic[name] >= size for name, size in payload.copiers.items())
        assert traffic.total() > 10 * payload.copied.total()
