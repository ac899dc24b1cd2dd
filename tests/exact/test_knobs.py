# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs: the table, the machine with one thing changed, and what cannot be had."""

from collections import Counter
from dataclasses import fields, replace
from fnmatch import fnmatchcase as fnmatch

import pytest

from analysis.paths.tree import UNCLASSIFIED, layer_of
from probes.isa import USUAL
from runners.exact.cells import path_of
from runners.exact.count import measure
from runners.exact.digest import describe
from runners.exact.guest import ExactGuest, guest_for
from runners.exact.iterations import ReplayedWindow
from runners.exact.knobs import Knob, find, read_table, scripts
from runners.exact.machine import cpu_option, failure
from runners.guest.kernels import MODULES
from runners.guest.qemu import Ended
from runners.guest.store import LackingError
from runners.process import RunError, UsageError
from runners.store.folders import invoker
from tests.exact.conftest import REPOSITORY, cell_run

KEYS = {field.name for field in fields(Knob)} | {
    "value",
    "file",
    "each",
    "code",
    "bpftrace",
    "arch",
    "arm64",
}
A_CLOCKS_BRANCH = 24  # instructions of a round trip
MOST_UNCLASSIFIED = 0.02  # of the instructions, as of a cell without a knob
PROOFS = {"expect", "log", "bpftrace"}  # steps that fail where the knob is not in force


@pytest.mark.parametrize("name", read_table())
def test_every_knob_of_the_table_is_found(name: str) -> None:
    row = read_table()[name]
    assert not set(row) - KEYS
    kinds = {"number": ["3"], "script": list(scripts()), "cpu": ["max", "+erms+smap=off"]}
    values = row.get("value", [""])
    for value in kinds.get(str(values), values):
        knob = find(f"{name}={value}" if value else name)
        assert "{" not in "".join(word for step in knob.steps for word in step)
        assert knob.steps or knob.command_line, "it changes nothing"
        # A knob shows that it was in force, by a value read back, by functions, or by bpftrace.
        assert knob.shows or knob.lacks or any(PROOFS & set(step) for step in knob.steps)


def test_a_knob_brings_its_script_or_as_many_rules_as_its_number() -> None:
    knob = find("bpftrace=switches")
    assert knob.text == (REPOSITORY / "probes/bpftrace/switches.bt").read_text()
    assert "copies" not in scripts(), "it needs a place in the kernel's code"
    assert (find("nft=10").text.count("add rule"), find("nft=10").number) == (10, 10)


@pytest.mark.parametrize(
    "name",
    ["pigeon", "nft", "nft=0", "nft=x", "cc=pigeon", "apparmor=1", "cpu=", "cpu=max,erms",
     "cpu=max+", "cpu=-erms", "cpu=max+smap=maybe"],
)  # fmt: skip
def test_an_unknown_knob_is_a_sentence_with_what_there_is(name: str) -> None:
    with pytest.raises(KeyError, match=r"unknown knob .*cpu=MODEL\+FEATURE.*nft=N"):
        find(name)


def test_a_cpu_is_qemus_model_with_its_features_and_nothing_is_left_out_silently() -> None:
    assert cpu_option(USUAL, "+erms") == "qemu64,enforce,model-id=+erms,erms"
    assert cpu_option(USUAL, "max+smap=off") == "max,enforce,model-id=max+smap=off,smap=off"
    for complaint in (
        "TCG doesn't support requested feature: CPUID.01H:ECX.pcid [bit 17]",
        "unable to find CPU model 'pigeon'",
        "Property 'qemu64-x86_64-cpu.nest' not found",
    ):
        error = failure(Ended(1, [], f"q: warning: {complaint}\nq: and more"))
        assert isinstance(error, UsageError)
        assert str(error).startswith(f"QEMU: {complaint}. ")


def test_the_modules_of_knobs_are_stored_with_the_kernel() -> None:
    names = ("nft=1", *(f"cc={name}" for name in read_table()["cc"]["value"]))
    assert {module for name in names for module in find(name).modules} <= set(MODULES)


