# SPDX-License-Identifier: GPL-2.0-or-later
"""What cannot be run is refused: one sentence, status 2, nothing on stdout, nothing left."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .workload import Ended, run

# options after `--transport unix --dir PRIVATE --messages 46`, and a word of the sentence
BAD = {
    "unknown transport": (["--transport", "pigeon"], 'unknown transport "pigeon"'),
    "size 0": (["--size", "0"], "--size must be a whole number from 1 to 1073741824"),
    "odd messages": (["--messages", "23"], "--messages 23 is not a multiple of 2"),
    "rate of another pattern": (["--rate", "5"], "--rate belongs to pattern paced"),
    "slower than its time": (
        ["--pattern", "paced", "--rate", "1", "--messages", "160"],
        "--timeout is 60",
    ),
    "CPU not there": (["--cpus", "1023"], "may not run on CPU 1023"),
    "spinning on one CPU": (["--wait", "spin"], "two sides that spin need a CPU each"),
    "no such directory": (["--dir", "/nonexistent/dir"], "cannot use --dir"),
    "directory of everybody": (["--dir", "/tmp"], "is not private"),
    "gate not open": (["--gate", "999"], "--gate: 999 is not an open descriptor"),
    "control without answers": (["--control", "5"], "--control must be CTL,ACK"),
    "unknown option": (["--speed", "11"], "unknown option --speed"),
    "value missing": (["--size"], "--size needs a value"),
}


def check_refused(ended: Ended, sentence: str) -> None:
    assert ended.status == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith("pathcost-workload: ")
    assert ended.stderr.count("\n") == 1 and ended.stderr.endswith("\n")
    assert sentence in ended.stderr


@pytest.mark.parametrize("case", BAD)
def test_refused(sanitized: Path, private: Path, case: str) -> None:
    options, sentence = BAD[case]
    good = ["--transport", "unix", "--dir", private, "--messages", 46]
    check_refused(run(sanitized, *good, *options), sentence)
    assert list(private.iterdir()) == []


def longest_directory(base: Path) -> Path:
    """A directory under `base` whose socket path fills sun_path to the last byte."""
    room = 107 - len("/socket") - len(str(base)) - 1
    if room < 1:
        pytest.skip(f"the path of the temporary directory is too long already: {base}")
    directory = base / ("d" * room)
    directory.mkdir(mode=0o700)
    return directory


def test_socket_path_up_to_the_limit(program: Path, tmp_path: Path) -> None:
    fits = longest_directory(tmp_path)
    assert run(program, "--transport", "unix", "--messages", 46, "--dir", fits).status == 0
    too_long = fits.with_name(fits.name + "d")
    too_long.mkdir(mode=0o700)
    ended = run(program, "--transport", "unix", "--messages", 46, "--dir", too_long)
    check_refused(
        ended, "108 bytes long, and sun_path has room for 107: choose a --dir of at most 100"
    )
    assert list(too_long.iterdir()) == []


def test_closed_stdout(program: Path, private: Path) -> None:
    """Else the socket would be descriptor 1, and the peer would get the result."""
    ended = subprocess.run(
        ["sh", "-c", '"$0" --transport unix --dir "$1" >&-', str(program), str(private)],
        capture_output=True,
        text=True,
    )
    check_refused(Ended(ended.returncode, ended.stdout, ended.stderr), "descriptor 1 is not")


def test_full_stdout_is_a_failure(program: Path, private: Path) -> None:
    samples = private / "samples"
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [str(program), "--transport", "tcp", "--messages", "46", "--samples", str(samples)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert ended.returncode == 1
    assert ended.stderr == "pathcost-workload: write the result: No space left on device\n"
    assert not samples.exists()
