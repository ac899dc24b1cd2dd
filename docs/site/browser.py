# SPDX-License-Identifier: GPL-2.0-or-later
"""Stored runs in a browser, by JupyterLite and Pyodide: docs/build.sh browser.

    python -m docs.site.browser OUT PYODIDE WORK

PYODIDE is the unpacked package of npm, which has Python itself; pip fetches the kernel's packages.
OUT is served as files, and asks no other server for anything. So there is only what the registries
have for Pyodide: no pandas and no matplotlib.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from analysis.__main__ import make_report

PLACE = Path(__file__).resolve().parent
REPOSITORY = PLACE.parents[1]
RUN = REPOSITORY / "reports/reference/default"
LOCK = "pyodide-lock.json"
KERNEL = "@jupyterlite/pyodide-kernel-extension:kernel"
PYTHON = "3.14"  # Pyodide's
OWN = ("comm-*", "pathcost_analysis-*")  # wheels that Pyodide's list does not have


def build(out: Path, pyodide: Path, work: Path) -> None:
    """Fill `out` with the site; `work` is an empty folder."""
    contents, wheels = work / "contents", work / "wheels"
    _store_run(work / "run", contents)
    shutil.copy(REPOSITORY / "docs/course/trees.ipynb", contents)
    venv.create(work / "pip", with_pip=True)  # an environment of set-up has none
    fetch = [
        *(work / "pip/bin/pip", "--quiet", "download", "--no-deps", "--require-hashes"),
        *("--only-binary=:all:", "--platform=any", f"--python-version={PYTHON}"),
        *("--dest", wheels, "--requirement", PLACE / "pyodide/kernel.lock"),
    ]
    subprocess.run(fetch, check=True)
    _store_python(pyodide, wheels, work / "static/pyodide")
    python = [sys.executable, "-m"]
    wheel = [*python, "build", "--wheel", "--no-isolation", "--outdir", wheels, REPOSITORY]
    subprocess.run(wheel, check=True)
    settings = {"litePluginSettings": {KERNEL: {"disablePyPIFallback": True}}}
    lite = {"jupyter-lite-schema-version": 0, "jupyter-config-data": settings}
    (work / "jupyter-lite.json").write_text(json.dumps(lite), encoding="utf-8")
    own = [path for name in OWN for path in wheels.glob(name)]
    site = [
        *(*python, "jupyter", "lite", "build", "--lite-dir", work, "--contents", contents),
        *("--output-dir", out, "--apps", "notebooks", "--no-sourcemaps"),
        *(f"--piplite-wheels={path}" for path in own),
    ]
    subprocess.run(site, check=True, cwd=work)  # where it leaves a file of its own


def _store_run(run: Path, contents: Path) -> None:
    """The call trees of the reference run."""
    run.mkdir()
    shutil.copy(RUN / "run.json", run)
    shutil.unpack_archive(RUN / "raw.tar.xz", run)
    make_report(run, "quiet")
    shutil.copytree(run / "folded", contents / "run")


def _store_python(pyodide: Path, wheels: Path, folder: Path) -> None:
    """Pyodide, and a list of packages that has those beside it."""
    shutil.copytree(pyodide, folder)
    lock = json.loads((folder / LOCK).read_text(encoding="utf-8"))
    kept = {}
    for name, package in lock["packages"].items():
        wheel = wheels / package["file_name"]
        if wheel.exists():
            shutil.copy(wheel, folder)
            digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
            kept[name] = package | {"sha256": digest}
    lock["packages"] = kept
    (folder / LOCK).write_text(json.dumps(lock), encoding="utf-8")


if __name__ == "__main__":
    build(*map(Path, sys.argv[1:]))
