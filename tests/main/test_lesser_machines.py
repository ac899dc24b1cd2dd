# SPDX-License-Identifier: GPL-2.0-or-later
"""Machines that lack something, made in namespaces: what they still do, and the sentence for it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from shlex import quote

import pytest

from runners.process import REPOSITORY
from runners.store.folders import invoker
from tests.build import make
from tests.processes import captured

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: run the tests with sudo"),
]
RUN = REPOSITORY / "runners/run.sh"
ABLE = "This machine can: "


def on(lack: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Run pathcost in a mount namespace that a line of shell has changed."""
    script = f'set -e; mount --make-rprivate /; {lack}; exec "$@"'
    return captured(["unshare", "--mount", "--", "sh", "-c", script, "sh", RUN, *words])


def own_cache(folder: Path) -> dict[str, str]:
    """The environment of a run whose cache has the Python environments of ours alone."""
    (cache := folder / "cache").mkdir()
    for made in invoker().cache.glob("python-*"):
        (cache / made.name).symlink_to(made)
    return {"PATHCOST_CACHE": str(cache)}


def test_without_btf_nothing_is_watched_and_preflight_says_so() -> None:
    hide = "mount -t tmpfs none /sys/kernel/btf"
    can, _, cannot = on(hide, "preflight").stdout.splitlines()[0].partition("; not: ")
    assert can.startswith(ABLE) and "watch (BTF" in cannot
    watched = on(hide, "watch", "1")
    assert watched.returncode == 1 and "(BTF)" in watched.stderr.splitlines()[-1]


def test_what_is_read_only_still_measures_into_a_folder_that_is_not(tmp_path: Path) -> None:
    """Also its cache, where Matplotlib keeps what it knows of fonts: nothing of that is said.

    The clone, the cache and the folder for temporary files lie anywhere, and two perhaps in one.
    """
    make(REPOSITORY / "runners/workload")
    clone, cache, mine = (quote(str(path)) for path in (REPOSITORY, invoker().cache, tmp_path))
    script = f"export TMPDIR={mine}; mount -t tmpfs none /run; mount --bind {mine} {mine}; "
    for place in (clone, cache):
        script += f"mount --bind {place} {place}; mount -o remount,bind,ro {place}; "
    script += "mount -o remount,bind,ro /"
    words = ["run", "--target=host", "--messages=200", "--repeats=2"]
    refused = on(script, *words, f"--out={REPOSITORY}/reports/read-only")
    assert refused.returncode == 2 and "Traceback" not in refused.stderr
    done = on(script, *words, f"--out={tmp_path}/run")
    assert done.returncode == 0 and (tmp_path / "run/answer.json").exists(), done.stderr
    assert "atplotlib" not in done.stderr


def test_without_what_a_guest_is_made_of_the_hosts_figures_are_a_run(tmp_path: Path) -> None:
    nowhere = {**own_cache(tmp_path), "PATHCOST_MIRROR": "http://127.0.0.1:9/debian"}
    words = ["run", "--messages=200", "--repeats=2", f"--out={tmp_path}/run"]
    done = captured([RUN, *words], env=os.environ | nowhere)
    assert done.returncode == 0 and "without a guest: " in done.stderr, done.stderr
    answer = json.loads((tmp_path / "run/answer.json").read_text(encoding="utf-8"))
    assert answer["times"] and "counts in a guest" in str(answer["missing"])


def test_a_machine_without_package_lists_has_the_same_mirror() -> None:
    """Images of containers come without lists."""
    code = "from runners.guest.debian import find_mirror as f; print(f())"
    shown = f"{quote(sys.executable)} -c {quote(code)}"
    here, there = (
        captured(["unshare", "--mount", "sh", "-ec", f"{lack}; {shown}"], cwd=REPOSITORY)
        for lack in ("true", "mount -t tmpfs none /var/lib/apt/lists")
    )
    assert here.stdout == there.stdout != "", there.stderr


# What docker leaves root, of 41 capabilities.
DOCKERS = (
    "chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service net_raw "
    "sys_chroot mknod audit_write setfcap"
)


def with_capabilities(names: str) -> list[str]:
    kept = ",".join(["-all", *(f"+{name}" for name in names.split())])
    return ["setpriv", f"--bounding-set={kept}", "--inh-caps=-all"]


@pytest.mark.parametrize(
    ("place", "remedy"),
    [
        (with_capabilities(DOCKERS), "--privileged"),
        (with_capabilities(""), "--privileged"),
        (["unshare", "--pid", "--fork", "--mount-proc"], "--pid=host"),
    ],
    ids=["docker's capabilities", "no capability", "own processes"],
)
def test_without_the_right_to_attach_probes_times_are_measured(
    place: list[str], remedy: str, tmp_path: Path
) -> None:
    words = ["run", "--target=host", "--messages=200", "--repeats=2", f"--out={tmp_path}/run"]
    done = captured([*place, RUN, *words], env=os.environ | own_cache(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "Probes would add" in done.stderr and remedy in done.stderr
    answer = json.loads((tmp_path / "run/answer.json").read_text(encoding="utf-8"))
    assert answer["times"]
