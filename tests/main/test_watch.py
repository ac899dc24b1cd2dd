# SPDX-License-Identifier: GPL-2.0-or-later
"""run.sh watch on this kernel: it counts what the program itself counts, and nstat and ss."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from shutil import rmtree, which
from typing import Any

import pytest

from analysis.predict.columns import cells
from analysis.predict.pairs import Pair, pairs
from analysis.predict.waits import kinds
from analysis.raw.programs import Watched
from analysis.wording import number
from probes.contract import Status
from probes.scripts import PROBES
from runners.host import instrument
from runners.process import REPOSITORY, WORKLOAD
from runners.programs import engine
from runners.programs.place import unpacked
from runners.programs.program import find
from runners.store.folders import invoker
from tests.docs.reference import RUN, unpack
from tests.main.threads import THREADS, answered, splice_back, talking
from tests.main.ways import WAYS, ZERO_COPY_RING
from tests.processes import captured, repeating, running, wait_for

pytestmark = pytest.mark.usefixtures("tracefs")
REQUESTS = 4000


@contextmanager
def watching(seconds: float, limit: str = "100") -> Iterator[dict[str, Any]]:
    """The probes count in the block, which must end before `seconds`; then the dict is filled."""
    argv = [instrument.PYTHON, "-B", "-P", str(PROBES / "bcc/pairs.py"), str(seconds), limit]
    found: dict[str, Any] = {}
    with running(*argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        assert process.stderr.readline() == "attached\n"
        assert process.stderr.readline() == "counting\n"
        yield found
        process.terminate()
        found |= json.loads(process.stdout.read())


def paired(seen: dict[str, Any]) -> list[Pair]:
    return pairs(Watched.model_validate_json(json.dumps(seen)))


@pytest.mark.root
@pytest.mark.slow
def test_requests_are_those_of_memcacheds_own_counter() -> None:
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
    for transport, result in results.items():
        assert result["error"] is None
        pair, *_ = (pair for pair in paired(seen) if pids[transport] & {*pair.server.owners})
        assert pair.family == transport
        assert pair.requests == result["counted"] == REQUESTS
        assert pair.client.sum("sends") == pair.server.sum("sends") == REQUESTS


@pytest.mark.root
def test_sizes_bytes_connections_and_where_an_abstract_name_ends() -> None:
    with (
        socket.socket(socket.AF_UNIX) as bus,
        socket.socket(socket.AF_UNIX) as caller,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        bus.bind("\0my.bus.name")
        bus.listen()
        caller.connect("\0my.bus.name")
        with bus.accept()[0] as called, watching(60) as seen:
            caller.sendall(b"ping")
            called.recv(4)
            address = listener.getsockname()
            for _ in range(3):
                with socket.create_connection(address) as client, listener.accept()[0] as server:
                    for size in (1, 100, 100, 5000):
                        answered(client, server, b"x" * size)
    mine = [end for end in seen["ends"] if end["pid"] == os.getpid()]
    assert sorted(end["path"] for end in mine if end["family"] == "unix") == ["", "@my.bus.name"]
    # The connections have closed, and are added up.
    (end,) = (end for end in mine if end["opened"] == "connected" and end["family"] == "tcp")
    assert end["peer"] == f"127.0.0.1:{address[1]}"
    assert (end["sent"], end["received"], end["turns"], end["connections"]) == (15603, 72, 12, 3)


def told_of(pair: Pair) -> dict[str, str]:
    listens = pair.client.ends[0].own == pair.place or pair.client.ends[0].opened == "accepted"
    return {column.title: text for column, text in cells(pair)} | {
        "requests": str(pair.requests),
        "opened": str(round(pair.observed.requests.opened * pair.requests)),
        "sends": number(pair.observed.requests.sends),
        "asks": "listener" if listens else "connector",
        "most": max(pair.parts, key=pair.parts.__getitem__),
        "slow": str(pair.observed.waits.answer_us > 70_000),  # two delayed ACKs of 40 ms
    }


Ends = list[dict[str, Any]]


def spliced(folder: Path) -> Callable[[Ends], bool]:
    """splice(2) receives, and sends what it has received."""
    splice_back(0)
    return lambda ends: [(e["turns"], e["sent"], e["received"]) for e in ends] == [
        (10, 1280, 1280), (10, 1280, 1280),
    ]  # fmt: skip


def short_lived(folder: Path) -> Callable[[Ends], bool]:
    """Each request has a Unix connection of its own."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "short"))
        listener.listen()
        for _ in range(50):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(folder / "short"))
                with listener.accept()[0] as server:
                    answered(client, server, b"ask")
    return lambda ends: all(
        sum(end[name] for end in ends if end["opened"] == side) == 50
        for side, name in product(("connected", "accepted"), ("connections", "turns"))
    )


