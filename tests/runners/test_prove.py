# SPDX-License-Identifier: GPL-2.0-or-later
"""The verb prove: the user's own commands in each arm, and what follows from their figures."""

import os
import shlex
import socket
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.predict.proof_lines import lines, which_is_tls
from analysis.predict.prove import NO_WAIT, Outcome, outcome
from analysis.predict.runs import REROUTED, Proof
from runners.host import preflight
from runners.host.session import Session
from runners.options import ProveOptions, ReportOptions
from runners.process import REPOSITORY, RunError, UsageError, free_port
from runners.programs.keeper import descendants
from runners.programs.prove import ARMS, Arm, given_environment, subject_of
from runners.run import report
from tests.build import make
from tests.options import run_options
from tests.processes import captured, is_gone

# Serves one connection after another; a readiness check that connects would get an answer, too.
SERVER = """
import socket, sys
listener = socket.create_server(("", int(sys.argv[1])), backlog=9)
while True:
    connection = listener.accept()[0]
    while data := connection.recv(64):
        connection.sendall(data)
"""
CLIENT = """
import socket, sys
with socket.create_connection(("localhost", int(sys.argv[1]))) as connection:
    for _ in range(20):
        connection.sendall(b"hello")
        assert connection.recv(64) == b"hello"
print("rate: 1,234.5")
"""
HALF = CLIENT.replace("print", "sys.exit('10 of 20 requests failed')")


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    make(REPOSITORY / "runners/programs/tools")


def command(program: str, port: int) -> str:
    return shlex.join([sys.executable, "-c", program, str(port)])


def run(arm: Arm, server: str = SERVER, client: str = CLIENT, port: int = 0) -> dict[str, Any]:
    port = port or free_port()
    options = ProveOptions(
        verb="prove",
        port=port,
        server=command(server, port),
        client=command(client, port),
        metric=r"rate: (\S+)",
    )
    with ExitStack() as stack:
        return subject_of(options).run(arm, stack)


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: str(arm.name))
def test_an_arm_runs_the_users_own_commands(arm: Arm) -> None:
    found = run(arm)
    assert (found["arm"], found["metric"]) == (arm.name, 1234.5)
    assert found["window_ns"] > 0


DIES = SERVER.replace("listener =", "import os; listener =") + "    os.abort()\n"
DAEMON = "import os; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0)\n" + SERVER


def test_a_server_may_become_a_daemon() -> None:
    for arm in ARMS:
        assert run(arm, DAEMON)["metric"] == 1234.5
    assert descendants(os.getpid()) == []


@pytest.mark.parametrize(
    ("server", "client", "reason"),
    [
        ("import sys; sys.exit('no such file')", CLIENT, "did not start: no such file"),
        ("import time; time.sleep(60)", CLIENT, "does not listen"),
        (SERVER, HALF, "the client failed: 10 of 20 requests failed"),
        (SERVER, CLIENT.replace("1,234.5", "inf"), "cannot be right"),
        (SERVER, "print('rate: 1')", "has not used the port"),
        (SERVER, "import sys; sys.exit(7)", "it ended with status 7"),
        (
            DIES,
            f"{CLIENT}import time; time.sleep(1)",
            "ended with status 134 .SIGABRT. before its client did",
        ),
    ],
)
def test_what_fails_is_one_sentence_and_leaves_nothing(
    server: str, client: str, reason: str, short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(short_folder))
    monkeypatch.setattr("runners.programs.engine.READY_SECONDS", 0.5 if "sleep" in server else 30)
    with pytest.raises(RunError, match=reason) as caught:
        run(ARMS[-1], server, client)
    assert "\n" not in str(caught.value)
    assert list(short_folder.iterdir()) == []
    assert descendants(os.getpid()) == []


