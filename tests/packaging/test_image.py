# SPDX-License-Identifier: GPL-2.0-or-later
"""The images: built from nothing, loaded, run as their users run them, and removed."""

import json
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from probes.isa import ISAS
from runners.process import REPOSITORY
from tests.collected import Collected
from tests.packaging.installed import counted_cells
from tests.processes import captured

pytestmark = [pytest.mark.guest, pytest.mark.matrix]
RUN = REPOSITORY / "runners/run.sh"
# podman asks for more than a sandbox may have.
FILES = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
LIMITS = [f"--ulimit=nofile={FILES}", "--ulimit=nproc=1024"]
LEAST = ["--transports", "unix,tcp", "--placements", "same-cpu"]
# Nothing that root may do elsewhere, no network, and nothing to write to but a volume.
BARE = ["--network=none", "--cap-drop=all", "--user=1234", "--read-only"]
Podman = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """Run podman with a storage of its own."""
    for tool in ("podman", "buildah", "runc", "mmdebstrap"):
        if shutil.which(tool) is None:
            pytest.skip(f"there is no {tool} here: ./runners/setup.sh --images")
    place = tmp_path_factory.mktemp("podman")
    words = ["podman", "--root", place / "root", "--runroot", place / "run", "--runtime", "runc"]
    yield lambda *more, **given: captured([*words, *more], **given)
    captured([*words, "system", "reset", "--force"])


def load(kind: str, podman: Podman, repository: Path, out: Path) -> str:
    """Build an image, and load it: its name."""
    built = captured([repository / "packaging/image/build.sh", kind, out])
    assert built.returncode == 0, built.stderr
    archive = Path(built.stdout.splitlines()[-1])
    assert archive.stat().st_size < {"exact": 500e6, "probes": 600e6}[kind]
    assert podman("load", "-i", archive).returncode == 0
    return f"pathcost-{kind}"


@pytest.fixture(scope="module")
def exact(
    podman: Podman, repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    yield load("exact", podman, repository, tmp_path_factory.mktemp("exact"))
    assert podman("rmi", "pathcost-exact").returncode == 0


@pytest.fixture(scope="module")
def probes(
    podman: Podman, repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    yield load("probes", podman, repository, tmp_path_factory.mktemp("probes"))
    assert podman("rmi", "pathcost-probes").returncode == 0


def test_exact_counts_as_a_clone_does(podman: Podman, exact: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    done = podman(
        "run", "--rm", *LIMITS, *BARE, f"-v{tmp_path}:/data", exact, "exact", *LEAST, "--out=run"
    )
    assert done.returncode == 0, done.stderr
    clone = captured([RUN, "exact", *LEAST, "--out", tmp_path / "clone"])
    assert clone.returncode == 0, clone.stderr
    counted = counted_cells(tmp_path / "run")
    assert counted == counted_cells(tmp_path / "clone") and len(counted) > 8


def test_the_gate_has_its_kernels_and_fetches_none(podman: Podman, exact: str) -> None:
    words = ["gate", "--kernel=6.12", "--against=6.1", "--transports=unix"]
    judged = podman("run", "--rm", *LIMITS, "--network=none", exact, *words)
    assert judged.returncode in (0, 1) and "unix pingpong" in judged.stdout, judged.stderr
    unknown = podman("run", "--rm", *LIMITS, "--network=none", exact, "exact", "--kernel=6.12.1")
    assert unknown.returncode == 1
    assert "without apt" in unknown.stderr and "Traceback" not in unknown.stderr


def test_probes_count_on_this_kernel(podman: Podman, probes: str, tmp_path: Path) -> None:
    words = ["run", "--target=host", "--messages=200", "--repeats=2", "--out=run"]
    privileged = ["--privileged", "--pid=host", "--network=host", f"-v{tmp_path}:/data"]
    done = podman("run", "--rm", *LIMITS, *privileged, probes, *words)
    assert done.returncode == 0, done.stderr
    collected = Collected(tmp_path / "run/raw/host")
    assert collected.probed()
    for cell in collected.probed():
        counts = collected.counts(cell)
        if "messages sent" in counts:
            assert counts["messages sent"] == counts["messages received"] == cell["messages"]
    manifest = json.loads((tmp_path / "run/run.json").read_text(encoding="utf-8"))
    assert manifest["targets"][0]["probe_level"] != "counters"


@pytest.mark.parametrize("kind", ["exact", "probes"])
def test_an_image_for_arm64_starts(
    kind: str, podman: Podman, repository: Path, tmp_path: Path, short_folder: Path
) -> None:
    """By QEMU's emulation of user space, under which no other QEMU starts: no kernel is counted."""
    isa = ISAS["arm64"]
    if not Path(f"/proc/sys/fs/binfmt_misc/qemu-{isa.machine}").exists():
        pytest.skip(f"there is no {isa.machine} in binfmt_misc: install qemu-user-static")
    built = captured([repository / "packaging/image/build.sh", kind, tmp_path, isa.name])
    assert built.returncode == 0, built.stderr
    # Not beside this machine's images of the same names; podman takes no long path.
    storage = ["--root", short_folder / "root", "--runroot", short_folder / "run"]
    assert podman(*storage, "load", "-i", built.stdout.splitlines()[-1]).returncode == 0
    about = podman(*storage, "inspect", "--format={{.Architecture}}", f"pathcost-{kind}")
    assert about.stdout.strip() == isa.debian
    words = ["run", "--rm", *LIMITS, "--network=none", f"pathcost-{kind}"]
    listed = podman(*storage, *words, "list")
    assert listed.returncode == 0 and "unix" in listed.stdout, listed.stderr


@pytest.mark.parametrize("given", [[], ["--privileged"], ["--pid=host"]])
def test_what_probes_lack_is_one_sentence(podman: Podman, probes: str, given: list[str]) -> None:
    done = podman("run", "--rm", *LIMITS, "--network=host", *given, probes, "run", "--target=host")
    assert (done.returncode, done.stdout) == (1, "")
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("pathcost: ")