def looked_at(folder: Path) -> Callable[[Ends], bool]:
    """Datagrams to who has no peer, each looked at before it is received."""
    server, client = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
    with server, client:
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
def test_each_way_to_move_bytes_is_counted_to_the_byte() -> None:
    moved = []
    with watching(60) as seen, ExitStack() as stack:
        for (send, receive, calls), family in product(WAYS.values(), ("tcp", "unix")):
            if (send, family) == (ZERO_COPY_RING, "unix"):
                continue  # EOPNOTSUPP
            left, right = stack.enter_context(talking(family))
            for source, sink in ((left, right), (right, left)) * 5:
                assert send(source, bytes(3000)) == receive(sink, bytes(3000)) == 3000
            moved += [(family, 15_000, 15_000, 5 * calls, 5)] * 2
    names = ("family", "sent", "received", "sends", "turns")
    ends = [tuple(end[name] for name in names) for end in seen["ends"] if end["pid"] == os.getpid()]
    assert sorted(ends) == sorted(moved)


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.parametrize("thread", THREADS)
def test_what_people_met_is_told_of_the_pair(thread: str) -> None:
    happens, kind, figures = THREADS[thread]
    with watching(60) as seen:
        happens()
    mine = [pair for pair in paired(seen) if os.getpid() in pair.client.owners]
    told = [entry for pair in mine for entry in (*kinds(pair), ("row", told_of(pair)))]
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
    comms = {end["comm"] for end in ends}
    ours = [pair for pair in paired(seen) if pair.family == "tcp" and pair.client.comm in comms]
    # 550 round trips, the tokens before them, and one to check the contents after them.
    assert [550 <= pair.requests <= 553 for pair in ours] == [True]


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
        seen = json.loads(captured(argv, check=True).stdout)
    assert seen["active_s"] < 0.6 * seen["seconds"]
    assert any(end["pid"] == os.getpid() for end in seen["ends"])


