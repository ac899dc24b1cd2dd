# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs that a file describes: reading the file, starting, driving, counting."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from analysis.counts.measures import PROGRAMS as PATTERN_PROGRAMS
from analysis.counts.measures import program_of
from analysis.raw.programs import PROGRAM_LINES
from runners.process import REPOSITORY, RunError, UsageError
from runners.programs import PROGRAMS, engine, experiments, program
from runners.programs.experiments import Experiment, experiment
from runners.programs.program import find, read
from tests.options import run_options
from tests.runners.echo_program import CLIENT, WHOLE, changed, write


def drive(file: Path) -> dict[str, Any]:
    found = read(file)
    with engine.serving(found, found.cases[0], "unix", None) as running:
        return running.drive(found.cases[0], "unix")


@pytest.mark.slow
def test_all_cases_are_measured_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "REPEATS", 2)
    experiment = Experiment(read(write(tmp_path)))
    found = list(experiment.run(lambda _: None))
    assert [row["transport"] for row in found] == ["unix", "tcp", "tcp", "unix"]
    for row in found:
        assert (row["requests"], row["counted"], row["error"]) == (23, 23, None)
        assert row["latency_ns"] == {"mean": 2500}
        assert row["counters"]["voluntary"] + row["counters"]["involuntary"] > 0
        PROGRAM_LINES.validate_json(json.dumps(row))


MISTAKES = [
    ('about = "an echo server"', "", "lacks 'about'"),
    ("[client]\n", "[client]\npipeline = '3'\n", "has the unknown key 'pipeline'"),
    ("'sent (\\d+)'", "'sent \\d+'", "requests needs one group"),
    ("'sent (\\d+)'", "'sent ('", "requests is not a pattern"),
    ('"{end}", "{requests}"]', '"{ending}"]', "nothing says what {ending} is"),
    ('end = "{port}"', 'end = "{socket}"', "are told the same for both transports"),
    ("requests = 23", "requests = 0", "is below 1"),
    ("requests = 23", "requests = '23'", "requests is no int: '23'"),
    ('ask = "count"\n', "", "needs either command, or ask and to"),
    ('end = "{port}"', 'end = "{end}"', "placeholders whose values name each other"),
    ("[unix]", "[unix", "is not TOML"),
    ("[unix]", "[other]\n[unix]", "has the unknown key 'other'"),
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


def test_a_file_of_the_users_own_is_taken_and_may_not_hide_ours(tmp_path: Path) -> None:
    file = write(tmp_path)
    assert run_options(["--program", f"memcached,{file}"]).programs == ("memcached", str(file))
    with pytest.raises(UsageError, match="has the name of a program"):
        run_options(["--program", str(write(tmp_path, name="redis"))])


# Servers that count no requests, or too late: their client checks each answer.
UNCOUNTED = {"clamav", "lighttpd", "nbd", "ovsdb", "tarantool", "tor", "unbound"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_of_ours_can_be_read(name: str) -> None:
    found = find(name)
    assert found.counter or name in UNCOUNTED or name in PATTERN_PROGRAMS.values()
    assert 0 < experiment(name).seconds <= 120
    for case in found.cases:
        assert program_of(f"{name}/{case.name}") == name
        assert case.size > 1


@pytest.mark.slow
def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    file = changed(
        tmp_path, 'command = ["{python}", "server.py"', 'command = ["{python}", "gone.py"'
    )
    with pytest.raises(RunError, match=r"mine: .* did not start: .*gone.py.*No such file"):
        drive(file)


JSON = WHOLE.replace("requests = 'sent (\\d+)'\nmean_us = 'mean ([\\d.]+) us'\n", "json = true\n")
PRINTED = '{"requests": 23, "latency_ns": {"p50": 5}, "other": 1}'


@pytest.mark.parametrize(
    ("whole", "script", "error"),
    [
        (WHOLE, "sys.exit('the server is ill')", "the server is ill"),
        (WHOLE, "print('nothing')", "printed no requests = .* .its last line: nothing."),
        (WHOLE, "print('sent 23; mean 1.2.3 us')", "the client printed no mean_us = "),
        (JSON, "print('23;')", "printed no JSON object"),
    ],
)
@pytest.mark.slow
def test_a_client_that_fails_is_a_sentence(
    tmp_path: Path, whole: str, script: str, error: str
) -> None:
    file = write(tmp_path, whole)
    file.write_text(file.read_text().replace(CLIENT, f"import sys\n{script}\n"))
    found = drive(file)
    assert set(found) == {"error"}
    assert re.search(error, found["error"])


@pytest.mark.slow
def test_a_client_may_print_json(tmp_path: Path) -> None:
    file = write(tmp_path, JSON)
    client = CLIENT.replace('print(f"sent {requests}; mean 2.5 us")', f"print({PRINTED!r})")
    file.write_text(file.read_text().replace(CLIENT, client))
    found = drive(file)
    assert (found["requests"], found["counted"], found["latency_ns"]) == (23, 23, {"p50": 5})
    assert found["window_ns"] > 0 and "other" not in found


@pytest.mark.slow
def test_a_program_whose_client_fails_is_left_at_once(tmp_path: Path) -> None:
    file = write(tmp_path)
    file.write_text(file.read_text().replace(CLIENT, "raise SystemExit('it is ill')\n"))
    with pytest.raises(RunError, match=r"^mine, echo over unix: it is ill[.]$"):
        next(Experiment(read(file)).run(lambda _: None))
