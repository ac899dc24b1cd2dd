# SPDX-License-Identifier: GPL-2.0-or-later
"""Each way to install: from nothing to an answer, and away again, into reports/reference.

    python -m tests.packaging.installed FOLDER [WAY …]

FOLDER has the Debian package, the wheel, both images, a clone and a run. The row of each way in
installed.tsv is made anew: `install`, `first` and `whole` are the seconds of installing, to the
first answer and to the end; `MB`, `kept` and `left` are megabytes on the disk: what installing
added, the answer, and what is there after removal and was not before. Needs root and a network.
"""

import csv
import os
import pwd
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from probes.files import read_rows
from runners.process import REPOSITORY
from tests.processes import captured

TABLE = REPOSITORY / "reports/reference/installed.tsv"
SCRIPTS = {row["way"]: row for row in read_rows(Path(__file__).with_suffix(".tsv"))}
CLEAN = "env -i PATH=/usr/sbin:/usr/bin HOME=/root DEBIAN_FRONTEND=noninteractive"
IN_ROOT = """
mount --make-rprivate /
for folder in proc sys dev; do mount --rbind /$folder {root}/$folder; done
exec chroot {root} {clean} sh -ec 'cd; {script}'
"""
# An ordinary user. For podman one with a row in /etc/subuid.
ORDINARY = os.environ.get("ORDINARY", "nobody")
# A sandbox has no service that makes groups of processes, and may not raise limits.
OF_HOST = """
unset ${{!PYTHON@}} PATHCOST_CACHE
export HOME={home} GIVEN={given} TMPDIR={home}/tmp XDG_RUNTIME_DIR={home}/tmp
mkdir -p $TMPDIR; cd
export CONTAINERS_CONF=$TMPDIR/conf
echo -e "[containers]\ndefault_ulimits=['nofile=1024', 'nproc=1024']\n[engine]
cgroup_manager='cgroupfs'\nruntime='runc'" >$TMPDIR/conf
podman() {{ command podman --root $HOME/storage --runroot tmp/run --storage-driver overlay "$@"; }}
{script}
"""
# What apt, dpkg and ldconfig note of their own work.
OWN = ("./var/cache", "./var/lib/apt", "./var/lib/dpkg", "./var/log")


def in_root(root: Path, script: str) -> list[str]:
    """The command that runs a script in a root, with this kernel's /proc, /sys and /dev."""
    words = IN_ROOT.format(root=shlex.quote(str(root)), clean=CLEAN, script=script)
    return ["unshare", "--mount", "--", "sh", "-ec", words]


def debian(suite: str, root: Path, *packages: str) -> None:
    included = ",".join(("ca-certificates", *packages))
    words = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={included}"]
    subprocess.run([*words, suite, str(root)], check=True)
    # Certificates of a mirror between this machine and the world, where there is one.
    for name in ("etc/ssl/certs/ca-certificates.crt", "etc/pip.conf", "etc/resolv.conf"):
        if Path("/", name).exists():
            shutil.copyfile(Path("/", name), root / name)


def size(folder: Path) -> int:
    """Megabytes that a folder takes on the disk, without what apt and dpkg note."""
    skip = [f"--exclude={name}" for name in OWN]
    return int(captured(["du", "-xsm", *skip, "."], cwd=folder, check=True).stdout.split()[0])


def counted_cells(run: Path) -> dict[Path, bytes]:
    """The files of the cells that exact mode counted, by their paths."""
    (folder,) = (run / "raw").iterdir()
    names = ("cells.jsonl", "tree", "iteration")
    files = [file for name in names for file in (folder / name, *(folder / name).glob("*"))]
    return {file.relative_to(folder): file.read_bytes() for file in files if file.is_file()}


def go(way: str, given: Path, home: Path) -> dict[str, str]:
    """Go one way in a folder: its row."""
    where = SCRIPTS[way]["where"]
    if in_debian := where not in ("user", "root"):
        debian(where, home)
        shutil.copytree(given, home / "given", ignore=shutil.ignore_patterns("*.tar", "clone"))

    def timed(script: str) -> tuple[float, float]:
        """Seconds until the first line of the answer, and until the end."""
        words = OF_HOST.format(home=home, given=given, script=script)
        argv = in_root(home, f"GIVEN=/given; {script}") if in_debian else ["bash", "-ec", words]
        began = first = time.monotonic()
        become = ["runuser", "-u", ORDINARY, "--"]
        argv = [*(become if where == "user" else []), *argv]
        with subprocess.Popen(
            argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as started:
            assert started.stdout is not None
            for line in started.stdout:
                print(f"{time.monotonic() - began:6.1f} {line}", end="", flush=True)
                if first == began and line.startswith("In this run"):
                    first = time.monotonic()
        assert started.returncode == 0, script
        end = time.monotonic() - began
        return first - began or end, end

    before = size(home)
    _, install = timed(SCRIPTS[way]["install"])
    installed = size(home)
    first, whole = timed(SCRIPTS[way]["answer"])
    kept = size(home)
    timed(SCRIPTS[way]["remove"])
    seconds = {"install": install, "first": first, "whole": whole}
    sizes = {"MB": installed - before, "kept": kept - installed, "left": size(home) - before}
    timed("! [ -e $HOME/storage ] || podman system reset --force")  # its mounts
    return {"way": way} | {name: f"{value:.0f}" for name, value in (seconds | sizes).items()}


def main(given: str, *ways: str) -> None:
    for way in ways or SCRIPTS:
        with tempfile.TemporaryDirectory() as name:
            (home := Path(name, "home")).mkdir()
            Path(name).chmod(0o755)
            if SCRIPTS[way]["where"] == "user":
                shutil.chown(home, ORDINARY, pwd.getpwnam(ORDINARY).pw_gid)
            row = go(way, Path(given).resolve(), home)
        before = read_rows(TABLE) if TABLE.exists() else []
        rows = {old["way"]: {**old} for old in before} | {way: row}
        with TABLE.open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, [*row], dialect="excel-tab", lineterminator="\n")
            table.writeheader()
            table.writerows(rows[name] for name in SCRIPTS if name in rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
