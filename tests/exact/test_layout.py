# SPDX-License-Identifier: GPL-2.0-or-later
"""exact --layout: structures laid out as C does, and windows replayed with fields elsewhere."""

import ctypes
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.btf import Btf
from probes.isa import USUAL
from runners.exact.cells import path_of
from runners.exact.guest import ExactGuest, guest_for
from runners.exact.layout_search import StructUse, places_of, search
from runners.exact.layouts import LayoutStudy, Totals, layout_of, parse_layout
from runners.exact.line_files import NAMED_MACHINE, record_lines, types_of
from runners.exact.lines import SETTLED
from runners.exact.objects import MemoryKind, MemoryPlace
from runners.exact.relaid import Narrowed, Relaid
from runners.exact.struct_layout import Layout, units_of
from runners.exact.touches import Recorded, Touch
from runners.process import RunError, UsageError
from runners.store.folders import invoker
from tests.exact.conftest import cell_run

BASE = 1 << 20  # of the only object
ROUNDS = SETTLED + 13
NUMBERS = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64}
FIELDS = st.lists(st.tuples(st.sampled_from([*NUMBERS]), st.integers(1, 5)), min_size=1, max_size=9)


def structure(fields: Sequence[tuple[str, int, int]]) -> Any:
    """The structure `s` as C has it: name, bytes of a number, how many of them."""
    members = [(name, NUMBERS[size] * count) for name, size, count in fields]
    return type("s", (ctypes.Structure,), {"_fields_": members})


def btf_of(fields: Sequence[tuple[str, int, int]]) -> Btf:
    """The type information of `s`: its numbers, an array for each field, and the structure."""
    made, strings = structure(fields), b"\0s\0"
    types = b"".join(struct.pack("<IIII", 0, 1 << 24, size, 8 * size) for size in NUMBERS)
    members = b""
    for number, (name, size, count) in enumerate(fields):
        element = 1 + [*NUMBERS].index(size)
        types += struct.pack("<IIIIII", 0, 3 << 24, 0, element, element, count)
        members += struct.pack("<III", len(strings), 5 + number, 8 * getattr(made, name).offset)
        strings += name.encode() + b"\0"
    types += struct.pack("<III", 1, 4 << 24 | len(fields), ctypes.sizeof(made)) + members
    head = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(strings))
    return Btf(head + types + strings)


class Window(Recorded):
    """A recorded window of accesses to one object, an `s`: what Recorded has of it."""

    def __init__(self, btf: Btf, touches: Sequence[Touch]) -> None:
        place = MemoryPlace(MemoryKind.SLAB, "s", BASE, 0)
        self.objects: Any = SimpleNamespace(
            btf=btf,
            structures={"s": "s"},
            free_pointers={},
            place=lambda at: place._replace(offset=at - BASE),
        )
        self._all, self.iterations = touches, ROUNDS

    def touches(self) -> Iterator[Touch]:
        return iter(self._all)


def touch(cpu: int, at: int, *, store: bool, size: int = 8, iteration: int = 0) -> Touch:
    return Touch(cpu, 0, iteration, 0, BASE + at, BASE + at, size, store)


@given(FIELDS, st.randoms())
def test_any_order_of_fields_lies_as_c_has_it(drawn: list[tuple[int, int]], random: Any) -> None:
    fields = [(f"f{number}", *kind) for number, kind in enumerate(drawn)]
    shuffled = random.sample(fields, len(fields))
    btf = btf_of(fields)
    units = {unit.names[0]: unit for unit in units_of(btf, "s")}
    layout = Layout(btf, {"s": [units[name] for name, _, _ in shuffled]})
    wanted = structure(shuffled)
    if (mapped := layout.mapped("s")) is None:
        assert ctypes.sizeof(wanted) == ctypes.sizeof(structure(fields))
        assert all(getattr(wanted, name).offset == unit.at for name, unit in units.items())
        return
    assert mapped.new_size == ctypes.sizeof(wanted)
    for name, size, count in fields:
        ((_, length, new),) = mapped.moved(units[name].at, size * count)
        assert (length, new) == (size * count, getattr(wanted, name).offset)
        assert mapped.before(new) == units[name].at


def test_a_kernels_structures_in_their_own_order_keep_every_offset(
    exact_guest: ExactGuest,
) -> None:
    """With what BTF does not tell: packed structures, attributes, bit fields, groups of lines."""
    btf = types_of(exact_guest.machine)
    names = btf.structures()[::10]
    assert len(names) > 500
    moved = [name for name in names if Layout(btf, {name: units_of(btf, name)}).mapped(name)]
    assert moved == []


TWO = [("mine", 8, 1), ("yours", 8, 1), ("cold", 8, 7), ("last", 8, 1)]


