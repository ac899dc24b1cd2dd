# SPDX-License-Identifier: GPL-2.0-or-later
"""Campaigns over ssh and by Slurm give the table that this machine gives, and outlive a lost host.

An sshd, or a Slurm of two nodes, is started on this machine and stopped again. Each reads its own
configuration; nothing of the machine's is changed.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pandas as pd
import psutil
import pytest

from tests.campaign.conftest import Campaign, same_cells

pytestmark = [pytest.mark.matrix, pytest.mark.emulated, pytest.mark.root]
SSH = """\
Host near
  HostName 127.0.0.1
  Port {near}
Host doomed
  HostName 127.0.0.1
  Port {doomed}
Host far
  HostName 127.0.0.1
  Port {closed}
Host *
  IdentityFile {folder}/key
  UserKnownHostsFile {folder}/known
  StrictHostKeyChecking accept-new
"""
SSHD = """\
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
UsePAM no
"""
SLURM = """\
ClusterName=pathcost
SlurmctldHost={name}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthInfo=socket={folder}/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=10
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdSpoolDir={folder}/spool-%n
SchedulerParameters=batch_sched_delay=0,sched_interval=1
NodeName=n1 NodeAddr=127.0.0.1 NodeHostname={name} Port={first} CPUs=1 RealMemory=8000
NodeName=n2 NodeAddr=127.0.0.1 NodeHostname={name} Port={second} CPUs=1 RealMemory=8000
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""
# Slurm's programs read /etc/slurm/slurm.conf, jobs whatever their environment says.
BOUND = ("unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/slurm && exec "$@"')


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    assert isinstance(port, int)
    return port


@contextmanager
def daemon(*argv: object) -> Iterator[subprocess.Popen[bytes]]:
    """A program that runs in the foreground, ended with all that it started."""
    process = subprocess.Popen([str(word) for word in argv], start_new_session=True)
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and its descendants, and wait."""
    try:
        found = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        found = []
    for each in found:
        each.send_signal(signal.SIGKILL)
    process.wait()


def wait_for(what: str, *argv: object) -> None:
    """Until a command prints `what`."""
    for _ in range(300):
        words = [str(word) for word in argv]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if what in done.stdout:
            return
        time.sleep(0.1)
    pytest.fail(f"{argv}: {done.stdout}{done.stderr}")


def start_and_wait(campaign: Campaign, *argv: str) -> subprocess.Popen[str]:
    """Start a campaign, and wait for its first cell."""
    run = subprocess.Popen(argv, env=campaign.environment, stderr=subprocess.PIPE, text=True)
    while not list(campaign.out.glob("cells/*.json")):
        assert run.poll() is None, run.stderr and run.stderr.read()
        time.sleep(0.1)
    return run


@pytest.fixture
def ssh(campaign: Campaign, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Hosts `near` and `doomed`, whose sshd this is, and one that does not answer: `far`."""
    sshd = shutil.which("sshd", path="/usr/sbin:/usr/bin")
    if not (sshd and shutil.which("ssh")):
        pytest.skip("openssh-server and openssh-client are not installed (apt-get install)")
    ports = {"near": free_port(), "doomed": free_port()}
    places = {"folder": tmp_path, **ports, "closed": free_port()}
    for name in ("host", "key"):
        generate = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)]
        subprocess.run(generate, check=True)
    (tmp_path / "ssh").write_text(SSH.format(**places))
    for name, port in ports.items():
        (tmp_path / f"sshd-{name}").write_text(SSHD.format(folder=tmp_path, port=port))
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {tmp_path}/ssh "$@"\n')
    (tools / "ssh").chmod(0o755)
    campaign.path = [str(tools)]
    Path("/run/sshd").mkdir(exist_ok=True)
    serve = (sshd, "-D", "-f")
    with daemon(*serve, tmp_path / "sshd-near"), daemon(*serve, tmp_path / "sshd-doomed") as doomed:
        for name in ports:
            wait_for("ready", tools / "ssh", name, "echo ready")
        yield doomed


