# SPDX-License-Identifier: GPL-2.0-or-later
"""The audit: equal on the reference run, and a line for whatever was changed in a copy of it."""

import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.audit import audit, validity
from tests.audit.folder import open_folder

HERE = Path(__file__).parent
REFERENCE = HERE.parents[1] / "reports/reference/default"
HOST = "raw/host"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reference run with its raw files unpacked."""
    folder = tmp_path_factory.mktemp("audit") / "run"
    folder.mkdir()
    for name in ("run.json", "measurements.csv", "answer.json"):
        shutil.copy(REFERENCE / name, folder)
    shutil.unpack_archive(REFERENCE / "raw.tar.xz", folder)
    return folder


def test_the_reference_run_is_equal_and_the_page_has_the_outcome(run: Path) -> None:
    checked, wrong = audit.audit(open_folder(run, run))
    assert wrong == []
    page = HERE.parents[1] / "docs/audit.md"
    assert audit.outcome(checked, wrong) in page.read_text(encoding="utf-8")


def test_it_needs_python_alone() -> None:
    """No site-packages, and an archive of raw files."""
    command = [sys.executable, "-I", "-S", str(HERE / "audit.py"), str(REFERENCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1)
    assert done.stderr == ""
    assert " compared (" in done.stdout


@pytest.mark.parametrize(
    "script", [path for path in HERE.glob("*.py") if not path.name.startswith("test_")]
)
def test_it_shares_no_code_with_the_program(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    imported = set(re.findall(r"^\s*(?:from|import) (\w+(?:\.\w+)?)", text, re.MULTILINE))
    others = {name for name in imported if name.split(".")[0] not in sys.stdlib_module_names}
    assert others <= {"tests.audit"}


def change(path: Path, old: str, new: str) -> None:
    """Change the first occurrence of a pattern."""
    text = path.read_text(encoding="utf-8")
    changed = re.sub(old, new, text, count=1, flags=re.MULTILINE)
    assert changed != text
    path.write_text(changed, encoding="utf-8")


def change_a_sample(run: Path) -> None:
    path = run / HOST / "samples/2.u32"
    first, *others = (time for (time,) in struct.iter_unpack("<I", path.read_bytes()))
    path.write_bytes(struct.pack(f"<{1 + len(others)}I", first + 1_000_000, *others))


# File, a pattern in it and what takes its place, and the line that names the change.
CHANGES = (
    ("measurements.csv", r"(skb_clones,,)2000,", r"\g<1>2001,",
     r"bpftrace: skb_clones: measurements.csv has 2001 .* give 2000 "),
    ("measurements.csv", r"^(.*,syscalls,.*\n)", r"\1\1", r"syscalls.* stands twice"),
    ("answer.json", r'("added": {\s+"value": )\d+', r"\g<1>9",
     r"same-cpu: iteration, added, value: answer.json has 9"),
    (f"{HOST}/bpftrace/1/switches.json", r'("\d+,voluntary": )', r"\g<1>1",
     r"cell \d+ .*bpftrace: switches voluntary: .* give 1\d+ "),
    ("raw/exact-*/tree/2.tsv", r"(\[user\]\t0\t\d+\t)\d+", r"\g<1>9",
     r"exact .*, cell 2 .*instructions \[user\]: .* invalid"),
    (f"{HOST}/cells.jsonl", r"(lo: \d+ \d+(?: +0){6} \d+ )(\d)", r"\g<1>7\2",
     r"cell 1 .*, kernel: lo_packets: "),
)  # fmt: skip


def test_each_change_is_named(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(run, tmp_path / "copy")
    change_a_sample(copy)
    for name, old, new, _ in CHANGES:
        change(next(copy.glob(name)), old, new)
    assert audit.main([str(copy)]) == 1
    lines = re.findall("^DIFFERENT: (.*)", capsys.readouterr().out, re.MULTILINE)
    for named in (r"host .* cell 2 .*: rtt_ns mean: ", *(line for *_, line in CHANGES)):
        assert any(re.search(named, line) for line in lines), named


@pytest.mark.parametrize("lacks", ["run.json", "raw", "measurements.csv"])
def test_what_cannot_be_audited_is_a_sentence(
    lacks: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy, ignore=lambda *_: [lacks])
    assert audit.main([str(copy)]) == 2
    assert re.fullmatch(r"audit: [^\n]+\.\n", capsys.readouterr().err)


@pytest.mark.parametrize(("kernel", "broken"), [(24, False), (0, True)])
def test_packets_of_bcc_are_the_kernels_over_every_transport(kernel: int, broken: bool) -> None:
    """Where the workload has a network of its own, the others' on lo are none of the kernel's."""
    end = {"sent_messages": 1, "sent_bytes": 64, "received_messages": 1, "received_bytes": 64}
    end |= {"partial_sends": 0, "partial_receives": 0}
    cell = {"transport": "tcp-veth", "pattern": "pingpong", "messages": 2, "size": 64}
    cell |= {"result": {"client": end, "server": end}, "calls_missed": {}}
    counts = [("bcc", "lo_packets", "", 24.0), ("kernel", "lo_packets", "", float(kernel))]
    assert any(validity.broken(cell, counts)) == broken
