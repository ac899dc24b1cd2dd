# SPDX-License-Identifier: GPL-2.0-or-later
"""Several kernels in one run: the ledger by kernel, and functions that came and went."""

from analysis.analyse import analyse
from analysis.counts.ledger import version
from analysis.raw.run import read_run
from tests.analysis.conftest import Analyse
from tests.analysis.make_run import GUEST, MESSAGES, MadeUp

OLD = "5.10.0-made-up"
OLDER = "5.9.0-made-up"


def functions(kernel: str, transport: str) -> dict[str, int]:
    """One function of each kernel's own; over TCP one more that is called too seldom."""
    own = {f"made_up_of_{kernel[:4].replace('.', '_')}": MESSAGES}
    return own | ({"made_up_seldom": 1} if transport == "tcp" else {})


def test_one_kernel_is_not_compared(analysed: Analyse) -> None:
    assert analysed(MadeUp()).kernels.tables == ()


def test_kernels_are_in_the_order_of_their_versions(analysed: Analyse) -> None:
    (table,) = analysed(MadeUp(more_guests=(OLD, OLDER))).kernels.tables
    assert [kernel for transport, kernel in table.columns if transport == "tcp"] == [
        *(OLDER, OLD, GUEST)
    ]


def test_every_kernel_has_its_figure(analysed: Analyse) -> None:
    (table,) = analysed(MadeUp(more_guests=(OLD,))).kernels.tables
    rows = {row.measure.id: entries for row, entries in table.rows}
    assert [entry.value for entry in rows["skb_allocs"] if entry] == [1.0] * 4


def test_a_figure_that_a_kernel_does_not_have_stays_empty(analysed: Analyse) -> None:
    cells = {f"{number},": 5 for number in (3, 4)}
    made = MadeUp(more_guests=(OLD,), maps={"@route_lookups": cells})
    analysis = analysed(made)
    path = analysis.run.path / f"raw/guest-{OLD}/bpftrace/1/others.json"
    kept = [line for line in path.read_text().splitlines() if "route_lookups" not in line]
    path.write_text("".join(f"{line}\n" for line in kept))
    (table,) = analyse(read_run(analysis.run.path)).kernels.tables
    entries = next(entries for row, entries in table.rows if row.measure.id == "route_lookups")
    by_column = dict(zip(table.columns, entries, strict=True))
    assert by_column["tcp", OLD] is None
    assert by_column["tcp", GUEST] is not None


def test_functions_that_came_and_went(analysed: Analyse) -> None:
    changes = analysed(MadeUp(more_guests=(OLD,), functions=functions)).kernels.changes
    assert [(c.transport, c.older, c.newer) for c in changes] == [
        ("unix", OLD, GUEST),
        ("tcp", OLD, GUEST),
    ]
    assert {c.appeared for c in changes} == {("made_up_of_8_8_",)}
    assert {c.vanished for c in changes} == {("made_up_of_5_10",)}


def test_versions_are_numbers() -> None:
    assert (
        version("5.10.0-46-cloud") < version("6.1.0") < version("6.12.117+deb13") < version("7.2")
    )


def test_the_first_screen_shows_the_newest_kernel(analysed: Analyse) -> None:
    """Of several kernels that measured the same; in whatever order their names sort."""
    newest = "10.1.0-made-up"
    analysis = analysed(MadeUp(more_guests=(newest, OLD)))
    lines = [row.lines[0] for row in analysis.ledgers[0].rows if row.lines]
    assert {line.kernel for line in lines if line.target == "guest"} == {newest}
