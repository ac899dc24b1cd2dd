# SPDX-License-Identifier: GPL-2.0-or-later
"""python -m analysis: make the report of a stored run (again), or compare stored runs."""

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from probes import messages
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
    from analysis.drawing import Drawn
    from analysis.paths.export import exports
    from analysis.paths.figures import draw_exact, draw_profiles
    from analysis.paths.gate import UNTOLD
    from analysis.predict.prove import show_proof
    from analysis.predict.show import show_watch, show_what_if
    from analysis.raw.run import read_run
    from analysis.report import output
    from analysis.report.answer import build_answer, ledger_frame
    from analysis.report.decision import decision
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
    modes = [options.run_dir, options.diff, options.pool, options.watch, options.what_if]
    modes += [options.prove]
    if sum(mode is not None for mode in modes) != 1:
        parser.error("name one run, two after --diff, or two and more after --pool.")
    judges = options.allowance is not None or options.show == "ktap"
    if options.diff is None and (options.out or judges):
        parser.error("--out, --allowance and --ktap are of a comparison: they need --diff.")
    if judges:
        try:
            return make_diff(options.diff, options.out, options.show, options.allowance or "0")
        except RunError as error:
            complain(error)
            return UNTOLD
    if options.watch:
        show_watch(options.watch, options.prices or options.watch, options.show)
    elif options.what_if:
        show_what_if(options.what_if, options.prices or options.what_if, options.show)
    elif options.prove:
        show_proof(options.prove, options.show)
    elif options.diff:
        make_diff(options.diff, options.out, options.show)
    elif options.pool:
        show_pool(options.pool)
    else:
        make_report(options.run_dir, options.show)
    return 0


def folder(name: str) -> Path:
    """The name of a folder. Raises UsageError where nobody could read it."""
    if not messages.is_plain(name):
        raise UsageError(f"{shown(name)} is empty or has a control character: rename the folder.")
    return Path(name)


def _parser() -> Parser:
    parser = Parser(
        prog="python -m analysis" if messages.CLONE else "pathcost-analysis",
        description="Make the tables, figures and report of a stored run from its raw files.",
        epilog=EPILOG,
    )
    add = parser.add_argument
    add("run_dir", metavar="RUN_DIR", type=folder, nargs="?", help="the folder with run.json")
    add("--diff", nargs=2, metavar=("A", "B"), type=folder, help="compare two runs instead")
    add("--pool", nargs="+", metavar="RUN", type=folder, help="times and verdicts of several runs")
    add("--out", metavar="DIR", type=folder, help="of --diff: its folder (default: beside B)")
    add("--allowance", metavar="N", help="of --diff: judge exact round trips; may grow by N or N%%")
    add("--watch", metavar="DIR", type=folder, help="predict for what --watch of run.sh has seen")
    add("--prices", metavar="RUN", type=folder, help="of --watch: prices of another run")
    add("--what-if", type=folder, help=argparse.SUPPRESS)
    add("--prove", metavar="DIR", type=folder, help="say what prove of run.sh has measured")
    shown = parser.add_mutually_exclusive_group()
    for name, words in (
        ("quiet", "print the report's path only"),
        ("json", "print answer.json (docs/json.md)"),
        ("ktap", "of --allowance: print the result as KTAP"),
    ):
        shown.add_argument(f"--{name}", dest="show", action="store_const", const=name, help=words)
    return parser


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


def _figures(analysis: Analysis) -> Iterator[Drawn]:
    """In the order of the report. The first ledger's pattern and size are what it is about."""
    for first in analysis.ledgers[:1]:
        yield from draw_counts(first, analysis.measured)
        yield from draw_times(first, analysis.timings, analysis.parts, analysis.iterations)
    yield from draw_profiles(analysis.profiles)
    yield from draw_exact(analysis.exact)


def _files(report: Report) -> dict[str, output.Content]:
    analysis = report.analysis
    figures = tuple(_figures(analysis))
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
        **exports(analysis.exact),
    }


if COMMAND:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
