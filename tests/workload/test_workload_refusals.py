# SPDX-License-Identifier: GPL-2.0-or-later
"""What cannot be run is refused: one sentence, status 2, nothing on stdout, nothing left."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from .workload import Ended, run

# options after `--transport unix --dir PRIVATE --messages 46`, and a word of the sentence
BAD = {
    "unknown transport": (["--transport", "pigeon"], 'unknown transport "pigeon"'),
    "unknown pattern": (["--pattern", "waltz"], 'unknown pattern "waltz"'),
    "size 0": (["--size", "0"], "--size must be a whole number from 1 to 1073741824"),
    "negative size": (["--size", "-1"], "--size"),
    "huge number": (["--size", "99999999999999999999999"], "--size"),
    "odd messages": (["--messages", "23"], "--messages 23 is not a multiple of 2"),
    "odd warm-up": (["--warmup", "1"], "--warmup 1 is not a multiple of 2"),
    "rate of another pattern": (["--rate", "5"], "--rate belongs to pattern paced"),
    "work of another pattern": (["--work", "5"], "--work belongs to pattern paced"),
    "slower than its time": (
        ["--pattern", "paced", "--rate", "1", "--messages", "160"],
        "--timeout is 60",
    ),
    "CPU not there": (["--cpus", "1023"], "may not run on CPU 1023"),
    "CPUs not numbers": (["--cpus", "a,b"], "--cpus"),
    "one CPU twice": (["--placement", "cross-cpu", "--cpus", "0,0"], "two different CPUs"),
    "spinning on one CPU": (["--wait", "spin"], "two sides that spin need a CPU each"),
    "free with CPUs": (["--placement", "free", "--cpus", "0"], "leave --cpus out"),
    "no such directory": (["--dir", "/nonexistent/dir"], "cannot use --dir"),
    "directory is a file": (["--dir", "/proc/version"], "is not private"),
    "directory of everybody": (["--dir", "/tmp"], "is not private"),
    "samples nowhere": (["--samples", "/nonexistent/dir/s"], "cannot create the samples file"),
    "gate not open": (["--gate", "999"], "--gate: 999 is not an open descriptor"),
    "control not open": (["--control", "998,999"], "998 is not an open descriptor"),
    "control without answers": (["--control", "5"], "--control must be CTL,ACK"),
    "unknown option": (["--speed", "11"], "unknown option --speed"),
    "value missing": (["--size"], "--size needs a value"),
    "stray argument": (["unix"], 'unexpected argument "unix"'),
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


def test_transport_and_directory_are_needed(program: Path) -> None:
    check_refused(run(program), "--transport is missing")
    check_refused(run(program, "--transport", "unix"), "transport unix needs --dir")


def test_cross_cpu_with_one_cpu(program: Path, private: Path) -> None:
    cpus = os.sched_getaffinity(0)
    only = min(cpus)
    os.sched_setaffinity(0, {only})
    try:
        ended = run(program, "--transport", "unix", "--dir", private, "--placement", "cross-cpu")
    finally:
        os.sched_setaffinity(0, cpus)
    check_refused(ended, f"needs two CPUs, and there is only CPU {only}")


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


def test_stale_socket_is_refused_and_stays(program: Path, private: Path) -> None:
    stale = private / "socket"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(stale))
    ended = run(program, "--transport", "unix", "--messages", 46, "--dir", private)
    check_refused(ended, "exists already")
    assert stale.is_socket()


def test_existing_samples_file_is_not_overwritten(program: Path, private: Path) -> None:
    samples = private / "samples"
    samples.write_text("of an earlier run")
    good = ["--transport", "unix", "--messages", 46, "--dir", private]
    check_refused(run(program, *good, "--samples", samples), "File exists")
    assert samples.read_text() == "of an earlier run"


def test_samples_file_of_a_refused_cell_is_removed(program: Path, private: Path) -> None:
    """It is made before the socket, whose path is taken here."""
    stale = private / "socket"
    stale.touch()
    good = ["--transport", "unix", "--messages", 46, "--dir", private]
    check_refused(run(program, *good, "--samples", private / "samples"), "exists already")
    assert list(private.iterdir()) == [stale]


def test_read_only_gate(program: Path, private: Path) -> None:
    with Path("/dev/null").open("rb") as gate:
        good = ["--transport", "unix", "--messages", 46, "--dir", private]
        ended = run(program, *good, "--gate", gate.fileno(), pass_fds=(gate.fileno(),))
    check_refused(ended, "is not open for writing")


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
