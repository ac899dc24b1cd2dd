# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's own tables of fields on the fast path, checked against exact counts.

Documentation/networking/net_cachelines has a table for each of some structures: how often its
authors expect a field to be read and written while a message is sent (tx) and received (rx). Here
tx is what functions do for sending, rx what they do in the softirq and in the reader's system call.
"""

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from analysis.paths.cells import ExactCell
from analysis.paths.lines import FieldOfObject
from analysis.wording import counted, number
from probes.files import read_regular
from probes.messages import RunError, UsageError, shown

CACHELINES = Path("Documentation/networking/net_cachelines")  # in a tree of the kernel
# Structure of a document → the one that its fields are in, and what stands before their names.
INSIDE = {
    "tcp_sock": ("tcp_sock", ""),
    "inet_connection_sock": ("inet_connection_sock", ""),
    "inet_sock": ("inet_sock", ""),
    "sock": ("sock", ""),
    "unix_sock": ("unix_sock", ""),
    "sk_buff": ("sk_buff", ""),
    "skb_shared_info": ("skb_shared_info", "skb_shared_info."),
    "socket_wq": ("socket_alloc", "socket.wq."),
    "epitem": ("epitem", ""),
    "eppoll_entry": ("eppoll_entry", ""),
    "net_device": ("net_device", ""),
    "netns_ipv4": ("net", "ipv4."),
    "netns_ipv4_sysctl": ("net", "ipv4."),
    "snmp": ("linux_mib", ""),
}
# An allocation with two sk_buffs, of which TCP sends the second.
CLONES, FIRST, CLONED = "sk_buff_fclones", "skb1", "skb2"
TX, RX = ("send",), ("softirq", "read")
READ_MOSTLY, WRITTEN = "read_mostly", ("read_write", "write_mostly")
NO_FIELD = (
    "this kernel's structure declares no such field: it is gone, a macro, or a structure within"
)
CONNECTING = ("connect", "backlog")  # patterns with a connection for each request
MOST_MAKERS = 3  # functions in a comment
OFTEN = 0.4  # stores of a message, from which on a field is not mostly read
FIELD_NAME = re.compile(r"(\w+)(?:\[.*\])?")
HEAD = ("Type", "Name", "fastpath_tx_access", "fastpath_rx_access")


class Said(NamedTuple):
    """A row of a document: what it says of a field's use in sending and in receiving."""

    field: str
    tx: str
    rx: str

    @property
    def is_empty(self) -> bool:
        return not (self.tx or self.rx)


@dataclass(frozen=True)
class FieldDocument:
    """A table of a structure's fields, by name; without rows, one that is to be made."""

    file: Path
    structure: str
    rows: dict[str, Said]


@dataclass
class Use:
    """Loads and stores of a message, the most of all cells; ways and functions that make them.

    The documents are of established connections that lose nothing. `elsewhere` has the counts of
    other cells, by what they do and by `tx` and `rx`. `beside` are the bit fields of the same byte,
    none of which can be told from the others.
    """

    tx: tuple[float, float] = (0.0, 0.0)
    rx: tuple[float, float] = (0.0, 0.0)
    loaders: dict[str, None] = field(default_factory=dict)
    storers: dict[str, None] = field(default_factory=dict)
    elsewhere: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    beside: str = ""


class Difference(NamedTuple):
    """A field of which the document says something else than the counts."""

    structure: str
    field: str
    said: str
    counted: str


def read_documents(place: Path) -> list[FieldDocument]:
    """Those of a file or a tree of the kernel; one to be made of each structure that is named.

    Raises UsageError.
    """
    names = str(place).split(",")
    if INSIDE.keys() >= {*names} and not place.exists():
        return [FieldDocument(place, name, {}) for name in names]
    if place.is_dir():
        files = sorted((place / CACHELINES).glob("*.rst*"))
        documents = [read_document(path) for path in files if _head(_lines(path)) is not None]
        if not documents:
            raise UsageError(f"{shown(str(place))} has no {CACHELINES} with a table that is known.")
        return documents
    return [read_document(place)]


def _lines(file: Path) -> list[str]:
    """A document's lines; Debian's packages have it packed. Raises UsageError."""
    try:
        data = read_regular(file)
        return (gzip.decompress(data) if file.suffix == ".gz" else data).decode().splitlines()
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise UsageError(f"{shown(str(file))} is damaged: gzip cannot unpack it.") from None
    except OSError as error:
        raise UsageError(f"{shown(str(file))} cannot be read: {error.strerror}.") from None
    except ValueError:
        raise UsageError(f"{shown(str(file))} is no text.") from None


def _head(lines: Sequence[str]) -> int | None:
    """The number of the line with the names of the columns."""
    heads = (n for n, line in enumerate(lines) if all(word in line for word in HEAD))
    return next(heads, None)


