# SPDX-License-Identifier: GPL-2.0-or-later
"""The report as a browser shows it: desktop, phone, dark, print; explored; accessible.

By headless Chromium, where it is installed. The accessibility checker is axe-core, of which a
Python package has a copy: pip fetches one release, pinned by its digest.
"""

import html
import re
import zipfile
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest

from analysis.__main__ import main
from tests.browser import CHROMIUM, ask, screenshot
from tests.build import pip
from tests.exact.test_analysis import write_run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed"),
]
WIDTHS = (390, 1024, 1280)
DARK = "--blink-settings=preferredColorScheme=0"
# axe-core 4.12.1. What drives a browser beside it is not fetched, and not needed.
AXE = (
    "axe-playwright-python==0.1.8"
    " --hash=sha256:fdd263c998388f1a8e67cad02677e612d946248bd44d163be5e8650ea31f95f8"
)

ASK_AXE = """
for (const one of document.querySelectorAll("details")) one.open = true;
axe.run({resultTypes: ["violations"]}).then((found) => answer(found.violations.map((one) =>
  [one.impact, one.id, one.nodes.map((node) => node.html)])));
"""


def pixels(page: Path, folder: Path, *options: str) -> Any:
    """Of a screenshot, from 0 to 1."""
    return np.asarray(matplotlib.image.imread(screenshot(page, folder, *options)))[:, :, :3]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with exact cells, which have figures to explore."""
    run = write_run(tmp_path_factory.mktemp("screen"))
    assert main([str(run), "--quiet"]) == 0
    return run / "report.html"


def paper(picture: Any) -> float:
    """How bright the margin is."""
    return float(picture[:, :8].mean())


def test_light_and_dark(page: Path, tmp_path: Path) -> None:
    light, dark = pixels(page, tmp_path), pixels(page, tmp_path, DARK)
    assert light.shape == (900, 1200, 3)
    assert paper(light) > 0.9
    assert paper(dark) < 0.2
    for picture in (light, dark):  # there is something to see on it, in the other tone
        assert abs(picture - paper(picture)).max() > 0.5


def test_nothing_scrolls_sideways(plain_report: tuple[Path, str], tmp_path: Path) -> None:
    """Frames of a page are as narrow as a phone; Chromium has no window below 500 pixels."""
    opened = plain_report[1].replace("<details>", "<details open>")
    frames = (
        f'<iframe srcdoc="{html.escape(opened)}" style="width:{width}px;border:0"></iframe>'
        for width in WIDTHS
    )
    outer = tmp_path / "outer.html"
    outer.write_text(f"<body>{''.join(frames)}</body>", encoding="utf-8")
    widths = ask(
        outer, tmp_path,
        'addEventListener("load", () => answer([...document.querySelectorAll("iframe")].map('
        "(frame) => frame.contentDocument.documentElement.scrollWidth)))",
    )  # fmt: skip
    assert widths == list(WIDTHS)


def test_a_figure_is_explored(page: Path, tmp_path: Path) -> None:
    """Point at a box, zoom into it, and come back by the keyboard."""
    said, own, wide, narrow, drawn = ask(
        page, tmp_path,
        'const figure = document.querySelector("#figure-exact-flame"), all = [];'
        'const boxes = () => figure.querySelectorAll("rect.box");'
        'const fire = (at, name, more = {}) =>'
        " at.dispatchEvent(new MouseEvent(name, {bubbles: true, ...more}));"
        'fire(boxes()[1], "pointerover");'
        'all.push(figure.querySelector(".said").textContent);'
        "all.push(boxes()[1].getBoundingClientRect().width);"
        'fire(boxes()[1], "click"); all.push(boxes()[0].getBoundingClientRect().width);'
        'const svg = figure.querySelector(".drawn svg");'
        'svg.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape"}));'
        "all.push(boxes()[1].getBoundingClientRect().width, boxes().length); answer(all)",
    )  # fmt: skip
    assert re.search(r"\): [\d,]+ instructions, [\d.]+ % of \w+; [\d,]+ of its own", said)
    assert wide > own
    assert narrow == own
    assert drawn > 3


def test_a_box_says_its_time_where_an_instruction_has_a_price(page: Path, tmp_path: Path) -> None:
    priced = tmp_path / "priced.html"
    priced.write_text(page.read_text().replace('"ns":0.0,', '"ns":0.4,'))
    script = (
        'const box = document.querySelector("#figure-exact-flame rect.box");'
        'box.dispatchEvent(new MouseEvent("pointerover", {bubbles: true}));'
        'answer(document.querySelector("#figure-exact-flame .said").textContent)'
    )
    assert "about" not in ask(page, tmp_path, script)
    assert re.search(r"; about [\d.]+ (ns|µs)", ask(priced, tmp_path, script))


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("axe")
    (folder / "pinned").write_text(AXE)
    got = pip("download", "--no-deps", "--dest", folder, "-r", folder / "pinned")
    assert "DO NOT MATCH THE HASHES" not in got.stderr, got.stderr
    if got.returncode != 0:
        pytest.skip(f"pip could not fetch axe-core: {got.stderr.strip()[-200:]}")
    (file,) = folder.glob("*.whl")
    with zipfile.ZipFile(file) as archive:
        script = archive.read("axe_playwright_python/axe.min.js").decode("utf-8")
    return script.replace("</script", "<\\/script")


@pytest.mark.parametrize("which", ["plain", "exact"])
def test_a_checker_finds_no_barrier(
    page: Path, plain_report: tuple[Path, str], axe: str, tmp_path: Path, which: str
) -> None:
    shown = page if which == "exact" else plain_report[0] / "report.html"
    assert ask(shown, tmp_path, axe, ASK_AXE) == []
