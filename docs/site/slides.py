# SPDX-License-Identifier: GPL-2.0-or-later
"""Slides of docs/course/slides, shown by reveal.js: docs/build.sh slides.

    python -m docs.site.slides OUT REVEAL

A deck is a Markdown file; `---` divides its slides, and what stands below `Note:` is for the
presenter (key S). REVEAL is the unpacked package of npm. OUT needs no server.
"""

import re
import shutil
import sys
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

DECKS = Path(__file__).resolve().parents[1] / "course/slides"
PICTURE = re.compile(r"(!\[[^\]]*\]\()([^)]+)\)")
DIVIDER = "\n---\n"


def build(out: Path, reveal: Path) -> None:
    """Fill `out`: a page for each deck, the pictures, and reveal.js."""
    place = Path(__file__).parent
    page = Environment(
        loader=FileSystemLoader(place), undefined=StrictUndefined, autoescape=True
    ).get_template("slides.html.j2")
    shutil.copytree(reveal / "dist", out / "reveal", dirs_exist_ok=True)
    shutil.copy(place / "static/slides.css", out)
    for deck in sorted(DECKS.glob("*.md")):
        text = deck.read_text(encoding="utf-8")
        for _, picture in PICTURE.findall(text):
            shutil.copy(deck.parent / picture, out)
        text = PICTURE.sub(lambda found: f"{found[1]}{Path(found[2]).name})", text)
        title = text.partition("\n")[0].removeprefix("# ")
        slides = page.render(title=title, slides=text.split(DIVIDER))
        (out / f"{deck.stem}.html").write_text(slides, encoding="utf-8")


if __name__ == "__main__":
    build(*map(Path, sys.argv[1:]))
