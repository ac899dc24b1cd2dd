# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs that a file describes: reading the file, starting, driving, counting, ending."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from analysis.counts.quantities import program_of
from analysis.raw.programs import PROGRAM_LINES
from runners import options
from runners.errors import RunError, UsageError
from runners.invoker import invoker
from runners.paths import REPOSITORY
from runners.ports import free_port
from runners.programs import FILES, PROGRAMS, engine, keeper, load, place, probes, program, service
from runners.programs.experiment import Experiment
from runners.programs.program import read, start_of
from tests.build import make

PYTHON = sys.executable
# Listens where it is told to, or only on TCP, or nowhere, and echoes.
SERVER = """
import socket, sys
listening = []
for end in sys.argv[1:]:
    if end.isdigit():
        listening.append(socket.create_server(("127.0.0.1", int(end))))
    else:
        listening.append(socket.socket(socket.AF_UNIX))
        listening[-1].bind(end)
        listening[-1].listen()
served = 0
while True:
    connection, _ = listening[-1].accept()
    while data := connection.recv(64):
        if data == b"count":
            connection.sendall(b"served %d" % served)
            break
        served += 1
        connection.sendall(data)
    connection.close()
"""
CLIENT = """
import socket, sys
end, requests = sys.argv[1], int(sys.argv[2])
family = socket.AF_INET if end.isdigit() else socket.AF_UNIX
with socket.socket(family) as connection:
    connection.connect(("127.0.0.1", int(end)) if end.isdigit() else end)
    for _ in range(requests):
        connection.sendall(b"x")
        assert connection.recv(64) == b"x"
print(f"sent {requests}; mean 2.5 us")
"""
WHOLE = """
about = "an echo server"
[[process]]
command = ["{python}", "server.py", "{end}"]
[files]
"server.py" = '''{server}'''
"client.py" = '''{client}'''
[words]
python = "PYTHON"
server = '''SERVER'''
client = '''CLIENT'''
[unix]
end = "{socket}"
[tcp]
end = "{port}"
[client]
command = ["{python}", "client.py", "{end}", "{requests}"]
requests = 'sent (\\d+)'
mean_us = 'mean ([\\d.]+) us'
[counter]
ask = "count"
to = "{end}"
requests = 'served (\\d+)'
[[case]]
name = "echo"
requests = 23
"""


def write(folder: Path, text: str = WHOLE, name: str = "mine") -> Path:
    """The file of a program."""
    text = text.replace("PYTHON", PYTHON).replace("'''SERVER'''", f"'''{SERVER}'''")
    file = folder / f"{name}.toml"
    file.write_text(text.replace("'''CLIENT'''", f"'''{CLIENT}'''"))
    return file


def changed(folder: Path, before: str, after: str) -> Path:
    assert before in WHOLE
    return write(folder, WHOLE.replace(before, after))


def drive(file: Path, transport: str = "unix") -> dict[str, Any]:
    found = read(file)
    with engine.serving(found, found.cases[0], transport, None) as running:
        return running.drive(found.cases[0], transport)


@pytest.mark.parametrize("transport", ["unix", "tcp"])
@pytest.mark.slow
def test_the_server_counts_what_the_client_sent(tmp_path: Path, transport: str) -> None:
    found = drive(write(tmp_path), transport)
    assert (found["error"], found["requests"], found["counted"]) == (None, 23, 23)
    assert found["latency_ns"] == {"mean": 2500}
    assert found["counters"]["voluntary"] + found["counters"]["involuntary"] > 0


@pytest.mark.slow
def test_all_cases_are_measured_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "REPEATS", 2)
    experiment = Experiment(read(write(tmp_path)))
    found = list(experiment.run(lambda _: None))
    assert [row["transport"] for row in found] == ["unix", "tcp", "tcp", "unix"]
    for row in found:
        assert (row["counted"], row["error"]) == (23, None)
        PROGRAM_LINES.validate_python(row)


MISTAKES = [
    ('about = "an echo server"', "", "lacks the key about"),
    ('name = "echo"', 'label = "echo"', "lacks the key name"),
    ("[client]\n", "[client]\npipeline = '3'\n", "has the unknown key pipeline: there is command"),
    ("[[process]]\n", "[[process]]\nport = 80\n", "has the unknown key port"),
    ("'sent (\\d+)'", "'sent \\d+'", "requests needs one group"),
    ("'sent (\\d+)'", "'sent ('", "requests is not a pattern"),
    ('"{end}", "{requests}"]', '"{ending}"]', "nothing says what {ending} is"),
    ('end = "{port}"', 'end = "{socket}"', "are told the same for both transports"),
    ("requests = 23", "requests = 0", "requests is not at least 1"),
    ("requests = 23", "requests = '23'", "requests is not a whole number"),
    ('ask = "count"\n', "", "needs either command, or ask and to"),
    ("requests = 23", 'requests = 23\n[[case]]\nname = "echo"', "has two cases of one name"),
    ('end = "{port}"', 'end = "{end}"', "placeholders whose values name each other"),
    ("[unix]", "[unix", "is not TOML"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "said"), MISTAKES)
