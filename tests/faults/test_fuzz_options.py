# SPDX-License-Identifier: GPL-2.0-or-later
"""Whatever run.sh is told: options with an effect, or one sentence."""

import contextlib
import io
import json

from hypothesis import strategies as st

from runners.cli import VERBS, options_of, parse
from runners.exact.run import plan_cells
from runners.options import ExactOptions, RunOptions
from runners.plan import Planner
from runners.process import UsageError
from tests.faults.strategies import TEXTS, check_sentence, some_and_a_thousand

NAMES = sorted({option.flag for verb in VERBS for option in options_of(verb)} | {"--help", *VERBS})
# What each option takes; the other values are odd.
FITTING = {
    "--transports": "unix unix,tcp all shm",
    "--patterns": "pingpong clients stream,pipeline paced all",
    **{"--sizes": "64 4K,1M 1G", "--placements": "same-cpu free,cross-cpu", "--wait": "spin epoll"},
    **{"--sched": "fifo batch,other", "--topology": "two one,two", "--in-flight": "9 65536"},
    **{"--rate": "1 20000", "--work": "300us 1s"},
    **{"--clients": "1 20", "--claims": "my-claim,nic-driver", "--program": "redis all"},
    **{"--knob": "pti=on nft=10", "--target": "host guest auto", "--kernel": "6.12 all /boot/x"},
    **{"--instruments": "perf headline all kernel,copies", "--messages": "200 47 100000000"},
    **{"--repeats": "1 30 10000", "--seed": "7", "--out": "folder /nowhere/x"},
}
TAKEN = sorted({value for values in FITTING.values() for value in values.split()})
PAIRS = [f"{name}={value}" for name, values in FITTING.items() for value in values.split()]
WORDS = st.one_of(
    st.sampled_from(NAMES),
    st.sampled_from(TAKEN),
    st.builds("{}={}".format, st.sampled_from(NAMES), st.sampled_from(TAKEN) | TEXTS),
    TEXTS,
    st.text(max_size=20),
)
FITTING_WORDS = st.sampled_from([*PAIRS, "--no-install", "--dry-run", "--claims"])
VERB = st.sampled_from([[], *([verb] for verb in VERBS)])
ARGVS = st.builds(
    lambda verb, words: [*verb, *words],
    VERB,
    st.lists(WORDS, max_size=8)
    | st.lists(FITTING_WORDS, max_size=5, unique_by=lambda word: word.partition("=")[0]),
)


def check(argv: list[str]) -> None:
    """Options whose every word has an effect and a plan, or a UsageError."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            options = parse(argv)
    except SystemExit as end:
        assert end.code == 0
        return
    except UsageError as error:
        check_sentence(str(error))
        return
    json.dumps(options.recorded, default=str).encode()
    try:  # some combinations only the plan can refuse
        if isinstance(options, ExactOptions):
            assert plan_cells(options)
        elif (
            isinstance(options, RunOptions)
            and options.claims is None
            and (options.repeats or 1) < 100
        ):
            plan = Planner(options).host("function", alone=True, emulated=False)
            assert plan.runs
    except UsageError as error:
        check_sentence(str(error))


test_some_options, test_a_thousand_option_strings = some_and_a_thousand(check, ARGVS)
