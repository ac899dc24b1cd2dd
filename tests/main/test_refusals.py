# SPDX-License-Identifier: GPL-2.0-or-later
"""What cannot be done is refused in one sentence, with a status, and leaves nothing half made."""

import sys
import time
from pathlib import Path
from shlex import quote

import pytest

from runners.process import REPOSITORY
from tests.analysis.make_run import make_run
from tests.build import make
from tests.processes import captured

PYTHON = quote(sys.executable)
RUN, ANALYSIS = "./runners/run.sh", f"{PYTHON} -m analysis"
BLIND = f"{PYTHON} -S -m analysis"  # without site-packages, where every library lies
NOBODY = "setpriv --reuid 65534 --regid 65534 --clear-groups --"
OWN = "--out {folder}/run"
# A machine that has neither bpftrace nor gcc.
BARE = "ln -s /usr/bin/* {folder}; rm {folder}/bpftrace* {folder}/gcc*; PATH={folder}"
NO_MIRROR = "ln -s /bin/false {folder}/apt-get;"


def said_by(command: str, folder: Path, tree: Path = REPOSITORY) -> tuple[int, str, list[str]]:
    """Exit status, standard output, and the lines on standard error, of a command of bash."""
    words = f"set -o pipefail; {command.format(folder=quote(str(folder)))}"
    done = captured(["bash", "-c", words], cwd=tree)
    return done.returncode, done.stdout, done.stderr.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "status", "words"),
    [
        (f"{RUN} --transports pigeon", 2, "unknown transport 'pigeon'"),
        (f"{RUN} --out /etc/passwd/run", 2, "/etc/passwd is not a folder"),
        (f"{RUN} --dry-run --kernel 4.19", 2, 'no Debian suite offers a kernel "4.19"'),
        (f"{RUN} --dry-run --sched fifo --wait spin --placements same-cpu", 2, "no cell can be"),
        (f"{RUN} exact --dry-run --transports shm-spin", 2, "no cell can be counted"),
        (f"PATHCOST_MONITOR=x {RUN} preflight", 2, "is no socket"),
        (f"{RUN} list >/dev/full", 1, "'standard output' failed (No space left"),
        (f"{RUN} --bogus 2>/dev/full", 2, ""),
        (f"{RUN} --help | head -1", 0, ""),
        (f"{ANALYSIS} --bogus", 2, "unrecognized arguments: --bogus"),
        (f"{BLIND} 'a run'", 1, "/bin/python -S -m analysis 'a run'"),
        (f"{ANALYSIS} {{folder}} >/dev/full", 1, "'standard output' failed (No space"),
        *(
            pytest.param(*row, marks=pytest.mark.root)
            for row in (
                (f"{NOBODY} {RUN} watch 1", 1, "probes need root: run it as sudo"),
                (f"{RUN} --out /proc/nowhere/run", 2, "/proc/nowhere"),
                (f"{RUN} --kernel 1.2.3 --out {{folder}}/run", 2, "1.2.3"),
                (f"{BARE} {RUN} --no-install {OWN}", 1, "these packages are missing: bpft"),
                (f"{BARE} {RUN} watch 1 {OWN}", 1, "missing: sudo apt-get install gcc"),
                (f"{RUN} watch 60 --out /proc/nowhere/run", 2, "/proc/nowhere"),
                (f"{NO_MIRROR} {BARE} {RUN} {OWN}", 1, "apt could not install"),
                (f"env -u SUDO_GID SUDO_UID=1000 {RUN} preflight", 2, "are no user and group"),
            )
        ),
    ],
)
def test_one_sentence_and_a_status(
    request: pytest.FixtureRequest, tmp_path: Path, command: str, status: int, words: str
) -> None:
    make(REPOSITORY / "runners/workload")  # which knows what it refuses
    tree = request.getfixturevalue("public_tree") if NOBODY in command else REPOSITORY
    folder = make_run(tmp_path) if ANALYSIS in command and "{folder}" in command else tmp_path
    ended, printed, lines = said_by(command, folder, tree)
    assert ended == status, lines
    if BARE not in command:  # set-up and apt-get say something before
        assert len(lines) == (1 if words else 0), lines
        assert bool(printed) == (status == 0)
    assert words in "".join(lines[-1:])
    assert all(line.startswith("pathcost: ") and line.isprintable() for line in lines[-1:])
    assert not any("Traceback" in line for line in lines)
    assert not (tmp_path / "run").exists()


@pytest.mark.root
def test_without_loopback_a_sentence_comes_soon(tmp_path: Path) -> None:
    began = time.monotonic()
    status, _, (line,) = said_by(f"unshare --net {RUN} preflight", tmp_path)
    assert (status, "ip link set lo up" in line) == (1, True)
    assert time.monotonic() - began < 15  # on a busy machine


@pytest.mark.root
def test_too_little_room(small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(bytes(60 << 20))
    status, _, lines = said_by(f"{RUN} --target host --out {{folder}}/run", small_disk)
    assert (status, "MiB free, and a run needs" in lines[-1]) == (2, True)
    assert [entry.name for entry in small_disk.iterdir()] == ["filler"]


@pytest.mark.root
@pytest.mark.emulated
def test_a_full_disk_for_temporary_files_takes_the_cache_lines_not_the_counts(
    tmp_path: Path,
) -> None:
    run = f"{RUN} exact --lines --transports unix --placements same-cpu --sched fifo"
    mounted = f"mount -t tmpfs -o size=60m none /mnt; TMPDIR=/mnt {run} --out {{folder}}/run"
    script = f"{mounted}; status=$?; find /mnt -mindepth 1; exit $status"
    status, printed, lines = said_by(f"unshare --mount sh -c {quote(script)}", tmp_path)
    said = "no cell of this run has cache lines: the disk for temporary files is full"
    assert (status, said in lines[-1]) == (1, True), lines
    assert "instructions" in printed
    assert "/mnt" not in printed
