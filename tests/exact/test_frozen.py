# SPDX-License-Identifier: GPL-2.0-or-later
"""Cells counted again are those of frozen.tsv, to the instruction."""

import subprocess
from pathlib import Path

import pytest

from tests.exact.conftest import REPOSITORY
from tests.exact.frozen import COLUMNS, TABLE, rows

pytestmark = pytest.mark.emulated
OTHER_BUILD = 2  # instructions
CELLS = ("--transports", "unix,tcp", "--kernel", "6.12", "--sched", "fifo", "--no-install")


def test_a_steady_round_trip_is_as_it_was_frozen(
    exact_guest: object, two_cpu_guest: object, tmp_path: Path
) -> None:
    """What QEMU executed, of the same kernel, QEMU and programs of the guest.

    With another build of the workload a clock is read at another instruction, and TCP's round trip
    may differ by two. On two CPUs one record in thirty is another, so there only the steady round
    trip is compared.
    """
    run = [str(REPOSITORY / "runners/run.sh"), "exact", *CELLS, "--out", str(tmp_path / "run")]
    subprocess.run(run, check=True)
    lines = [line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines()]
    frozen = {tuple(line[:5]): dict(zip(COLUMNS, line, strict=True)) for line in lines[1:]}
    for row in rows(tmp_path / "run"):
        expected = frozen.get(tuple(row[name] for name in COLUMNS[:5]))
        if expected is None:
            pytest.skip(f"nothing is frozen of {row['release']} under QEMU {row['qemu']}")
        if row["programs"] != expected["programs"]:
            assert abs(int(row["instructions"]) - int(expected["instructions"])) <= OTHER_BUILD
            continue
        if row["placement"] == "cross-cpu":
            row["record"] = expected["record"]
        assert row == expected
