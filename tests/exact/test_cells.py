# SPDX-License-Identifier: GPL-2.0-or-later
"""Which cells exact mode counts, without a boot."""

from __future__ import annotations

from runners.exact.cells import plan
from runners.exact.run import fast_cells
from runners.options import parse


def test_what_an_emulated_cpu_cannot_do_has_its_reason() -> None:
    cells = plan(["tcp", "tcp-ktls", "shm-spin"], [4096, 65536], schedulings=["fifo"])
    codes = {(cell.transport, cell.size): cell.impossible.code for cell in cells if cell.impossible}
    assert codes == {
        ("tcp-ktls", 65536): "emulator-aes",
        ("shm-spin", 4096): "emulator-slice",
        ("shm-spin", 65536): "emulator-slice",
    }


def test_a_rate_means_nothing_to_a_clock_that_counts_instructions() -> None:
    cells = plan(["unix"], [64], patterns=["paced", "clients"])
    codes = {cell.pattern: cell.impossible and cell.impossible.code for cell in cells}
    assert codes == {"paced": "emulator-clock", "clients": None}


def test_beside_probes_large_messages_are_counted_once_and_those_between_never() -> None:
    cells = fast_cells(parse(["--sizes", "64,4K,64K", "--transports", "tcp"]))
    assert sorted((cell.size, cell.scheduling) for cell in cells) == [
        (64, "fifo"),
        (64, "other"),
        (65536, "other"),
    ]
    assert not fast_cells(parse(["--patterns", "stream"]))
