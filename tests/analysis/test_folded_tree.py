# SPDX-License-Identifier: GPL-2.0-or-later
"""The call tree in the terminal, out of folded stacks, by any Python."""

import os
import subprocess
from pathlib import Path

import pytest

from analysis.paths import folded
from runners.process import REPOSITORY
from tests.processes import captured

FOLDED = """\
client;main;write;send 40
client;main;write;send;copy 30
client;main;write;send;wake 2
client;main;write 8
server;main;write;send;copy 20
server;main;read 100
"""
TREE = "      100  write\n       92    send\n       50      copy\n        2      … 1 other\n"


@pytest.mark.parametrize(
    ("text", "options", "printed"),
    [
        (FOLDED, ("--root", "write"), TREE),
        (FOLDED, ("--root", "write", "--depth", "1"), "".join(TREE.splitlines(True)[:2])),
        ("no stacks\n", ("--root", "write"), "line 1 is no folded stack"),
        (FOLDED, ("--root", "absent"), "has absent in it"),
    ],
)
def test_a_function_is_below_its_caller_with_all_that_it_calls(
    tmp_path: Path, text: str, options: tuple[str, ...], printed: str
) -> None:
    file = tmp_path / "one.folded"
    file.write_text(text)
    argv = ["/usr/bin/python3", "-B", "-m", "analysis.paths.folded", str(file), *options]
    done = captured(argv, cwd=REPOSITORY)
    assert done.stdout == printed if printed in TREE else printed in done.stderr


def test_a_reader_that_has_seen_enough_ends_it_without_a_word(tmp_path: Path) -> None:
    file = tmp_path / "one.folded"
    file.write_text(FOLDED)
    words = ["-B", "-m", "analysis.paths.folded", str(file), "--root", "write"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        ["/usr/bin/python3", *words], cwd=REPOSITORY, stdout=writer, stderr=subprocess.PIPE
    )
    os.close(writer)
    assert done.stderr == b""


def test_a_root_inside_itself_is_counted_once() -> None:
    assert folded.below(["a;b;a 5"], "a")["a",] == 5
