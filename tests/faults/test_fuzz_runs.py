# SPDX-License-Identifier: GPL-2.0-or-later
"""Whatever a stored run was turned into: a report with figures, or one sentence.

A mutation either leaves no report, or changes no valid figure: figures may vanish, and those of a
cell that contradicts itself become invalid. Only where a byte was flipped may a figure differ, as
another digit is as good a count as the first.
"""

import contextlib
import io
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pandas as pd
import pytest
from hypothesis import strategies as st

from analysis.__main__ import main
from analysis.claims.answers import read_observed
from analysis.paths.cells import read_exact
from analysis.raw.run import read_run
from analysis.tidy import COLUMNS, build_tables
from probes.messages import RunError, exit_status
from tests.analysis.make_run import Cell, MadeUp, exact_line, exact_target, make_run, shape
from tests.faults.strategies import DIGITS, ODD, check_sentence, mutate, some_and_a_thousand

IDENTITY = [name for name in COLUMNS if name not in ("value", "unit", "messages", "valid")]
# As JSON: values that need no field of a run, at places of their own.
NOT_JSON = ["\ud800", DIGITS, "[" * 200_000, "1e999", '"\\ud800"', "0x1", "{'a': 1}"]
FOLDED = "client 11;[user];do_syscall_64;ksys_write;made_up_17 7\n"
SAMPLES = '{"type": "map", "data": {"@samples": {"5,cpu-clock": 7, "6,cpu-clock": 7}}}\n'


class Mutation(NamedTuple):
    """Changes a file of a run. `silent`: it may turn a figure into another that is as good."""

    name: str
    file: str
    change: Callable[[bytes], bytes | None]  # None: the file goes
    silent: bool = False


def watch(cell: Cell) -> None:
    """Cells 5 and 6 of the guest are traced and sampled, too."""
    if cell["instruments"] == ["ftrace"]:
        cell["instruments"] = ["perf", "ftrace"]
        cell["scripts"] = ["profile", "functions"]


@cache
def base() -> Path:
    """A run of each part that a run can have."""
    folder = Path(tempfile.mkdtemp(prefix="pathcost-fuzz-"))
    loopback: dict[str, Any] = {"nf_tables": {"found": []}}
    run = make_run(folder, MadeUp(repeats=1, loopback=loopback, change=watch))
    raw, half = run / "raw", shape("steady", 300, 300, 20, 20)
    line = exact_line(1, "unix", shapes=[half], iterations=300)
    entry = exact_target(raw, [line], [{"client;made_up_17": (2, 20)}])
    for guest in raw.glob("guest-*"):
        (guest / "perf/2").mkdir(parents=True)
        for name in ("profile.json", "profile.stderr", "profile-5.folded", "profile-6.folded"):
            (guest / "perf/2" / name).write_text(FOLDED if "-" in name else "")
        (guest / "perf/2/profile.json").write_text(SAMPLES)
    check = {"check": "peercred", "when": {}, "facts": {"uid": 1}, "error": None}
    (raw / "host/checks.jsonl").write_text(json.dumps(check) + "\n")
    tool = {"tool": "wrk", "help": "--latency", "options": {"--latency": True}, "error": None}
    (raw / "host/tools.jsonl").write_text(json.dumps(tool) + "\n")
    manifest = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(manifest | {"exact": [entry]}))
    return run


@pytest.fixture(scope="session", autouse=True)
def no_folder_is_left() -> Iterator[None]:
    yield
    if base.cache_info().currsize:
        shutil.rmtree(base().parent)


@cache
def files() -> list[str]:
    return sorted(str(path.relative_to(base())) for path in base().rglob("*") if path.is_file())


def figures(run: Path) -> "pd.Series[float]":
    """Every valid figure of a run, by what it is of. Raises RunError."""
    found = read_run(run)
    read_observed(found)
    tidy = build_tables(found, read_exact(found)).tidy
    if tidy.empty:
        return expected()[:0]
    return tidy[tidy["valid"]].set_index(IDENTITY)["value"]


@cache
def expected() -> "pd.Series[float]":
    return figures(base())


