# SPDX-License-Identifier: GPL-2.0-or-later
"""The call tree in the terminal, out of folded stacks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from analysis.tools import folded_tree
from runners.process import REPOSITORY

FOLDED = """\
client;main;write;send 40
client;main;write;send;copy 30
client;main;write;send;wake 2
client;main;write 8
server;main;write;send;copy 20
server;main;read 100
"""


def said(tmp_path: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "one.folded"
    file.write_text(text)
    argv = [sys.executable, "-m", "analysis.tools.folded_tree", str(file), *options]
    return subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True)


def test_a_function_stands_below_its_caller_with_all_that_it_calls(tmp_path: Path) -> None:
    done = said(tmp_path, FOLDED, "--root", "write")
    assert done.stdout.splitlines() == [
        "      100  write",
        "       92    send",
        "       50      copy",
        "        2      … 1 other",
    ]


def test_depth_and_least_bound_it(tmp_path: Path) -> None:
    assert said(tmp_path, FOLDED, "--root", "write", "--depth", "1").stdout.count("\n") == 2
    assert "wake" in said(tmp_path, FOLDED, "--root", "write", "--least", "2").stdout


def test_a_root_inside_itself_is_counted_once() -> None:
    assert folded_tree.tree(["a;b;a 5"], "a").cost == 5


def test_what_is_no_folded_file_is_one_sentence(tmp_path: Path) -> None:
    for text, why in (("no stacks\n", "line 1 is no folded stack"), (FOLDED, "has absent in it")):
        done = said(tmp_path, text, "--root", "absent")
        assert done.returncode == 1
        assert why in done.stderr and done.stderr.count("\n") == 1