def test_a_run_that_the_filter_makes_hang_is_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its limit is several times what the client takes without the filter."""
    monkeypatch.setattr("runners.programs.prove.LEAST_SECONDS", 0.5)
    flag = tmp_path / "hangs"
    hangs = f"import os, time; os.path.exists({str(flag)!r}) and time.sleep(60)\n" + CLIENT
    port = free_port()
    options = ProveOptions(
        verb="prove", port=port, server=command(SERVER, port), client=command(hangs, port)
    )
    with ExitStack() as stack:
        subject = subject_of(options)
        subject.run(ARMS[0], stack)
        flag.touch()
        with pytest.raises(RunError, match="the client did not end in"):
            subject.run(ARMS[-1], stack)


# Leaves a child in a session of its own, and kills so many of its ancestors, the eldest first.
KILLS_KEEPERS = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    open({note!r}, "w").write(str(os.getpid()))
    time.sleep(600)
while not (os.path.exists({note!r}) and open({note!r}).read()):
    time.sleep(0.01)
pids, pid = [], os.getppid()
for _ in range({ancestors}):
    pids.insert(0, pid)
    pid = int(open(f"/proc/{{pid}}/stat").read().rpartition(")")[2].split()[1])
for pid in pids:
    os.kill(pid, signal.SIGKILL)
time.sleep(600)
"""


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: str(arm.name))
def test_a_client_that_kills_its_keepers_leaves_nothing(arm: Arm, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    client = KILLS_KEEPERS.format(note=str(note), ancestors=2 if arm.mode else 1)
    with pytest.raises(RunError, match="the client failed"):
        run(arm, client=client)
    assert is_gone(note.read_text())


def test_the_users_programs_have_the_users_environment() -> None:
    began = b"PYTHONPATH=/ours\0PATHCOST_GIVEN_PYTHONPATH=/own\0A=b=c\0PATHCOST_MONITOR=5\0\xff=1\0"
    assert given_environment(began) == {"PYTHONPATH": "/own", "A": "b=c", "\udcff": "1"}


def test_a_port_in_use_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RunError, match=f"port {port} is in use by another program"):
            run(ARMS[0], port=port)


NO_FREE_PORT = """
import socket
from runners.process import RunError, free_port
with socket.create_server(("127.0.0.1", 40000)):
    try:
        free_port()
    except RunError as error:
        print(error)
"""


def test_a_machine_whose_ports_are_all_taken_is_told() -> None:
    one_port = "ip link set lo up; echo 40000 40000 >/proc/sys/net/ipv4/ip_local_port_range"
    python = shlex.join([sys.executable, "-c", NO_FREE_PORT])
    own = [] if os.geteuid() == 0 else ["--map-root-user"]
    words = ["unshare", "--net", *own, "sh", "-ec", f"{one_port}; {python}"]
    done = captured(words, cwd=REPOSITORY)
    if "unshare failed" in done.stderr:
        pytest.skip(f"no network of its own: {done.stderr.strip()}")
    assert "no port of 127.0.0.1 is free" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"port": 80, "server": "./app"}, "name --port, --server and --client"),
        ({"program": "redis", "port": 80}, "leave these out"),
        ({"program": "redis/nothing"}, "has no case nothing"),
        ({"program": "nosuch"}, "there is no program nosuch: run.sh list"),
        ({"port": 80, "server": "'", "client": "x"}, "cannot be split"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        subject_of(ProveOptions(verb="prove", **given))


def test_report_shows_a_proof_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "prove.json").touch()
    shown: list[Path] = []
    monkeypatch.setattr("runners.run.set_up_analysis", lambda _: None)
    monkeypatch.setattr("analysis.__main__.show_proof", lambda folder, _: shown.append(folder))
    report(ReportOptions(verb="report", runs=(tmp_path,)))
    assert shown == [tmp_path]
    with pytest.raises(UsageError, match="cannot be pooled"):
        report(ReportOptions(verb="report", runs=(tmp_path, tmp_path)))


Each = int | tuple[int, ...]  # of a repeat, in turn


