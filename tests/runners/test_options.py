# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line: what is refused, in which words, and what the defaults are."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners import options
from runners.host.scripts import read_scripts
from runners.process import UsageError

NOT_EXACT = (
    *("--repeats 2", "--topology two", "--program redis", "--instruments perf"),
    *("--target host", "--seed 3", "--clients 2", "--in-flight 3", "--rate 10", "--work 1ms"),
)


def test_defaults_are_the_main_job() -> None:
    given = options.parse([])
    assert given.transports == ("unix", "tcp")
    assert given.sizes == (64,)
    assert given.placements == ("same-cpu", "cross-cpu")
    assert (given.target, given.kernels, given.out) == ("auto", ("6.12",), None)
    assert given.install


def test_the_headline_is_a_matter_of_the_target() -> None:
    """On this kernel three instruments count beside the kernel; in a guest attaching is dear."""
    scripts = options.parse([]).scripts
    assert set(scripts) == {"host", "guest"}
    table = read_scripts()
    by_target = {
        target: {table[name][0].instrument for name in names if table[name][0].group == "counts"}
        for target, names in scripts.items()
    }
    assert by_target == {"host": {"bpftrace", "bcc", "perf"}, "guest": {"bpftrace"}}
    for target, names in scripts.items():
        assert names == tuple(n for n, rows in table.items() if target in rows[0].headline)


@pytest.mark.parametrize(
    ("text", "host", "guest"),
    [
        ("kernel", (), ()),
        ("perf", ("stat", "profile"), ("stat", "profile")),
        ("slab,counts", ("slab", "counts"), ("slab", "counts")),
    ],
)
def test_what_is_named_is_attached_on_every_target(
    text: str, host: tuple[str, ...], guest: tuple[str, ...]
) -> None:
    assert options.parse(["--instruments", text]).scripts == {"host": host, "guest": guest}


