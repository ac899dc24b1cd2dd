# SPDX-License-Identifier: GPL-2.0-or-later
"""Symbols are those of the boot in which the cell ran: its modules lie where that boot put them."""

from pathlib import Path
from typing import Any, cast

import pytest

from probes.isa import USUAL
from runners.exact.cells import order, path_of
from runners.exact.count import replay_record
from runners.exact.guest import ExactGuest, guest_for
from runners.exact.machine import scratch
from runners.exact.symbols import Symbols, read_modules, read_symbols
from runners.guest.qemu import HangError
from runners.process import RunError
from runners.store.folders import invoker
from tests.exact.conftest import cell_run

KALLSYMS = """\
ffffffff81000000 T kernel_function
ffffffff81000040 d no_code
ffffffffc0201000 t track\t[nf_conntrack]
ffffffffc0201080 T track_in\t[nf_conntrack]
ffffffffc0301000 t translate\t[nf_nat]
"""
FUNCTION = "nf_conntrack_in"
MODULE = "{} 4096 0 - Live 0x{:016x}\n"


def boot(folder: Path, conntrack: int, nat: int) -> Path:
    """The file of a boot that put the two modules there."""
    text = MODULE.format("nf_conntrack", conntrack) + MODULE.format("nf_nat", nat)
    (folder / "modules").write_text(text)
    return folder / "modules"


@pytest.fixture
def symbols(tmp_path: Path) -> Symbols:
    (tmp_path / "kallsyms").write_text(KALLSYMS)
    return read_symbols(
        USUAL, tmp_path / "kallsyms", boot(tmp_path, 0xFFFFFFFFC0201000, 0xFFFFFFFFC0301000)
    )


def test_modules_of_another_boot_have_their_names_where_that_boot_put_them(
    symbols: Symbols, tmp_path: Path
) -> None:
    assert symbols.place(0xFFFFFFFFC0201080) == ("track_in", True, False)
    guest = ExactGuest(cast(Any, None), symbols, "", Path(), Path(), {}, loads=True)
    boot(tmp_path, 0xFFFFFFFFC0301000, 0xFFFFFFFFC0201000)  # the one in the other's place
    there = guest.symbols_in(tmp_path)
    assert there.place(0xFFFFFFFF81000001) == ("kernel_function", False, False)
    assert there.place(0xFFFFFFFFC0301080) == ("track_in", True, False)
    assert there.place(0xFFFFFFFFC0201080) == ("translate", False, False)
    assert there.extent("track") == (0xFFFFFFFFC0301000, 0xFFFFFFFFC0301080)


def test_a_module_without_symbols_and_a_damaged_file_are_sentences(
    symbols: Symbols, tmp_path: Path
) -> None:
    with pytest.raises(RunError, match="nft_nat, whose symbols were never read"):
        symbols.with_modules_at({"nft_nat": 0})
    (tmp_path / "modules").write_text("nf_nat 4096 0\n")
    with pytest.raises(RunError, match="is damaged: 'nf_nat 4096 0' is no module"):
        read_modules(tmp_path / "modules")


@pytest.mark.matrix
@pytest.mark.emulated
def test_a_cell_is_counted_in_modules_that_lie_elsewhere(two_cpu_guest: ExactGuest) -> None:
    """An order of another length takes other instructions to read, and at some length that moves
    the modules."""
    run = cell_run("tcp-bridge-nat", "cross-cpu")
    guest = guest_for(invoker().cache, two_cpu_guest, path_of(run.cell))
    *steps, fifo, workload = order(run, guest.steps)
    for length in range(0, 800, 25):
        with scratch() as folder:
            longer = (*fifo, "-" * length)
            try:
                guest.boot([*steps, longer, workload], folder, guest.stored)
            except HangError:  # at some lengths both CPUs sleep for ever, as at boot (guest.BOOTS)
                continue
            there = guest.symbols_in(folder)
            window = replay_record(guest, run, folder)
        if there.extent(FUNCTION) != guest.symbols.extent(FUNCTION):
            calls = window.tree.by_function(window.steady.counts.calls)
            assert calls[FUNCTION] > 0
            return
    pytest.fail("every boot had put the module to where its symbols had been read")