CONTENTS = [b"", b"\0" * 16, b"[]", b"{}", b"null", b"\xff\xfe", b"7\n", b"\n\n", b"[" * 200_000]


@st.composite
def mutations(draw: st.DrawFn) -> Mutation:
    file, share = draw(st.sampled_from(files())), draw(st.floats(0, 0.99))
    bits, content = draw(st.integers(1, 255)), draw(st.sampled_from(CONTENTS))
    random = Random(share)

    def flipped(data: bytes) -> bytes:
        at = int(len(data) * share)
        return data[:at] + bytes([data[at] ^ bits]) + data[at + 1 :] if data else data

    def without_line(data: bytes) -> bytes:
        rows = data.splitlines(keepends=True)
        at = int(len(rows) * share)
        return b"".join(rows[:at] + rows[at + 1 :])

    def with_odd_value(data: bytes) -> bytes:
        rows = data.decode(errors="replace").splitlines()
        at = int(len(rows) * share) if len(rows) > 1 and rows[0].endswith("}") else 0
        try:
            held = json.loads(rows[at])
        except (IndexError, ValueError):  # no JSON
            return data
        mutate(held, random, [*ODD, "@broken@"])
        rows[at] = json.dumps(held).replace('"@broken@"', random.choice(NOT_JSON))
        return "".join(f"{row}\n" for row in rows).encode("utf-8", "surrogatepass")

    # A line of a tree or of samples that is dropped leaves other counts, and no trace.
    ways = [
        Mutation("go", file, lambda _: None),
        Mutation("cut", file, lambda data: data[: int(len(data) * share)]),
        Mutation(f"{content[:20]!r}", file, lambda _: content),
        Mutation("flip", file, flipped, silent=True),
        Mutation("swap", file, lambda data: b"".join(reversed(data.splitlines(True)))),
        Mutation("line", file, without_line, silent=not file.endswith("json")),
        *[Mutation("odd value", file, with_odd_value)] * 6,
    ]
    return draw(st.sampled_from(ways))


@contextlib.contextmanager
def mutated(changes: list[Mutation]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / base().name
        shutil.copytree(base(), run)
        for mutation in changes:
            file = run / mutation.file
            if file.exists():
                data = mutation.change(file.read_bytes())
                file.unlink() if data is None else file.write_bytes(data)
        yield run


def check_tables(run: Path, *, silent: bool) -> bool:
    """Whether the run is read; where it is, no valid figure is another than before."""
    try:
        found = figures(run)
    except RunError as error:
        check_sentence(str(error))
        return False
    assert found.index.is_unique
    assert (found.abs() < 2**64).all()
    if not silent:
        both = found.index.intersection(expected().index)
        changed = [key for key in both if found[key] != expected()[key]]
        assert not changed
    return True


def check_report(run: Path, *, is_read: bool) -> None:
    """Exit status 0 with figures, or one sentence."""
    out, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        status = exit_status(lambda: None) or main([str(run), "--quiet"])
    assert status in (0, 1, 2)
    if status:
        assert said.getvalue().startswith("pathcost: ")
        check_sentence(said.getvalue().removesuffix("\n"))
    else:
        assert is_read
        assert (run / "report.html").exists()
        assert pd.read_csv(run / "measurements.csv", low_memory=False)["valid"].any()


CHANGES = st.lists(mutations(), min_size=1, max_size=2)


def test_the_run_itself_has_figures_of_every_part() -> None:
    parts = {"workload", "bpftrace", "perf", "ftrace", "kernel", "exact"}
    assert parts <= {*expected().index.get_level_values("instrument")}


def check_figures(changes: list[Mutation], report: bool = False) -> None:
    with mutated(changes) as run:
        is_read = check_tables(run, silent=any(mutation.silent for mutation in changes))
        if report:
            check_report(run, is_read=is_read)


test_some_mutated_runs, test_a_thousand_mutated_runs = some_and_a_thousand(check_figures, CHANGES)
_, test_many_reports = some_and_a_thousand(partial(check_figures, report=True), CHANGES, many=200)
