# SPDX-License-Identifier: GPL-2.0-or-later
"""Hops: messages take them, nothing of them outlives the cell, and what lacks has a sentence."""

import os
import signal
from pathlib import Path

import pytest

from tests.processes import captured, is_gone

from .workload import PATIENCE, InWindow

HOPS = ["tcp-veth", "tcp-bridge-nat", "tcp-redirect", "unix-mounted"]
NO_NAMESPACE = "echo 0 >/proc/sys/user/max_net_namespaces"
NO_PROGRAMS = "mount --bind /dev/null $(realpath $(which ip))"


def users_of(namespace: str) -> list[str]:
    """The processes in a network namespace, and those with a descriptor of it."""
    found = []
    for path in (*Path("/proc").glob("[0-9]*/ns/net"), *Path("/proc").glob("[0-9]*/fd/*")):
        try:
            if str(path.readlink()) == namespace:
                found.append(str(path))
        except OSError:
            continue  # it has ended, or is not ours
    return found


@pytest.mark.parametrize("transport", HOPS)
@pytest.mark.parametrize("killed", ["client", "server"])
@pytest.mark.usefixtures("need")
def test_nothing_outlives_the_cell(
    program: Path, private: Path, transport: str, killed: str
) -> None:
    """Not even after SIGKILL: a namespace is gone with its last process and descriptor."""
    running = InWindow(program, "--transport", transport, "--dir", private)
    client = running.process.pid
    links = [Path(f"/proc/{client}/ns/net"), *Path(f"/proc/{client}/fd").iterdir()]
    namespaces = {name for path in links if (name := str(path.readlink())).startswith("net:")}
    assert str(Path("/proc/self/ns/net").readlink()) not in namespaces
    assert all(users_of(namespace) for namespace in namespaces)
    os.kill(client if killed == "client" else running.server, signal.SIGKILL)
    running.end()
    assert is_gone(client) and is_gone(running.server)
    assert [users_of(namespace) for namespace in namespaces] == [[]] * len(namespaces)
    assert "nsfs" not in Path("/proc/self/mountinfo").read_text()
    assert list(private.iterdir()) == []


@pytest.mark.parametrize(
    ("obstacle", "sentence"),
    [
        (NO_NAMESPACE, "this user may not make one (network_namespaces(7))"),
        (NO_PROGRAMS, "tcp-veth cannot be set up here: ip link add"),
    ],
)
@pytest.mark.parametrize("transport", ["tcp-veth"])
@pytest.mark.usefixtures("need")
def test_what_lacks_has_one_sentence(
    program: Path, transport: str, obstacle: str, sentence: str
) -> None:
    own = ["unshare", "--user", "--map-root-user", "--mount", "/bin/sh", "-c"]
    if captured([*own, "true"]).returncode:
        pytest.skip("no user namespace can be made here, as in a chroot (user_namespaces(7))")
    argv = [*own, f'{obstacle}; exec "$0" --transport {transport}', str(program)]
    ended = captured(argv, timeout=PATIENCE)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert sentence in ended.stderr and ended.stderr.count("\n") == 1


@pytest.mark.parametrize("killed", ["client", "forwarder"])
def test_a_forwarder_dies_with_its_cell(program: Path, private: Path, killed: str) -> None:
    running = InWindow(program, "--transport", "tcp-proxy", "--dir", private)
    names = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children").read_text()
    (forwarder,) = {int(word) for word in names.split()} - {running.server}
    os.kill(running.process.pid if killed == "client" else forwarder, signal.SIGKILL)
    ended = running.end()
    assert is_gone(forwarder) and is_gone(running.server)
    if killed == "forwarder":
        assert ended.stderr == (
            "pathcost-workload: the forwarder was killed by signal 9 (Killed)\n"
        )