def test_a_mistake_in_a_file_is_a_sentence(
    tmp_path: Path, before: str, after: str, said: str
) -> None:
    assert before in WHOLE
    file = write(tmp_path, WHOLE.replace(before, after))
    with pytest.raises(UsageError) as raised:
        read(file)
    assert said in str(raised.value)
    assert str(file) in str(raised.value)


def test_the_file_of_the_page_is_whole(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs/adding-a-program.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "my.toml").write_text(example)
    assert read(tmp_path / "my.toml").cases[0].requests > 0
    described = set(re.findall(r"`([a-z_0-9]+)`", page))
    known = {name for kind in (program.Program, program.Process, program.Counter, program.Case)
             for name in kind.__dataclass_fields__}  # fmt: skip
    ours = {"file", "processes", "client", "cases", "transports", "counter", "files", "words"}
    assert known - ours <= described


def test_a_table_that_nobody_reads_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has the unknown key other: there is about"):
        read(write(tmp_path, WHOLE + "[other]\n"))


def test_a_file_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot be read .No such file"):
        options.parse(["--program", str(tmp_path / "mine.toml")])


def test_a_file_of_the_users_own_is_taken_and_may_not_hide_ours(tmp_path: Path) -> None:
    file = write(tmp_path)
    assert options.parse(["--program", f"memcached,{file}"]).programs == ("memcached", str(file))
    with pytest.raises(UsageError, match="has the name of a program that is there"):
        options.parse(["--program", str(write(tmp_path, name="redis"))])


@pytest.mark.parametrize("name", FILES)
def test_every_program_of_ours_can_be_read(name: str) -> None:
    found = engine.find(name)
    assert found.counter is not None
    assert 0 < load(name).TAKES <= 120
    assert name in PROGRAMS
    for case in found.cases:
        assert program_of(f"{name}/{case.name}") == name
        assert case.size > 1


def test_a_server_that_serves_both_is_started_once(tmp_path: Path) -> None:
    both = read(
        write(tmp_path, WHOLE.replace('"server.py", "{end}"', '"server.py", "{socket}", "{port}"'))
    )
    assert start_of(both, both.cases[0], "unix") == start_of(both, both.cases[0], "tcp")
    apart = read(write(tmp_path))
    assert start_of(apart, apart.cases[0], "unix") != start_of(apart, apart.cases[0], "tcp")


def test_requests_are_whole_turns_of_each_client(tmp_path: Path) -> None:
    text = WHOLE.replace("requests = 23", "requests = 23\nclients = 4\ndepth = 3")
    case = read(write(tmp_path, text)).cases[0]
    assert program.counts(case, 23) == {"requests": 24, "each": 6}
    assert program.counts(case, 1) == {"requests": 12, "each": 3}


@pytest.mark.slow
def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    file = changed(
        tmp_path, 'command = ["{python}", "server.py"', 'command = ["{python}", "gone.py"'
    )
    with pytest.raises(RunError, match=r"mine: .* did not start: .*gone.py.*No such file"):
        drive(file)


@pytest.mark.slow
def test_a_port_in_use_is_a_sentence(tmp_path: Path) -> None:
    port = free_port()
    file = changed(tmp_path, 'end = "{port}"', f'port = "{port}"\nend = "{{port}}"')
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(RunError, match=f"mine: port {port} is in use by another program"),
    ):
        drive(file, "tcp")


@pytest.mark.slow
def test_a_server_on_one_transport_only_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "READY_SECONDS", 1)
    text = WHOLE.replace(
        '"server.py", "{end}"]', '"server.py", "{port}"]\nlistens = ["{port}", "{socket}"]'
    )
    with pytest.raises(
        RunError, match=r"does not listen on the Unix socket socket, only on port \d+[.]$"
    ):
        drive(write(tmp_path, text))


@pytest.mark.slow
def test_a_path_that_is_too_long_is_a_sentence(tmp_path: Path) -> None:
    deep = "{directory}/" + "x" * 100
    file = changed(tmp_path, 'end = "{socket}"', f'socket = "{deep}"\nend = "{{socket}}"')
    with pytest.raises(RunError, match=r"has \d+ bytes, and 107 are possible"):
        drive(file)


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("sys.exit('the server is ill')", "the server is ill"),
        (
            "print('nothing')",
            "the client printed nothing for requests = .* .its last line: nothing.",
        ),
        ("print('sent 23; mean 1.2.3 us')", "mean_us is no number in what the client printed"),
    ],
)
@pytest.mark.slow
def test_a_client_that_fails_is_a_sentence(tmp_path: Path, script: str, error: str) -> None:
    file = write(tmp_path)
    file.write_text(file.read_text().replace(CLIENT, f"import sys\n{script}\n"))
    found = drive(file)
    assert set(found) == {"error"}
    assert re.search(error, found["error"])


