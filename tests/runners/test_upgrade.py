# SPDX-License-Identifier: GPL-2.0-or-later
"""what-if --kernel: what it refuses before anything is counted."""

import json
from pathlib import Path

import pytest

from probes.contract import PRICES
from runners.cli import parse
from runners.gate.upgrade import counted_on_both, upgrade
from runners.options import WhatIfOptions
from runners.process import UsageError
from runners.programs.prices import empty_list


def options(*words: str) -> WhatIfOptions:
    found = parse(["what-if", *words])
    assert isinstance(found, WhatIfOptions)
    return found


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--kernel 7.2 --rate 5", "--rate has no effect"),
        ("--kernel 7.2 --program redis", "--program has no effect"),
        ("--kernel 7.2 --against 7.2", "name two kernels"),
        ("--kernel 7.2 --size 1M", "exact mode counts"),
        ("--kernel 7.2 --cpus free", "bind both"),
    ],
)
def test_what_has_no_effect_or_cannot_be_counted_is_refused(words: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        counted_on_both(options(*words.split()))


def test_both_kernels_are_counted_alike() -> None:
    counted = counted_on_both(options("--kernel", "7.2", "--against", "6.1", "--cpus", "2"))
    assert counted.kernels == ("6.1", "7.2")
    assert (counted.placements, counted.scheds) == (("cross-cpu",), ("fifo",))


def test_without_prices_of_this_machine_nothing_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATHCOST_CACHE", str(tmp_path))
    with pytest.raises(UsageError, match="no prices of events"):
        upgrade(options("--kernel", "7.2"))
    listed = empty_list() | {"kernel": "6.12", "fingerprint": {}}
    (tmp_path / PRICES).write_text(json.dumps(listed))
    with pytest.raises(UsageError, match="that are kept are of another"):
        upgrade(options("--kernel", "7.2"))
