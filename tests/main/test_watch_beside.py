# SPDX-License-Identifier: GPL-2.0-or-later
"""watch beside nstat and ss, in a network of its own: the kernel's own counters say the same."""

import json
import subprocess
import sys
from shutil import which
from typing import Any

import pytest

from runners.process import REPOSITORY
from tests.main.test_watch import tracefs, watching

__all__ = ["tracefs"]  # the fixture, for this module too
COUNTERS = (
    *("TcpExtDelayedACKs", "TcpExtTCPTimeouts", "TcpExtTCPSynRetrans"),
    *("TcpExtListenOverflows", "TcpRetransSegs"),
)
# 20 requests of two writes, with Nagle's algorithm; then four clients of an accept queue for two,
# of whom two repeat their SYN after a second, and get in after two.
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
    assert waits["delayed-ack"] == counted["TcpExtDelayedACKs"] > 10
    # Each timeout of this network repeats a SYN.
    assert waits["syn"] == counted["TcpExtTCPTimeouts"] == counted["TcpExtTCPSynRetrans"] >= 2
    assert waits["syn"] + waits["resent"] == counted["TcpRetransSegs"]
    assert space["ListenOverflows"] == counted["TcpExtListenOverflows"] > 0
    assert (
        [space[f"{name} {port}"] for name in ("waiting", "backlog")] == counted["queue"] == [2, 1]
    )
    assert waits["cork"] == 0
