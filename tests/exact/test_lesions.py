# SPDX-License-Identifier: GPL-2.0-or-later
"""Lesions: code changed in the stored machine, the strict check, a study that goes on."""

import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from probes.isa import USUAL
from runners.exact import lesion as code
from runners.exact import lesion_study as study
from runners.exact.cells import path_of
from runners.exact.guest import ExactGuest, guest_for
from runners.exact.knobs import find
from runners.exact.lesion import COUNTERS, LEAKS, Lesion, Patient, Trial, find_pages
from runners.process import UsageError
from runners.store.folders import invoker
from tests.exact.conftest import cell_run


def test_pages_are_found_in_what_qemu_stored() -> None:
    def page(address: int, flags: int, data: bytes) -> bytes:
        return struct.pack(">Q", address | flags) + data

    state = b"".join([
        page(0x9000, 4, USUAL.main_memory + struct.pack(">Q", 0x9000)),
        page(0, code.WHOLE, USUAL.main_memory + b"a" * USUAL.page),
        page(0x1000, code.FILLED | code.SAME_BLOCK, b"\0"),
        page(0, code.EOS, bytes(code.SECTION)),
        page(0x7000, code.WHOLE | code.SAME_BLOCK, b"b" * USUAL.page),
        page(0x1000, code.WHOLE, b"\4vram" + b"v" * USUAL.page),
    ])  # fmt: skip
    found = {
        at: state[place : place + USUAL.page] for at, place in find_pages(USUAL, state).items()
    }
    assert found == {0: b"a" * USUAL.page, 0x7000: b"b" * USUAL.page}
    assert find_pages(USUAL, b"QEVM") == {}


class MadeUp(Patient):
    """A patient of 100 instructions: a and b save 10 each, but not both; c leaks; d is needed."""

    instructions, fingerprint = 100, ["made up"]

    def __init__(self) -> None:
        self.tried: list[str] = []
        self.isa = USUAL

    def lesion(self, name: str, gives: str) -> Lesion | None:
        return Lesion(name, gives, 0, b"")

    def try_lesions(self, lesions: Any) -> Trial:
        names = {lesion.name for lesion in lesions}
        self.tried.append(" ".join(sorted(names)))
        if "d" in names or {"a", "b"} <= names:
            return Trial("hangs")
        leaks = ("objects of c",) if "c" in names else ()
        saved = 10 * len(names)
        return Trial("differs" if leaks else "arrives", leaks, 100 - saved)


def test_what_survives_together_is_kept_and_a_study_goes_on_without_a_run_twice(
    tmp_path: Path,
) -> None:
    patient = MadeUp()
    for _ in range(2):
        subject = study.StudiedCell(patient, "6.12", Counter())
        trials = study.Trials(tmp_path / "trials.jsonl")
        for name in "abcd":
            trial = trials.run(patient, [Lesion(name, "0", 0, b"")])
            subject.singles[name] = {"0": trial}
        for order in study.ORDERS:
            study.combine(trials, subject, order)
        for made in subject.together.values():
            ((first, left_first), (second, left_second)) = made.values()
            assert (left_first, left_second) == (90, 80)
            assert len(first) == len(second) == 1
            assert first[0].name in "ab"
            assert second[0].name == "c"
        study.tax(trials, subject)
        assert [saved for _, _, saved in subject.taxes] == [10, 10]
        whole = len(patient.tried)
        assert whole == len(set(patient.tried)), "a trial was made twice"
        # It was killed as it wrote its last line.
        lines = (tmp_path / "trials.jsonl").read_text()
        (tmp_path / "trials.jsonl").write_text(lines[:-20])
        patient.tried = patient.tried[:-1]


def test_single_calls_are_tried_of_what_is_called_twice_and_cannot_go() -> None:
    patient = MadeUp()
    patient.calls = dict.fromkeys(("f+0x1>d", "f+0x2>d", "f+0x3>a", "f+0x4>a", "f+0x5>e"), 0)
    subject = study.StudiedCell(patient, "6.12", Counter("ade"))
    for name, trial in (
        ("a", Trial("arrives", (), 90)),
        ("d", Trial("hangs")),
        ("e", Trial("hangs")),
    ):
        subject.singles[name] = {"0": trial}
    assert study.calls(subject) == ["f+0x1>d", "f+0x2>d"]


def test_a_function_has_the_purpose_of_the_first_pattern_that_it_fits() -> None:
    assert study.purpose_of("psi_task_change") == study.purpose_of("caller+0x12>psi_task_change")
    assert study.purpose_of("psi_task_change") != study.NO_PURPOSE
    assert study.purpose_of("no_such_function") == study.NO_PURPOSE


@pytest.mark.emulated
def test_the_strict_check_finds_what_the_cells_own_checks_let_pass(
    exact_guest: ExactGuest,
) -> None:
    patient = Patient(exact_guest, cell_run())

    def tried(name: str, gives: str = "0") -> Trial:
        lesion = patient.lesion(name, gives)
        assert lesion
        return patient.try_lesions([lesion])

    assert patient.try_lesions([]) == Trial("arrives", (), patient.instructions)
    # Known not to be needed, and known to be.
    accounting = tried("psi_task_change")
    assert accounting.delivers(COUNTERS)
    assert (accounting.instructions or 0) < patient.instructions
    assert not tried("unix_stream_sendmsg").delivers((*COUNTERS, *LEAKS))
    # Every check of the cell itself holds, and the memory of each message is lost.
    leaking = tried("kfree")
    assert leaking.delivers((*COUNTERS, *LEAKS))
    assert not leaking.delivers(COUNTERS)
    with pytest.raises(UsageError):
        patient.lesion("no_such_function", "0")


# The filter lets every call pass. Without the router there is no way between the two namespaces.
@pytest.mark.emulated
@pytest.mark.parametrize(
    ("transport", "knob", "planted", "needed"),
    [
        ("unix", "seccomp", "__secure_computing", False),
        pytest.param("tcp-bridge-nat", "", "ip_forward", True, marks=pytest.mark.matrix),
    ],
)
def test_a_planted_function_is_found_or_kept(
    exact_guest: ExactGuest, transport: str, knob: str, planted: str, needed: bool
) -> None:
    run = cell_run(transport, knob=knob)
    guest = guest_for(invoker().cache, exact_guest, path_of(run.cell), find(knob))
    patient = Patient(guest, run)
    lesions = [lesion for gives in USUAL.returns if (lesion := patient.lesion(planted, gives))]
    arrives = any(patient.try_lesions([lesion]).delivers(COUNTERS) for lesion in lesions)
    assert arrives is not needed
