# SPDX-License-Identifier: GPL-2.0-or-later
"""A report holds what options named, whatever they named."""

import json
from pathlib import Path
from random import Random

import pytest

from analysis.analyse import Analysis, analyse
from analysis.raw.run import read_run
from analysis.report import terminal
from analysis.report.report import Report
from analysis.wording import amount
from tests.analysis import make_run as made_up
from tests.analysis.make_run import GUEST, HOST, MadeUp, make_run

OTHER_GUEST = "7.7.0-made-up"


def some(random: Random, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(random.sample(values, random.randint(1, len(values))))


def drop_host(run: Path) -> None:
    manifest = json.loads((run / "run.json").read_text())
    del manifest["targets"][0]
    (run / "run.json").write_text(json.dumps(manifest))


def named_figures(analysis: Analysis) -> set[str]:
    """Every time of the host, and the words of every count: all that options named."""
    times = {amount(times.p50.value, "ns") for times in analysis.timings if times.p50}
    rows = [row for ledger in analysis.ledgers for row in ledger.rows if row.entries]
    counts = {row.measure.words for row in rows if row.measure.headline}
    return times | {word for words in counts for word in words.split()}


# The first is counts of several kernels alone: the comparison has no row.
@pytest.mark.parametrize("seed", range(8))
def test_all_that_was_measured_is_reported(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    seed: int,
) -> None:
    random = Random(seed)
    transports = some(random, made_up.TRANSPORTS) if seed else made_up.TRANSPORTS
    monkeypatch.setattr(made_up, "TRANSPORTS", transports)
    monkeypatch.setattr(made_up, "PLACEMENTS", some(random, made_up.PLACEMENTS))
    targets = some(random, (HOST, GUEST, OTHER_GUEST)) if seed else (GUEST, OTHER_GUEST)
    more = (OTHER_GUEST,) if OTHER_GUEST in targets else ()
    options = {"instruments": ["copies", "switches"]}
    run = make_run(
        tmp_path, MadeUp(guest=targets != (HOST,), more_guests=more, repeats=2, options=options)
    )
    if HOST not in targets:
        drop_host(run)
    monkeypatch.setattr(
        terminal, "MOST_LINES_OF_A_TABLE", 99
    )  # of more it says how many are in the report
    report = Report(analyse(read_run(run)))
    terminal.show(report, Path("page"))
    kernels = {GUEST.partition("-")[0], OTHER_GUEST.partition("-")[0]} if more else set()
    wanted = {*named_figures(report.analysis), *kernels}
    texts = {
        "terminal": capsys.readouterr().out,
        "answer.md": report.answer_md(),
        "page": report.markdown(),
    }
    lacks = {
        name: [figure for figure in wanted if figure not in text] for name, text in texts.items()
    }
    assert lacks == {"terminal": [], "answer.md": [], "page": []}
    assert [
        name for name, text in texts.items() if not {*transports} <= {*text.lower().split()}
    ] == []


def test_probes_without_an_event_have_no_cost_of_one(tmp_path: Path) -> None:
    """The last repeat runs under perf, which takes time and counts nothing."""

    def under_perf(cell: made_up.Cell) -> None:
        if cell["repeat"] == 2:
            cell |= {"instruments": ["perf"], "scripts": ["stat"]}

    slower = MadeUp(guest=False, rtt=lambda *cell: 111_000 * (1 + cell[2]), change=under_perf)
    run = make_run(tmp_path, slower)
    counted = {"@switches": {f"{number},voluntary": 0 for number in range(9, 13)}}
    (run / "raw/host/perf/1").mkdir(parents=True)
    (run / "raw/host/perf/1/stat.stderr").write_text("")
    (run / "raw/host/perf/1/stat.json").write_text(
        json.dumps({"type": "map", "data": counted}) + "\n"
    )
    costs = analyse(read_run(run)).costs
    assert all(added > 0 for added in costs["added"])
    assert {*costs["added_per_event"]} == {None}
