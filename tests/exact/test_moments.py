# SPDX-License-Identifier: GPL-2.0-or-later
"""Ticks at chosen instructions: a machine's copies differ from it by the tick, and by it alone.

With the matrix, since records must repeat to the byte, and beside other guests on two processors
they once did not (November 2026; the cause is open).
"""

from itertools import accumulate
from pathlib import Path
from unittest.mock import Mock

import pytest

from runners.exact import moments
from runners.exact.cells import EXACT_WARMUP
from runners.exact.guest import ExactGuest, symbols_entry
from runners.exact.record import COUNT_BITS, EVENT_BIT
from runners.guest.store import Cache
from runners.process import RunError
from tests.exact.conftest import cell_run

# Under SCHED_FIFO all round trips are alike.
RUN, ITERATIONS = cell_run(messages=600), 300


@pytest.mark.matrix
@pytest.mark.emulated
def test_a_tick_that_is_moved_by_a_round_trip_does_what_it_did_there(
    exact_guest: ExactGuest, tmp_path: Path
) -> None:
    alone, symbols = moments.record_copies(exact_guest, RUN, tmp_path, {})
    cuts, _ = moments.cuts_of(alone, ITERATIONS)
    before = list(accumulate(moments.steps_of(alone.words), initial=0))
    for tick in range(cuts[1], len(alone.words)):
        block = alone.blocks[0 if (word := alone.words[tick]) & EVENT_BIT else word >> COUNT_BITS]
        if symbols.place(block.address)[0] == "asm_sysvec_apic_timer_interrupt":
            break
    number = sum(cut <= tick for cut in cuts) - 1  # the round trip that it interrupts
    begin, end = before[cuts[number - 1]], before[cuts[number]]
    due, trip = before[tick] - begin, end - begin
    entry = symbols_entry(Cache(tmp_path / "cache", print), exact_guest.machine, exact_guest.stored)
    settings = {"tick": moments.tick_of(entry / "symbols")}
    settings["moments"] = f"{begin}:{due - trip}:1:1:{moments.FOLLOWED * 30_000}"
    record, _ = moments.record_copies(exact_guest, RUN, tmp_path, settings)
    copies = moments.Copies(record, symbols, number - 1, ITERATIONS, tmp_path)
    assert copies.trips(due - trip)[:-1] == copies.own[1:]


@pytest.mark.matrix
@pytest.mark.emulated
def test_moments_repeat_and_an_interrupted_study_goes_on(
    exact_guest: ExactGuest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With this warm-up another device's timer of QEMU's is due before the tick.
    fair = cell_run(sched="other", messages=600, warmup=EXACT_WARMUP)
    monkeypatch.setattr(moments, "CHUNK", 2)
    caches = [Cache(tmp_path / name, print) for name in "ab"]
    first, second = (moments.every_moment(exact_guest, fair, 6000, cache) for cache in caches)
    assert [moment.at for moment in first] == [0, 6000, 12000]
    assert first == second
    start = Mock(wraps=moments.record_copies)
    monkeypatch.setattr(moments, "record_copies", start)
    assert moments.every_moment(exact_guest, fair, 6000, caches[0]) == first
    assert start.call_count == 1  # the machine alone: both parts came from the cache


def test_a_kernel_without_the_symbols_of_its_tick_is_told(tmp_path: Path) -> None:
    symbols = tmp_path / "symbols"
    symbols.write_text("0000000000026400 A tick_cpu_sched\nffffffff811b04b0 t tick_nohz_handler\n")
    with pytest.raises(RunError, match="tick_next_period"):
        moments.tick_of(symbols)