@pytest.mark.slow
def test_a_program_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    file = changed(tmp_path, 'python = "PYTHON"', 'python = "no-such-program"')
    with pytest.raises(RunError, match=r"did not start: .*no-such-program.*No such file"):
        drive(file)


@pytest.mark.slow
def test_a_program_whose_client_fails_is_left_at_once(tmp_path: Path) -> None:
    file = write(tmp_path)
    file.write_text(file.read_text().replace(CLIENT, "raise SystemExit('it is ill')\n"))
    with pytest.raises(RunError, match=r"^mine, echo over unix: it is ill[.]$"):
        next(Experiment(read(file)).run(lambda _: None))


@pytest.mark.emulated  # reads the package lists
def test_a_package_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    packages_or_skip("memcached")
    file = write(tmp_path, 'packages = ["no-such-package"]\n' + WHOLE)
    with pytest.raises(RunError, match="Unable to locate package no-such-package"):
        engine.prepared(read(file), tmp_path / "cache", lambda _: None)


GRANDCHILD = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(sys.argv[1], "w").write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
os.wait()
time.sleep(600)
"""


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("how", ["its input ends", signal.SIGTERM])
@pytest.mark.slow
def test_a_daemon_of_the_server_ends_with_it(tmp_path: Path, how: Any) -> None:
    """Also one in a session of its own, whose parent has ended."""
    note = tmp_path / "pid"
    argv = [*service.KEEPER, PYTHON, "-c", GRANDCHILD, str(note)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, start_new_session=True) as keeping:
        try:
            wait_until(lambda: note.exists() and note.read_text())
            daemon = int(note.read_text())
            assert daemon in keeper.descendants(keeping.pid)
            assert keeping.stdin is not None
            if how == signal.SIGTERM:
                keeping.send_signal(signal.SIGTERM)
            else:
                keeping.stdin.close()
            keeping.wait(20)
            assert not Path(f"/proc/{daemon}").exists()
        finally:
            keeping.kill()


# Starts the server, says where it is, and waits to be killed.
RUNNER = """
import sys, time
from runners.programs import engine
found = engine.find(sys.argv[1])
with engine.serving(found, found.cases[0], "unix", None) as running:
    print(*running.pids, flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_a_killed_runner_leaves_no_server(tmp_path: Path) -> None:
    argv = [PYTHON, "-c", RUNNER, str(write(tmp_path))]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=REPOSITORY, text=True) as runner:
        assert runner.stdout is not None
        pids = [int(word) for word in runner.stdout.readline().split()]
        try:
            assert pids
            runner.kill()
            wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
        finally:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_nothing_is_left_of_a_server(tmp_path: Path) -> None:
    found = read(write(tmp_path))
    with engine.serving(found, found.cases[0], "unix", None) as running:
        pids, directory = running.pids, running.place.directory
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
        user, _ = place.run_as()
        owner = Path(f"/proc/{pids[-1]}").stat().st_uid
        assert owner == (user[0] if user else os.getuid()) and owner != 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert not directory.exists()


def packages_or_skip(name: str) -> Path | None:
    """The program's packages, unpacked; without a package mirror the test is skipped."""
    if shutil.which("apt-get") is None:
        pytest.skip("there is no apt-get here")
    make(REPOSITORY / "runners/programs/tools")
    try:
        return engine.prepared(engine.find(name), invoker().cache, lambda _: None)
    except RunError as error:
        pytest.skip(f"the packages cannot be had: {error}")


def counted_exactly(name: str) -> None:
    """Each case over both transports: the server counts what the client sent."""
    found, root = engine.find(name), packages_or_skip(name)
    for case in found.cases:
        for transport in program.TRANSPORTS:
            with engine.serving(found, case, transport, root) as running:
                for _ in range(2):
                    driven = running.drive(case, transport, requests=case.requests // 20)
                    assert driven["error"] is None, (case.name, transport)
                    assert driven["counted"] == driven["requests"] > 0, (case.name, transport)


@pytest.mark.emulated  # packages, and minutes the first time; no root
@pytest.mark.parametrize("name", ["memcached"])
def test_a_real_server_counts_every_request(name: str) -> None:
    counted_exactly(name)


@pytest.mark.matrix
@pytest.mark.parametrize("name", [name for name in FILES if name != "memcached"])
def test_every_real_server_counts_every_request(name: str) -> None:
    counted_exactly(name)