def proof(
    took: Mapping[str, Each], turns: dict[str, int], moved: Mapping[str, Each], lost: int = 0
) -> Outcome:
    """Six repeats: `took` ms, and in probed runs `turns` of 10 to 11 µs that `moved` bytes."""
    used = dict.fromkeys(("out", "data", "machine", "voluntary", "involuntary"), 0)
    timed = [
        {"repeat": repeat, "arm": arm, "window_ns": of(repeat, ms) * 1_000_000,
         "counters": {**used, "user_ns": of(repeat, ms) * 1_000_000, "system_ns": 0}}
        for repeat in range(6) for arm, ms in took.items()
    ]  # fmt: skip
    probed = [
        {"repeat": repeat, "arm": arm, "window_ns": of(repeat, took[arm]) * 1_000_000,
         "probed": {"lost": {"turns": lost}, "missed": 0, "calls_missed": 0, "counts": {"turns": {
             "turns": {"10240": number},
             "bytes": {"sent": of(repeat, moved[arm]), "received": 0}}}}}
        for repeat in range(6) for arm, number in turns.items()
    ]  # fmt: skip
    rest = {"format": 1, "kernel": "6", "cpus": 2, "argv": [], "program": "x", "case": "y"}
    runs = {"narrow": 0.1, "timed": timed, "probed": probed, "lacks": []}
    return outcome(Proof.model_validate(rest | runs))


def of(repeat: int, each: Each) -> int:
    return each if isinstance(each, int) else each[repeat % len(each)]


def test_the_filter_is_in_the_interval_and_not_in_the_ratio() -> None:
    """It costs 100 ms both ways: 200 ms over TCP and 100 over a Unix socket are without it. That it
    costs one way more than the other is within the interval.
    """
    turns = dict.fromkeys(REROUTED, 20_000)
    result = proof({"plain": 200, "tcp": 300, "unix": 200}, turns, dict.fromkeys(REROUTED, 20))
    assert result.speed.speedup
    assert result.speed.speedup.value == pytest.approx(2)
    assert 1 < result.speed.speedup.ends[0] < 2 < result.speed.speedup.ends[1]
    assert result.filter.value == pytest.approx(0.5)
    assert result.less
    assert result.less.value == pytest.approx(100_000_000 / 20_000)
    assert result.cpu.value == pytest.approx(0.5)
    assert result.loads
    assert result.loads.quantiles[50].first.value == pytest.approx(10240 + 256)
    assert result.unequal == ""
    assert result.speed.open == ""


