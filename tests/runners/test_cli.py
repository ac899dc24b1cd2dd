# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line: its verbs, what is refused, and what the defaults are."""

import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from probes.scripts import read_scripts
from runners.cli import ARGUMENTS, VERBS, build_parser, main, options_of, overview, parse
from runners.options import CLASSES
from runners.plan import scripts_of
from runners.process import UsageError
from tests.options import run_options

TABLE = read_scripts()


def test_the_headline_is_a_matter_of_the_target() -> None:
    """On this kernel three instruments count beside the kernel; in a guest attaching is dear."""
    scripts = {target: scripts_of(run_options(), target) for target in ("host", "guest")}
    by_target = {
        target: {TABLE[name].instrument for name in names if TABLE[name].group == "counts"}
        for target, names in scripts.items()
    }
    assert by_target == {"host": {"bpftrace", "bcc", "perf"}, "guest": {"bpftrace"}}
    for target, names in scripts.items():
        assert names == tuple(n for n, script in TABLE.items() if target in script.headline)


FOLDERS = {"lab": 1, "diff": 2, "report": 1, "campaign": 1}  # what a verb cannot do without


@pytest.mark.parametrize("verb", CLASSES)
def test_a_verbs_class_has_the_options_of_its_table(verb: str, tmp_path: Path) -> None:
    """By name and by type: mypy knows the class, and a user the table."""
    own = {field.name for field in fields(CLASSES[verb])} - {"verb", "argv", "given", "recorded"}
    table = {option.field for option in options_of(verb)}
    if verb in ARGUMENTS:
        table.add(ARGUMENTS[verb][0])
    everywhere = {"show", "no_install"}
    assert own - everywhere == table - everywhere
    (tmp_path / "run.json").touch()
    there = [str(tmp_path)] * FOLDERS.get(verb, 0)
    options = parse([verb, *there])
    assert TypeAdapter(CLASSES[verb]).validate_python(vars(options)) == options


REFUSED = Path(__file__).with_name("refused.txt").read_text(encoding="utf-8").splitlines()
ODD = (
    *("--sizes 1\N{KELVIN SIGN}", f"--sizes {'9' * 5000}", f"exact --kernel {'k' * 300}"),
    *("--out a\x07b", "--kernel /boot/\x1b[31m", "diff a b\x7f"),
)


@pytest.mark.parametrize("line", [*REFUSED, *ODD])
def test_impossible_requests_get_one_sentence(line: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(line.split(" "))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("--transports unix,tpc", "did you mean 'tcp'?"),
        ("--transport unix", "did you mean --transports?"),
        ("exakt", "did you mean exact?"),
        ("--rate 9", "needs --patterns paced"),
    ],
)
def test_a_refusal_says_what_to_write(line: str, hint: str) -> None:
    with pytest.raises(UsageError, match=re.escape(hint)):
        parse(line.split())


@pytest.mark.parametrize(
    ("line", "recorded", "idle"),
    [
        ("exact", {"transports", "scheds", "knobs", "kernels"}, {"seed", "in_flight", "target"}),
        ("--claims", {"claims", "programs", "kernels", "seed"}, {"sizes", "patterns"}),
        ("--patterns=clients", {"clients", "target", "instruments"}, {"rate", "in_flight", "out"}),
    ],
)
def test_only_options_with_an_effect_are_recorded(
    line: str, recorded: set[str], idle: set[str]
) -> None:
    options = parse(line.split()).recorded
    assert recorded <= options.keys()
    assert not idle & options.keys()


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_has_a_page_of_help_whose_examples_are_taken(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert f"  {verb} " in overview()
    with pytest.raises(SystemExit, match="0"):
        main([verb, "--help"])
    page = capsys.readouterr().out
    assert max(map(len, page.splitlines())) <= 120
    for option in options_of(verb):
        assert f"  {option.flag}" in page
    monkeypatch.setattr("pathlib.Path.exists", lambda _: True)
    examples = VERBS[verb].examples.splitlines()
    assert len(examples) == 4
    for example in examples:
        command, _ = re.split(r" {2,}", example.strip())
        words = shlex.split(re.split(r" [|>]", command.partition(f"run.sh {verb}")[2])[0])
        if "~/linux" not in words:
            build_parser(verb).parse_args(words)
