# SPDX-License-Identifier: GPL-2.0-or-later
"""The articles' own experiments, for real where their programs are installed."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, cast, get_args

import pytest

from analysis.counts.quantities import PROGRAMS as PATTERN_PROGRAMS
from analysis.programs.records import FIGURES
from analysis.raw.programs import PROGRAM_LINES
from probes.reasons import missing, reason
from runners import options
from runners.collect import bcc
from runners.errors import RunError, UsageError
from runners.experiments import Experiments
from runners.paths import REPOSITORY
from runners.ports import free_port
from runners.programs import (
    PACKAGES,
    PROGRAMS,
    asyncio,
    client,
    counters,
    dotnet,
    echo,
    gin,
    go,
    java,
    probes,
    redis,
    watch,
)
from runners.programs.client import serving
from runners.programs.probes import Probes, Watch
from runners.progress import Progress
from runners.root import Root
from tests.build import make


def check_lines(lines: list[dict[str, Any]]) -> None:
    """They are lines of programs.jsonl, by the run folder's schema."""
    for line in lines:
        PROGRAM_LINES.validate_json(json.dumps(line))


@pytest.mark.slow
def test_redis_counts_what_its_clients_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    if why := redis.lack():
        pytest.skip(why)
    make(REPOSITORY / "runners/programs/redis")
    monkeypatch.setattr(probes, "REPEATS", 1)
    monkeypatch.setattr(redis, "CLIENTS", {1: 23, 3: 23})
    found = list(redis.run(lambda _: None))
    check_lines(found)
    assert [row["error"] for row in found] == [None] * 8
    sent = {1: 23, 3: 3 * 23}
    for row in found:
        assert row["counted"] == row["server_calls"] == row["requests"] == sent[row["clients"]]
    new = [row for row in found if row["variant"] == "new" and row["transport"] == "unix"]
    assert all(row["window_ns"] > 0 for row in new)


@pytest.mark.slow
def test_asyncio_measures_with_every_loop_that_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "REPEATS", 1)
    monkeypatch.setattr(asyncio, "MESSAGES", {"pingpong": {64: 23}, "stream": {4096: 23}})
    found = list(asyncio.run(lambda _: None))
    check_lines(found)
    assert [row["error"] for row in found] == [None] * 4 * len(asyncio.loops())
    sent = {"pingpong": 23 * 64, "stream": 23 * 4096}
    assert all(row["sent"] == row["received"] == sent[row["variant"]] for row in found)
    for row in found:
        assert row["messages"] == (46 if row["variant"] == "pingpong" else 23)
        assert len(row["iterations_ns"]) == (2 if row["variant"] == "pingpong" else 0)


