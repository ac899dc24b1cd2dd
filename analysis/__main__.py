# SPDX-License-Identifier: GPL-2.0-or-later
"""python -m analysis: show what a verb has left, or compare stored runs.

run.sh calls the functions.
`how` is how a result is printed: `json`, `quiet`, `ktap`, or None for a terminal.
"""

import os
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from probes import messages
from probes.contract import UNTOLD, Kind, kind_of
from probes.messages import Parser, RunError, UsageError, complain, shown

COMMAND = __name__ == "__main__"
if COMMAND:
    # Until there is something to clear up an interrupt needs no sentence of Python's.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.environ["MPLBACKEND"] = "agg"  # matplotlib refuses to start with one that it does not know
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # no table of ours is worth a thread
try:
    from analysis.analyse import Analysis, Figures, analyse
    from analysis.claims.verdict import claims_table
    from analysis.counts.figures import draw_counts
    from analysis.diff.pool import show_pool
    from analysis.diff.report import make_diff
    from analysis.diff.series import make_series
    from analysis.drawing import Drawn
    from analysis.paths.export import exports
    from analysis.paths.figures import draw_exact, draw_profiles
    from analysis.paths.line_figures import draw_lines
    from analysis.predict.proof_lines import show_proof
    from analysis.predict.show import show_watch
    from analysis.raw.run import read_run
    from analysis.report import output
    from analysis.report.answer import build_answer
    from analysis.report.bench import show_bench
    from analysis.report.decision import decision
    from analysis.report.document import ledger_frame
    from analysis.report.explained import Explained, draw_explained
    from analysis.report.render import page
    from analysis.report.report import Report
    from analysis.report.terminal import show
    from analysis.times.figures import draw_times
except ModuleNotFoundError as error:
    if not COMMAND:
        raise
    python = "$(./runners/setup.sh --analysis | tail -n1)/bin/python"
    complain(f"{error}: run {python} {shlex.join(sys.orig_argv[1:])}")
    sys.exit(1)

EPILOG = (
    "Needs no root and starts nothing. Exit status: 0 done, 1 failed, 2 asked for the impossible; "
    "with --allowance 0 within it, 1 beyond it, 125 where that cannot be told."
)


def main(arguments: list[str] | None = None) -> int:
    return messages.exit_status(lambda: carry_out(arguments))


