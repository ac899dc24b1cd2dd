# SPDX-License-Identifier: GPL-2.0-or-later
"""The reference runs in reports/reference, and all that is made from them.

    python -m tests.docs.reference              # make products, notebooks, picture again
    python -m tests.docs.reference --run NAME   # as root: record this run anew first

Run the first when a change makes the analysis print something else from the stored raw files; a
reviewer reads its diff. Both need the environment that `runners/setup.sh --dev` names, and Chromium
where the answer changes, which README shows. The repository holds the raw files in one archive, and
of the default run the products that a reviewer reads.
"""

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from analysis.__main__ import main as make_report
from analysis.analyse import analyse
from analysis.raw.run import read_run
from analysis.report.frames import survivals
from analysis.report.render import table
from analysis.wording import ABSENT, amount, number, spanned
from probes.transports import PAIR, read_transports
from runners.process import REPOSITORY
from tests import browser
from tests.audit import audit
from tests.audit.folder import open_folder
from tests.docs import arm64, figures, notebooks
from tests.docs.arm64 import match
from tests.docs.transcripts import clone

RUNS = Path("reports/reference")
CHOOSING = REPOSITORY / "docs/choosing.md"
OF_ARM64 = {"kernel": "6.12", "arch": "arm64", "placement": "same-cpu", "sched": "other"}
LINES = REPOSITORY / RUNS / "lines/cells.csv"  # made by tests.docs.lines
AUDIT = REPOSITORY / "docs/audit.md"
SIZES = (64, 65536)  # bytes, of its tables
IN_PROGRAMS = REPOSITORY / "docs/in-real-programs.md"
TABLE = re.compile(r"(?m)(^\|.*\n)+")
RUN, TRANSPORTS, PROGRAMS = RUNS / "default", RUNS / "transports", RUNS / "programs"
# Name → the options that it was recorded with.
OPTIONS = {
    RUN.name: [],
    TRANSPORTS.name: ["--transports", "all", "--sizes", "64,64K", "--placements", "same-cpu"],
    PROGRAMS.name: ["--target", "host", "--patterns", "pingpong,connect",
                    "--placements", "same-cpu,cross-cpu,free", "--program",
                    "redis,memcached,postgresql,pgbouncer,node-http,haproxy,nginx-gunicorn,go"],
}  # fmt: skip
PICTURE = Path("docs/report.png")
REFRESH = "python -m tests.docs.reference"
ARCHIVE = "raw.tar.xz"
ANSWER = "answer.md"
PRODUCTS = (ANSWER, "answer.json", "claims.csv", "measurements.csv")
TO_PAGE = re.compile(r"\[([^\]]+)\]\(report\.html[^)]*\)")
SCREEN = (1400, 900)  # pixels


def products(run: Path) -> dict[str, str]:
    """The stored products that the analysis must make again.

    The page is not stored: what answer.md links there stays as words.
    """
    texts = {name: (run / name).read_text(encoding="utf-8") for name in PRODUCTS}
    return texts | {ANSWER: TO_PAGE.sub(r"\1", texts[ANSWER])}


def pictured(picture: Path) -> str:
    """The digest of the answer that a picture shows."""
    with Image.open(picture) as image:
        return str(image.info.get("answer"))


def digest(run: Path) -> str:
    """A digest of the answer, which the picture shows."""
    return hashlib.sha256(products(run)[ANSWER].encode()).hexdigest()


def unpack(kept: Path, run: Path) -> None:
    """Copy the manifest and the raw files of a stored run, or of a fresh one, to `run`."""
    run.mkdir(parents=True)
    shutil.copy(kept / "run.json", run)
    if (kept / ARCHIVE).exists():
        shutil.unpack_archive(kept / ARCHIVE, run)
    else:
        shutil.copytree(kept / "raw", run / "raw")


def pack(run: Path, archive: Path) -> None:
    """Archive the raw files of `run`. Equal files make an equal archive."""
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for path in sorted((run / "raw").rglob("*")):
            tar.add(path, path.relative_to(run), recursive=False, filter=_nobody)


def _nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.isdir() else 0o644
    return entry


