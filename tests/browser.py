# SPDX-License-Identifier: GPL-2.0-or-later
"""A page as headless Chromium shows it, where it is installed."""

import html
import json
import re
import shutil
from pathlib import Path
from typing import Any

from tests.processes import captured

NAMES = ("chromium", "chromium-headless-shell", "google-chrome", "chromium-browser")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
DESKTOP = (1200, 900)
SECONDS = 120  # a browser that hangs fails; one on a busy machine takes some seconds
ANSWER = """
const answer = (what) => {
  const said = document.createElement("pre");
  said.id = "said";
  said.textContent = JSON.stringify(what);
  document.body.replaceChildren(said);
};
"""


def chromium(page: Path, folder: Path, *options: str, size: tuple[int, int] = DESKTOP) -> str:
    """Open `page` in a window of `size`; its profile is left in `folder`."""
    assert CHROMIUM is not None
    return captured(
        [
            *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *(f"--user-data-dir={folder / 'profile'}", f"--window-size={size[0]},{size[1]}"),
            *(*options, page.as_uri()),
        ],
        check=True,
        timeout=SECONDS,
    ).stdout


def screenshot(page: Path, folder: Path, *options: str, size: tuple[int, int] = DESKTOP) -> Path:
    """A picture of the window's size, in `folder`."""
    file = folder / "shot.png"
    chromium(page, folder, f"--screenshot={file}", *options, size=size)
    return file


def ask(page: Path, folder: Path, *scripts: str, size: tuple[int, int] = DESKTOP) -> Any:
    """What a script in the page says to `answer`."""
    inserted = "".join(f"<script>{script}</script>" for script in (ANSWER, *scripts))
    copy = folder / "asked.html"
    text = page.read_text(encoding="utf-8").replace("</body>", f"{inserted}</body>")
    copy.write_text(text, encoding="utf-8")
    dom = chromium(copy, folder, "--virtual-time-budget=60000", "--dump-dom", size=size)
    found = re.search(r'<pre id="said">(.*?)</pre>', dom, re.DOTALL)
    assert found, "the page's script gave no answer"
    return json.loads(html.unescape(found[1]))
