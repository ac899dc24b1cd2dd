# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line: its verbs, what is refused, and what the defaults are."""

import re

import pytest

from probes.scripts import read_scripts
from runners.cli import VERBS, build_parser, main, options_of, overview, parse
from runners.plan import scripts_of
from runners.process import UsageError

TABLE = read_scripts()


def test_the_headline_is_a_matter_of_the_target() -> None:
    """On this kernel three instruments count beside the kernel; in a guest attaching is dear."""
    scripts = {target: scripts_of(parse([]), target) for target in ("host", "guest")}
    by_target = {
        target: {TABLE[name].instrument for name in names if TABLE[name].group == "counts"}
        for target, names in scripts.items()
    }
    assert by_target == {"host": {"bpftrace", "bcc", "perf"}, "guest": {"bpftrace"}}
    for target, names in scripts.items():
        assert names == tuple(n for n, script in TABLE.items() if target in script.headline)


@pytest.mark.parametrize(
    "line",
    [
        *("--transports unix,carrier-pigeon", "--sizes 0", "--sizes 3072M", "--sizes 64KB"),
        *("--sizes=", "--sizes 1\N{KELVIN SIGN}", f"--sizes {'9' * 5000}"),
        *("--messages 47", "--messages -2", "--messages ²", "--messages ٤", "--repeats 0"),
        *("--placements moon", "--target fast", "--target host,guest", "--wait nap"),
        *("--patterns pipeline --in-flight 65537", "--patterns clients --clients 1e3"),
        *("--patterns paced --rate 1000001", "--patterns paced --work 5"),
        *("--patterns paced --work 0.5us", "--patterns paced --work 1001ms", "--seed x"),
        *(
            "--out a\x07b",
            "--out=",
            "--kernel /boot/\x1b[31m",
            "--kernel 1.2.3",
            f"exact --kernel {'k' * 300}",
            "diff a b\x7f",
        ),
        *("--bogus", "--version --bogus", "stray", "--transport unix", "--sizes 1 --sizes=2"),
        *("exact --knob mitigation=off", "exact --knob cpu=max+smap=maybe", "exact --sizes 1M"),
        *("exact --repeats 2", "exact --sched batch", "exact --messages 18", "run --knob pti=on"),
        *("gate --kernel 6.12 --against 6.1 --json", "gate --kernel 6.12 --patterns stream"),
        *("gate --kernel 6.12 --against 6.1 --allowance 1e3", "list --sizes 4", "report", "diff a"),
        *(
            "--exact",
            "watch 0",
            "watch --pid x",
            "what-if --rate 0",
            "--json --quiet",
            "diff /etc /tmp",
        ),
        # What would change nothing.
        *("--in-flight 9", "--clients 9", "--rate 9", "--patterns clients --work 1ms"),
        *("--target host --kernel 6.1", "--target guest --program redis", "--claims --sizes 1K"),
    ],
)
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
        words = re.split(r" [|>]", command.partition(f"run.sh {verb}")[2])[0].split()
        if "~/linux" not in words:
            build_parser(verb).parse_args(words)
