# SPDX-License-Identifier: GPL-2.0-or-later
"""Whatever a stored run was turned into: a report with figures, or one sentence.

A mutation either leaves no report, or changes no valid figure: figures may vanish, and those of a
cell that contradicts itself become invalid. Only where a byte was flipped may a figure differ, as
another digit is as good a count as the first.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest
from hypothesis import event, given, seed, settings
from hypothesis import strategies as st

from analysis.analyse import analyse
from analysis.claims.answers import read_observed
from analysis.main import main
from analysis.paths.cells import read_exact
from analysis.raw.run import read_run
from analysis.tables import COLUMNS, build_tables
from probes.messages import RunError, exit_status
from tests.analysis.make_run import Cell, MadeUp, exact_line, exact_target, make_run, shape
from tests.faults.strategies import DIGITS, LONG, ODD, SHORT, check_sentence

IDENTITY = [name for name in COLUMNS if name not in ("value", "unit", "messages", "valid")]
# As JSON: values that need no field of a run, at places of their own.
NOT_JSON = ["\ud800", DIGITS, "[" * 200_000, "1e999", '"\\ud800"', "0x1", "{'a': 1}"]
PARTS = 20  # of the thousand


FOLDED = "client 11;[user];do_syscall_64;ksys_write;made_up_17 7\n"
SAMPLES = '{"type": "map", "data": {"@samples": {"5,cpu-clock": 7, "6,cpu-clock": 7}}}\n'


class Mutation(NamedTuple):
    """Changes a run folder. `silent`: it may turn a figure into another that is as good."""

    name: str
    change: Callable[[Path], None]
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
    entry = exact_target(raw, [exact_line(1, "unix", shapes=[half], iterations=300)])
    (raw / entry["folder"] / "tree").mkdir()
    (raw / entry["folder"] / "tree/1.tsv").write_text(
        "path\tcalls\tsteps\tinstructions\nclient;made_up_17\t2\t20\t20\n"
    )
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


def figures(run: Path) -> pd.Series[float]:
    """Every valid figure of a run, by what it is of. Raises RunError."""
    found = read_run(run)
    read_observed(found)
    tidy = build_tables(found, read_exact(found)).tidy
    if tidy.empty:
        return expected()[:0]
    return tidy[tidy["valid"]].set_index(IDENTITY)["value"]


@cache
def expected() -> pd.Series[float]:
    return figures(base())


@st.composite
def mutations(draw: st.DrawFn) -> Mutation:
    name = draw(st.sampled_from(files()))
    way = draw(st.sampled_from((delete, cut, turn_into_folder, fill, flip, lines, *[value] * 6)))
    return way(draw, name)


def delete(draw: st.DrawFn, name: str) -> Mutation:
    above = draw(st.booleans()) and Path(name).parent != Path()

    def change(run: Path) -> None:
        if above:
            shutil.rmtree((run / name).parent, ignore_errors=True)
        else:
            (run / name).unlink(missing_ok=True)

    return Mutation(f"delete {'the folder of ' if above else ''}{name}", change)


def cut(draw: st.DrawFn, name: str) -> Mutation:
    share = draw(st.floats(0, 0.99))
    return rewritten(name, f"cut {name}", lambda data: data[: int(len(data) * share)])


def turn_into_folder(_: st.DrawFn, name: str) -> Mutation:
    def change(run: Path) -> None:
        if (run / name).is_file():
            (run / name).unlink()
            (run / name).mkdir()

    return Mutation(f"a folder for {name}", change)


def fill(draw: st.DrawFn, name: str) -> Mutation:
    texts = [b"", b"\0" * 16, b"[]", b"{}", b"null", b"\xff\xfe", b"7\n", b"\n\n", b"9" * 5000]
    content = draw(st.sampled_from([*texts, b"[" * 200_000]) | st.binary(max_size=40))
    return rewritten(name, f"{name} is {content[:20]!r}", lambda _: content)


def flip(draw: st.DrawFn, name: str) -> Mutation:
    share, bits = draw(st.floats(0, 0.99)), draw(st.integers(1, 255))

    def flipped(data: bytes) -> bytes:
        at = int(len(data) * share)
        return data[:at] + bytes([data[at] ^ bits]) + data[at + 1 :] if data else data

    return rewritten(name, f"flip a byte of {name}", flipped, silent=True)


def lines(draw: st.DrawFn, name: str) -> Mutation:
    """Drop, repeat or swap lines."""
    way, share = draw(st.sampled_from(("drop", "repeat", "swap"))), draw(st.floats(0, 0.99))

    def changed(data: bytes) -> bytes:
        rows = data.splitlines(keepends=True)
        at = int(len(rows) * share)
        if way == "swap":
            return b"".join(reversed(rows))
        return b"".join(rows[:at] + rows[at : at + 1] * (2 * (way == "repeat")) + rows[at + 1 :])

    # A line of a tree or of samples that is dropped leaves other counts, and no trace.
    return rewritten(name, f"{way} a line of {name}", changed, silent=not name.endswith("json"))


def value(draw: st.DrawFn, name: str) -> Mutation:
    """Give a place of a JSON file an odd value, drop it, or write there what is no JSON."""
    share, way = draw(st.floats(0, 0.99)), draw(st.sampled_from(("odd", "odd", "drop", "no JSON")))
    odd, broken = draw(st.sampled_from(ODD)), draw(st.sampled_from(NOT_JSON))

    def changed(data: bytes) -> bytes:
        rows = data.decode(errors="replace").splitlines()
        if "json" not in name or not rows:
            return data
        at = int(len(rows) * share) if "\n" in data.decode(errors="replace").strip() else 0
        try:
            held = json.loads(rows[at])
        except ValueError:
            return data
        all_places = list(places(held))
        if not all_places:
            return data
        inside, key = all_places[int(len(all_places) * (share * 97 % 1))]
        if way == "drop":
            del inside[key]
        else:
            inside[key] = odd if way == "odd" else "@broken@"
        rows[at] = json.dumps(held).replace('"@broken@"', broken)
        return "".join(f"{row}\n" for row in rows).encode("utf-8", "surrogatepass")

    return rewritten(name, f"{way} value in {name}", changed)


def places(held: Any) -> list[tuple[Any, Any]]:
    """Each container, and each key or index in it."""
    if not isinstance(held, dict | list):
        return []
    keys = list(held) if isinstance(held, dict) else range(len(held))
    return [(held, key) for key in keys] + [at for key in keys for at in places(held[key])]


def rewritten(
    name: str, words: str, change: Callable[[bytes], bytes], *, silent: bool = False
) -> Mutation:
    def rewrite(run: Path) -> None:
        if (run / name).is_file():
            (run / name).write_bytes(change((run / name).read_bytes()))

    return Mutation(words, rewrite, silent)


@contextlib.contextmanager
def mutated(changes: list[Mutation]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / base().name
        shutil.copytree(base(), run)
        for mutation in changes:
            mutation.change(run)
        yield run


def check_tables(run: Path, *, silent: bool) -> bool:
    """Whether the run is read; where it is, no valid figure is another than before."""
    try:
        found = figures(run)
    except RunError as error:
        event("refused")
        check_sentence(str(error))
        return False
    event("read")
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
    event(f"exit status {status}")
    assert status in (0, 1, 2)
    if status:
        assert said.getvalue().startswith("pathcost: ")
        check_sentence(said.getvalue().removesuffix("\n"))
    else:
        assert is_read
        assert (run / "report.html").exists()
        assert pd.read_csv(run / "measurements.csv", low_memory=False)["valid"].any()


def check_analysis(run: Path) -> None:
    """As check_report, but nothing is drawn and written: that takes three times as long."""
    try:
        analysis = analyse(read_run(run))
    except RunError as error:
        event("refused by the analysis")
        check_sentence(str(error))
        return
    event("analysed")
    if analysis.has_figures:
        assert analysis.tables.tidy["valid"].any()


CHANGES = st.lists(mutations(), min_size=1, max_size=2)


def test_the_run_itself_has_figures_of_every_part() -> None:
    assert {"workload", "bpftrace", "perf", "ftrace", "kernel", "exact"} <= set(
        expected().index.get_level_values("instrument")
    )


@SHORT
@given(CHANGES)
def test_some_mutated_runs(changes: list[Mutation]) -> None:
    with mutated(changes) as run:
        check_tables(run, silent=any(mutation.silent for mutation in changes))


def mutated_runs(part: int) -> Any:
    """A part of the thousand: processes can share them, and a break-off loses one part.

    python -m pytest -m matrix -n 2 -p tests.resume tests/faults/test_fuzz_runs.py

    Each run that is read is analysed, and for a quarter of them the whole report is made.
    """

    @pytest.mark.matrix
    @seed(part)
    @settings(LONG, max_examples=LONG.max_examples // PARTS)
    @given(CHANGES, st.sampled_from((True, False, False, False)))
    def test(changes: list[Mutation], draws: bool) -> None:
        with mutated(changes) as run:
            is_read = check_tables(run, silent=any(mutation.silent for mutation in changes))
            if is_read and not draws:
                check_analysis(run)
            else:
                check_report(run, is_read=is_read)

    return test


globals().update({f"test_mutated_runs_{part:02}": mutated_runs(part) for part in range(PARTS)})
