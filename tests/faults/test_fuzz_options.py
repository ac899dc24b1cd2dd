# SPDX-License-Identifier: GPL-2.0-or-later
"""Whatever run.sh is told: options with an effect, or one sentence."""

from __future__ import annotations

import contextlib
import io
import json

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from runners import options
from runners.exact.run import plan_cells
from runners.plan.planner import OptionsPlanner
from runners.process import UsageError
from tests.faults.strategies import LONG, SHORT, TEXTS, check_sentence

LOOKS = {"--list", "--preflight", "--diff", "--pool"}
NAMES = sorted(options.build_parser()._option_string_actions)
# What each option takes; the other values are odd.
FITTING = {
    **{
        "--transports": "unix unix,tcp all shm",
        "--patterns": "pingpong clients stream,pipeline paced all",
    },
    **{"--sizes": "64 4K,1M 1G", "--placements": "same-cpu free,cross-cpu", "--wait": "spin epoll"},
    **{"--sched": "fifo batch,other", "--topology": "two one,two", "--in-flight": "9 65536"},
    **{"--rate": "1 20000", "--work": "300us 1s"},
    **{"--clients": "1 20", "--claims": "my-claim,nic-driver", "--program": "redis all"},
    **{"--knob": "pti=on nft=10", "--target": "host guest auto", "--kernel": "6.12 all /boot/x"},
    **{"--instruments": "perf headline all kernel,copies", "--messages": "200 47 100000000"},
    **{"--repeats": "1 30 10000", "--seed": "7", "--out": "folder /nowhere/x"},
}
TAKEN = sorted({value for values in FITTING.values() for value in values.split()})
FITTING_WORDS = st.sampled_from(
    [(f"{name}={value}",) for name, values in FITTING.items() for value in values.split()]
    + [("--exact",), ("--no-install",), ("--dry-run",), ("--claims",), ("--diff", "a", "b")]
)
WORDS = st.one_of(
    st.sampled_from(NAMES),
    st.sampled_from(TAKEN),
    st.builds("{}={}".format, st.sampled_from(NAMES), st.sampled_from(TAKEN) | TEXTS),
    TEXTS,
    st.text(max_size=20),
)
PAIRS = st.tuples(st.sampled_from(NAMES), st.sampled_from(TAKEN) | TEXTS)
ARGVS = st.one_of(
    st.lists(WORDS, max_size=8),
    st.lists(PAIRS, max_size=4).map(lambda pairs: [word for pair in pairs for word in pair]),
    *[
        st.lists(FITTING_WORDS, max_size=5, unique_by=lambda words: words[0].partition("=")[0]).map(
            lambda parts: [word for part in parts for word in part]
        )
    ]
    * 2,
)


def check(argv: list[str]) -> None:
    """Options whose every word has an effect and a plan, or a UsageError."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            given_options = options.parse(argv)
    except SystemExit as end:
        event("help or version")
        assert end.code == 0
        return
    except UsageError as error:
        event("refused")
        check_sentence(str(error))
        return
    event("accepted")
    named = {word.partition("=")[0] for word in argv if word[:2] == "--"}
    if not named & LOOKS:
        effective = given_options.effective()
        fields = {field for field, name in options.NAMES.items() if name in named}
        assert fields <= effective.keys()
        json.dumps(effective, default=str).encode()
        check_plan(given_options)


def check_plan(given_options: options.Options) -> None:
    """The cells, or a UsageError for a combination that only the plan can refuse."""
    cells = 20 * (given_options.repeats or 1) * len(given_options.sizes)
    try:
        if given_options.exact:
            assert plan_cells(given_options)
        elif given_options.claims is None and cells < 10_000:
            plan = OptionsPlanner(given_options).host("function", alone=True, emulated=False)
            assert plan.runs
    except UsageError as error:
        event("refused by the plan")
        check_sentence(str(error))


@SHORT
@given(ARGVS)
def test_some_options(argv: list[str]) -> None:
    check(argv)


@pytest.mark.matrix
@LONG
@given(ARGVS)
def test_a_thousand_option_strings(argv: list[str]) -> None:
    check(argv)