def read_document(file: Path) -> FieldDocument:
    """A document, whose table has the columns of HEAD. Raises UsageError."""
    lines = _lines(file)
    if (head := _head(lines)) is None:
        raise UsageError(
            f"{shown(str(file))} has no table with the columns {', '.join(HEAD)}: name a file "
            f"of {CACHELINES}."
        )
    column, tx, rx = (lines[head].index(word) for word in HEAD[1:])
    structure, rows = file.name.partition(".")[0], dict[str, Said]()
    for line in lines[head + 1 :]:
        # A type may have two words; a type and a name may reach into the next column.
        overflows = line[column - 1 : column].strip()
        names = line.split()[1:2] if overflows else line[column:].split()[:1]
        if line.startswith("..struct"):
            structure = names[0].removeprefix("..")
        elif names and (field_name := FIELD_NAME.fullmatch(names[0])):
            name = field_name[1]
            line = line.replace(names[0], " " * len(names[0]), 1)
            said = Said(name, _said(line[tx:rx]), _said(line[rx : rx + len(HEAD[-1])]))
            # Linux 7.2's net_device has fields twice, the second time without a word.
            if (before := rows.get(name)) and said.is_empty:
                continue
            if before and not before.is_empty:
                raise UsageError(f"{shown(str(file))} has two rows of {name}.")
            rows[name] = said
    if structure not in INSIDE:
        known = ", ".join(INSIDE)
        raise UsageError(f"{shown(str(file))} is of {structure}, and these are counted: {known}.")
    return FieldDocument(file, structure, rows)


def _said(cell: str) -> str:
    """The first word of a cell; a dash is none."""
    return "".join(cell.split()[:1]).strip("-")


def uses(cells: Iterable[ExactCell], document: FieldDocument) -> dict[str, Use]:
    """What the cells do with each field of the structure, also with those that nobody accesses.

    A field within a field is found by its own name, too, where no other has that.
    """
    found: dict[str, Use] = {}
    for cell in cells:
        outer: dict[str, list[FieldOfObject]] = {}
        inner: dict[str, list[FieldOfObject]] = {}
        for row in cell.field_rows:
            if not (path := _path(row, document)):
                continue
            first, *rest = path
            for names, of_cell in ((first, outer), ("".join(rest[:1]), inner)):
                for name in filter(None, names.split("|")):
                    of_cell.setdefault(name, []).append(row)
        for name, rows in (inner | outer).items():
            use, each = found.setdefault(name, Use()), cell.messages_per_iteration
            if not (what := _elsewhere(cell)):
                _add(use, rows, each)
                continue
            for way, ways in (("tx", TX), ("rx", RX)):
                most = use.elsewhere.get((what, way), (0.0, 0.0))
                use.elsewhere[what, way] = _most(most, rows, ways, each)
    return found


def _path(row: FieldOfObject, document: FieldDocument) -> list[str]:
    """The field's names from the document's structure down; none of another structure."""
    structure, before = INSIDE[document.structure]
    if row.structure == CLONES and structure == "sk_buff":
        clone, _, name = row.field.partition(".")
        return re.split(r"[.\[]", name) if clone in (FIRST, CLONED) else []
    if row.structure != structure or not row.field.startswith(before):
        return []
    return re.split(r"[.\[]", row.field.removeprefix(before))


def _elsewhere(cell: ExactCell) -> str:
    """What a cell does that the documents are not of; empty where they are of it."""
    if cell.pattern in CONNECTING:
        return "while connecting"  # also where it loses: which of the two it was is not told
    return f"with {cell.knob.name}" if cell.knob else ""


def _add(use: Use, rows: Sequence[FieldOfObject], each: int) -> None:
    """Add what a cell with so many messages an iteration does with the rows of a field."""
    use.tx, use.rx = _most(use.tx, rows, TX, each), _most(use.rx, rows, RX, each)
    for row in rows:
        use.storers |= dict.fromkeys(filter(None, row.storers.split(", ")))
        use.loaders |= dict.fromkeys(filter(None, row.loaders.split(", ")))
        if "|" in row.field:
            use.beside = row.field


def _most(
    before: tuple[float, float], rows: Iterable[FieldOfObject], ways: tuple[str, ...], each: int
) -> tuple[float, float]:
    pairs = [row.of(*ways) for row in rows]
    loads, stores = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
    return max(before[0], loads / each), max(before[1], stores / each)


def differences(cells: Sequence[ExactCell], document: FieldDocument) -> Iterator[Difference]:
    """Where the document and the counts of these cells part, in the order of the document."""
    found = uses(cells, document)
    for name, said in document.rows.items():
        if use := found.get(name):
            notes = _notes(said, use)
        else:
            notes = [NO_FIELD] if said.tx or said.rx else []
        if notes:
            words = f"tx {said.tx or '-'}, rx {said.rx or '-'}"
            yield Difference(document.structure, name, words, "; ".join(notes))
    own = {name for name in _fields(cells, document) if FIELD_NAME.fullmatch(name)}
    own -= document.rows.keys()
    for name, use in found.items():
        if name in own and (notes := _notes(Said(name, "", ""), use)):
            yield Difference(document.structure, name, "(no row)", "; ".join(notes))


