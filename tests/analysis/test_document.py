# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's tables of fields against counts, on a document of five rows."""

import gzip
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from analysis.paths.document import differences, read_document, read_documents, report
from analysis.paths.lines import FieldOfObject
from probes.messages import UsageError

HEAD = "Type     Name         fastpath_tx_access  fastpath_rx_access  comment"
ROWS = (
    "..struct ..tcp_sock",
    "u32      copied_seq   -                   read_mostly         tcp_recvmsg",
    "u32      write_seq    read_write          -                   tcp_sendmsg",
    "u8:1     repair       read_mostly         -                   tcp_write_xmit",
    "a_long_type advmss    -                   read_mostly",
    "u32      gone         read_mostly         -                   nobody",
    "u32      unused",
    "u32      lost_out     -                   read_write          tcp_ack",
)


def document(folder: Path, *rows: str, name: str = "tcp_sock.rst") -> Path:
    file = folder / name
    file.write_text("\n".join(["A title", "=======", "", HEAD, *rows, ""]))
    return file


def test_a_table_with_borders_and_types_of_two_words_is_read(tmp_path: Path) -> None:
    """As Linux 7.2 has it, and packed, as Debian does; a field again, without a word, is no row."""
    lines = [
        "========== ========== ================== ==================",
        "Type       Name       fastpath_tx_access fastpath_rx_access",
        "========== ========== ================== ==================",
        "struct sk  lock       read_write         read_mostly",
        "char       name[16]                      read_mostly",
        "struct sk  lock",
    ]
    file = tmp_path / "sock.rst.gz"
    file.write_bytes(gzip.compress("\n".join(lines).encode()))
    found = read_document(file)
    assert found.structure == "sock"
    assert [*found.rows.values()] == [
        ("lock", "read_write", "read_mostly"),
        ("name", "", "read_mostly"),
    ]
    file.write_bytes(b"no gzip")
    with pytest.raises(UsageError, match="gzip cannot unpack it"):
        read_document(file)


def field(name: str, *, storers: str = "", structure: str = "tcp_sock", **counts: float) -> Any:
    ways = ("send", "softirq", "read", "poll", "other")
    zeros = {f"{what}_{way}": 0.0 for way in ways for what in ("loads", "stores")}
    rest: dict[str, Any] = zeros | counts
    return FieldOfObject("tcp_sock", name, structure, 0, 4, **rest, loaders="", storers=storers)


def test_each_kind_of_difference_is_told_and_what_agrees_is_not(tmp_path: Path) -> None:
    rows = (
        field("copied_seq", stores_read=2.0, storers="read tcp_recvmsg_locked, send other"),
        field("write_seq", loads_send=2.0, stores_send=2.0),
        field("repair|frto", loads_send=4.0, stores_softirq=2.0, storers="softirq tcp_ack"),
        field("advmss"),
        field("unused"),
        field("lost_out", loads_softirq=2.0),
        field("rack.rtt", stores_softirq=2.0, storers="softirq tcp_rack_advance"),
        field("sk_lock", structure="sock", stores_send=2.0),
    )
    opening = (field("advmss", loads_softirq=1.0), field("unused", stores_softirq=1.0))
    losing = (field("advmss", loads_softirq=1.0), field("lost_out", stores_softirq=1.0))
    lossy: Any = SimpleNamespace(name="loss")
    cells: list[Any] = [
        SimpleNamespace(field_rows=fields, messages_per_iteration=2, pattern=pattern, knob=knob)
        for fields, pattern, knob in (
            (rows, "pingpong", None),
            (opening, "connect", None),
            (losing, "pingpong", lossy),
        )
    ]
    found = {
        row.field: row.counted
        for row in differences(cells, read_document(document(tmp_path, *ROWS)))
    }
    assert set(found) == {"copied_seq", "repair", "advmss", "gone", "frto", "rack", "lost_out"}
    assert found["copied_seq"] == "rx: written 1.00 times a message by tcp_recvmsg_locked"
    assert found["repair"].endswith("by tcp_ack; one byte: repair|frto")
    assert found["advmss"] == "rx: accessed while connecting and with loss only"
    assert found["lost_out"] == "rx: written with loss only, loaded 1.00 times a message"
    assert "no such field" in found["gone"]
    assert found["rack"] == "rx: written 1.00 times a message by tcp_rack_advance"


def test_a_table_of_counts_says_nothing_else_than_they_do(tmp_path: Path) -> None:
    rows = (
        field("skc_flags|skc_reuse", loads_send=2.0),
        field("sk_lock.slock", loads_send=2.0, stores_send=2.0, storers="send lock_sock_nested"),
        field("sk_err", stores_read=0.1),
        field("sk_mark"),
    )
    own = tuple(row._replace(structure="sock", offset=4 * n) for n, row in enumerate(rows))
    cell: Any = SimpleNamespace(
        cell="tcp", kernel="6.12", lines=True, field_rows=own, messages_per_iteration=2,
        pattern="pingpong", knob=None,
    )  # fmt: skip
    made = report([cell], read_documents(Path("sock")))
    file = tmp_path / "sock.rst"
    file.write_text(made)
    table = read_document(file)
    assert [(row.field, row.tx, row.rx) for row in table.rows.values()] == [
        ("skc_flags", "read_mostly", ""),
        ("skc_reuse", "read_mostly", ""),
        ("sk_lock", "read_write", ""),
        ("sk_err", "", "write_mostly"),
    ]
    assert [*differences([cell], table)] == []
    assert "lock_sock_nested" in made


@pytest.mark.parametrize(
    ("rows", "name", "said"),
    [
        ((ROWS[1], ROWS[1]), "tcp_sock.rst", "two rows of copied_seq"),
        (ROWS[1:], "dccp_sock.rst", "dccp_sock"),
    ],
)
def test_a_document_that_cannot_be_meant_is_refused(
    tmp_path: Path, rows: tuple[str, ...], name: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        read_document(document(tmp_path, *rows, name=name))


def test_a_place_without_a_table_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.rst"
    text.write_text("no table\n")
    for place, said in ((text, "no table with the columns"), (tmp_path, "has no Documentation")):
        with pytest.raises(UsageError, match=said):
            read_documents(place)
    with pytest.raises(UsageError, match="cannot be read"):
        read_documents(tmp_path / "gone.rst")
