# SPDX-License-Identifier: GPL-2.0-or-later
"""Records a cell once more for its cache lines, and writes what was found: see docs/run-folder.md.

The machine is one of its own: with merged slab caches an object has no name (TCP's skbs would lie
in `pool_workqueue`), and a random offset of the stack touches other lines in each call.
"""

import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from probes.btf import Btf, embedded, section
from probes.cell import ONE_WAY, Cell, CellRun
from probes.isa import Isa
from runners.exact.cache import LEVEL_1
from runners.exact.cells import cpus_of, iterations_of, order
from runners.exact.guest import ExactGuest
from runners.exact.iterations import RecordError, replay
from runners.exact.knobs import Knob
from runners.exact.layouts import LayoutStudy
from runners.exact.line_misses import LEVEL_2
from runners.exact.lines import SETTLED, LineKey, LineRow, Lines, count_lines
from runners.exact.machine import EmulatedMachine, scratch
from runners.exact.objects import Objects
from runners.exact.record import read_record
from runners.exact.touches import Recorded
from runners.guest.kernels import elf_kernel
from runners.guest.qemu import Qemu
from runners.process import RunError

# The machine in which every object has a name and each call the same stack.
NAMED_MACHINE = Knob(command_line="slab_nomerge randomize_kstack_offset=off")
ITERATIONS = 100
LINES, FIELDS, MOVES = "lines", "fields", "moves"  # folders
MOST_NAMES = 3  # fields and functions that a row names at most
MEMORY = 512 << 20  # of the machine, in bytes: `-m` of machines.toml
WAY_COLUMNS = ("send", "softirq", "read", "poll", "other")  # columns of fields/<id>.tsv
LINE_HEAD = (
    *("kind", "object", "line", "objects", "loads", "stores", "fetches", "read", "invalidations"),
    *("fields", "written", "writer", "taken", "taker"),
)
FIELD_HEAD = (
    *("object", "field", "structure", "offset", "size"),
    *(f"{what} {way}" for way in WAY_COLUMNS for what in ("loads", "stores")),
    *("loaders", "storers", "cpus"),
)
ORDER_HEAD = ("cpu", "number", "path", "instructions", "moves")


def named_knob(cell: Cell, knob: Knob) -> Knob | None:
    """The cell's knob, on the machine in which objects have names; None where none can be counted.

    A knob that needs a machine of its own, and another scheduler, have no lines.
    """
    if cell.sched != "fifo" or knob.command_line or knob.cpu or knob.image:
        return None
    return replace(knob, command_line=NAMED_MACHINE.command_line)


def types_of(machine: EmulatedMachine) -> Btf:
    """The types of a machine's kernel. Raises RunError where no line can have a name."""
    if (page := machine.kernel.page) != machine.isa.page:
        raise RunError(
            f"lines and fields have names where pages have {machine.isa.page >> 10} KiB, and those "
            f"of {machine.kernel.release} have {page >> 10}."
        )
    return _types(machine.kernel.file, machine.qemu, machine.isa)


@cache
def _types(kernel: Path, qemu: Qemu, isa: Isa) -> Btf:
    try:
        image = kernel.read_bytes()
        inside = elf_kernel(image, qemu, isa)
        return Btf(section(inside, ".BTF") if inside else embedded(image))
    except (KeyError, IndexError, ValueError, OSError, struct.error, zlib.error):
        raise RunError(
            f"{kernel} has no type information (BTF), so no line or field has a name: build it "
            "with CONFIG_DEBUG_INFO_BTF, for which make needs pahole (apt-get install dwarves)."
        ) from None


def write_lines(
    guest: ExactGuest, run: CellRun, out: Path, layouts: LayoutStudy | None = None
) -> dict[str, Any]:
    """Count the cell's lines, write its tables to `out`, and return its `lines` of cells.jsonl.

    Raises RunError, RecordError.
    """
    counted, summary = record_lines(guest, run, layouts)
    tables = {LINES: line_table(counted), FIELDS: field_table(counted)}
    if counted.cpus > 1:
        tables[MOVES] = order_table(counted)
    for folder, table in tables.items():
        (out / folder).mkdir(exist_ok=True)
        (out / folder / f"{run.id}.tsv").write_text(table, encoding="utf-8")
    return summary


def record_lines(
    guest: ExactGuest, run: CellRun, layouts: LayoutStudy | None = None
) -> tuple[Lines, dict[str, Any]]:
    """Run the cell once more in `guest`, and count its lines: they, and the cell's `lines`.

    `layouts` replays its record with other layouts. Raises RunError, RecordError.
    """
    cell = run.cell.shortened(ITERATIONS * run.cell.unit)
    short = CellRun(run.id, cell, run.repeat)
    types, cpus, one_way = (
        types_of(guest.machine),
        cpus_of(cell),
        cell.pattern in ONE_WAY,
    )
    with scratch() as folder:
        isa = guest.machine.isa
        settings = {"memory": "on", "dump": str(isa.memory_start + MEMORY)}
        guest.boot(order(short, guest.steps), folder, guest.stored, settings)
        record, symbols = read_record(folder, isa), guest.symbols_in(folder)
        names = folder / "symbols" if (folder / "symbols").exists() else guest.names
        objects = Objects(isa, types, names, folder / "memory", cpus)
        iterations = iterations_of(cell)
        window = replay(record, symbols, iterations, one_way=one_way)
        recorded = Recorded(
            record, symbols, objects, folder / "accesses", iterations, one_way=one_way
        )
        if recorded.iterations <= SETTLED:
            raise RecordError(f"a window of {iterations} iterations is too short to count lines in")
        counted = count_lines(recorded, cpus)
        if layouts:
            layouts.add(run, guest.machine.kernel.release, recorded, counted)
    return counted, _summary(counted, window.total.instructions / iterations)


