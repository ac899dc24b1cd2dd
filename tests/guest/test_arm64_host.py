# SPDX-License-Identifier: GPL-2.0-or-later
"""An arm64 machine, emulated, and on it a clone: what runs there first, with the kernel's probes.

Debian's packages are unpacked, and its Python packages come from the package index. The machine has
no network; it compiles the programs, and makes the report.
"""

import json
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from probes.isa import ISAS, USUAL
from runners import guest
from runners.guest.debian import TRIXIE, PackageSources
from runners.guest.image import FILES, IMAGE_PACKAGES, INIT_PATH, INIT_SCRIPT, Image, write_disk
from runners.guest.kernels import DEFAULT
from runners.guest.store import Cache
from runners.process import REPOSITORY, RunError
from runners.store.folders import invoker
from runners.targets import source_only

pytestmark = [pytest.mark.guest, pytest.mark.matrix]
ARM64 = ISAS["arm64"]
MORE = [
    *("apt", "bash", "dpkg", "e2fsprogs", "gcc", "libc-bin"),
    *("libc6-dev", "make", "mount", "python3-venv", "systemd"),
]
DOCUMENTS = ("doc", "man", "locale", "info")
CLONE = ("analysis", "probes", "runners", "pyproject.toml")
MESSAGES, SIZE, SECONDS = 46, 64, 5400
# As set-up would, but without a package index: the environment that it will look for.
SCRIPT = f"""
cp -a . /run/clone && mkdir -p /run/cache && cd /run/cache
here=/run/clone/runners
. $here/environment.sh
make_environment() {{
	mkdir -p $1/bin $1/lib/python3.13
	mv /run/clone/packages $1/lib/python3.13/site-packages
	ln -s /usr/bin/python3 $1/bin/python
	echo 'home = /usr/bin' >$1/pyvenv.cfg
	files_of $1 >$1/complete
}}
PATHCOST_CACHE=$PWD python_environment $here/requirements.lock
export PATHCOST_CACHE=$PWD
cd /run/clone
./runners/run.sh --no-install --instruments copies --messages {MESSAGES} --repeats 1 \\
	--out /run/pathcost/out/run </dev/null 2>&1 | cat
exit ${{PIPESTATUS[0]}}
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> guest.Guest:
    """A machine whose root has what set-up wants."""
    folder = tmp_path_factory.mktemp("arm64")
    root, store = folder / "root", Cache(invoker().cache, print)
    try:
        usual = guest.prepare(invoker().cache, DEFAULT, isa=ARM64)
        with PackageSources(store) as sources:
            left_out = [f"--exclude=./usr/share/{name}" for name in DOCUMENTS]
            archive = sources.archive(TRIXIE, ARM64)
            archive.unpack([*IMAGE_PACKAGES, *MORE], root, "an arm64 root", tar_options=left_out)
    except RunError as error:
        pytest.skip(str(error))
    for name in ("dev", "proc", "sys", "run", "tmp"):
        (root / name).mkdir(exist_ok=True)
    init = INIT_SCRIPT.read_text().replace(USUAL.libraries, ARM64.libraries)
    for name, text in {**FILES, INIT_PATH: init}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / INIT_PATH).chmod(0o755)
    (root / "usr/bin/cc").symlink_to("gcc")
    write_disk(root, folder / "root.img", usual.qemu)
    return replace(usual, image=Image(folder / "root.img", "whole"), parallel=True)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone, and beside it the Python packages for that machine."""
    folder = tmp_path_factory.mktemp("clone")
    uv, packages, runners = folder / "uv", folder / "packages", REPOSITORY / "runners"
    subprocess.run(["/usr/bin/python3", "-m", "venv", uv], check=True)
    words = ("install", "--quiet", "--require-hashes", "-r")
    subprocess.run([uv / "bin/pip", *words, runners / "requirements-uv.lock"], check=True)
    platform = f"--python-version 3.13 --python-platform {ARM64.machine}-manylinux_2_28 --no-build"
    there = [*platform.split(), "--target", str(packages)]
    lock = runners / "requirements.lock"
    subprocess.run([uv / "bin/uv", "pip", *words, lock, *there], check=True)
    with tarfile.open(folder / "clone.tar", "w") as tar:
        tar.add(packages, "packages")
        for name in CLONE:
            tar.add(REPOSITORY / name, name, filter=source_only)
    return folder / "clone.tar"


def test_a_clone_counts_on_arm64_and_tells_no_time(
    machine: guest.Guest, clone: Path, tmp_path: Path
) -> None:
    words = ["bash", "-ec", SCRIPT]
    machine.run(clone, tmp_path / "out", words, timeout=SECONDS, on_line=print, memory=4096)
    run = json.loads((tmp_path / "out/run/run.json").read_text())
    [host] = run["targets"]
    assert (host["kind"], host["accelerator"], host["probe_level"]) == ("host", "tcg", "function")
    assert host["kernel"].endswith("arm64")
    assert "emulated-cpu" in {lack["code"] for lack in run["missing"]}
    figures = pd.read_csv(tmp_path / "out/run/measurements.csv")
    copied = figures[figures["quantity"] == "copy_bytes"]
    assert len(copied)
    assert (copied["value"] == MESSAGES * SIZE).all()
    assert "rtt" not in set(figures["quantity"])
    assert "µs" not in (tmp_path / "out/run/answer.md").read_text()