def carry_out(arguments: list[str] | None) -> int:
    """Do what the command line says: the exit status. Raises UsageError, RunError."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if bool(options.folders) == (options.diff is not None):
        parser.error("name the folders that a verb has left, or two runs after --diff.")
    judges = options.allowance is not None or options.show == "ktap"
    if options.diff is None:
        if options.out or judges:
            parser.error("--out, --allowance and --ktap are of a comparison: they need --diff.")
        show_stored(options.folders, options.show, options.prices)
        return 0
    if judges:
        base, judged = options.diff
        return judge(base, judged, options.out, options.show, options.allowance or "0")
    make_diff(options.diff, options.out, options.show)
    return 0


def folder(name: str) -> Path:
    """The name of a folder. Raises UsageError where nobody could read it."""
    if not messages.is_plain(name):
        why = "is empty, or has a control character or a byte that is not UTF-8"
        raise UsageError(f"{shown(name)} {why}: rename the folder.")
    return Path(name)


def _parser() -> Parser:
    parser = Parser(
        prog="python -m analysis" if messages.CLONE else "pathcost-analysis",
        description="Show what a verb has left; of several runs, their times together.",
        epilog=EPILOG,
    )
    add = parser.add_argument
    add("folders", metavar="FOLDER", type=folder, nargs="*", help="what a verb of run.sh has left")
    add("--diff", nargs=2, metavar=("A", "B"), type=folder, help="compare two runs instead")
    add("--out", metavar="DIR", type=folder, help="of --diff: its folder (default: beside B)")
    add("--allowance", metavar="N", help="of --diff: judge exact round trips; may grow by N or N%%")
    add("--prices", metavar="RUN", type=folder, help="of what watch has left: prices of a run")
    shown = parser.add_mutually_exclusive_group()
    for name, words in (
        ("quiet", "print the report's path only"),
        ("json", "print answer.json (docs/json.md)"),
        ("ktap", "of --allowance: print the result as KTAP"),
    ):
        shown.add_argument(f"--{name}", dest="show", action="store_const", const=name, help=words)
    return parser


def show_stored(
    folders: Sequence[Path], how: str | None = None, priced: Path | None = None
) -> None:
    """Show again what a verb has left: a run's report, several runs' times, a watch, a proof.

    `priced` is a folder with prices for what watch has left. Raises UsageError, RunError.
    """
    kinds = {kind_of(folder) for folder in folders}
    if len(folders) > 1 and kinds & {Kind.WATCH, Kind.PROOF, Kind.BENCH}:
        raise UsageError("what watch, prove and programs leave cannot be pooled: name one folder.")
    if priced and kinds != {Kind.WATCH}:
        raise UsageError("--prices has no effect: only what watch has left needs prices.")
    if len(folders) > 1:
        show_pool([*folders])
    elif kinds == {Kind.PROOF}:
        show_proof(folders[0], how)
    elif kinds == {Kind.BENCH}:
        show_bench(folders[0], how)
    elif kinds == {Kind.WATCH}:
        show_watch(folders[0], priced or folders[0], how)
    else:
        make_report(folders[0], how)


def judge(base: Path, judged: Path, out: Path | None, how: str | None, allowance: str) -> int:
    """Judge the second run's exact round trips by the first's: WITHIN, BEYOND or UNTOLD."""
    try:
        return make_diff((base, judged), out, how, allowance)
    except RunError as error:
        complain(error)
        return UNTOLD


def judge_series(out: Path, how: str | None, allowance: str) -> int:
    """Judge what a series of commits costs: WITHIN, BEYOND or UNTOLD."""
    try:
        return make_series(out, how, allowance)
    except RunError as error:
        complain(error)
        return UNTOLD


def make_report(run: Path, how: str | None = None) -> Analysis:
    """Read, analyse, draw, write, show."""
    path, analysis = run / "report.html", analyse(read_run(run))
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    report = Report(analysis)
    output.write_all(run, _files(report))
    with messages.reader_may_leave():
        match how:
            case "quiet":
                print(path)
            case "json":
                print(report.document.model_dump_json(indent=1))
            case _:
                show(report, path)
    if not analysis.has_figures:
        raise RunError(
            f"{shown(str(run))} holds no valid figure: its report.html says what failed; "
            "mend that, and measure again."
        )
    return analysis


def first_answer(run: Path) -> str:
    """Say what the times of an unfinished run decide already; empty where they decide nothing."""
    with suppress(messages.SentenceError):
        if told := decision(build_answer(Figures(read_run(run)))):
            return f"{told} Counts follow."
    return ""


def _figures(report: Report) -> Iterator[Drawn]:
    """In the order of the report. The first ledger's pattern and size are what it is about."""
    analysis, explained = report.analysis, report.explained
    # The page has one of the two: what time is made of by prices, or by cells that differ.
    parts = [] if isinstance(explained, Explained) else analysis.parts
    for first in analysis.ledgers[:1]:
        yield from draw_counts(first, analysis.measured)
        yield from draw_times(first, analysis.timings, parts, analysis.iterations)
    if isinstance(explained, Explained):
        yield draw_explained(explained)
    yield from draw_profiles(analysis.profiles)
    yield from draw_exact(analysis.exact, report.box_times)
    yield from draw_lines(analysis.exact)


def _files(report: Report) -> dict[str, output.Content]:
    analysis = report.analysis
    figures = tuple(_figures(report))
    tidy, text = analysis.tables.tidy, report.markdown(figures)
    return {
        **({"measurements.parquet": tidy.to_parquet(index=False)} if find_spec("pyarrow") else {}),
        "measurements.csv": tidy,
        "claims.csv": claims_table(analysis.verdicts, analysis.folders),
        "agreement.csv": analysis.comparisons,
        "ledger.csv": ledger_frame(analysis.figures),
        "answer.json": report.document.model_dump_json(indent=1) + "\n",
        "ledger.md": report.ledger_md(),
        "answer.md": report.answer_md(),
        "report.md": text,
        "report.html": page(text, f"pathcost: {analysis.run.name}", figures),
        **output.pictures(figures),
        **dict(profile.folded() for profile in analysis.profiles),
        **exports(analysis.exact, analysis.cells),
    }


if COMMAND:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
