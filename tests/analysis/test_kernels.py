# SPDX-License-Identifier: GPL-2.0-or-later
"""Several kernels in one run, and cells whose repeats differ."""

import pytest

from analysis.counts.ledger import switch_kind, version
from analysis.counts.measures import rows_of
from tests.analysis.conftest import Analyse
from tests.analysis.make_run import GUEST, MadeUp

OLD = "5.10.0-made-up"
OLDER = "5.9.0-made-up"


def test_every_kernel_has_its_figure_in_the_order_of_their_versions(analysed: Analyse) -> None:
    kernels = analysed(MadeUp(more_guests=(OLD, OLDER))).kernels
    rows = kernels[(kernels["measure"] == "skb_allocs") & (kernels["transport"] == "tcp")]
    assert list(rows["kernel"]) == [OLDER, OLD, GUEST]
    assert set(rows["value"]) == {1.0}


def test_versions_are_numbers_and_the_newest_kernel_comes_first(analysed: Analyse) -> None:
    assert (
        version("5.10.0-46-cloud") < version("6.1.0") < version("6.12.117+deb13") < version("7.2")
    )
    newest = "10.1.0-made-up"
    analysis = analysed(MadeUp(more_guests=(newest, OLD)))
    rows = analysis.ledgers[0].rows
    assert {row.kernel for row in rows if row.target == "guest"} == {newest}


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ((2.0, 2.01, 1.98), "steady"),
        ((3.0, 3.5), "bistable"),
        ((2.6, 2.7, 2.6), "mixed"),
        ((2.0,), "measured once"),
        ((2.5,), "mixed"),
    ],
)
def test_kinds_of_switches(values: tuple[float, ...], kind: str) -> None:
    assert switch_kind(values) == kind


def test_repeats_in_two_modes_are_not_hidden_in_their_median(analysed: Analyse) -> None:
    made = MadeUp(switches=lambda t, _, repeat: (2 if t == "tcp" or repeat else 4, 0))
    kinds = {(r.transport, r.conditions): r.kind for r in rows_of(analysed(made).switching)}
    assert kinds["unix", "cross-cpu"] == "bistable"
    assert kinds["tcp", "cross-cpu"] == "steady"