def analyse_again(kept: Path, run: Path) -> Path:
    """Make `run` of the raw files of `kept`, with nothing in it that an older analysis left."""
    unpack(kept, run)
    if make_report([str(run), "--quiet"]) != 0:
        raise SystemExit(f"pathcost: {kept} is as it was, since it could not be analysed.")
    return run


def complete(kept: Path, tree: Path) -> Path:
    """Copy the tree to `tree`, with all of a reference run in its place. Return that place."""
    if not (tree / "README.md").exists():
        clone(tree)
    place = tree / RUNS / kept.name
    shutil.rmtree(place, ignore_errors=True)
    return analyse_again(kept, place)


def store(run: Path, kept: Path) -> None:
    """Replace the stored run; of all but the default one its raw files alone."""
    kept.mkdir(parents=True, exist_ok=True)
    shutil.copy(run / "run.json", kept)
    pack(run, kept / ARCHIVE)
    if kept.name == RUN.name:
        for name in PRODUCTS:
            shutil.copy(run / name, kept)
        (kept / ANSWER).write_text(products(run)[ANSWER], encoding="utf-8")
        shutil.rmtree(kept / "figures", ignore_errors=True)
        shutil.copytree(
            run / "figures", kept / "figures", ignore=shutil.ignore_patterns("*.png", "*.csv")
        )


def measure(name: str, copy: Path) -> Path:
    """A run of today in a copy of the tree, so that no path of this machine is its command's."""
    clone(copy)
    run = RUNS / name
    shutil.rmtree(copy / run, ignore_errors=True)
    command = ["./runners/run.sh", *OPTIONS[name], "--out", str(run)]
    if subprocess.run(command, cwd=copy).returncode != 0:
        raise SystemExit(f"pathcost: {run} is as it was, since a new run failed.")
    forget(copy / run, copy)
    return copy / run


def forget(run: Path, copy: Path) -> None:
    """Nobody else's business: where the copy lay, and paths in the kernel's command line."""
    for path in (run / "run.json", *run.glob("raw/**/*.bt")):
        path.write_text(path.read_text(encoding="utf-8").replace(str(copy), "."), encoding="utf-8")
    for path in run.glob("raw/host/environment.json"):
        environment = json.loads(path.read_text(encoding="utf-8"))
        given = (environment.get("command_line") or "").split()
        environment["command_line"] = " ".join(word for word in given if "/" not in word)
        path.write_text(json.dumps(environment, indent=1) + "\n", encoding="utf-8")


def chosen(run: Path) -> str:
    """docs/choosing.md with the figures of this run of all transports in its tables."""
    analysis = analyse(read_run(run))
    newest = analysis.exact[-1].kernel
    counts = {
        (cell.transport, comparison.size): cell.of_message
        for comparison in analysis.exact
        if (comparison.kernel, comparison.sched) == (newest, "other")
        for cell in comparison.cells
        if not cell.broken
    }
    times = {(one.transport, one.size): one.p50 for one in analysis.timings}
    ratios = {(one.transport, one.size): one.ratio for one in analysis.timings}
    # Of a Unix socket's time, paired by repeat: both tables have this figure.
    multiples = {key: ratio.value for key, ratio in ratios.items() if ratio}
    multiples |= {(PAIR[0], size): 1.0 for size in SIZES}
    moved, on_arm64 = lines_moved(), of_arm64()

    def cells(name: str) -> list[str]:
        both = [(name, size) for size in SIZES]
        executed = [f"{counts[key]:,.0f}" if key in counts else ABSENT for key in both]
        took = [amount(one.value, "ns") if (one := times.get(key)) else ABSENT for key in both]
        executed.append(on_arm64.get(name, ABSENT))
        return [*executed, *took, spanned(ratios.get((name, SIZES[0]))), moved.get(name, ABSENT)]

    def quotients(figures: Mapping[tuple[str, int], float], name: str, than: str) -> str:
        return ", ".join(f"{figures[name, size] / figures[than, size]:.2f}" for size in SIZES)

    lines = []
    for line in CHOOSING.read_text(encoding="utf-8").splitlines():
        row = [word.strip() for word in line.strip("|").split("|")]
        if (row[0], SIZES[0]) in counts and len(row) == 8:
            line = f"| {' | '.join([row[0], *cells(row[0])])} |"
        elif len(row) == 6 and (row[1], SIZES[0]) in counts:
            row[3:5] = (quotients(each, row[1], row[2]) for each in (multiples, counts))
            line = f"| {' | '.join(row)} |"
        elif len(row) == 4 and (name := row[0].strip("`")) in read_transports():
            line = f"| {' | '.join([*row[:3], moved.get(name, ABSENT)])} |"
        lines.append(line)
    return "\n".join(lines) + "\n"