@pytest.mark.slow
def test_the_methods_of_the_benchmark_send_what_the_article_sends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two messages over Unix sockets against one over TCP; corrected, one each."""
    make(REPOSITORY / "runners/programs/dotnet")
    monkeypatch.setattr(probes, "REPEATS", 1)
    monkeypatch.setattr(dotnet, "SIZES", (1024,))
    monkeypatch.setattr(dotnet, "CALLS", 23)
    found = list(dotnet.run(lambda _: None))
    check_lines(found)
    assert [row["error"] for row in found] == [None] * 4
    assert {(row["variant"], row["transport"]): row["messages"] for row in found} == {
        ("written", "unix"): 46,
        ("written", "tcp"): 23,
        ("corrected", "unix"): 23,
        ("corrected", "tcp"): 23,
    }
    assert all(row["sent"] == row["received"] == 1024 * row["messages"] for row in found)


@pytest.mark.parametrize(("program", "tools"), [(go, ["go"]), (java, ["go", "javac"])])
@pytest.mark.slow
def test_every_line_comes_back(
    monkeypatch: pytest.MonkeyPatch, program: ModuleType, tools: list[str]
) -> None:
    for tool in tools:
        if not Path("/usr/bin", tool).exists():
            pytest.skip(f"there is no /usr/bin/{tool} here")
    for name in ("go", *(["java"] if program is java else [])):
        make(REPOSITORY / "runners/programs" / name)
    assert program.lack() == ""
    monkeypatch.setattr(probes, "REPEATS", 1)
    monkeypatch.setattr(echo, "WARMUP", 23)
    monkeypatch.setattr(echo, "MESSAGES", 2300)
    found = list(program.run(lambda _: None))
    check_lines(found)
    assert [row["error"] for row in found] == [None] * 3
    assert [row["transport"] for row in found] == ["unix", "tcp", "tcp-nagle"]
    assert all(row["echoed"] == row["sent"] == 2300 for row in found)
    # 11 bytes each; TCP packs many into a segment, 64 KiB at most.
    least = 2 * 2300 * 11 // 65536
    assert all(row["counters"]["data"] > least for row in found if row["transport"] != "unix")


@pytest.mark.slow
def test_gin_answers_every_request(monkeypatch: pytest.MonkeyPatch) -> None:
    if why := gin.lack():
        pytest.skip(why)
    monkeypatch.setattr(probes, "REPEATS", 1)
    monkeypatch.setattr(gin, "CONNECTIONS", 5)
    monkeypatch.setattr(gin, "REQUESTS", {"keep": 230, "new": 230})
    found = list(gin.run(lambda _: None))
    check_lines(found)
    assert [row["error"] for row in found] == [None] * (8 + 2)
    in_fastcgi = [row["answers"] for row in found if row["variant"] == "fastcgi"]
    assert in_fastcgi == [{"http": gin.FASTCGI_REQUESTS}] * 2
    found = [row for row in found if row["variant"] != "fastcgi"]
    assert all(row["answered"] == row["requests"] == 230 for row in found)
    for row in found:
        iterations, segments = row["iterations_ns"], row["counters"]["out"]
        assert 0 < iterations["p50"] <= iterations["p99"]
        # A request and its answer at least; with a new connection its opening and its end too.
        if row["transport"] == "tcp":
            assert segments >= 230 * (2 if row["variant"] == "keep" else 5)


@pytest.mark.parametrize(
    ("answer", "protocol"),
    [
        (b"\x01\x06\x00\x01\x00\x04\x00\x00pong", "fastcgi"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "http"),
        (b"+PONG\r\n", "else"),
        (b"", "nothing"),
    ],
)
def test_the_protocol_of_an_answer_is_told(tmp_path: Path, answer: bytes, protocol: str) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()

        def serve() -> None:
            with listening.accept()[0] as link, link.makefile("rb") as received:
                assert received.read().startswith(b"\x01\x01\x00\x01\x00\x08")
                link.sendall(answer)

        with ThreadPoolExecutor() as pool:
            served = pool.submit(serve)
            assert gin.ask_in_fastcgi(path, client.SECONDS) == protocol
            served.result()


SERVER = """
import socket
listening = socket.create_server(("127.0.0.1", {}))
while True:
    listening.accept()
"""
CLIENT = """
import json, sys, time
print("ready", flush=True)
sys.stdin.readline()
for _ in range(23):
    time.sleep(0.001)
print(json.dumps({"echoed": 23}), flush=True)
sys.stdin.read()
"""


def test_a_client_is_counted_between_its_words() -> None:
    port = free_port()
    server = [sys.executable, "-c", SERVER.format(port)]
    with serving("a server", server, {"tcp": str(port)}) as pid:
        found = client.run_counted([sys.executable, "-c", CLIENT], pid)
    assert (found["echoed"], found["error"]) == (23, None)
    # Each sleep is a switch, voluntary unless a tick comes just before it.
    counted = found["counters"]
    assert counted["voluntary"] + counted["involuntary"] >= 23
    assert counted["machine"] >= 23


class NoProbes(Probes):
    """Where nothing can be attached."""

    @contextmanager
    def attached(self) -> Iterator[Watch | None]:
        yield None


def test_without_probes_the_timed_runs_are_all_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "REPEATS", 3)
    found = list(probes.rounds(("unix", "tcp"), NoProbes(cast(Root, None))))
    assert found == [
        (repeat, case, None)
        for repeat, order in enumerate((("unix", "tcp"), ("tcp", "unix"), ("unix", "tcp")))
        for case in order
    ]


def test_what_cannot_be_attached_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bcc, "PYTHON", "/bin/false")
    lacks: list[dict[str, Any]] = []
    with watch.attached(lacks) as tools:
        assert tools == []
    assert [(lack["what"], lack["code"]) for lack in lacks] == [
        ([f"what {tool}.py counts"], "not-attached") for tool in watch.TOOLS
    ]


def test_another_users_processes_are_not_watched() -> None:
    answer = watch.obey(watch.Windows([]), f"open {os.getpid()}", os.getuid() + 1)
    assert answer == {"error": "these are another user's processes"}
    assert watch.obey(watch.Windows([]), f"open {os.getpid()}", os.getuid()) == {}


def test_a_server_that_does_not_come_up_is_a_sentence() -> None:
    wanted = "^a server did not come up, so its experiment cannot run[.]$"
    with (
        pytest.raises(RunError, match=wanted),
        serving("a server", ["false"], {"tcp": "9"}),
    ):
        pass


# It binds its path, and listens once it is told to.
LATE_SERVER = """
import pathlib, socket, sys, time
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
while not pathlib.Path(sys.argv[2]).exists():
    time.sleep(0.01)