def _fields(cells: Iterable[ExactCell], document: FieldDocument) -> Iterator[str]:
    """The names of the structure's own fields that have no field with a row inside."""
    for cell in cells:
        for row in cell.field_rows:
            if path := _path(row, document):
                first, *rest = path
                if not rest or not document.rows.keys() & set(rest[0].split("|")):
                    yield from first.split("|")


def _notes(said: Said, use: Use) -> list[str]:
    notes = [*_of_way("tx", TX, said.tx, use.tx, use), *_of_way("rx", RX, said.rx, use.rx, use)]
    return [*notes, f"one byte: {use.beside}"] if notes and use.beside else notes


def _of_way(
    name: str, ways: Sequence[str], said: str, counts: tuple[float, float], use: Use
) -> Iterator[str]:
    loads, stores = counts
    if said not in WRITTEN and stores >= OFTEN:
        yield f"{name}: written {_times(stores)}{_by(use.storers, ways)}"
    elif said in WRITTEN and not stores:
        loaded = f", loaded {_times(loads)}" if loads else ""
        yield f"{name}: written {_when(name, use, only_stores=True)}{loaded}"
    elif said == READ_MOSTLY and not loads and not stores:
        yield f"{name}: accessed {_when(name, use)}"
    elif not said and loads:
        yield f"{name}: loaded {_times(loads)}{_by(use.loaders, ways)}"


def _when(name: str, use: Use, *, only_stores: bool = False) -> str:
    """In which other cells a field is accessed, or stored to."""
    places = [
        what
        for (what, way), (loads, stores) in use.elsewhere.items()
        if way == name and (stores or (loads and not only_stores))
    ]
    return f"{' and '.join(places)} only" if places else "never here"


def _times(count: float) -> str:
    return f"{number(count)} times a message"


def _by(makers: Iterable[str], ways: Sequence[str]) -> str:
    """The functions that work these ways, as far as they are among the most frequent."""
    pairs = [maker.split(" ", 1) for maker in makers]
    names = [function for way, function in pairs if way in ways]
    return f" by {', '.join(dict.fromkeys(names))}" if names else ""


def report(cells: Sequence[ExactCell], documents: Sequence[FieldDocument]) -> str:
    """The differences as a table of tabs, below a sentence for each document. Raises RunError."""
    counted_cells = [cell for cell in cells if cell.lines]
    if not counted_cells:
        raise RunError("no cell of this run has fields: count them with --lines.")
    lines = []
    for document in documents:
        having = [
            cell for cell in counted_cells if any(_path(row, document) for row in cell.field_rows)
        ]
        names = ", ".join(f"{cell.cell}" for cell in having) or "none of them has the structure"
        if not document.rows:
            lines.append(f"# {document.structure}: Linux {counted_cells[0].kernel}, {names}.")
            lines += field_table(having, document)
            continue
        rows = list(differences(having, document)) if having else []
        lines.append(
            f"# {document.file.name}: {counted(len(rows), 'difference')} in "
            f"{counted(len(document.rows), 'row')}, Linux {counted_cells[0].kernel}. "
            f"“Here” is in these cells: {names}."
        )
        lines.append("structure\tfield\tdocument\tcounted")
        lines += ["\t".join(row) for row in rows]
    return "\n".join(lines) + "\n"


def field_table(cells: Sequence[ExactCell], document: FieldDocument) -> Iterator[str]:
    """A table as the kernel's documents have it: the fields that a message accesses, in order.

    In place of a type it has the bytes of the field, which the tables of a run do not name.
    """
    extents = _extents(cells, document)
    found = uses(cells, document)
    lines = [[*HEAD, "comment"]]
    for joined, extent in sorted(extents.items(), key=lambda pair: (pair[1].start, pair[1].stop)):
        for name in joined.split("|"):
            use = found[name]
            tx, rx = _word(use.tx), _word(use.rx)
            if tx or rx:
                accesses = use.storers | use.loaders
                makers = [maker.partition(" ")[2] for maker in accesses]
                comment = ",".join([*dict.fromkeys(makers)][:MOST_MAKERS])
                lines.append([f"{len(extent)}B", name, tx or "-", rx or "-", comment])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).strip()


def _extents(cells: Iterable[ExactCell], document: FieldDocument) -> dict[str, range]:
    """Where the structure has its fields, those of one byte together."""
    extents: dict[str, range] = {}
    for row in (row for cell in cells for row in cell.field_rows):
        # A clone's fields lie behind those of the first one.
        if (path := _path(row, document)) and not row.field.startswith(CLONED):
            extent = extents.get(path[0], range(row.offset, row.offset))
            end = max(extent.stop, row.offset + row.size)
            extents[path[0]] = range(min(extent.start, row.offset), end)
    return extents


def _word(counts: tuple[float, float]) -> str:
    """What the kernel's documents say of a field with these loads and stores of a message."""
    loads, stores = counts
    if stores and not loads:
        return "write_mostly"
    if stores >= OFTEN:
        return "read_write"
    return READ_MOSTLY if loads else ""
