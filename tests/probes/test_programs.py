# SPDX-License-Identifier: GPL-2.0-or-later
"""Probes on programs of several threads and processes: what is counted is what they must do."""

import socket
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from threading import Thread
from typing import Any

import pytest

from runners.host.root import Monitor, Root
from runners.programs import engine, experiments
from runners.programs.counting import AttachedProbes, Probes
from runners.programs.engine import Service
from runners.programs.experiments import Experiment
from runners.programs.program import find
from runners.store.folders import invoker
from tests.build import packages_or_skip
from tests.processes import running

pytestmark = pytest.mark.root
N = 23
# System calls of a client's whole life beside its messages: the loader's, the result's line, and
# of the server meanwhile: redis looks at its memory ten times a second.
EDGES = 40
REQUEST = len("*2\r\n$4\r\nincr\r\n$3\r\nfoo\r\n")


@pytest.fixture(scope="module")
def root(probe_level: str) -> Iterator[Root]:
    """Root's process, as a thread of ours."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    monitor = Monitor(invoker())
    serving = Thread(target=monitor.serve, args=(ours,))
    serving.start()
    client = Root(theirs.detach())
    yield client
    client.close()
    serving.join()


@pytest.fixture(scope="module")
def attached(root: Root) -> Iterator[AttachedProbes]:
    with Probes(root).attached() as probes:
        assert probes is not None
        yield probes


def as_many(count: int, wanted: int, found: dict[str, Any]) -> bool:
    """So many, less what the kernel says it did not run our programs for."""
    return wanted - (found["probed"]["missed"] or 0) <= count <= wanted


# One thread and one child are there before the window opens, the others start in it.
YIELDS = """
import os, sys, threading
def work():
    for _ in range(23):
        os.sched_yield()
def child():
    if (pid := os.fork()) == 0:
        work()
        os._exit(0)
    os.waitpid(pid, 0)
go = threading.Event()
early = threading.Thread(target=lambda: (go.wait(), work()))
early.start()
print("ready", flush=True)
sys.stdin.readline()
go.set()
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
for thread in (early, *threads): thread.join()
child()
child()
work()
print("{}", flush=True)
sys.stdin.read()
"""


def yielding(client: str, attached: AttachedProbes) -> dict[str, Any]:
    argv = [sys.executable, "-c", client]
    with running("sleep", 60) as server:
        return engine.run_beside(argv, lambda: [server.pid], attached=attached, waits=True)


def test_all_threads_and_children_are_counted_and_nobody_else(attached: AttachedProbes) -> None:
    busy_loop = "import os\nwhile True: os.sched_yield()"
    with running(sys.executable, "-c", busy_loop):
        found = yielding(YIELDS, attached)
    assert found["error"] is None
    counted = found["probed"]["counts"]
    # Early, three more threads, two children, and the main thread.
    assert as_many(counted["syscount"]["syscalls"]["sched_yield"], 7 * N, found)
    assert set(found["probed"]["lost"].values()) == {0}


def test_a_window_forgets_the_one_before(attached: AttachedProbes) -> None:
    found = yielding(YIELDS.replace("os.sched_yield()", "pass"), attached)
    assert found["error"] is None
    assert "sched_yield" not in found["probed"]["counts"]["syscount"]["syscalls"]


def probed(
    name: str, cases: Iterable[str], root: Root, monkeypatch: pytest.MonkeyPatch
) -> list[dict[str, Any]]:
    """A program's probed runs alone, of these cases, with N requests of each client."""
    monkeypatch.setattr(experiments, "REPEATS", 0)
    monkeypatch.setattr(experiments, "PROBED_REPEATS", 1)
    monkeypatch.setattr(Service, "warm_up", lambda *_: {"error": None})
    found, packages = find(name), packages_or_skip(name)
    few = [replace(case, requests=N * case.clients) for case in found.cases if case.name in cases]
    experiment = Experiment(replace(found, cases=tuple(few)), packages)
    runs = list(experiment.run(lambda _: None, Probes(root)))
    assert [run["error"] for run in runs if run["error"]] == []
    return runs


def test_each_request_to_redis_is_a_send_and_a_read_on_either_side(
    attached: AttachedProbes, root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = ("new", "keep", "new-20-clients", "keep-20-clients")
    found = probed("redis", cases, root, monkeypatch)
    assert len(found) == 8
    done = 0  # so far, as redis counts up
    for run in found:
        counts = run["probed"]["counts"]["counts"]
        calls = run["probed"]["counts"]["syscount"]["syscalls"]
        requests = N * run["clients"]
        assert run["counted"] == requests
        missed = run["probed"]["missed"] or 0
        assert 2 * requests - missed <= calls["write"] <= 2 * requests + EDGES
        assert calls["read"] >= 2 * requests - missed
        connections = requests if run["variant"] == "new" else run["clients"]
        if run["transport"] == "unix":
            assert as_many(calls["connect"], connections, run)
        assert calls["accept4"] >= connections - missed
        if "messages" in counts:  # sock:sock_send_length, Linux 6.3
            numbers = range(done + 1, done + requests + 1)
            answers = sum(len(f":{number}\r\n") for number in numbers)
            both = REQUEST * requests + answers
            for way in ("sent", "received"):
                assert as_many(counts["messages"][way], 2 * requests, run)
                assert missed or counts["payload_bytes"][way] == both
        done += requests