def turned(base: ExactGuest, name: str) -> tuple[ReplayedWindow, dict[str, object]]:
    run = cell_run("tcp", knob=name)
    guest = guest_for(invoker().cache, base, path_of(run.cell), find(name))
    window, result, _ = measure(guest, run)
    return window, describe(run.cell, window, result, guest.knob)


def least(window: ReplayedWindow) -> Counter[str]:
    """The variant of the steady round trip with the fewest instructions."""
    counts = min((counts for counts, _ in window.steady.variants), key=lambda c: c.steps.total())
    return window.tree.by_function(counts.steps)


@pytest.mark.emulated
def test_knobs_change_what_they_say_and_prove_it(exact_guest: ExactGuest) -> None:
    plain = least(measure(exact_guest, cell_run("tcp"))[0])
    rules: dict[int, int] = {}
    for number in (1, 2, 12):
        window, line = turned(exact_guest, f"nft={number}")
        assert line["valid"], line["checks"]
        rules[number] = least(window)["nft_do_chain"]
    assert plain["nft_do_chain"] == 0
    # A rule that no packet fits costs the same at every place.
    assert rules[12] - rules[2] == 10 * (rules[2] - rules[1]) > 0
    window, line = turned(exact_guest, "tcp_timestamps=0")
    assert line["valid"], line["checks"]
    assert least(window).total() < plain.total()
    # With page tables of its own: user code, where the window begins, cannot read the task_struct.
    window, line = turned(exact_guest, "pti=on")
    assert line["valid"], line["checks"]
    assert least(window).total() > plain.total()


@pytest.mark.emulated
@pytest.mark.parametrize(
    "name", ["probe=fentry", pytest.param("bpftrace=switches", marks=pytest.mark.matrix)]
)
def test_a_probe_is_valid_runs_its_programs_and_has_layers(
    exact_guest: ExactGuest, name: str
) -> None:
    try:
        window, line = turned(exact_guest, name)
    except RunError as error:
        if "apt-get failed" not in str(error):
            raise
        pytest.skip(str(error))
    assert line["valid"], line["checks"]
    counts, tree = window.steady.counts, window.tree
    events = find(name).event
    programs = sum(n for node, n in counts.calls.items() if fnmatch(tree.functions[node], events))
    # A write, or a wake-up and a switch, for each message.
    assert programs >= 2
    of_none = sum(
        steps for node, steps in counts.steps.items() if layer_of(tree.path(node)) == UNCLASSIFIED
    )
    assert of_none <= MOST_UNCLASSIFIED * counts.steps.total()


@pytest.mark.emulated
def test_a_knob_that_was_not_in_force_makes_the_cell_invalid(exact_guest: ExactGuest) -> None:
    lacking = replace(find("nft=1"), modules=("no_such_module",))
    with pytest.raises(LackingError, match="comes without the module no_such_module"):
        guest_for(invoker().cache, exact_guest, path_of(cell_run().cell), lacking)
    run, knob = cell_run("tcp"), replace(find("control"), shows={"tcp": ["nft_do_chain"]})
    window, result, _ = measure(exact_guest, run)
    line = describe(run.cell, window, result, knob)
    assert not line["valid"]
    assert [check["detail"] for check in line["checks"] if not check["ok"]] == ["no call"]


@pytest.mark.emulated
@pytest.mark.matrix
def test_a_cpu_changes_what_its_name_says_and_nothing_by_its_name(exact_guest: ExactGuest) -> None:
    plain, _ = turned(exact_guest, "control")
    alike, line = turned(exact_guest, "cpu=qemu64")
    assert line["valid"], line["checks"]
    # A clock may stand a little otherwise; no function is added or taken away.
    assert set(least(alike)) == set(least(plain))
    assert abs(least(alike).total() - least(plain).total()) <= A_CLOCKS_BRANCH
    copying, _ = turned(exact_guest, "cpu=+erms+fsrm")
    assert least(copying)["rep_movs_alternative"] != least(plain)["rep_movs_alternative"]
    with pytest.raises(UsageError, match=r"feature: CPUID.*pcid"):
        turned(exact_guest, "cpu=+pcid")
