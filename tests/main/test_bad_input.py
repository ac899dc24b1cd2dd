# SPDX-License-Identifier: GPL-2.0-or-later
"""What cannot be done is refused in one sentence, with a status, and leaves nothing half made."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from runners.process import REPOSITORY

RUN = REPOSITORY / "runners/run.sh"
NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--")


def refused(*command: str | Path, **environment: str) -> tuple[int, str]:
    """Status and the one sentence; stdout stays empty."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | environment
    )
    assert done.stdout == ""
    sentence = done.stderr.splitlines()[-1]
    assert sentence.startswith("pathcost: ")
    assert "Traceback" not in done.stderr
    return done.returncode, sentence


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--transports", "pigeon"], "unknown transport 'pigeon'"),
        (["--sizes", "0"], "no size"),
        (["--out", "/dev/null"], "--out /dev/null is not a folder"),
        (["--out", "/"], "--out / holds files already"),
        (["--knob", "mitigations=off"], "unknown word '--knob'"),
    ],
)
def test_usage(arguments: list[str], said: str) -> None:
    status, sentence = refused(RUN, *arguments)
    assert status == 2
    assert said in sentence


@pytest.mark.root
def test_no_root() -> None:
    status, sentence = refused(*NOBODY, RUN)
    assert status == 1
    assert "probes need root: run it as sudo" in sentence


@pytest.mark.root
def test_a_place_that_cannot_be_written() -> None:
    status, sentence = refused(RUN, "--out", "/proc/nowhere/run")
    assert status == 2
    assert "cannot be made in /proc/nowhere" in sentence


@pytest.mark.root
def test_too_little_room(small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(bytes(60 << 20))
    status, sentence = refused(RUN, "--target", "host", "--out", small_disk / "run")
    assert status == 2
    assert "MiB free, and a run needs" in sentence
    assert [entry.name for entry in small_disk.iterdir()] == ["filler"]


@pytest.mark.guest
def test_an_unknown_kernel(tmp_path: Path) -> None:
    status, sentence = refused(RUN, "--kernel", "1.2.3", "--out", tmp_path / "run")
    assert status == 2
    assert "1.2.3" in sentence
    assert "6.12" in sentence, "it names what there is"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.root
def test_missing_packages_are_named_and_not_installed(tmp_path: Path) -> None:
    # A dpkg-query that knows no package stands for a bare machine.
    (tmp_path / "dpkg-query").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "dpkg-query").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    status, sentence = refused(RUN, "--no-install", "--out", tmp_path / "run", PATH=path)
    assert status == 1
    assert "these packages are missing: bpftrace gcc" in sentence


@pytest.mark.root
def test_no_network_during_set_up(tmp_path: Path) -> None:
    (tmp_path / "dpkg-query").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "dpkg-query").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    # A network namespace without a route is a machine without a network.
    alone = ("unshare", "--net", "--")
    status, sentence = refused(*alone, RUN, "--out", tmp_path / "run", PATH=path)
    assert status == 1
    assert "apt-get could not install" in sentence
    assert not (tmp_path / "run").exists()