@pytest.mark.root
@pytest.mark.slow
def test_its_limit_holds_beside_many_who_open_connections(tmp_path: Path) -> None:
    """Each in a hundred processes uses little; probes of states cost as much in a sample."""
    words = ["--transport", "tcp", "--pattern", "connect", "--messages", "1000000", "--warmup", "0"]
    with watching(60, "5") as seen, ExitStack() as stack:
        began = time.monotonic()
        for number in range(50):
            (folder := tmp_path / str(number)).mkdir()
            argv = [WORKLOAD, *words, "--dir", folder]
            stack.enter_context(running(*argv, stdout=subprocess.DEVNULL))
        time.sleep(5)
        lasted = time.monotonic() - began
    assert seen["seconds"] < lasted + 2
    assert 0 < seen["probes"]["share"] < 0.055
    assert sum(end["connections"] for end in seen["ends"]) > 100


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
    assert process.wait() == (Status.INTERRUPTED if interrupted else 0)
    names = [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.glob("**/*"))]
    assert names == ["above", *([] if interrupted else ["above/out", "above/out/watch.json"])]


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.parametrize("prices", ["stored", pytest.param("measured", marks=pytest.mark.matrix)])
def test_the_command_shows_a_pair_and_stores_it(prices: str, tmp_path: Path) -> None:
    if prices == "stored":
        unpack(REPOSITORY / RUN, tmp_path / "prices")
    own = ["--prices", str(tmp_path / "prices")] if prices == "stored" else []
    with talking() as pair:
        port = pair[1].getsockname()[1]
        words = ["watch", 2, "--port", port, "--limit", 100, "--out", tmp_path / "out", *own]
        with repeating(lambda: answered(*pair, b"ping"), 0.005):
            done = captured(["./runners/run.sh", *words], cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr
    assert f"127.0.0.1:{port}" in done.stdout
    assert len(done.stdout.splitlines()) <= 25
    stored = json.loads((tmp_path / "out/prediction.json").read_text(encoding="utf-8"))
    assert [pair["prediction"]["verdict"] for pair in stored["pairs"]]


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


COUNTERS = (
    *("TcpExtDelayedACKs", "TcpExtTCPTimeouts", "TcpExtTCPSynRetrans"),
    *("TcpExtListenOverflows", "TcpRetransSegs"),
)
# In a network of its own: 20 requests of two writes, with Nagle's algorithm; then four clients of
# an accept queue for two, of whom two repeat their SYN after a second, and get in after two.
SCRIPT = """
import json, os, socket, subprocess, sys, time
from contextlib import ExitStack
from tests.main.threads import answered, talking

def said(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout

def counters():
    return json.loads(said("nstat", "-aszj", *sys.argv[1:]))["kernel"]

said("ip", "link", "set", "lo", "up")
print("ready", flush=True)
sys.stdin.readline()
before = counters()
# Who does not run for 40 ms also delays an ACK that nobody waits for.
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
with talking() as pair:
    for _ in range(20):
        answered(*pair, b"head", b"body")
with socket.create_server(("127.0.0.1", 0), backlog=1) as listener, ExitStack() as stack:
    address = listener.getsockname()
    clients = [stack.enter_context(socket.socket()) for _ in range(4)]
    for client in clients:
        client.setblocking(False)
        client.connect_ex(address)
    time.sleep(1.5)  # watch looks at queues each second
    queue = said("ss", "-Hltn", "sport", f"= :{address[1]}").split()[1:3]
    servers = [stack.enter_context(listener.accept()[0]) for _ in clients]
    for client in clients:
        client.setblocking(True)
        client.send(b"ask")
    for server in servers:
        server.recv(3)
        server.send(b"answer")
    for client in clients:
        client.recv(6)
grown = {name: count - before[name] for name, count in counters().items()}
print(json.dumps(grown | {"port": address[1], "queue": [int(word) for word in queue]}), flush=True)
sys.stdin.readline()
"""


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.skipif(not which("nstat") or not which("ss"), reason="no iproute2")
def test_waits_and_queues_are_those_of_nstat_and_ss() -> None:
    argv = ["unshare", "--net", sys.executable, "-c", SCRIPT, *COUNTERS]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(argv, cwd=REPOSITORY, **pipes) as inside:
        assert inside.stdin and inside.stdout
        assert inside.stdout.readline() == "ready\n"
        with watching(60) as seen:
            inside.stdin.write("go\n")
            inside.stdin.flush()
            counted = json.loads(inside.stdout.readline())
        inside.stdin.close()
    ends = [end for end in seen["ends"] if end["pid"] == inside.pid]
    waits = {
        name: sum(end["waits"].get(name, [0])[0] for end in ends)
        for name in ("delayed-ack", "syn", "resent", "cork")
    }
    space, port = seen["namespaces"][str(ends[0]["namespace"])], counted["port"]
    # One may end where watch counts nothing, in a pause or between two of its samples: seen in one
    # run of seven, also before requests under way were counted.
    assert 0 <= counted["TcpExtDelayedACKs"] - waits["delayed-ack"] <= 1
    assert waits["delayed-ack"] > 10
    # Each timeout of this network repeats a SYN.
    assert waits["syn"] == counted["TcpExtTCPTimeouts"] == counted["TcpExtTCPSynRetrans"] >= 2
    assert waits["syn"] + waits["resent"] == counted["TcpRetransSegs"]
    assert space["ListenOverflows"] == counted["TcpExtListenOverflows"] > 0
    assert (
        [space[f"{name} {port}"] for name in ("waiting", "backlog")] == counted["queue"] == [2, 1]
    )
    assert waits["cork"] == 0
