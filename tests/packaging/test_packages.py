# SPDX-License-Identifier: GPL-2.0-or-later
"""The Debian package and the wheel, as they are built: what is in them, and what they do."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from runners.host.distribution import lacking
from runners.process import REPOSITORY
from tests.analysis.make_run import make_run
from tests.processes import captured

pytestmark = pytest.mark.slow
LIB = "usr/lib/pathcost"
# Programs in the place of apt's, in a machine where no package is installed.
FAKES = {"dpkg-query": "exit 1", "apt-get": 'echo "$@" >>"$0.log"; exit 1'}
SPARE = {"diptest", "perfetto", "pyarrow"}


@pytest.fixture(scope="module")
def tree(deb: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, unpacked."""
    folder = tmp_path_factory.mktemp("tree")
    subprocess.run(["dpkg-deb", "--extract", deb, folder], check=True)
    return folder


@pytest.fixture
def fakes(tmp_path: Path) -> dict[str, str]:
    """An environment in which no package is installed, and apt-get notes how it is called."""
    for name, text in FAKES.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    return os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}


def test_the_programs_are_those_of_a_clone(tree: Path) -> None:
    subprocess.run(["make", "-s", "-C", REPOSITORY / "packaging", "all"], check=True)
    programs = [file for file in (tree / LIB).glob("**/build/*") if not file.is_dir()]
    assert len(programs) >= 8
    for file in programs:
        assert file.read_bytes() == (REPOSITORY / file.relative_to(tree / LIB)).read_bytes()


def test_the_command_names_itself_and_writes_where_the_user_is(tree: Path, tmp_path: Path) -> None:
    pathcost = tree / "usr/bin/pathcost"
    page = captured([pathcost, "exact", "--help"], cwd=tmp_path).stdout
    assert "usage: pathcost exact" in page and "below pathcost-reports/" in page
    assert "run.sh" not in page
    planned = captured([pathcost, "exact", "--dry-run"], cwd=tmp_path)
    assert (planned.returncode, planned.stderr) == (0, "")


@pytest.mark.parametrize("verb", ["", "--exact", "--guest", "watch"])
def test_a_package_names_what_is_missing_and_calls_no_package_manager(
    tree: Path, fakes: dict[str, str], tmp_path: Path, verb: str
) -> None:
    done = captured([tree / LIB / "runners/setup.sh", *filter(None, [verb])], env=fakes)
    assert (done.returncode, done.stdout) == (1, "")
    line = done.stderr.partition("sudo apt install ")[2].split()
    assert "util-linux" in line and not {"gcc", "make", "python3-venv"} & {*line}
    assert not (tmp_path / "apt-get.log").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: run the tests with sudo")
def test_a_clone_prints_what_it_installs_before(fakes: dict[str, str]) -> None:
    done = captured([REPOSITORY / "runners/setup.sh", "--analysis"], env=fakes)
    assert done.returncode == 1
    assert "apt-get install" in done.stdout and done.stdout.endswith(" python3 python3-venv\n")


def test_lintian_finds_no_error(deb: Path) -> None:
    if not shutil.which("lintian"):
        pytest.skip("lintian is missing: sudo ./runners/setup.sh --dev")
    done = captured(["lintian", "--allow-root", "--fail-on", "error", deb])
    assert done.returncode == 0, done.stdout


def test_a_distribution_that_is_too_old_does_not_serve() -> None:
    assert lacking(["pytest>=8", "diptest>=0.9", "absent>=1"]) == ["no absent"]
    (lack,) = lacking(["pytest>=1000.1"])
    assert lack.startswith("pytest ") and lack.endswith(", not 1000.1")


def test_without_spare_packages_a_report_says_what_it_leaves_out(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    hidden = f"import sys; sys.modules.update(dict.fromkeys({SPARE}))"
    code = f"{hidden}; from analysis.__main__ import main; sys.exit(main(sys.argv[1:]))"
    subprocess.run([sys.executable, "-c", code, run, "--quiet"], cwd=REPOSITORY, check=True)
    answer = json.loads((run / "answer.json").read_text())
    assert {lack["why"].split()[3] for lack in answer["missing"]} >= SPARE
    assert (run / "measurements.csv").exists() and not (run / "measurements.parquet").exists()


def test_the_wheel_makes_the_report_that_a_clone_makes(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling is missing: ./runners/setup.sh --dev")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path]
    assert captured(build, cwd=REPOSITORY).returncode == 0
    (wheel,) = tmp_path.glob("*.whl")
    venv.create(tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    (packages,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    # What it depends on are the packages of these tests.
    (packages / "tests.pth").write_text(sysconfig.get_path("purelib"))
    (pip,) = Path("/usr/share/python-wheels").glob("pip-*.whl")
    install = [python, pip / "pip", "install", "--quiet", "--no-index", "--no-deps", wheel]
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    assert captured(install, env=alone).returncode == 0

    def report(*argv: object) -> dict[str, bytes]:
        run = make_run(tmp_path / str(len(argv)))
        assert captured([*argv, run, "--quiet"], cwd=tmp_path, env=alone).returncode == 0
        return {name: (run / name).read_bytes() for name in ("measurements.csv", "ledger.csv")}

    clone = report("env", f"PYTHONPATH={REPOSITORY}", sys.executable, "-m", "analysis")
    assert report(tmp_path / "venv/bin/pathcost-analysis", "report") == clone
