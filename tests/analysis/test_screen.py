# SPDX-License-Identifier: GPL-2.0-or-later
"""The report as a browser shows it: desktop, phone, dark, print; sorted and searched; accessible.

By headless Chromium, where it is installed. The accessibility checker is axe-core, which npm
fetches: one release, pinned by its digest.
"""

import base64
import hashlib
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest

from analysis.main import main
from tests.browser import CHROMIUM, SECONDS, ask, chromium, screenshot
from tests.exact.test_analysis import write_run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed"),
]
PHONE = (500, 900)  # headless Chromium has no narrower window
DARK = "--blink-settings=preferredColorScheme=0"
AXE = "axe-core@4.14.1"
AXE_SHA512 = (
    "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
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
    """A report with exact cells, which have the tables to sort."""
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


def test_a_phone_never_scrolls_sideways(plain_report: tuple[Path, str], tmp_path: Path) -> None:
    width = ask(
        plain_report[0] / "report.html", tmp_path,
        "answer([document.documentElement.scrollWidth, innerWidth])", size=PHONE,
    )  # fmt: skip
    assert width[0] <= width[1]


def test_it_prints(page: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.pdf"
    chromium(page, tmp_path, f"--print-to-pdf={file}", "--no-pdf-header-footer")
    assert file.read_bytes().startswith(b"%PDF-")
    assert re.search(rb"/Type\s*/Pages", file.read_bytes())


def test_functions_are_sorted_and_searched(page: Path, tmp_path: Path) -> None:
    first = "[...table.tBodies[0].rows].filter((r) => !r.hidden).map((r) => r.cells[0].textContent)"
    said = ask(
        page, tmp_path,
        'const table = document.querySelector(".sortable table");'
        "const heads = table.tHead.rows[0].cells;"
        f"const look = () => {first}; const all = [];"
        'for (const n of [4, 4, 0]) { heads[n].querySelector("button").click(); all.push(look()); }'
        'const search = table.closest("details").querySelector("input[type=search]");'
        'search.value = "MEMS"; search.dispatchEvent(new Event("input")); all.push(look());'
        'answer([all, heads[0].getAttribute("aria-sort"), heads[4].getAttribute("aria-sort")])',
    )  # fmt: skip
    (by_tcp, upwards, by_name, found), name_sort, tcp_sort = said
    # tcp's own instructions: tcp_sendmsg 50, entry_SYSCALL_64 10, memset 7, none in unix's.
    assert by_tcp == ["tcp_sendmsg", "entry_SYSCALL_64", "memset", "unix_stream_sendmsg"]
    assert upwards == by_tcp[::-1]
    assert by_name == sorted(by_name, reverse=True)
    assert found == ["memset"]
    assert (name_sort, tcp_sort) == ("descending", None)


def test_a_figure_is_explored(page: Path, tmp_path: Path) -> None:
    """Point at a box, zoom into it, switch the scheduler, and come back by the keyboard."""
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
        'figure.querySelector("svg").dispatchEvent(new KeyboardEvent("keydown", {key: "Escape"}));'
        "all.push(boxes()[1].getBoundingClientRect().width, boxes().length); answer(all)",
    )  # fmt: skip
    assert re.search(r"\): [\d,]+ instructions, [\d.]+ % of \w+; [\d,]+ of its own", said)
    assert wide > own
    assert narrow == own
    assert drawn > 3


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The checker's script."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm is installed, which fetches axe-core")
    folder = tmp_path_factory.mktemp("axe")
    got = subprocess.run(
        [npm, "pack", AXE, "--silent"], cwd=folder, capture_output=True, text=True, check=False,
        timeout=SECONDS,
    )  # fmt: skip
    if got.returncode != 0:
        pytest.skip(f"npm could not fetch {AXE}")
    (file,) = folder.glob("*.tgz")
    digest = base64.b64encode(hashlib.sha512(file.read_bytes()).digest()).decode()
    assert digest == AXE_SHA512
    with tarfile.open(file) as archive:
        script = archive.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode("utf-8").replace("</script", "<\\/script")


@pytest.mark.parametrize("which", ["plain", "exact"])
def test_a_checker_finds_no_barrier(
    page: Path, plain_report: tuple[Path, str], axe: str, tmp_path: Path, which: str
) -> None:
    shown = page if which == "exact" else plain_report[0] / "report.html"
    assert ask(shown, tmp_path, axe, ASK_AXE) == []
