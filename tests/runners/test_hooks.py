# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of hooks says what the scripts attach, and the page says what the table says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from probes import hooks
from runners.host.scripts import PROBES, Script, read_scripts

SCRIPTS = [row for rows in read_scripts().values() for row in rows if row.instrument == "bpftrace"]


def test_the_page_is_made_of_the_table() -> None:
    page = hooks.PAGE.read_text(encoding="utf-8")
    assert page == hooks.page(page), "run: python3 -m probes.hooks"
    assert page == hooks.page(page.replace("| yes |", "| no |"))


@pytest.mark.parametrize(
    "script", [row for row in SCRIPTS if not row.parameters], ids=lambda row: row.file
)
def test_the_table_has_every_hook_of_a_script(script: Script) -> None:
    attached = set(hooks.ATTACH_POINT.findall(script.text))
    rows = [
        row
        for row in hooks.read_hooks()
        if row.script and Path(row.script).name == Path(script.file).name
    ]
    everywhere = {"all"}
    own = {
        hook
        for row in rows
        for hook in row.hooks
        if row.script == script.file
        and ({*script.kernels} & {*row.kernels} or everywhere & {*script.kernels, *row.kernels})
    }
    shared = {
        hook
        for row in rows
        for hook in row.hooks
        if row.script != script.file
        and (row.kernels == ["all"] or set(script.kernels) <= set(row.kernels))
    }
    assert attached == own | shared


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda row: row.file)
def test_every_file_of_the_table_is_there_and_its_maps_are_its_quantities(
    script: Script,
) -> None:
    text = script.path.read_text(encoding="utf-8")
    maps = set(re.findall(r"@(\w+)\[", text)) - set(re.findall(r"@(helper\w*)", text))
    assert maps == set(script.quantities)


def test_the_table_names_every_script_and_quantity() -> None:
    listed = {q.partition(".")[0] for row in hooks.read_hooks() for q in row.quantities}
    assert {quantity for script in SCRIPTS for quantity in script.quantities} <= listed
    files = {str(p.relative_to(PROBES / "bpftrace")) for p in PROBES.rglob("*.bt")}
    assert files == {script.file for script in SCRIPTS}


def test_the_table_names_targets_that_there_are() -> None:
    for rows in read_scripts().values():
        assert {target for row in rows for target in row.headline} <= {"host", "guest"}
        assert len({row.headline for row in rows}) == 1, "one script, whichever file it takes"
