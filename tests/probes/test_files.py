# SPDX-License-Identifier: GPL-2.0-or-later
"""What no regular file is, or too large a one, is refused at once, wherever a user names a file."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from analysis.claims.files import load_claims
from analysis.raw.run import read_run
from probes.messages import RunError, UsageError
from runners.guest.kernels import own_kernel
from runners.programs.program import read

READS: dict[str, Callable[[Path], object]] = {
    "kernel": own_kernel,
    "program.toml": read,
    "claim.toml": lambda file: load_claims(file.parent),
    "run.json": lambda file: read_run(file.parent),
}
MAKES: dict[str, Callable[[Path], object]] = {
    "fifo": os.mkfifo,
    "endless": lambda file: file.symlink_to("/dev/zero"),
    "folder": Path.mkdir,
    "large": lambda file: _sparse(file, 2 << 30),
}


def _sparse(file: Path, size: int) -> None:
    file.touch()
    os.truncate(file, size)


@pytest.fixture(autouse=True)
def _at_once() -> Iterator[None]:
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it waits for who writes to a FIFO"))
    signal.alarm(20)
    yield
    signal.alarm(0)


@pytest.mark.parametrize("kind", MAKES)
@pytest.mark.parametrize("name", READS)
def test_it_is_refused_in_a_sentence(tmp_path: Path, name: str, kind: str) -> None:
    MAKES[kind](tmp_path / name)
    with pytest.raises((UsageError, RunError), match=r"regular file|MiB|directory|no run"):
        READS[name](tmp_path / name)
