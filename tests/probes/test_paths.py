# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of paths covers every transport, and holds together."""

from __future__ import annotations

import pytest

from probes.paths import DIRECTIONS, Place, TransportPath, named, read_paths
from runners.cell import TRANSPORTS

CHECKS = {"events", "calls", "no-calls", "bytes", "segments", "packets", "through"}
BETWEEN = {"queued", "moved", "pinned", "shared", "encrypted"}


def test_every_transport_has_a_path_and_every_path_a_transport() -> None:
    assert list(read_paths()) == list(TRANSPORTS)


@pytest.mark.parametrize("path", read_paths().values(), ids=lambda path: path.transport)
def test_what_a_path_checks_has_something_to_check(path: TransportPath) -> None:
    assert path.checks <= CHECKS
    assert path.between in BETWEEN
    assert ("calls" in path.checks) == bool(path.sends) == bool(path.receives)
    assert ("no-calls" in path.checks) != ("calls" in path.checks)
    assert ("through" in path.checks) == bool(path.through)
    # Whoever shares memory copies nothing, nor who encrypts it on its way, and who refers to the
    # sender's pages nothing in.
    copied = {way for way in DIRECTIONS if path.times_copied(way)}
    expected = {"pinned": {"kernel", "out"}, "shared": set[str](), "encrypted": set[str]()}
    assert copied == expected.get(path.between, {"in", "out"})


def test_of_several_names_that_of_the_kernel_is_chosen() -> None:
    pipe = read_paths()["pipe"]
    assert named(pipe.sends, {"pipe_write"}) == Place("pipe_write")
    assert named(pipe.sends, {"pipe_write", "anon_pipe_write"}) == Place("anon_pipe_write")
    assert named(pipe.sends, {"tcp_sendmsg"}) is None
    tcp = read_paths()["tcp"].copies["in"]
    assert named(tcp[0], {"_copy_from_iter"}) == Place("_copy_from_iter", "tcp_sendmsg_locked")