@pytest.mark.parametrize(
    "took",
    [
        {"plain": 100, "tcp": 150, "unix": 30},  # -20 ms without the filter
        {"plain": 200, "tcp": 1003, "unix": 1389},  # slower, by the filter: its own option halves
    ],
)
def test_no_ratio_is_said_where_the_filter_hides_it(took: dict[str, int]) -> None:
    result = proof(took | {"own": took["plain"] // 2}, {}, {})
    assert result.speed.speedup is None
    assert result.speed.open in "".join(lines(result))
    assert "2.00 ± 0.00" in next(lines(result))


def test_unequal_loads_are_told_and_nothing_else() -> None:
    took = {"plain": 200, "tcp": 200, "unix": 100}
    failed = proof(took, {"tcp": 100, "unix": 50}, {"tcp": 1000, "unix": 500})
    assert "1,000 bytes over TCP and 500" in failed.unequal
    assert failed.speed.speedup is None
    assert list(lines(failed)) == []


def test_loads_of_which_a_part_was_lost_are_not_judged() -> None:
    took = {"plain": 200, "tcp": 200, "unix": 100}
    result = proof(took, {"tcp": 100, "unix": 50}, {"tcp": 1000, "unix": 500}, lost=45)
    assert (result.unequal, result.loads) == ("", None)
    assert [line for line in lines(result) if "no room for 45" in line]


def test_a_client_of_a_fixed_time_is_compared_by_what_it_does_in_it() -> None:
    took = dict.fromkeys(("plain", *REROUTED), 200)
    asks = proof(took, {"tcp": 10_000, "unix": 15_000}, {"tcp": 1000, "unix": 1500})
    assert asks.speed.speedup
    assert asks.less
    assert asks.speed.speedup.value == pytest.approx(1.5)
    assert asks.less.value == pytest.approx(200_000_000 / 10_000 - 200_000_000 / 15_000)
    # Of one that sends one way, the bytes of its runs differ, and neither their times nor turns do.
    sends = proof(took, {"tcp": 4, "unix": 4}, {"tcp": (1000, 1100), "unix": (1500, 1650)})
    assert sends.unequal == ""
    assert sends.speed.speedup
    assert sends.speed.speedup.value == pytest.approx(1.5)
    assert "the ratio is of the bytes" in "\n".join(lines(sends))


def test_the_interval_of_a_ratio_is_above_zero_and_what_is_saved_lies_in_its_own() -> None:
    took = dict.fromkeys(("plain", *REROUTED), 200)
    moved = {"tcp": (1000, 9000, 1100), "unix": (9000, 1200, 1500)}
    ratio, saved, _ = proof(took, {"tcp": 4, "unix": 4}, moved).speed
    assert ratio
    assert 0 < ratio.ends[0] < ratio.value < ratio.ends[1]
    assert saved.ends[0] < saved.value < saved.ends[1] < 1


def test_of_a_run_that_is_mostly_start_a_request_takes_what_its_turns_took() -> None:
    """Each run has one turn of 10 to 11 µs, and takes 100 ms over TCP and 80 over a Unix socket."""
    one = dict.fromkeys(REROUTED, 1)
    alone = proof({"plain": 100, "tcp": 100, "unix": 80}, one, {**one})
    assert alone.less
    assert alone.less.value == 0
    assert "100 % of a run over TCP is outside its turns, as the client starts" in "\n".join(
        lines(alone)
    )
    # Outside the turns it connects for each of them, which is faster over a Unix socket.
    new = replace(alone, opened=1.0)
    assert new.less
    assert new.less.value == pytest.approx(20_000_000)
    assert "turns: most of them have a connection of their own" in "\n".join(lines(new))
    # What goes with TCP is no start: the rest of an answer waited for a delayed ACK.
    rest = proof({"plain": 100, "tcp": 100, "unix": 20}, one, {**one})
    assert rest.less
    assert rest.less.value == pytest.approx(80_000_000)


def test_a_filter_that_makes_a_run_faster_is_no_fair_one() -> None:
    """As the client of a connect that is pending over TCP, which waits before it looks."""
    assert proof({"plain": 100, "tcp": 20, "unix": 20}, {}, {}).speed.open == NO_WAIT
    # It takes little away of what a Unix socket saves.
    assert proof({"plain": 100, "tcp": 94, "unix": 14}, {}, {}).speed.open == ""


@pytest.mark.parametrize("real", [True, False])
def test_where_times_are_none_that_is_said(
    real: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(preflight, "cpu", lambda: preflight.tried(preflight.CPU_CHECK, real, ""))
    Session(run_options()).tell_of_times()
    assert ("its times are not times" in capsys.readouterr().err) is not real


@pytest.mark.parametrize(
    ("took", "said"),
    [
        # PostgreSQL on one CPU, by pgbench: 86 us, 61 without TLS, 34 by its own option.
        ({"plain": 86, "tcp": 90, "unix": 75, "own": 34}, "60.5 % of a run, and the transport"),
        ({"plain": 86, "tcp": 90, "unix": 75}, "then it gains more"),
        ({"plain": 86, "tcp": 90, "unix": 40, "own": 70}, "then it gains more"),
    ],
)
def test_which_part_of_a_gain_is_tls(took: dict[str, int], said: str) -> None:
    turns = dict.fromkeys(REROUTED, 1000)
    assert said in which_is_tls(proof(took, turns, dict.fromkeys(REROUTED, 1000)))
