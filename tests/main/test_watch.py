# SPDX-License-Identifier: GPL-2.0-or-later
"""run.sh watch on this kernel: what it counts is what the program itself counts."""

import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from analysis.predict.pairs import pairs
from analysis.predict.waits import kinds
from analysis.raw.programs import Watched
from probes.callsite import TRACEFS
from probes.scripts import PROBES
from runners.host import instrument
from runners.host.root import mount_tracing
from runners.process import INTERRUPTED, REPOSITORY, WORKLOAD
from runners.programs import engine
from runners.programs.place import unpacked
from runners.programs.program import find
from runners.store import invoker
from tests.docs.reference import RUN, unpack
from tests.main.threads import THREADS, splice_back, talking
from tests.processes import captured, repeating, wait_for

EVERY_CALL = "100"
REQUESTS = 4000


@pytest.fixture(scope="module", autouse=True)
def tracefs() -> None:
    if not (TRACEFS / "events").is_dir():
        mount_tracing()
    if not (TRACEFS / "events/sock/sock_send_length").is_dir():
        pytest.skip("this kernel has no tracepoint sock:sock_send_length (Linux 6.3)")


@contextmanager
def watching(seconds: float, limit: str = EVERY_CALL) -> Iterator[dict[str, Any]]:
    """The probes count in the block, which must end before `seconds`; then the dict is filled."""
    argv = [instrument.PYTHON, "-B", "-P", str(PROBES / "bcc/pairs.py"), str(seconds), limit]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout and process.stderr
    found: dict[str, Any] = {}
    try:
        assert process.stderr.readline() == "attached\n"
        assert process.stderr.readline() == "counting\n"
        yield found
        process.terminate()
        found |= json.loads(process.stdout.read())
    finally:
        process.kill()
        process.wait()


