# SPDX-License-Identifier: GPL-2.0-or-later
"""The reference runs in reports/reference, and all that is made from them.

    python -m tests.docs.reference              # make reports, tables, pages, pictures again
    python -m tests.docs.reference --run NAME   # as root: record this run anew first

Run the first when a change makes the analysis print something else from the stored raw files; a
reviewer reads its diff. Both need the environment that `runners/setup.sh --dev` names, and Chromium
where the first screen changes, which README shows.

The repository holds the raw files in one archive, and of the products only those that a reviewer
reads as text. digests.tsv has a digest of every other product.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from analysis.main import main as analyse
from analysis.report.pages import SECTIONS
from runners.process import REPOSITORY
from tests import browser
from tests.docs import notebooks
from tests.docs.transcripts import clone

RUNS = Path("reports/reference")
RUN, TRANSPORTS = RUNS / "default", RUNS / "transports"
# Name → the options that it was recorded with.
OPTIONS = {
    RUN.name: [],
    TRANSPORTS.name: ["--transports", "all", "--sizes", "64,64K", "--placements", "same-cpu",
                      "--kernel", "all"],
}  # fmt: skip
PICTURE = Path("docs/report.png")
REFRESH = "python -m tests.docs.reference"
ARCHIVE, DIGESTS = "raw.tar.xz", "digests.tsv"
# Products that are stored as they are: report.md shows the drawings.
READ = {
    RUN.name: ("report.md", "claims.csv", "measurements.csv"),
    TRANSPORTS.name: ("figures/atlas.csv",),
}
DRAWINGS = {RUN.name: "figures/*.svg", TRANSPORTS.name: "figures/atlas.svg"}
# Pages that show a section of a run's report, between a mark with its name and another.
PAGES = ("docs/atlas.md", "docs/choosing.md")
TEXTS = ("report.md", "*.csv", "figures/*.csv", "folded/*.folded")
UNSEEN = {"svg", "style", "script"}
INLINE = {"a", "b", "code", "em", "i", "small", "span", "strong", "sub", "sup", "time"}
SCREEN = (1400, 900)  # pixels
DRAWING = re.compile(r"<svg\b.*?</svg>", re.DOTALL)


class _Words(HTMLParser):
    """Text, with a line for each block: marking a part of one changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self._within = 0  # how many elements that hold no words are open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._within += tag in UNSEEN
        self.text += "" if tag in INLINE else "\n"

    def handle_endtag(self, tag: str) -> None:
        self._within -= tag in UNSEEN
        self.text += "" if tag in INLINE else "\n"

    def handle_data(self, data: str) -> None:
        self.text += "" if self._within else re.sub(r"\s+", " ", data)


def words(html: str) -> str:
    """A page's text, without its drawings: these differ with the fonts of a machine."""
    parser = _Words()
    parser.feed(html)
    lines = (" ".join(line.split()) for line in parser.text.splitlines())
    return "\n".join(filter(None, lines)) + "\n"


def products(run: Path) -> dict[str, str]:
    """What the analysis must make again of a run, by file: texts, tables, the page's words."""
    files = sorted(path for pattern in TEXTS for path in run.glob(pattern))
    texts = {str(path.relative_to(run)): path.read_text(encoding="utf-8") for path in files}
    return texts | {"report.html": words((run / "report.html").read_text(encoding="utf-8"))}


def first_screen(page: Path) -> str:
    """A digest of what makes the picture: the page above its first section, without drawings."""
    top = page.read_text(encoding="utf-8").split('<h2 id="colleagues"', 1)[0]
    return hashlib.sha256(DRAWING.sub("", top).encode()).hexdigest()


def pictured(picture: Path) -> str:
    """The digest that a picture says it is of."""
    with Image.open(picture) as image:
        return str(image.info.get("first-screen"))


def stored(texts: Mapping[str, str], name: str = RUN.name) -> dict[str, str]:
    """What the repository holds of the products of this run, by file."""
    digests = [
        f"{file}\t{hashlib.sha256(text.encode()).hexdigest()}\n"
        for file, text in sorted(texts.items())
        if file not in READ[name]
    ]
    return {file: texts[file] for file in READ[name]} | {DIGESTS: "".join(digests)}


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


def analyse_again(kept: Path, run: Path) -> None:
    """Make `run` of the raw files of `kept`, with nothing in it that an older analysis left."""
    unpack(kept, run)
    if analyse([str(run), "--quiet"]) != 0:
        raise SystemExit(f"pathcost: {kept} is as it was, since it could not be analysed.")


