# SPDX-License-Identifier: GPL-2.0-or-later
"""The Debian package and the wheel, as they are built: what is in them, and what they do."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from probes.files import read_rows
from runners.host.distribution import lacking
from runners.process import REPOSITORY
from tests.analysis.make_run import make_run
from tests.build import make, pip
from tests.processes import captured

pytestmark = pytest.mark.slow
LIB = "usr/lib/pathcost"
# What a bare machine lacks, and an apt-get that notes how it is called.
HIDDEN = ("bpftrace", "gcc", "make", "mount", "dpkg-deb", "apt-get")
APT_GET = '#!/bin/sh\necho "$@" >>"$0.log"; exit 1\n'
SPARE = {"diptest", "perfetto"}


@pytest.fixture(scope="module")
def tree(deb: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tree")
    subprocess.run(["dpkg-deb", "--extract", deb, folder], check=True)
    return folder


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """An environment with all programs but some, in which apt-get fails and leaves a note."""
    for program in (*Path("/usr/bin").iterdir(), *Path("/usr/sbin").iterdir()):
        if program.name not in HIDDEN and not (tmp_path / program.name).exists():
            (tmp_path / program.name).symlink_to(program)
    (tmp_path / "apt-get").write_text(APT_GET)
    (tmp_path / "apt-get").chmod(0o755)
    return os.environ | {"PATH": str(tmp_path)}


def test_the_programs_are_those_of_a_clone(tree: Path) -> None:
    programs = [file for file in (tree / LIB).glob("**/build/*") if not file.is_dir()]
    assert len(programs) >= 8
    for part in {file.relative_to(tree / LIB).parents[1] for file in programs}:
        make(REPOSITORY / part)
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
    tree: Path, bare: dict[str, str], tmp_path: Path, verb: str
) -> None:
    done = captured([tree / LIB / "runners/setup.sh", *filter(None, [verb])], env=bare)
    assert (done.returncode, done.stdout) == (1, "")
    line = done.stderr.partition("sudo apt install ")[2].split()
    assert {"mount", "dpkg"} & {*line} and not {"gcc", "make", "python3-venv"} & {*line}
    assert not (tmp_path / "apt-get.log").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: run the tests with sudo")
def test_a_clone_prints_what_it_installs_before(bare: dict[str, str]) -> None:
    done = captured([REPOSITORY / "runners/setup.sh"], env=bare)
    assert done.returncode == 1
    assert "apt-get install" in done.stdout and done.stdout.endswith(" bpftrace gcc make mount\n")


MANAGERS = {"dnf": "rpm", "pacman": "pacman"}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: run the tests with sudo")
@pytest.mark.parametrize("manager", MANAGERS)
def test_another_manager_gets_its_own_names(
    bare: dict[str, str], tmp_path: Path, manager: str
) -> None:
    for name in {manager, MANAGERS[manager]}:
        (tmp_path / name).write_text('#!/bin/sh\n[ "$*" != "-q --quiet bash" ] || exit 0\n'
                                     '[ "$*" != "-Qq bash" ] || exit 0\nexit 1\n')  # fmt: skip
        (tmp_path / name).chmod(0o755)
    done = captured([REPOSITORY / "runners/setup.sh"], env=bare)
    assert done.returncode == 1
    assert f"installing: {manager} " in done.stdout
    assert done.stdout.endswith(" bpftrace gcc make util-linux\n")


def test_each_package_is_for_something_that_set_up_knows() -> None:
    text = (REPOSITORY / "runners/setup.sh").read_text()
    for row in read_rows(REPOSITORY / "runners/packages.tsv"):
        assert all(re.search(rf"\b{word}\b", text) for word in row["for"].split())


def test_the_page_has_the_figures_of_the_rows() -> None:
    page = (REPOSITORY / "docs/install.md").read_text(encoding="utf-8")
    for row in read_rows(REPOSITORY / "reports/reference/installed.tsv"):
        figures = "{install}, {first}, {whole}; {MB} + {kept}".format_map(row)
        assert figures in page, row["way"]


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
    hidden = f"import sys; sys.modules.update(dict.fromkeys({SPARE | {'pyarrow'}}))"
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
    into = ["--python", python, "install", "--quiet", "--no-index", "--no-deps"]
    assert pip(*into, wheel).returncode == 0
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def report(*argv: object) -> dict[str, bytes]:
        run = make_run(tmp_path / str(len(argv)))
        assert captured([*argv, run, "--quiet"], cwd=tmp_path, env=alone).returncode == 0
        return {name: (run / name).read_bytes() for name in ("measurements.csv", "ledger.csv")}

    clone = report("env", f"PYTHONPATH={REPOSITORY}", sys.executable, "-m", "analysis")
    assert report(tmp_path / "venv/bin/pathcost-analysis", "report") == clone