def predicted(folder: Path, seen: dict[str, Any]) -> dict[str, Any]:
    """What the analysis makes of it."""
    (folder / "watch.json").write_text(json.dumps(seen), encoding="utf-8")
    (folder / "prices.json").write_text(json.dumps(PRICES), encoding="utf-8")
    argv = ["python", "-m", "analysis", "--watch", str(folder), "--json"]
    done = captured(argv, cwd=REPOSITORY, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


PRICES = {
    "format": 1, "measured": 1, "fingerprint": {},
    "cells": [
        {"transport": transport, "pattern": pattern, "size": 64, "placement": "same-cpu",
         "iteration_us": [time], "client_cpu_us": [time / 2], "server_cpu_us": [time / 2]}
        for transport, time in (("unix", 9.0), ("tcp", 13.0))
        for pattern in ("pingpong", "selfecho")
    ],
}  # fmt: skip


@pytest.mark.root
@pytest.mark.slow
def test_requests_are_those_of_memcacheds_own_counter(tmp_path: Path) -> None:
    program = find("memcached")
    (case,) = (case for case in program.cases if case.name == "get")
    root = unpacked(program, invoker().cache, print)
    with ExitStack() as stack:
        services = {}
        for transport in ("tcp", "unix"):
            serving = engine.serving(program, case, transport, root)
            services[transport] = stack.enter_context(serving)
            services[transport].warm_up(case, transport)
        with watching(60) as seen:
            results = {
                transport: service.drive(case, transport, requests=REQUESTS)
                for transport, service in services.items()
            }
        pids = {transport: {*service.pids} for transport, service in services.items()}
    pairs = predicted(tmp_path, seen)["pairs"]
    for transport, result in results.items():
        assert result["error"] is None
        ours = [pair for pair in pairs if pids[transport] & {*pair["server"]["pids"]}]
        pair = max(ours, key=lambda pair: int(pair["requests"]))
        assert pair["family"] == transport
        assert pair["requests"] == result["counted"] == REQUESTS
        assert pair["client"]["sends"] == pair["server"]["sends"] == REQUESTS


@pytest.mark.root
def test_sizes_bytes_connections_and_where_an_abstract_name_ends() -> None:
    name = "\0my.bus.name"
    with (
        socket.socket(socket.AF_UNIX) as bus,
        socket.socket(socket.AF_UNIX) as caller,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        bus.bind(name)
        bus.listen()
        caller.connect(name)
        with bus.accept()[0] as called, watching(60) as seen:
            caller.sendall(b"ping")
            called.recv(4)
            address = listener.getsockname()
            for _ in range(3):
                with socket.create_connection(address) as client, listener.accept()[0] as server:
                    for size in (1, 100, 100, 5000):
                        client.sendall(b"x" * size)
                        assert len(server.recv(size, socket.MSG_WAITALL)) == size
                        server.sendall(b"y")
                        assert client.recv(1) == b"y"
    mine = [end for end in seen["ends"] if end["pid"] == os.getpid()]
    assert sorted(end["path"] for end in mine if end["family"] == "unix") == ["", "@my.bus.name"]
    clients = [end for end in mine if end["opened"] == "connected" and end["family"] == "tcp"]
    (end,) = clients  # the connections have closed, and are added up
    assert end["peer"] == f"127.0.0.1:{address[1]}"
    assert end["sizes"] == {"1": 3, "64": 6, "4096": 3}
    assert (end["sent"], end["received"], end["turns"], end["connections"]) == (15603, 12, 12, 3)


Ends = list[dict[str, Any]]


def spliced(folder: Path) -> Callable[[Ends], bool]:
    """splice(2) receives, and sends what it has received."""
    with talking() as (client, server):
        splice_back(client, server, 0)
    return lambda ends: (
        sorted((end["turns"], end["sent"], end["received"]) for end in ends)
        == [(10, 1280, 1280)] * 2
    )


def short_lived(folder: Path) -> Callable[[Ends], bool]:
    """Each request has a Unix connection of its own."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "short"))
        listener.listen()
        for _ in range(50):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(folder / "short"))
                with listener.accept()[0] as server:
                    client.sendall(b"ask")
                    server.recv(3)
                    server.sendall(b"answer")
                    client.recv(6)
    sides = ("connected", "accepted")
    return lambda ends: all(
        sum(end[name] for end in ends if end["opened"] == side) == 50
        for side in sides
        for name in ("connections", "turns")
    )


def looked_at(folder: Path) -> Callable[[Ends], bool]:
    """Datagrams to who has no peer, each looked at before it is received."""
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client,
    ):
        server.bind(str(folder / "log"))
        client.connect(str(folder / "log"))
        for _ in range(3):
            client.send(b"x" * 100)
            server.recv(100, socket.MSG_PEEK)
            server.recv(100)
    return lambda ends: sorted((e["datagram"], e["sent"], e["received"]) for e in ends) == [
        (True, 0, 300), (True, 300, 0),
    ]  # fmt: skip


@pytest.mark.root
@pytest.mark.parametrize("happens", [spliced, short_lived, looked_at])
def test_what_is_seen_of(happens: Callable[[Path], Callable[[Ends], bool]], tmp_path: Path) -> None:
    with watching(60) as seen:
        is_right = happens(tmp_path)
    assert is_right([end for end in seen["ends"] if end["pid"] == os.getpid()])


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.parametrize("thread", THREADS)
def test_what_people_met_is_told_of_the_pair(thread: str) -> None:
    happens, kind, figures = THREADS[thread]
    with watching(60) as seen:
        happens()
    watched = Watched.model_validate_json(json.dumps(seen))
    mine = [pair for pair in pairs(watched) if os.getpid() in pair.client.owners]
    told = [(name, found) for pair in mine for name, found in kinds(pair)]
    assert [name for name, found in told if name == kind and found.items() >= figures.items()], told


@pytest.mark.root
@pytest.mark.slow
def test_a_pair_across_two_network_namespaces(tmp_path: Path) -> None:
    """The workload's hop over a veth pair: each end has a namespace of its own."""
    argv = [str(WORKLOAD), "--transport", "tcp-veth", "--messages", "1000", "--warmup", "100"]
    with watching(60) as seen:
        done = captured([*argv, "--dir", str(tmp_path)], timeout=60)
    if done.returncode == 2:
        pytest.skip(f"no veth pair here: {done.stderr.strip()}")
    ends = [end for end in seen["ends"] if end["comm"].startswith("pathcost-worklo")]
    assert len({end["namespace"] for end in ends}) == 2
    pairs = [
        pair
        for pair in predicted(tmp_path, seen)["pairs"]
        if pair["family"] == "tcp" and pair["client"]["comm"].startswith("pathcost-worklo")
    ]
    # 550 round trips, the tokens before them, and one to check the contents after them.
    assert [550 <= pair["requests"] <= 553 for pair in pairs] == [True]


@pytest.mark.root
def test_where_the_rate_is_high_it_is_sampled() -> None:
    """Somebody who does nothing but send: every call counted would take more than 0.2 %."""
    left, right = socket.socketpair()

    def there_and_back() -> None:
        for source, sink in ((left, right), (right, left)):
            source.sendall(b"x")
            sink.recv(1)

    argv = [instrument.PYTHON, "-B", "-P", PROBES / "bcc/pairs.py", 4, 0.2]
    with repeating(there_and_back):
        done = captured(argv, check=True)
    seen = json.loads(done.stdout)
    assert seen["active_s"] < 0.6 * seen["seconds"]
    assert any(end["pid"] == os.getpid() for end in seen["ends"])


@pytest.mark.root
@pytest.mark.parametrize("interrupted", [False, True])
def test_a_record_needs_no_environment_and_is_whole_or_nothing(
    interrupted: bool, tmp_path: Path
) -> None:
    words = ["./runners/run.sh", "watch", "60" if interrupted else "1", "--record", "--out"]
    own = os.environ | {"PATHCOST_CACHE": str(tmp_path / "cache")}
    process = subprocess.Popen([*words, str(tmp_path / "above/out")], cwd=REPOSITORY, env=own)
    if interrupted:
        assert wait_for(lambda: list(tmp_path.glob("above/.out*")))
        process.terminate()
    assert process.wait() == (INTERRUPTED if interrupted else 0)
    names = [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.glob("**/*"))]
    assert names == ["above", *([] if interrupted else ["above/out", "above/out/watch.json"])]


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.parametrize("prices", ["stored", pytest.param("measured", marks=pytest.mark.matrix)])
def test_the_command_shows_a_pair_and_stores_it(prices: str, tmp_path: Path) -> None:
    if prices == "stored":
        unpack(REPOSITORY / RUN, tmp_path / "prices")
    own = ["--prices", str(tmp_path / "prices")] if prices == "stored" else []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()

        def talk() -> None:
            client.sendall(b"ping")
            server.sendall(server.recv(4))
            client.recv(4)

        port = listener.getsockname()[1]
        words = ["watch", 2, "--port", port, "--limit", 100, "--out", tmp_path / "out", *own]
        with repeating(talk, 0.005):
            done = captured(["./runners/run.sh", *words], cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr
    assert f"127.0.0.1:{port}" in done.stdout
    assert len(done.stdout.splitlines()) <= 25
    stored = json.loads((tmp_path / "out/prediction.json").read_text(encoding="utf-8"))
    (pair,) = stored["pairs"]
    assert pair["prediction"]["verdict"]


@pytest.mark.root
@pytest.mark.slow
def test_what_if_drives_a_program_and_sees_its_clients() -> None:
    reports = set((REPOSITORY / "reports").iterdir())
    words = ["what-if", "--program", "memcached/get-20-clients", "--json"]
    done = captured(["./runners/run.sh", *words], cwd=REPOSITORY)
    for left in set((REPOSITORY / "reports").iterdir()) - reports:
        rmtree(left)
    assert done.returncode == 0, done.stderr
    (pair,) = json.loads(done.stdout)["pairs"]
    assert pair["server"]["comm"] == "memcached"
    assert pair["connections"] == 20
    assert pair["observed"]["answer"] > pair["observed"]["request"]
