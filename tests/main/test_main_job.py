# SPDX-License-Identifier: GPL-2.0-or-later
"""The main job as a new user meets it: a fresh clone, one command under sudo.

The cache is empty in the matrix, and elsewhere a copy of this machine's, which spares minutes.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from runners.guest.store import read_manifest
from runners.process import REPOSITORY
from runners.store.folders import invoker
from tests.build import environment, make
from tests.exact.conftest import PARTS, prepared
from tests.processes import captured

pytestmark = pytest.mark.guest
USER = 65534
AS_USER = ("setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups", "--")
CACHED = ("image-*", "kernel-*", "modules-*", "qemu-*", "kvm-*")
FILES = {
    *("run.json", "raw", "report.html", "report.md", "figures", "folded", "timeline"),
    *("agreement.csv", "answer.json", "answer.md", "ledger.md", "ledger.csv"),
    *("measurements.csv", "claims.csv"),
}


@dataclass(frozen=True)
class Job:
    home: Path
    clone: Path
    cache: Path
    sudo: dict[str, str]
    status: int
    output: str
    complaint: str

    @property
    def run(self) -> Path:
        (run,) = self.clone.glob("reports/2*")
        return run

    @property
    def tidy(self) -> pd.DataFrame:
        return pd.read_csv(self.run / "measurements.csv")


@pytest.fixture(scope="module", params=["filled", pytest.param("empty", marks=pytest.mark.matrix)])
def job(request: pytest.FixtureRequest, repository: Path) -> Iterator[Job]:
    home = Path(tempfile.mkdtemp(prefix="pathcost-test-", dir="/var/tmp"))
    clone, cache = home / "pathcost", home / "cache"
    if request.param == "filled":
        cache.mkdir()
        ours = invoker().cache
        for part in PARTS:
            make(REPOSITORY / part)
        stored = prepared("6.12").stored.parent  # its programs do not know where they were built
        entries = [stored, *(path for name in CACHED for path in ours.glob(name))]
        of_stored = {"snapshot": stored.name, "steps": [], "files": {}}
        entries += [
            p for p in ours.glob("symbols-*") if read_manifest(p).get("recipe") == of_stored
        ]
        subprocess.run(["cp", "--archive", *entries, environment(), cache], check=True)
    subprocess.run(["git", "clone", "--quiet", repository, clone], check=True)
    subprocess.run(["chown", "-R", f"{USER}:{USER}", home], check=True)
    sudo = {"SUDO_UID": str(USER), "SUDO_GID": str(USER), "PATHCOST_CACHE": str(cache)}
    done = captured([clone / "runners/run.sh"], stdin=subprocess.DEVNULL, env=os.environ | sudo)
    yield Job(home, clone, cache, sudo, done.returncode, done.stdout, done.stderr)
    shutil.rmtree(home)


def test_it_ends_with_the_ledger_and_the_reports_path(job: Job) -> None:
    """A first answer comes while the guest still counts: what it says is what the end says."""
    assert job.status == 0, job.complaint
    assert job.output.splitlines()[-1] == f"Report: {job.run}/report.html"
    for words in ("copies of", "one CPU", "instructions"):  # wide figures break a row's name
        assert words in job.output
    # A verdict, or where wide figures leave no line for it, how many the report has.
    assert re.search(r"^(?:REFUTED|CONFIRMED).*: |^\d+ (?:more )?verdict", job.output, re.MULTILINE)
    lines = job.complaint.splitlines()
    first = next(n for n, line in enumerate(lines) if line.endswith(" Counts follow."))
    ended = next(
        n for n, line in enumerate(lines) if re.match(r"guest \S+: measuring: [\d.]+ s", line)
    )
    assert first < ended
    decision = " ".join(job.output.split("\n\n", 1)[0].split())
    assert decision.startswith(lines[first].removesuffix(" Counts follow."))


@pytest.mark.parametrize("root", [(), ("unshare", "--user", "--map-root-user")])
def test_its_user_needs_no_root_for_times_and_counts(job: Job, root: tuple[str, ...]) -> None:
    """Also where the user is root of a user namespace alone, as in a rootless container."""
    out, own = job.home / f"run-{len(root)}", {"PATHCOST_CACHE": str(job.cache)}
    words = ["--messages=200", "--repeats=2", f"--out={out}"]
    run_sh = job.clone / "runners/run.sh"
    done = captured([*AS_USER, *root, run_sh, *words], env=os.environ | own)
    assert done.returncode == 0, done.stderr
    assert "Probes would add" in done.stderr
    answer = json.loads((out / "answer.json").read_text(encoding="utf-8"))
    assert answer["times"]
    assert "instructions" in done.stdout
    shutil.rmtree(out)


def test_everything_is_in_its_folder_and_belongs_to_the_user_and_nothing_is_left(job: Job) -> None:
    assert {entry.name for entry in job.run.iterdir()} == FILES
    others = [path for path in job.home.rglob("*") if path.lstat().st_uid != USER]
    assert others == []
    running = subprocess.check_output(["ps", "-eo", "args"], text=True).splitlines()
    assert [line for line in running if str(job.home) in line] == []
    assert not list(job.clone.glob("reports/.*"))


def test_the_manifest_says_where_everything_comes_from(job: Job) -> None:
    manifest = json.loads((job.run / "run.json").read_text(encoding="utf-8"))
    kernels = {target["folder"]: target["kernel"] for target in manifest["targets"]}
    assert kernels["host"] == os.uname().release
    assert any(target["probe_level"] == "function" for target in manifest["targets"])
    assert manifest["seconds_by_step"]
    assert set(job.tidy["kernel"]) == set(kernels.values())
    # An emulated guest's times are not shown as times.
    assert not set(job.tidy[job.tidy["target"] == "guest"]["unit"]) & {"ns", "1/s"}


def test_bytes_in_are_bytes_out_are_payload(job: Job) -> None:
    copied = job.tidy[job.tidy["quantity"] == "copy_bytes"]
    payload = copied["messages"] * copied["size"]
    for way in ("in", "out"):
        assert (copied["value"] == payload)[copied["key"] == way].all()
    assert set(copied["transport"]) == {"unix", "tcp"}
    # On a shared machine somebody may use lo meanwhile: those cells, and only those, are invalid.
    strange = job.tidy[(job.tidy["quantity"] == "background_packets") & (job.tidy["value"] > 0)]
    disturbed = (job.tidy["target"] == "host") & job.tidy["cell"].isin(strange["cell"])
    assert job.tidy[~disturbed]["valid"].all(), job.output


def test_the_report_can_be_made_again_elsewhere_by_anybody(job: Job) -> None:
    copy = job.home / "copy"
    shutil.copytree(job.run, copy, symlinks=True)
    made = [copy / name for name in FILES - {"run.json", "raw"}]
    for path in made:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    subprocess.run(["chown", "-R", f"{USER}:{USER}", copy], check=True)
    python = next(job.cache.glob("python-*/bin/python"))
    again = captured(
        [*AS_USER, python, "-m", "analysis", copy],
        cwd=job.clone,
        env=os.environ | {"MPLCONFIGDIR": str(job.home / "matplotlib")},
    )
    assert again.returncode == 0, again.stderr
    for name in ("report.html", "answer.json", "measurements.csv", "claims.csv"):
        assert (copy / name).read_bytes() == (job.run / name).read_bytes(), name


def test_its_stored_guest_counts_the_plan_of_the_next_run_exactly(job: Job) -> None:
    """With the probes attached already; a guest that boots in a second is not stored."""
    stored = {*job.cache.glob("guest-*")}
    if not stored:
        pytest.skip("this machine's guests are not stored")
    out = job.home / "next"
    own = ("--placements", "same-cpu", "--repeats", "1", "--sizes", "4K", "--messages", "46")
    words = [job.clone / "runners/run.sh", *own, "--out", out]
    captured(words, check=True, env=os.environ | job.sudo)
    assert {*job.cache.glob("guest-*")} == stored
    tidy = pd.read_csv(out / "measurements.csv")
    copied = tidy[(tidy["quantity"] == "copy_bytes") & tidy["key"].isin(["in", "out"])]
    copied = copied[copied["target"] == "guest"]
    assert set(copied["transport"]) == {"unix", "tcp"}
    assert set(copied["value"]) == {46 * 4096}