def both_write(yours: int = 8) -> list[Touch]:
    return [
        touch(cpu, cpu * yours, store=True, iteration=number)
        for number in range(ROUNDS)
        for cpu in range(2)
    ]


def replayed(text: str, touches: Sequence[Touch]) -> tuple[Totals, Totals]:
    """Totals before and after."""
    btf = btf_of(TWO)
    part = Narrowed(Window(btf, touches), ["s"])
    relaid = Relaid(part, layout_of(btf, parse_layout(text).changes))
    return Totals.replayed(part, 2), Totals.replayed(relaid, 2)


def test_two_writers_of_one_line_move_it_each_time_until_a_field_lies_elsewhere() -> None:
    before, after = replayed("s: yours after cold", both_write())
    assert (before, after) == (Totals(1, 2, 2), Totals(2, 0, 0))


def test_a_field_behind_another_of_the_same_line_changes_nothing() -> None:
    before, after = replayed("s: mine after yours", both_write())
    assert before == after


def test_an_access_to_two_fields_is_two_where_they_are_apart() -> None:
    wide = [touch(0, 0, store=True, size=16, iteration=number) for number in range(ROUNDS)]
    _, after = replayed("s: yours after cold", wide)
    assert after.lines == 2


def test_the_search_finds_the_one_exchange_that_keeps_two_writers_apart() -> None:
    btf = btf_of(TWO)
    use = StructUse(Window(btf, both_write()), "s")
    *_, found = search(btf, "s", [use])
    assert found.costs == ((0.0, 2.0),)
    (change, *_) = found.changes
    assert {*change.fields} & {"mine", "yours", "last"}


TOUCHES = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 9), st.booleans(), st.integers(0, 3)), max_size=50
)


@given(TOUCHES, st.permutations(range(4)))
def test_the_search_counts_as_the_replay_does(
    drawn: list[tuple[int, int, bool, int]], order: list[int]
) -> None:
    rows = sorted(drawn, key=lambda row: row[3])
    touches = [
        touch(cpu, 8 * at, store=store, iteration=SETTLED - 2 + number)
        for cpu, at, store, number in rows
    ]
    btf = btf_of(TWO)
    units = units_of(btf, "s")
    after = [units[number] for number in order]
    recorded = Window(btf, touches)
    use = StructUse(recorded, "s")
    places = places_of(after)
    moves, lines = use.cost([places[unit] for unit in units])
    whole = Totals.replayed(Relaid(recorded, Layout(btf, {"s": after})), 2)
    assert (moves, lines) == pytest.approx((whole.moves, whole.lines))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no structure"),
        ("mine after yours", "names no structure"),
        ("s: mine before yours", "cannot be read"),
        ("s mine", "cannot be read"),
        ("t: mine after yours", "no struct 't'"),
        ("s: none after yours", "no field 'none'"),
        ("s: mine after none", "no field 'none'"),
        ("s: mine,mine after yours", "a field twice"),
        ("s: mine after mine", "behind itself"),
    ],
)
def test_a_layout_that_cannot_be_is_one_sentence(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as error:
        changes = parse_layout(text).changes
        layout_of(btf_of(TWO), changes)
    assert str(error.value).count(".") == 1


@pytest.mark.parametrize(
    ("page", "said"),
    [(USUAL.page, "has no type information"), (16 << 10, "those of 6.12-arm64-16k have 16.")],
)
def test_a_kernel_whose_lines_get_no_names_is_one_sentence(
    page: int, said: str, tmp_path: Path
) -> None:
    (tmp_path / "vmlinux").write_bytes(b"\x7fELF" + bytes(200))
    kernel = SimpleNamespace(file=tmp_path / "vmlinux", page=page, release="6.12-arm64-16k")
    machine: Any = SimpleNamespace(kernel=kernel, qemu=None, isa=USUAL)
    with pytest.raises(RunError, match=said):
        types_of(machine)


def test_a_real_cell_is_replayed_and_searched(exact_guest: ExactGuest) -> None:
    """On one CPU nothing moves; a layout as it is, and one that has nothing new, count alike."""
    run = cell_run("unix", "same-cpu")
    guest = guest_for(invoker().cache, exact_guest, path_of(run.cell), NAMED_MACHINE)
    study = LayoutStudy(parse_layout("unix_sock: vertex after listener; unix_sock"))
    study.check(guest.machine.kernel.release, types_of(guest.machine))
    counted, _ = record_lines(guest, run, study)
    rows = [line.split("\t") for line in study.report().splitlines() if line[0] != "#"]
    (_, (cell, before, after, *moved), _, (_, lines, text), *_) = rows
    assert (cell, moved, text) == (str(run.cell), ["0"] * 4, "as it is")
    assert before == after
    assert float(before) == pytest.approx(counted.totals["lines"] / counted.iterations, abs=0.01)
    assert 10 < float(lines) < float(before)