def lines_moved() -> dict[str, str]:
    """Transport → cache lines that a round trip moves between two CPUs, by a stored count."""
    rows = pd.read_csv(LINES).query("pattern == 'pingpong' and size == 64 and fetches > 0")
    moves = rows["fetches"] + rows["invalidations"]
    return dict(zip(rows["transport"], moves.map(number), strict=True))


def of_arm64() -> dict[str, str]:
    """Transport → instructions of a message on arm64, in the same cell, by stored rows."""
    rows = match(arm64.Rows().cells, OF_ARM64)
    # A window begins within its first iteration, which is none of those that are counted.
    each = rows["mean"] * rows["iterations"] / (2 * (rows["iterations"] + 1))
    return dict(zip(rows["transport"], each.map("{:,.0f}".format), strict=True))


def survived(run: Path) -> str:
    """docs/in-real-programs.md with the figures of this run of programs in its table."""
    rows = survivals(analyse(read_run(run)).survivals)
    name = rows.columns[0]  # the same cells of C stand beside several programs: once is enough
    short = rows[name].str.replace(r" \(.*| · placed freely(?=:)", "", regex=True)
    rows = rows.assign(**{name: short})
    rows = rows[rows.iloc[:, -1].str.contains("(", regex=False)]  # what has an interval
    rows = rows[~rows[name].str.contains("two CPUs")]  # programs are placed freely
    made = table(rows.drop_duplicates())
    return TABLE.sub(lambda _: f"{made.strip()}\n", IN_PROGRAMS.read_text(encoding="utf-8"))


# Pages with tables of a stored run, and what fills them.
TABLES = ((TRANSPORTS, CHOOSING, chosen), (PROGRAMS, IN_PROGRAMS, survived))


def audited(run: Path) -> None:
    """Put what the audit says of this run into its page."""
    checked, wrong = audit.audit(open_folder(run, run))
    page = AUDIT.read_text(encoding="utf-8")
    words = audit.outcome(checked, wrong)
    AUDIT.write_text(re.sub(r".* compared \(.*", lambda _: words, page), encoding="utf-8")


def draw(run: Path, picture: Path, place: Path) -> None:
    """The page's first screen, in 256 colours; left alone where it is of this answer already."""
    if pictured(picture) == digest(run):
        return
    if browser.CHROMIUM is None:
        raise SystemExit("pathcost: README's picture needs Chromium: apt-get install chromium")
    with Image.open(browser.screenshot(run / "report.html", place, size=SCREEN)) as shot:
        note = PngInfo()
        note.add_text("answer", digest(run))
        shot.convert("RGB").quantize(256).save(picture, optimize=True, pnginfo=note)


def main() -> None:
    parser = argparse.ArgumentParser(prog=REFRESH, description=__doc__.split("\n", 1)[0])
    parser.add_argument("--run", choices=[*OPTIONS], help="measure this one anew")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        run = complete(REPOSITORY / RUN, place / "tree")
        if options.run:
            fresh = measure(options.run, place / "pathcost")
            store(fresh, REPOSITORY / RUNS / options.run)
            run = complete(REPOSITORY / RUN, place / "tree")
        store(run, REPOSITORY / RUN)
        draw(run, REPOSITORY / PICTURE, place)
        audited(run)
        for kept, page, filled in TABLES:
            unpack(REPOSITORY / kept, place / kept.name)
            page.write_text(filled(place / kept.name), encoding="utf-8")
        for notebook in notebooks.PAGES:
            notebooks.refresh(notebook, place / "tree")
        figures.fill()


if __name__ == "__main__":
    main()