@pytest.mark.parametrize(
    ("word", "size"), [("1", 1), ("4K", 4096), ("1M", 1 << 20), ("1024m", 1 << 30)]
)
def test_sizes_take_suffixes(word: str, size: int) -> None:
    assert options.parse(["--sizes", word]).sizes == (size,)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--transports", "unix,carrier-pigeon"], "unknown transport 'carrier-pigeon'"),
        (["--sizes", "0"], "size '0'"),
        (["--sizes", "3072M"], "size '3072M'"),
        (["--sizes", "64KB"], "size '64KB' cannot be read"),
        (["--sizes", ""], "size '' cannot be read"),
        (["--messages", "47"], "odd"),
        (["--messages", "-2"], "--messages"),
        (["--repeats", "0"], "--repeats '0'"),
        (["--placements", "moon"], "unknown placement 'moon'"),
        (["--target", "fast"], "unknown target 'fast'"),
        (["--target", "host,guest"], "unknown target 'host,guest'"),
        (["--wait", "nap"], "unknown way of waiting 'nap'"),
        (["--sched", "idle"], "unknown scheduler 'idle'"),
        (["--topology", "ring"], "unknown topology 'ring'"),
        (["--in-flight", "65537"], "--in-flight '65537' is not a whole number from 1 to 65536"),
        (["--clients", "0"], "--clients '0'"),
        (["--seed", "x"], "--seed 'x'"),
        (["--messages", "²"], "--messages '²'"),
        (["--messages", "٤"], "--messages '٤'"),
        (["--clients", "1e3"], "--clients '1e3'"),
        (["--rate", "1000001"], "--rate '1000001'"),
        (["--work", "5"], "--work '5' is no duration"),
        (["--work", "0.5us"], "--work '0.5us'"),
        (["--work", "1001ms"], "--work '1001ms'"),
        (["--sizes", "9" * 5000], "size '9999"),
        (["--sizes", "1\N{KELVIN SIGN}"], "size '1"),
        (["--out", "a\nb"], r"'a\nb' is empty or has a control character"),
        (["--out", ""], "'' is empty"),
        (["--kernel", "/boot/\x1b[31m"], r"'/boot/\x1b[31m' is empty or has"),
        (["--diff", "a", "b\x7f"], r"'b\x7f' is empty or has"),
        (["--pool", "a", "\udcff"], r"'\udcff' is empty or has"),
        (["--bogus"], "--bogus"),
        (["--bogus", "--transport=unix"], "--bogus"),
        (["--transport", "unix"], "unknown option --transport: did you mean --transports?"),
        (["--transports", "unix,tpc"], "unknown transport 'tpc': did you mean 'tcp'?"),
        (["--instruments", "bpftrac"], "did you mean 'bpftrace'?"),
        (["stray"], "stray"),
        (["--exact", "--knob=nft=1,zebra"], "unknown knob 'zebra': there is cpu=MODEL"),
        (["--exact", "--knob", "cpu=max+smap=maybe"], "unknown knob 'cpu=max+smap=maybe'"),
        (["--exact", "--knob=mitigation=off"], "did you mean 'mitigations=off'?"),
    ],
)
def test_impossible_requests_get_one_sentence(argv: list[str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        options.parse(argv)
    assert said in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize(
    ("argv", "without_effect"),
    [
        (["--knob=mitigations=off"], "--knob"),
        (["--in-flight", "9"], "--in-flight"),
        (["--clients", "9"], "--clients"),
        (["--rate", "9"], "--rate"),
        (["--patterns", "clients", "--work", "1ms"], "--work"),
        (["--target", "host", "--kernel", "5.10"], "--kernel"),
        (["--target", "guest", "--program", "redis"], "--program"),
        (["--claims", "--exact"], "--claims"),
        (["--claims", "--sizes=1K"], "--sizes"),
        (["--exact", "--instruments", "perf"], "--instruments"),
        *((["--exact", *option.split()], option.split()[0]) for option in NOT_EXACT),
        (["--list", "--exact"], "--exact"),
        (["--preflight", "--sizes=1K"], "--sizes"),
        (["--diff", "a", "b", "--exact"], "--exact"),
        (["--diff", "a", "b", "--sizes=1K"], "--sizes"),
    ],
)
def test_an_option_without_effect_is_refused(argv: list[str], without_effect: str) -> None:
    with pytest.raises(UsageError, match=f"^{without_effect} has no effect"):
        options.parse(argv)


def test_an_option_that_is_there_twice_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^--sizes is there twice"):
        options.parse(["--sizes", "1", "--sizes=2"])


@pytest.mark.parametrize(
    ("argv", "recorded"),
    [
        (
            ["--exact"],
            {"transports", "patterns", "sizes", "placements", "waits", "kernels", "knobs"},
        ),
        (["--exact", "--sched=fifo"], {"scheds", "sizes", "placements", "messages", "knobs"}),
        (["--exact", "--patterns=clients"], {"patterns", "clients", "waits"}),
        (["--claims"], {"claims", "programs", "target", "kernels", "messages", "repeats", "seed"}),
        (["--patterns=clients"], {"clients", "target", "kernels", "scripts", "seed", "waits"}),
        (["--patterns=paced"], {"clients", "rate", "work", "sizes"}),
    ],
)
def test_only_options_with_an_effect_are_recorded(argv: list[str], recorded: set[str]) -> None:
    effective = options.parse(argv).effective()
    assert recorded | {"out", "install"} <= effective.keys()
    idle = {"action", "diff", "pool", "in_flight"}
    idle |= {"repeats", "seed", "topologies", "scripts"} if "--exact" in argv else {"knobs"}
    idle |= {"sizes", "patterns", "exact"} if "--claims" in argv else set()
    idle |= {"scheds"} if argv == ["--exact"] else set()
    assert not idle & effective.keys()


def test_every_line_of_help_is_whole() -> None:
    """Each option is on one line, with what it does."""
    text = options.build_parser().format_help()
    lines = [line for line in text.splitlines() if line.startswith("  ")]
    assert max(map(len, lines)) <= 100
    assert [line for line in lines if not line.startswith("  --")] == []


def test_diff_takes_two_runs() -> None:
    assert options.parse(["--diff", "a", "b", "--out", "c"]).diff == (Path("a"), Path("b"))
    with pytest.raises(UsageError, match="expected 2 arguments"):
        options.parse(["--diff", "a"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--against 6.1", "needs --exact"),
        ("--exact --allowance 5", "needs --against"),
        ("--exact --ktap", "needs --against"),
        ("--exact --against 6.1 --json", "--json has no effect beside --against"),
        ("--exact --against 6.1 --knob pti=on", "--knob has no effect beside --against"),
        ("--exact --against 6.1 --allowance 1e3", "--allowance '1e3'"),
    ],
)
def test_a_gate_needs_exact_mode_and_a_kernel_to_judge_by(words: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        options.parse(words.split())
