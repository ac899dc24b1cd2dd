# SPDX-License-Identifier: GPL-2.0-or-later
"""The pages of the site: a copy of the tree, with those that are made and not kept.

    python -m docs.site.pages TREE [--student]

Made are the reference run's report, a page for each claim, and the list of all pages. The student's
edition lacks what only a teacher has.
"""

import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from analysis.__main__ import make_report
from analysis.analyse import Analysis
from analysis.claims.verdict import by_verdict, tally
from analysis.machine import machine_text
from analysis.report.render import escape
from analysis.wording import spanned
from docs.site.bank import write_bank
from docs.site.editions import SLIDES, is_teachers

REPOSITORY = Path(__file__).resolve().parents[2]
RUN = "reports/reference/default"
COURSE = "docs/course/README"
FIRST = ("docs/site/report", "claims/index", "reports/README")
OTHERS = ("*.md", "docs/*.md", "probes/**/*.md", "runners/**/*.md")
PAGE = re.compile(r"\]\((?!http)([^)#]+)\.md\b")


def prepare(tree: Path, student: bool) -> None:
    """Fill `tree`, a new folder."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in listed.split("\0"):
        if not (REPOSITORY / name).is_file() or (student and is_teachers(name)):
            continue
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPOSITORY / name, tree / name)
    run = tree / "published" / RUN
    run.mkdir(parents=True)
    shutil.copy(tree / RUN / "run.json", run)
    shutil.unpack_archive(tree / RUN / "raw.tar.xz", run)
    _write_claims(make_report(run, "quiet"), tree / "claims")
    _append(tree / "docs/lessons/README.md", _toctree("The lessons", ["docs/lessons/[0-9]*"]))
    write_bank(tree / "docs/course", student)
    _append(tree / f"{COURSE}.md", _toctree("The course", _of_course(tree)))
    shutil.copy(tree / "README.md", tree / "index.md")
    _append(tree / "index.md", *_contents(tree))


def _write_claims(analysis: Analysis, folder: Path) -> None:
    """A page for each claim, and a list of all by source, with its verdict in a run."""
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    templates.filters |= {
        "plain": escape,
        "by_verdict": by_verdict,
        "figure": lambda figure, unit: spanned(figure, unit) if figure else "",
    }
    folder.mkdir()
    for verdict in analysis.verdicts:
        machines = {
            found.machine: machine_text(analysis.run, *found.machine) for found in verdict.evidence
        }
        page = templates.get_template("claim.md.j2").render(
            verdict=verdict, claim=verdict.claim, source=verdict.claim.source, machines=machines,
        )  # fmt: skip
        (folder / f"{verdict.claim.id}.md").write_text(page, encoding="utf-8")
    sources = groupby(analysis.verdicts, lambda verdict: verdict.claim.source)
    page = templates.get_template("claims.md.j2").render(
        tally=tally(analysis.verdicts), sources=[(source, list(found)) for source, found in sources]
    )
    (folder / "index.md").write_text(page, encoding="utf-8")


def _of_course(tree: Path) -> Iterator[str]:
    """The pages below the course's front page."""
    for folder in ("docs/course", "docs/labs"):
        for path in sorted((tree / folder).rglob("*.md")):
            page = path.relative_to(tree).with_suffix("").as_posix()
            if page != COURSE and not page.startswith(SLIDES):
                yield page


def _contents(tree: Path) -> Iterator[str]:
    """All pages: as docs/README.md sorts them, and then those that it does not name."""
    named = {"index", "README", "docs/README", *FIRST}
    yield _toctree("The reference run", FIRST)
    _, *parts = (tree / "docs/README.md").read_text(encoding="utf-8").split("\n## ")
    for part in parts:
        heading, _, rest = part.partition("\n")
        links = [posixpath.normpath(f"docs/{link}") for link in PAGE.findall(rest)]
        shown = [page for page in dict.fromkeys(links) if page not in named | {f"{RUN}/answer"}]
        named |= set(shown)
        yield _toctree(heading, shown)
    files = [path for pages in OTHERS for path in sorted(tree.glob(pages))]
    others = [str(path.relative_to(tree).with_suffix("")) for path in files]
    yield _toctree("More", ["docs/README", *(page for page in others if page not in named)])


def _toctree(caption: str, pages: Iterable[str]) -> str:
    lines = "\n".join(f"/{page}" for page in pages)
    return f"\n```{{toctree}}\n:caption: {caption}\n:hidden:\n:glob:\n\n{lines}\n```\n"


def _append(page: Path, *texts: str) -> None:
    with page.open("a", encoding="utf-8") as file:
        file.writelines(texts)


if __name__ == "__main__":
    prepare(Path(sys.argv[1]), "--student" in sys.argv[2:])