def complete(kept: Path, tree: Path) -> Path:
    """Copy the tree to `tree`, with all of a reference run in its place. Return that place."""
    if not (tree / "README.md").exists():
        clone(tree)
    place = tree / RUNS / kept.name
    shutil.rmtree(place, ignore_errors=True)
    analyse_again(kept, place)
    return place


def store(run: Path, kept: Path) -> None:
    """Replace the stored run. The archive stays as it is if its files did not change."""
    archive = run.parent / ARCHIVE
    pack(run, archive)
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    shutil.copy(run / "run.json", kept)
    shutil.copy(archive, kept)
    (kept / "figures").mkdir()
    for name, text in stored(products(run), kept.name).items():
        (kept / name).write_text(text, encoding="utf-8", newline="")
    for drawing in run.glob(DRAWINGS[kept.name]):
        shutil.copy(drawing, kept / drawing.relative_to(run))


def measure(name: str, copy: Path) -> Path:
    """A run of today in a copy of the tree, so that no path of this machine is its command's."""
    clone(copy)
    run = RUNS / name
    shutil.rmtree(copy / run, ignore_errors=True)
    command = ["./runners/run.sh", *OPTIONS[name], "--out", str(run)]
    if subprocess.run(command, cwd=copy).returncode != 0:
        raise SystemExit(f"pathcost: {run} is as it was, since a new run failed.")
    _forget(copy / run, copy)
    return copy / run


def _forget(run: Path, copy: Path) -> None:
    """Nobody else's business: where the copy lay, and paths in the kernel's command line."""
    for path in (run / "run.json", *run.glob("raw/**/*.bt")):
        path.write_text(path.read_text(encoding="utf-8").replace(str(copy), "."), encoding="utf-8")
    for path in run.glob("raw/host/environment.json"):
        environment = json.loads(path.read_text(encoding="utf-8"))
        given = (environment.get("command_line") or "").split()
        environment["command_line"] = " ".join(word for word in given if "/" not in word)
        path.write_text(json.dumps(environment, indent=1) + "\n", encoding="utf-8")


def draw(page: Path, picture: Path, place: Path) -> None:
    """The page's first screen, in 256 colours; left alone where it is of the same page already."""
    if pictured(picture) == first_screen(page):
        return
    if browser.CHROMIUM is None:
        raise SystemExit("pathcost: README's picture needs Chromium: apt-get install chromium")
    with Image.open(browser.screenshot(page, place, size=SCREEN)) as shot:
        said = PngInfo()
        said.add_text("first-screen", first_screen(page))
        shot.convert("RGB").quantize(256).save(picture, optimize=True, pnginfo=said)


def section(report: str, title: str) -> str:
    """A section of report.md, without its heading, as a page in docs/ shows it."""
    _, _, rest = report.partition(f"\n## {title}\n")
    body = rest.split("\n## ", 1)[0].strip()
    return body.replace("](figures/", f"](../{TRANSPORTS}/figures/")


def page(text: str, report: str) -> str:
    """A page of PAGES, with what stands between its marks made anew from the report."""
    for id_, title, _ in SECTIONS:
        begin, end = f"<!-- {TRANSPORTS}: {id_} -->", "<!-- end -->"
        if begin in text:
            before, _, rest = text.partition(begin)
            after = rest.partition(end)[2]
            text = f"{before}{begin}\n\n{section(report, title)}\n\n{end}{after}"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(prog=REFRESH, description=__doc__.split("\n", 1)[0])
    parser.add_argument("--run", choices=[*OPTIONS], help="measure this one anew")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for run in OPTIONS:
            kept = REPOSITORY / RUNS / run
            recorded = measure(run, place / "pathcost") if options.run == run else kept
            store(complete(recorded, place / "tree"), kept)
        draw(place / "tree" / RUN / "report.html", REPOSITORY / PICTURE, place)
        report = (place / "tree" / TRANSPORTS / "report.md").read_text(encoding="utf-8")
        for file in PAGES:
            made = page((REPOSITORY / file).read_text(encoding="utf-8"), report)
            (REPOSITORY / file).write_text(made, encoding="utf-8")
        for notebook in notebooks.PAGES:
            notebooks.refresh(notebook, place / "tree")


if __name__ == "__main__":
    main()
