# SPDX-License-Identifier: GPL-2.0-or-later
"""How Sphinx makes the site of the pages that pages.py prepared: docs/build.sh."""

import posixpath
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.config import Config

from docs.site.editions import SLIDES, left_out

project = html_title = "pathcost"
extensions = ["myst_parser", "docs.site.editions"]
myst_heading_anchors = 6  # as a forge has them
include_patterns = ["*.md", "claims/*.md", "reports/README.md", "reports/**/README.md"]
include_patterns += [f"{folder}/**.md" for folder in ("docs", "probes", "runners")]
exclude_patterns = ["README.md", f"{SLIDES}*"]  # the first is index.md
highlight_language = "text"
smartquotes = False  # of --option it would make a dash
html_theme = "furo"
html_static_path = ["static"]
html_js_files = ["access.js"]
html_show_copyright = html_copy_source = False

REPORT = "reports/reference/default/answer"
PAGE = "reports/reference/default/report.html"


def setup(app: Sphinx) -> None:
    app.connect("config-inited", _publish)
    app.connect("doctree-read", _mend_links)
    app.connect("html-page-context", _mend_captions, priority=900)  # after the theme's


def _mend_captions(_: Sphinx, __: str, ___: str, context: dict[str, Any], ____: object) -> None:
    """A caption of the contents is a heading without a level: a screen reader cannot place it."""
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace(
        'role="heading"', 'role="heading" aria-level="2"'
    )


def _publish(app: Sphinx, config: Config) -> None:
    """The report is a page already."""
    config.html_extra_path.append(str(Path(app.srcdir) / "published"))


def _mend_links(app: Sphinx, tree: nodes.document) -> None:
    """What a forge shows of a link, and a site has elsewhere: the report, the README, a folder."""
    here = Path(app.env.docname).parent
    for link in list(tree.findall(addnodes.pending_xref)):
        target = link["reftarget"]  # a page's path from the top; of one that is missing, as written
        if target == REPORT:
            url = posixpath.relpath(PAGE, here)
            link.replace_self(nodes.reference("", "", *link.children, refuri=url))
        elif target == "README":
            link["reftarget"] = "index"
        elif (Path(app.srcdir) / here / target).is_dir() or any(
            left_out(app, name) for name in (target, posixpath.normpath(here / target))
        ):
            link.replace_self(link.children)
