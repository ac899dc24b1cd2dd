# SPDX-License-Identifier: GPL-2.0-or-later
"""Every command that a page shows is taken, every file that it names is there, and the site of it.

docs/build.sh makes a page of every document and claim, and refuses a link that leads nowhere.
"""

import re
import shlex
from html import unescape
from importlib.util import find_spec
from pathlib import Path

import pytest

from analysis.claims.files import load_claims
from runners.cli import parse
from runners.process import REPOSITORY
from tests.processes import captured

ROOMS = ("docs", "packaging", "probes", "runners")
PAGES = sorted({
    *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    REPOSITORY / "reports/README.md",
    *(path for room in ROOMS for path in (REPOSITORY / room).rglob("*.md")),
})  # fmt: skip
HEADERS = [
    *(REPOSITORY / "Vagrantfile", *(REPOSITORY / "probes/bpftrace").rglob("*.bt")),
    *(REPOSITORY / "analysis/claims").glob("*.toml"),
]
COMMAND = re.compile(r"(?:\./)?runners/run\.sh\b((?: +(?:[\w./:=,+-]+|'[^'\n]+'))*)( +…)?")
MODULE = re.compile(r"python3? -m ([\w.]+)")
FILE = re.compile(
    r"(?:\./|python3? |bpftrace )((?:runners|tests|docs|probes)/[\w./-]+\.(?:sh|py|bt))\b"
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAME = re.compile(r"`((?:runners|probes|analysis|tests|docs|reports)/[\w./*-]+)`")
# What the reader writes or a command makes.
OPEN = re.compile(r"NAME|FAMILY|PATCH|/mine\.|/build/|reports/lesson")
MOST_WORDS, MOST_WORDS_OF_A_PAGE = 53_800, 1_800
DRAWN = re.compile(r"\b(LAB|KNOB|(SIZE|FUNCTION)\d)\b")  # in a lab's handout: the student's own
# What follows is the reader's own, as are these names.
OWN = {"diff", "gate", "report", "NAME", "SCRIPT", "my_wakeups"}


def texts() -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in (*PAGES, *HEADERS)}


def commands() -> set[str]:
    """run.sh commands; without what is left to the reader."""
    found = set()
    for text in texts().values():
        for given, left_open in COMMAND.findall(text):
            words = shlex.split(given)
            own = OWN & set(words) or any(word.endswith(".toml") for word in words)
            if words and not left_open and not own and not DRAWN.search(given):
                found.add(shlex.join(words).rstrip(",."))
    return found


def test_pages_are_short() -> None:
    words = {
        path.relative_to(REPOSITORY): len(path.read_text(encoding="utf-8").split())
        for path in PAGES
        if path.parent.name != "reports"
    }
    assert sum(words.values()) <= MOST_WORDS
    assert [page for page, count in words.items() if count > MOST_WORDS_OF_A_PAGE] == []


@pytest.mark.parametrize("command", sorted(commands()))
def test_a_command_is_taken(command: str) -> None:
    """In running text, too, where it may be a part of one."""
    try:
        parse(shlex.split(command))
    except SystemExit as end:  # --help prints and ends
        assert end.code == 0


def test_modules_and_files_are_there() -> None:
    pages = {path.relative_to(REPOSITORY): text for path, text in texts().items()}
    modules = {(page, name) for page, text in pages.items() for name in MODULE.findall(text)}
    known = ("analysis", "runners", "tests", "docs")
    own = {(page, name.rstrip(".")) for page, name in modules if name.startswith(known)}
    assert len(own) > 5
    assert [(page, name) for page, name in own if find_spec(name) is None] == []
    files = {(page, name) for page, text in pages.items() for name in FILE.findall(text)}
    assert [(page, name) for page, name in files if not (REPOSITORY / name).exists()] == []


def missing(page: Path, text: str) -> list[str]:
    """Links and names of files that are not there."""
    links = [link.partition("#")[0] for link in LINK.findall(text) if ":" not in link]
    names = [name for name in NAME.findall(text) if not OPEN.search(name)]
    dead = [link for link in links if not (page.parent / link).exists()]
    return dead + [name for name in names if not any(REPOSITORY.glob(name))]


@pytest.mark.parametrize(
    "page",
    [
        *(*PAGES, REPOSITORY / "CHANGELOG.md"),
        *(REPOSITORY / "reports/reference").rglob("*.md"),
        *(REPOSITORY / "docs").rglob("*.ipynb"),
    ],
    ids=lambda page: str(page.relative_to(REPOSITORY)),
)
def test_what_a_page_names_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if page.name == "CHANGELOG.md":  # which names what went
        text = "".join(link[0] for link in re.finditer(r"\]\([^)\s]+\)", text))
    assert missing(page, text) == []


@pytest.mark.slow
def test_the_site_has_a_page_for_each_claim(repository: Path, tmp_path: Path) -> None:
    site, tree = tmp_path / "site", tmp_path / "tree"
    built = captured([repository / "docs/build.sh", site, tree])
    assert built.returncode == 0, built.stderr
    for claim in load_claims():
        page = unescape((site / f"claims/{claim.id}.html").read_text(encoding="utf-8"))
        words = re.sub(r"<[^>]+>|`", "", page)
        assert re.sub(r"`|[*]{2}", "", claim.quote) in words
        assert f'href="{claim.source.url}"' in page or "No address of this source" in page
    paths = [path for path in (REPOSITORY / "docs").rglob("*.md") if path.parent.name != "slides"]
    documents = [path.relative_to(REPOSITORY) for path in paths]
    assert [page for page in documents if not (site / page.with_suffix(".html")).exists()] == []
    assert "packet-copies" in (site / "searchindex.js").read_text(encoding="utf-8")
