# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/build.sh makes a page of every document and claim, and refuses a link that leads nowhere."""

import re
from html import unescape
from pathlib import Path

import pytest

from analysis.claims.files import load_claims
from runners.process import REPOSITORY
from tests.processes import captured


@pytest.mark.slow
def test_the_site_has_a_page_for_each_claim(tmp_path: Path) -> None:
    site, tree = tmp_path / "site", tmp_path / "tree"
    built = captured([REPOSITORY / "docs/build.sh", site, tree])
    assert built.returncode == 0, built.stderr
    for claim in load_claims():
        page = unescape((site / f"claims/{claim.id}.html").read_text(encoding="utf-8"))
        words = re.sub(r"<[^>]+>|`", "", page)
        assert re.sub(r"`|[*]{2}", "", claim.quote) in words
        assert f'href="{claim.source.url}"' in page or "No address of this source" in page
    documents = [path.relative_to(REPOSITORY) for path in (REPOSITORY / "docs").rglob("*.md")]
    assert [page for page in documents if not (site / page.with_suffix(".html")).exists()] == []
    assert "packet-copies" in (site / "searchindex.js").read_text(encoding="utf-8")
