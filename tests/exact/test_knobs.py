# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs: the table, the machine with one thing changed, and what cannot be had."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from fnmatch import fnmatchcase as fnmatch
from pathlib import Path

import pytest

from analysis.paths.tree import UNCLASSIFIED, layer_of
from runners import options
from runners.exact.cells import ExactCell
from runners.exact.count import measure
from runners.exact.decode.digest import describe
from runners.exact.decode.iterations import ReplayedWindow
from runners.exact.knobs import find, read_table, scripts
from runners.exact.machine.boot import cpu_option, failure
from runners.exact.machine.guest import ExactGuest
from runners.exact.machine.knob_guest import guest_with_knob
from runners.exact.run import missing
from runners.guest.cache import Cache
from runners.guest.debian import PackageSources
from runners.guest.errors import LackingError
from runners.guest.kernels import Kernel
from runners.guest.modules import module_files
from runners.guest.qemu import Ended
from runners.process import RunError, UsageError
from runners.store import invoker
from tests.exact.conftest import REPOSITORY

CELL = ExactCell(7, "tcp", 64, "fifo", messages=46, warmup=400)
KEYS = {
    *(
        "what",
        "value",
        "one",
        "command_line",
        "cpu",
        "modules",
        "programs",
        "file",
        "each",
        "steps",
    ),
    *("code", "shows", "lacks", "image", "messages", "event"),
}


# Steps that fail where the knob is not in force.
A_CLOCKS_BRANCH = 24  # instructions of a round trip
MOST_UNCLASSIFIED = 0.02  # of the instructions, as of a cell without a knob
PROOFS = {"expect", "log", "bpftrace"}


def test_a_placement_that_a_knob_leaves_out_is_named() -> None:
    entry = {"folder": "raw/exact", "lacking": {}}
    argv = ["--exact", "--placements", "same-cpu,cross-cpu"]
    assert missing(options.parse(argv), [(entry, {})]) == []
    (left_out,) = missing(options.parse([*argv, "--knob", "nft=1"]), [(entry, {})])
    assert left_out["what"] == ["exact cells, cross-cpu"]


@pytest.mark.parametrize("name", read_table())
def test_every_knob_of_the_table_is_found(name: str) -> None:
    row = read_table()[name]
    assert not set(row) - KEYS
    values = row.get("value", [""])
    for value in {"number": ["3"], "script": list(scripts()), "cpu": ["max", "+erms+smap=off"]}.get(
        str(values), values
    ):
        knob = find(f"{name}={value}" if value else name)
        assert "{" not in "".join(word for step in knob.steps for word in step)
        assert knob.steps or knob.command_line, "it changes nothing"
        # A knob shows that it was in force, by a value read back, by functions, or by bpftrace.
        assert knob.shows or knob.lacks or any(PROOFS & set(step) for step in knob.steps)


def test_a_script_is_brought_as_it_is() -> None:
    knob = find("bpftrace=switches")
    assert knob.text == (REPOSITORY / "probes/bpftrace/switches.bt").read_text()
    assert "copies" not in scripts(), "it needs a place in the kernel's code"


def test_a_number_makes_that_many_rules() -> None:
    assert find("nft=10").text.count("add rule") == 10
    assert find("nft=10").number == 10


@pytest.mark.parametrize("name", ["pigeon", "nft", "nft=0", "nft=x", "cc=pigeon", "apparmor=1"])
def test_an_unknown_knob_is_a_sentence_with_what_there_is(name: str) -> None:
    with pytest.raises(KeyError, match=r"unknown knob .*nft=N"):
        find(name)


def test_a_bzimage_has_no_modules(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, "6.99", None, "key")
    with (
        Cache(tmp_path, lambda _: None) as cache,
        PackageSources(cache) as sources,
        pytest.raises(LackingError, match="needs kernel modules"),
    ):
        module_files(cache, sources, kernel, ["nf_tables"], [])


def turned(guest: ExactGuest, name: str) -> tuple[ReplayedWindow, dict[str, object]]:
    fitted, knob = guest_with_knob(invoker().cache, guest, find(name), lambda _: None)
    cell = replace(CELL, knob=knob)
    window, result, _ = measure(fitted, cell)
    return window, describe(cell, window, result)


def least(window: ReplayedWindow) -> Counter[str]:
    """The variant of the steady round trip with the fewest instructions."""
    counts = min((counts for counts, _ in window.steady.variants), key=lambda c: c.steps.total())
    return window.tree.by_function(counts.steps)


@pytest.mark.emulated
def test_knobs_change_what_they_say_and_prove_it(exact_guest: ExactGuest) -> None:
    plain = least(measure(exact_guest, CELL)[0])
    rules: dict[int, int] = {}
    for number in (1, 2, 12):
        window, told = turned(exact_guest, f"nft={number}")
        assert told["valid"], told["checks"]
        rules[number] = least(window)["nft_do_chain"]
    assert plain["nft_do_chain"] == 0
    # A rule that no packet fits costs the same at every place.
    assert rules[12] - rules[2] == 10 * (rules[2] - rules[1]) > 0
    window, told = turned(exact_guest, "tcp_timestamps=0")
    assert told["valid"], told["checks"]
    assert least(window).total() < plain.total()


