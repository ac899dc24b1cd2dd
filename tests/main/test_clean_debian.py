# SPDX-License-Identifier: GPL-2.0-or-later
"""What `vagrant up` does, without the hypervisor.

A clean Debian 13 is provisioned by setup.sh, then booted with a kernel that allows every probe,
where run.sh does everything on its own kernel.
"""

import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runners import guest
from runners.guest import image
from runners.guest.kernels import DEFAULT
from runners.store.folders import invoker
from tests.collected import Collected
from tests.packaging.installed import debian
from tests.processes import captured

pytestmark = [pytest.mark.guest, pytest.mark.matrix]
IN_CHROOT = "cd /root/pathcost && ./runners/setup.sh"
# The guest's root cannot be written: the cache that set-up made is reached through links.
IN_GUEST = """
cache=/run/cache
mkdir -p $cache && ln -s /root/.cache/pathcost/python-* $cache/
PATHCOST_CACHE=$cache ./runners/run.sh --target host --no-install --messages 200 --repeats 2 \
    --out out/run
"""


def provision(root: Path) -> str:
    """Run setup.sh in the root, as the Vagrantfile does; what it said."""
    clean = f"env -i PATH=/usr/sbin:/usr/bin HOME=/root sh -c '{IN_CHROOT}'"
    mounted = f"mount -t proc proc {root}/proc && exec chroot {root} {clean}"
    done = captured(["unshare", "--mount", "--", "sh", "-c", mounted])
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def root(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A minimal Debian 13 with a clone of this repository in it, provisioned."""
    root = tmp_path_factory.mktemp("clean") / "root"
    debian("trixie", root, "busybox-static")
    files = subprocess.check_output(["git", "archive", "HEAD"], cwd=repository)
    (root / "root/pathcost").mkdir()
    subprocess.run(["tar", "-x", "-C", root / "root/pathcost"], input=files, check=True)
    assert " --no-remove bpftrace " in provision(root)
    (again,) = provision(root).splitlines()  # it installs nothing
    assert again.startswith("/root/.cache/pathcost/python-")
    yield root
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def run(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was made in a guest with this root."""
    folder = tmp_path_factory.mktemp("host-target")
    machine = guest.prepare(invoker().cache, DEFAULT)
    init = root / image.INIT_PATH
    init.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(image.INIT_SCRIPT, init)
    image.write_disk(root, folder / "root.img", machine.qemu)
    with tarfile.open(folder / "input.tar", "w") as tar:
        tar.add(root / "root/pathcost", ".")
    clean = replace(machine, image=image.Image(folder / "root.img", "clean"))
    clean.run(
        folder / "input.tar", folder / "out", ["sh", "-ec", IN_GUEST],
        timeout=600, on_line=print, memory=3072,
    )  # fmt: skip
    return folder / "out/run"


def test_the_host_target_uses_function_probes_where_the_kernel_has_them(run: Path) -> None:
    manifest = json.loads((run / "run.json").read_text(encoding="utf-8"))
    (target,) = manifest["targets"]
    assert (target["kind"], target["probe_level"]) == ("host", "function")
    lacks = {lack["code"] for lack in manifest["missing"] if lack["requested"]}
    assert lacks <= {"no-hardware-event"}
    allowed = {check["name"] for check in manifest["preflight"] if check["ok"]}
    assert {"root", "BTF", "tracepoints", "uprobes", "kprobes", "function tracer"} <= allowed


def test_the_host_target_counts_exactly(run: Path) -> None:
    collected = Collected(run / "raw/host")
    for cell in collected.probed():
        counts, payload = collected.counts(cell), cell["messages"] * cell["size"]
        assert counts["copy_bytes in"] == counts["copy_bytes out"] == payload
        assert counts["messages sent"] == counts["messages received"] == cell["messages"]
    for instrument in ("ftrace", "bcc", "perf"):
        assert collected.probed(instrument=instrument)
    assert "REFUTED" in (run / "report.md").read_text(encoding="utf-8")
    assert (run / "report.html").stat().st_size > 10_000