def _summary(counted: Lines, instructions: float) -> dict[str, Any]:
    """`lines` of a line of cells.jsonl: means of an iteration."""
    totals, each = counted.totals, counted.iterations
    settled = each - SETTLED
    summary = {
        "iterations": each,
        "command_line": NAMED_MACHINE.command_line,
        "instructions": _rounded(instructions),
        "loads": _rounded(totals["loads"] / each),
        "stores": _rounded(totals["stores"] / each),
        "data": _rounded(totals["lines"] / each),
        "written": _rounded(totals["lines_written"] / each),
        "code": _rounded(totals["code_lines"] / each),
        "kinds": {kind: _rounded(n / each) for kind, n in counted.kinds.most_common()},
        "objects": {name: _rounded(n / each) for name, n in counted.names.most_common()},
    }
    if counted.cpus == 1:
        half = each - each // 2
        caches = {"l1": LEVEL_1, "l2": LEVEL_2}
        misses = {name: _rounded(n / half) for name, n in sorted(counted.misses.items())}
        return summary | {"estimate": {"caches": caches, "misses": misses}}
    return summary | {
        "by_cpu": [_rounded(totals[f"lines_cpu{cpu}"] / each) for cpu in range(counted.cpus)],
        "shared": _rounded(totals["lines_shared"] / each),
        "shared_written": _rounded(totals["lines_shared_written"] / each),
        "moves": {
            "iterations": settled,
            "fetches": _rounded(totals["fetches"] / settled),
            "unread": _rounded(totals["fetches_unread"] / settled),
            "invalidations": _rounded(totals["invalidations"] / settled),
            "usual": counted.usual_moves,
        },
    }


def _rounded(value: float) -> float:
    return round(value, 4)


def line_table(counted: Lines) -> str:
    """`lines/<id>.tsv`: a row for each line of an object, those that move most first."""
    rows = sorted(counted.rows.items(), key=lambda pair: _weight(*pair))
    return _table(LINE_HEAD, (_line_row(key, row, counted.iterations) for key, row in rows))


def _weight(key: LineKey, row: LineRow) -> tuple[object, ...]:
    kind, name, line = key
    return -row.moves, -(row.loads + row.stores), kind, name, line or 0


def _line_row(key: LineKey, row: LineRow, iterations: int) -> Iterator[str]:
    """The texts of a row, in the order of LINE_HEAD; moves are of the settled iterations."""
    kind, name, line = key
    settled = iterations - SETTLED
    yield from (kind, name, "" if line is None else str(line), str(len(row.objects)))
    yield from (_number(row.loads / iterations), _number(row.stores / iterations))
    for moved in (row.fetches, row.fetches_read, row.invalidations):
        yield _number(moved / settled)
    for names in (row.fields, row.written, row.writers, row.taken, row.takers):
        yield _named(names)


def field_table(counted: Lines) -> str:
    """`fields/<id>.tsv`: a row for each field, by its object and place."""
    rows = sorted(counted.fields.items(), key=lambda pair: (pair[0][0], pair[1].offset, pair[0][1]))
    return _table(
        FIELD_HEAD,
        (
            (
                *(*key, row.structure, str(row.offset), str(row.size)),
                *(
                    _number(counter[way] / counted.iterations)
                    for way in WAY_COLUMNS
                    for counter in (_by_column(row.loads), _by_column(row.stores))
                ),
                *(_named(row.loaders), _named(row.storers)),
                row.sharing if counted.cpus > 1 else "",
            )
            for key, row in rows
        ),
    )


def order_table(counted: Lines) -> str:
    """`moves/<id>.tsv`: an iteration in its order. A path has a number, and its names once."""
    numbers: dict[tuple[str, ...], int] = {}
    rows = []
    for passage in counted.order:
        is_new = passage.path not in numbers
        number = numbers.setdefault(passage.path, len(numbers) + 1)
        names = ";".join(passage.path) if is_new else ""
        moved = ", ".join(f"{what} {line}" for what, line in passage.moves)
        rows.append((str(passage.cpu), str(number), names, str(passage.instructions), moved))
    return _table(ORDER_HEAD, iter(rows))


def _by_column(by_way: Counter[str]) -> Counter[str]:
    """What has no column of its own is `other`."""
    columns: Counter[str] = Counter()
    for way, count in by_way.items():
        columns[way if way in WAY_COLUMNS else "other"] += count
    return columns


def _number(value: float) -> str:
    return f"{value:.4f}".rstrip("0").rstrip(".")


def _named(names: Counter[str]) -> str:
    """The most frequent names, those of equal frequency by the alphabet."""
    ordered = sorted(names.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(name for name, _ in ordered[:MOST_NAMES])


def _table(head: Sequence[str], rows: Iterator[Iterator[str] | Sequence[str]]) -> str:
    return "".join("\t".join(row) + "\n" for row in (head, *rows))