@pytest.mark.emulated
@pytest.mark.parametrize("name", ["probe=kprobe", "bpftrace=switches"])
def test_a_probe_is_valid_runs_its_programs_and_has_layers(
    exact_guest: ExactGuest, name: str
) -> None:
    try:
        window, told = turned(exact_guest, name)
    except RunError as error:
        if "apt-get failed" not in str(error):
            raise
        pytest.skip(str(error))
    assert told["valid"], told["checks"]
    counts, tree = window.steady.counts, window.tree
    events = find(name).event
    programs = sum(n for node, n in counts.calls.items() if fnmatch(tree.functions[node], events))
    # A write, or a wake-up and a switch, for each message.
    assert programs >= 2
    of_none = sum(
        steps
        for node, steps in counts.steps.items()
        if layer_of(tree.path(node)).name == UNCLASSIFIED
    )
    assert of_none <= MOST_UNCLASSIFIED * counts.steps.total()


@pytest.mark.emulated
def test_a_knob_that_was_not_in_force_makes_the_cell_invalid(exact_guest: ExactGuest) -> None:
    cell = replace(CELL, knob=replace(find("control"), steps=(), shows=(("tcp", "nft_do_chain"),)))
    window, result, _ = measure(exact_guest, cell)
    told = describe(cell, window, result)
    assert not told["valid"]
    assert [check["detail"] for check in told["checks"] if not check["ok"]] == ["no call"]


def test_a_kernel_without_the_module_lacks_the_knob(
    exact_guest: ExactGuest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runners.exact.machine.knob_guest.module_names", lambda: ["no_such_module"])
    knob = replace(find("nft=1"), modules=("no_such_module",))
    with pytest.raises(LackingError, match="comes without the module no_such_module"):
        guest_with_knob(invoker().cache, exact_guest, knob, lambda _: None)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            "q: warning: TCG doesn't support requested feature: CPUID.01H:ECX.pcid [bit 17]\n"
            "q: warning: TCG doesn't support requested feature: CPUID.07H:EDX.spec-ctrl [bit 26]\n"
            "q: TCG doesn't support requested features\n",
            "QEMU does not emulate pcid, spec-ctrl;.*cpu=MODEL+pcid=off+spec-ctrl=off",
        ),
        ("q: unable to find CPU model 'pigeon'\n", "QEMU knows no CPU model 'pigeon'"),
        (
            "q: can't apply global qemu64-x86_64-cpu.nest=on: Property 'qemu64-x86_64-cpu.nest' "
            "not found\n",
            "QEMU knows no CPU feature nest",
        ),
    ],
)
def test_a_cpu_that_qemu_does_not_emulate_is_a_sentence(said: str, sentence: str) -> None:
    error = failure(Ended(1, [], said))
    assert isinstance(error, UsageError)
    assert re.fullmatch(sentence.replace("+", r"\+"), str(error).rstrip("."))


def test_a_cpu_is_qemus_model_with_its_features_and_nothing_is_left_out_silently() -> None:
    assert cpu_option("+erms") == "qemu64,enforce,model-id=+erms,erms"
    assert cpu_option("max+smap=off") == "max,enforce,model-id=max+smap=off,smap=off"
    assert find("cpu=+erms").cpu == "+erms"
    for name in ("cpu=", "cpu=max,erms", "cpu=max+", "cpu=-erms", "cpu=max+smap=maybe"):
        with pytest.raises(KeyError, match=r"cpu=MODEL\+FEATURE"):
            find(name)


@pytest.mark.emulated
def test_a_cpu_changes_what_its_name_says_and_nothing_by_its_name(exact_guest: ExactGuest) -> None:
    plain, _ = turned(exact_guest, "control")
    alike, told = turned(exact_guest, "cpu=qemu64")
    assert told["valid"], told["checks"]
    # A clock may stand a little otherwise; no function is added or taken away.
    assert set(least(alike)) == set(least(plain))
    assert abs(least(alike).total() - least(plain).total()) <= A_CLOCKS_BRANCH
    copying, _ = turned(exact_guest, "cpu=+erms+fsrm")
    assert least(copying)["rep_movs_alternative"] != least(plain)["rep_movs_alternative"]


@pytest.mark.emulated
def test_a_feature_that_is_not_emulated_is_refused(exact_guest: ExactGuest) -> None:
    with pytest.raises(UsageError, match="does not emulate pcid"):
        turned(exact_guest, "cpu=+pcid")


@pytest.mark.emulated
def test_a_kernel_with_page_tables_of_its_own_is_counted(exact_guest: ExactGuest) -> None:
    """Then user code, where the window begins, cannot read the name in the task_struct."""
    window, told = turned(exact_guest, "pti=on")
    assert told["valid"], told["checks"]
    assert least(window).total() > least(measure(exact_guest, CELL)[0]).total()
