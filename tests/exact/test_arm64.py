# SPDX-License-Identifier: GPL-2.0-or-later
"""arm64: its instructions, its exceptions, and a cell of Debian's kernel."""

from array import array

import pytest

from probes.cell import CellRun
from probes.isa import ISAS, OTHER, Jump
from runners.exact.count import follow_payload, measure
from runners.exact.digest import checks
from runners.exact.guest import ExactGuest
from runners.exact.knobs import NOTHING
from runners.exact.line_files import types_of
from runners.exact.record import COUNT_BITS, EVENT_BIT, KIND_SHIFT, CodeBlock, InstructionRecord
from runners.exact.record import RecordEvent as Event
from runners.exact.replay import Replay, State
from runners.exact.symbols import CodePlace, Symbols
from runners.process import RunError
from tests.exact.conftest import cell_run, prepared
from tests.exact.test_replay import by_path

ARM64 = ISAS["arm64"]
KERNEL, USER = 0xFFFF_8000_8001_0000, 0x40_0000
AT = {"vectors": KERNEL, "el0t_64_sync": KERNEL + 0x800, "work": KERNEL + 0xA00}
AT |= {"el1h_64_irq": KERNEL + 0xC00, "tramp_vectors": KERNEL + 0x1000}
SYMBOLS = Symbols(ARM64, {address: name for name, address in AT.items()})
CALL, RETURN, EXCEPTION_RETURN, SYSTEM_CALL = 0xD63F0020, 0xD65F03C0, 0xD69F03E0, 0xD4000001
NOP = 0xD503201F


def word(code: int) -> bytes:
    return code.to_bytes(4, "little")


@pytest.mark.parametrize(
    ("code", "jump", "target"),
    [
        (0x94000040, Jump.CALL, 0x1100),  # bl .+0x100
        (0x97FFFFC0, Jump.CALL, 0xF00),  # bl .-0x100
        (0xD63F0020, Jump.CALL, 0),  # blr x1
        (0xD73F0822, Jump.CALL, 0),  # blraa x1, x2
        (0xD65F03C0, Jump.RETURN, 0),
        (0xD65F0BFF, Jump.RETURN, 0),  # retaa
        (0xD69F03E0, Jump.IRET, 0),
        (0x14000040, Jump.NONE, 0x1100),  # b .+0x100
        (0xD4000001, Jump.NONE, 0),  # svc
    ],
)
def test_how_a_block_ends(code: int, jump: Jump, target: int) -> None:
    assert (ARM64.jump(word(code)), ARM64.target(word(code), 0x1004)) == (jump, target)


@pytest.mark.parametrize(
    ("code", "registers"),
    [
        (0xF9400023, (3, 3)),  # ldr x3, [x1]
        (0xA8811C06, (6, 7)),  # stp x6, x7, [x0], #16
        (0xF8400822, (2, 2)),  # ldtr x2, [x1]
        (0x38401424, (4, 4)),  # ldrb w4, [x1], #1
        (0xF8210062, (OTHER, OTHER)),  # ldadd x1, x2, [x3]
        (0xAD400420, (OTHER, OTHER)),  # ldp q0, q1, [x1]: no general register
        (0xC85F7C41, (OTHER, OTHER)),  # ldxr x1, [x2]
    ],
)
def test_who_carries(code: int, registers: tuple[int, int]) -> None:
    assert tuple(ARM64.register_of(word(code), False, second) for second in (False, True)) == (
        registers
    )


def test_the_trampoline_has_a_second_place() -> None:
    """Not code that the kernel has compiled, whatever table of vectors is in use."""
    above = 0xFFFF_FFFF_FF20_0000
    assert SYMBOLS.place(above + 0x1400) == CodePlace("tramp_vectors", False, True)
    assert SYMBOLS.place(above + 0x1404) == CodePlace("tramp_vectors", False, False)
    assert SYMBOLS.place(above + 0x2008) == CodePlace("tramp_exit", False, False)


def test_exceptions_are_entered_in_a_table_and_left() -> None:
    """A system call, within it an interrupt, and both ways back."""
    steps = [
        (USER, SYSTEM_CALL),
        (AT["vectors"] + 0x400, 0x14000100),  # b el0t_64_sync: it is entered, not called
        (AT["el0t_64_sync"], CALL),
        (AT["work"], NOP),
        (AT["vectors"] + 0x280, NOP),
        (AT["el1h_64_irq"], EXCEPTION_RETURN),
        (AT["work"] + 8, RETURN),
        (AT["el0t_64_sync"] + 8, EXCEPTION_RETURN),
        (USER + 8, NOP),
    ]
    blocks = [CodeBlock(0, b"\0", b"\x01")]
    blocks += [CodeBlock(at, word(NOP) + word(end), b"\x04\x04") for at, end in steps]
    words = [number << COUNT_BITS | 2 for number in range(1, len(blocks))]
    begin = EVENT_BIT | Event.CLIENT_BEGIN << KIND_SHIFT
    record = InstructionRecord(array("I", [begin, *words]), blocks, {0: "client"}, {}, ARM64)
    machine = Replay(record, SYMBOLS)
    _, counts = machine.run(State(), record.words)
    entry = "client;vectors;el0t_64_sync"
    assert by_path(machine, counts) == {
        "client": (0, 4),
        "client;vectors": (1, 2),
        entry: (1, 4),
        f"{entry};work": (1, 4),
        f"{entry};work;vectors": (1, 2),
        f"{entry};work;vectors;el1h_64_irq": (1, 2),
    }


@pytest.mark.emulated
def test_a_cell_is_counted_and_repeats(arm64_guest: ExactGuest) -> None:
    """From a fresh boot and from the stored machine; each byte is copied once in and once out."""
    run: CellRun = cell_run("tcp")
    window, result, (record,) = measure(arm64_guest, run)
    assert [name for name, ok, _ in checks(run.cell, window, result, NOTHING) if not ok] == []
    assert measure(arm64_guest, run, fresh=True)[2] == (record,)
    flow = follow_payload(arm64_guest, run)
    assert (flow.copied["in"], flow.copied["out"]) == (46 * 64, 46 * 64)
    assert not flow.copied["kernel"]
    assert not flow.readers


@pytest.mark.emulated
@pytest.mark.matrix
def test_pages_of_16_kib(arm64_guest: ExactGuest) -> None:
    """They are counted as others are; only names of cache lines need pages of 4 KiB."""
    del arm64_guest  # its programs are compiled
    guest = prepared("6.12-arm64-16k", isa=ARM64)
    assert guest.machine.kernel.page == 16 << 10
    run = cell_run()
    window, result, _ = measure(guest, run)
    assert [name for name, ok, _ in checks(run.cell, window, result, NOTHING) if not ok] == []
    with pytest.raises(RunError, match="arm64-16k have 16"):
        types_of(guest.machine)
