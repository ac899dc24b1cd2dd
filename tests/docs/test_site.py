# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/build.sh makes a page of every document and claim, and refuses a link that leads nowhere."""

from __future__ import annotations

import os
import re
import subprocess
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from analysis.claims.files import load_claims
from runners.process import REPOSITORY

# One of each kind: a page, a section of one, a file.
DEAD = ("nowhere.md", "knobs.md#nowhere", "../nowhere.py")


def build(*folders: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [REPOSITORY / "docs/build.sh", *folders], capture_output=True, text=True, check=False
    )


class _Page(HTMLParser):
    """What links point at, and the places in the page that they may point at."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.ids: set[str] = {"", "top"}
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.links |= {found[name] for name in ("href", "src") if name in found}
        self.ids |= {found[name] for name in ("id", "name") if name in found}


def dead_links(site: Path) -> list[str]:
    """Links of all pages to files or places that the site does not have, by page."""
    pages = {path: _Page(path) for path in site.rglob("*.html")}
    dead = []
    for path, page in pages.items():
        for link in page.links:
            url = urlsplit(link)
            if url.scheme or url.netloc:
                continue
            there = Path(os.path.normpath(path.parent / unquote(url.path))) if url.path else path
            known = pages[there].ids if there in pages else {url.fragment}
            if not there.exists() or unquote(url.fragment) not in known:
                dead.append(f"{path.relative_to(site)}: {link}")
    return dead


@pytest.mark.slow
def test_the_site_has_a_page_for_each_claim_and_no_dead_link(tmp_path: Path) -> None:
    site, tree = tmp_path / "site", tmp_path / "tree"
    built = build(site, tree)
    assert built.returncode == 0, built.stderr
    for claim in load_claims():
        page = unescape((site / f"claims/{claim.id}.html").read_text(encoding="utf-8"))
        words = re.sub(r"<[^>]+>|`", "", page)
        assert claim.quote.replace("`", "") in words
        assert f'href="{claim.source.url}"' in page or "No address of this source" in page
    documents = [path.relative_to(REPOSITORY) for path in (REPOSITORY / "docs").rglob("*.md")]
    assert [page for page in documents if not (site / page.with_suffix(".html")).exists()] == []
    assert "packet-copies" in (site / "searchindex.js").read_text(encoding="utf-8")
    assert dead_links(site) == []


@pytest.mark.matrix
def test_a_dead_link_breaks_the_build(tmp_path: Path) -> None:
    site, tree = tmp_path / "site", tmp_path / "tree"
    assert build(site, tree).returncode == 0
    with (tree / "docs/limitations.md").open("a", encoding="utf-8") as document:
        document.writelines(f"\n[dead]({link})\n" for link in DEAD)
    broken = build(site, tree)
    assert broken.returncode == 1
    assert [link for link in DEAD if link.rpartition("#")[2] not in broken.stderr] == []
    assert broken.stderr.count("WARNING") == len(DEAD)


def test_a_dead_link_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a id="x" href="b.html#y">b</a><a href="c.html">c</a>')
    (tmp_path / "b.html").write_text('<p id="z"></p><a href="a.html#x">a</a><img src="d.png">')
    assert sorted(dead_links(tmp_path)) == ["a.html: b.html#y", "a.html: c.html", "b.html: d.png"]
