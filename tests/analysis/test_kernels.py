# SPDX-License-Identifier: GPL-2.0-or-later
"""Several kernels in one run, and cells whose repeats differ."""

from analysis.counts.ledger import version
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