def test_over_ssh_the_table_is_the_same_though_a_host_is_silent(
    campaign: Campaign,
    ssh: subprocess.Popen[bytes],
    exact: pd.DataFrame,
) -> None:
    campaign.plan |= {"hosts": ["far", "near"], "at_once": 2}
    done = campaign.run("--executor", "ssh")
    assert done.returncode == 0, done.stderr
    pd.testing.assert_frame_equal(campaign.table(), exact)
    assert [path.name for path in campaign.out.glob("hosts/*.silent")] == ["far.silent"]


def test_over_ssh_another_host_takes_the_job_of_one_that_dies(
    campaign: Campaign,
    ssh: subprocess.Popen[bytes],
    exact: pd.DataFrame,
) -> None:
    campaign.plan["hosts"] = ["doomed", "near"]
    campaign.enlarge(80)
    run = start_and_wait(campaign, *campaign.argv("--executor", "ssh"))
    end(ssh)
    said = run.communicate()[1]
    assert run.returncode == 0, said
    assert [path.name for path in campaign.out.glob("hosts/*.silent")] == ["doomed.silent"]
    same_cells(campaign.table(), exact)


def test_without_a_host_each_cell_is_said_to_be_missing(
    campaign: Campaign, ssh: subprocess.Popen[bytes]
) -> None:
    campaign.plan["hosts"] = ["far"]
    done = campaign.run("--executor", "ssh")
    assert done.returncode == 1
    assert "far did not answer ssh" in done.stderr and "Traceback" not in done.stderr, done.stderr


class Slurm:
    """Two nodes of this machine."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        etc = folder / "etc"
        etc.mkdir()
        self.bound = (*BOUND, str(etc))
        ports = {name: free_port() for name in ("controller", "first", "second")}
        text = SLURM.format(name=os.uname().nodename, folder=folder, **ports)
        (etc / "slurm.conf").write_text(text)
        for name in ("state", "spool-n1", "spool-n2"):
            (folder / name).mkdir()
        key = folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        files = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "log", "pid", "seed")]
        munged = ("munged", "--foreground", "--force", *files, f"--socket={folder}/munge.socket")
        for argv in (munged, (*self.bound, "slurmctld", "-D", "-i")):
            stack.enter_context(daemon(*argv))
        self.nodes = {
            name: stack.enter_context(daemon(*self.bound, "slurmd", "-D", "-N", name))
            for name in ("n1", "n2")
        }
        wait_for("2 idle", *self.bound, "sinfo", "--noheader", "--format=%D %T")

    def kill(self, node: str) -> None:
        """A node dies with its jobs: slurmd, and what runs in its name, with that one's parents."""
        end(self.nodes[node])
        for process in psutil.process_iter(["name"]):
            with suppress(psutil.Error):
                if process.environ().get("SLURMD_NODENAME") == node:
                    above = process.parent()
                    if above and above.name().startswith("slurmstepd"):
                        above.kill()
                    process.kill()


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Slurm]:
    if not all(map(shutil.which, ("slurmctld", "slurmd", "munged"))):
        pytest.skip("Slurm is not installed (apt-get install slurm-wlm munge)")
    with ExitStack() as stack:
        (tmp_path / "slurm").mkdir()
        yield Slurm(tmp_path / "slurm", stack)


def test_by_slurm_the_table_is_the_same_though_a_node_dies(
    campaign: Campaign,
    slurm: Slurm,
    exact: pd.DataFrame,
) -> None:
    campaign.enlarge(80)
    argv = campaign.argv("--executor", "slurm", "--jobs", "2", "--", "--slurm-no-account")
    argv += ["--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "2"]
    run = start_and_wait(campaign, *slurm.bound, *argv)
    slurm.kill("n2")
    said = run.communicate()[1]
    assert run.returncode == 0, said
    same_cells(campaign.table(), exact)