listening.listen()
while True:
    listening.accept()
"""


def test_a_server_is_waited_for_until_it_listens(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The file of its socket is there a moment before."""
    path, told, sleep = tmp_path / "s", tmp_path / "told", time.sleep

    def wait(seconds: float) -> None:
        sleep(seconds)
        if path.exists():
            told.touch()

    monkeypatch.setattr(time, "sleep", wait)
    server = [sys.executable, "-c", LATE_SERVER, str(path), str(told)]
    with (
        serving("a server", server, {"unix": str(path)}),
        socket.socket(socket.AF_UNIX) as connection,
    ):
        connection.connect(str(path))


def test_a_thread_that_ends_takes_nothing_away() -> None:
    before = counters.Counters({"out": 17}, {"1": (23, 5), "2": (100, 100)})
    after = counters.Counters({"out": 40}, {"1": (30, 5), "3": (4, 1)})
    found = counters.between(before, after)
    assert found == {"out": 23, "voluntary": 7 + 4, "involuntary": 0 + 1}


def plain(argv: list[str]) -> dict[str, Any]:
    return client.run_client(argv)


def counted(argv: list[str]) -> dict[str, Any]:
    return client.run_counted(argv, os.getpid())


@pytest.mark.parametrize(
    ("run", "script", "error"),
    [
        (plain, "echo first; echo the port is taken >&2; exit 1", "the port is taken"),
        (plain, "exit 3", "the client failed"),
        (plain, "sleep 60", "the client did not end in 1 s"),
        (counted, "echo ready; read go; echo the port is taken >&2; exit 1", "the port is taken"),
        (counted, "echo something else", "the client failed"),
        (counted, "echo ready; exec sleep 60", "the client did not end in 1 s"),
    ],
)
def test_a_client_that_fails_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
    run: Callable[[list[str]], dict[str, Any]],
    script: str,
    error: str,
) -> None:
    if "sleep" in script:  # the others may take as long as a busy machine needs
        monkeypatch.setattr(client, "SECONDS", 1)
    assert run(["sh", "-c", script]) == {"error": error}


@pytest.mark.parametrize("name", PACKAGES)
def test_every_program_is_set_up_run_and_read(name: str) -> None:
    lines = (REPOSITORY / "runners/setup.sh").read_text().splitlines()
    (wanted,) = (line for line in lines if "programs/needs.sh" in line)
    assert f"--{name}" in re.split("[ |)\t]+", wanted)
    assert f"\n{name})" in (REPOSITORY / "runners/programs/needs.sh").read_text()
    program = import_module(f"runners.programs.{name}")
    assert callable(program.lack)
    assert callable(program.run)
    assert 5 <= program.TAKES <= 120  # what --claims announces
    fields = [line.model_fields["program"] for line in FIGURES]
    assert name in {program for field in fields for program in get_args(field.annotation)}
    assert name in PATTERN_PROGRAMS.values()


def test_what_is_not_built_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(go, "CLIENT", tmp_path / "client")
    monkeypatch.setattr(java, "CLASSES", tmp_path)
    monkeypatch.setattr(java, "JAVA", sys.executable)
    monkeypatch.setattr(gin, "CLIENT", tmp_path / "request")
    for program in (go, java, gin):
        name = program.__name__.rpartition(".")[2]
        assert program.lack() == f"its programs are not built (runners/setup.sh --{name})"
    monkeypatch.setattr(java, "JAVA", str(tmp_path / "java"))
    assert "apt-get install default-jdk-headless" in java.lack()


def test_a_program_that_cannot_be_built_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def build(word: str) -> None:
        if word == "--gin":
            raise RunError("gin does not compile.")

    monkeypatch.setattr(go, "lack", lambda: "")
    monkeypatch.setattr(go, "run", lambda *_: iter([{"program": "go", "made": "up"}]))
    experiments = Experiments(("go", "gin"), Progress(), tmp_path)
    experiments.set_up(build)
    assert experiments.run(tmp_path, cast(Root, None)) == [
        missing(["the program gin"], reason("program-failed", said="gin does not compile"))
        | {"target": "host"}
    ]
    lines = (tmp_path / "programs.jsonl").read_text().splitlines()
    assert lines == ['{"program": "go", "made": "up"}']


def test_a_program_that_is_not_there_is_refused() -> None:
    assert options.parse(["--program", "all"]).programs == PROGRAMS
    with pytest.raises(
        UsageError, match="unknown program 'made-up': there is redis, asyncio, dotnet, go"
    ):
        options.parse(["--program", "made-up"])
