# SPDX-License-Identifier: GPL-2.0-or-later
"""The proof that a box works: what a student types, done by a script, with what it printed.

The machine gets no way out to any network, so what passes here passes in a class without one.
Everything lies in a folder of its own, VAGRANT_HOME too, and is gone afterwards.
"""

from __future__ import annotations

import datetime
import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

from runners import guest
from runners.box import emulator
from runners.collect.children import command, stop
from runners.errors import RunError
from runners.guest.process import find_program
from runners.invoker import invoker
from runners.lanes import REPOSITORY
from runners.options import DEFAULT_KERNEL

# Of box, network and folder, and so of the machine: nothing of the user's is called so.
NAME = "pathcost-proof"
URI = "qemu:///system"
# Vagrant reads a Vagrantfile in its home before the project's.
AT_HOME = f"""\
Vagrant.configure("2") do |config|
  config.vm.provider "libvirt" do |machine|
    machine.management_network_name = "{NAME}"
    machine.management_network_address = "192.168.223.0/24"
    machine.management_network_mode = "none"
  end
end
"""
PROGRAMS = ("vagrant", "virsh", "libvirtd", "qemu-img", "rsync")
PACKAGES = ("vagrant", "vagrant-libvirt", "libvirt-daemon-system", "libvirt-clients", "rsync")
LEFT_AT_HOME = (".git", "build", "__pycache__", ".*_cache", ".vagrant", "20*")
ABOUT = "uname -r; grep PRETTY /etc/os-release; systemd-detect-virt; systemd-analyze | head -n 1"
MEASURE = "cd /vagrant && sudo ./runners/run.sh"
FETCH = "vagrant ssh --no-tty -c 'tar -C /vagrant -c reports' | tar -x"
START_SECONDS = 30
ERASE = "\x1b[K"
PROGRESS = f"{ERASE}Progress: "  # a line for each change, without a terminal


class Shell:
    """Runs commands as a student would; each goes into the transcript with output and seconds."""

    def __init__(self, folder: Path, env: dict[str, str], transcript: TextIO) -> None:
        self._folder = folder
        self._env = env
        self._transcript = transcript

    def say(self, text: str) -> None:
        """A line of the transcript, and on the terminal."""
        print(text, flush=True)
        self._transcript.write(text + "\n")
        self._transcript.flush()

    def run(self, line: str) -> None:
        """A line for the shell. Raises RunError if it fails."""
        self.say(f"$ {line}")
        began = time.monotonic()
        with subprocess.Popen(
            command(["bash", "-o", "pipefail", "-c", line]), cwd=self._folder, env=self._env,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace",
        ) as process:  # fmt: skip
            assert process.stdout is not None
            for printed in process.stdout:
                if PROGRESS not in printed:
                    self.say(printed.rstrip().removeprefix(ERASE))
        self.say(f"# {time.monotonic() - began:.0f} s\n")
        if process.returncode != 0:
            raise RunError(f"the box does not pass: '{line}' ended with {process.returncode}.")


def prove(box: Path, out: Path, driver: str | None, options: Sequence[str]) -> None:
    """Add the box, boot it, measure in it, fetch the report into the new folder `out`.

    `options` go to run.sh in the machine. Raises RunError, GuestError, OSError.
    """
    if os.geteuid() != 0:
        raise RunError("the proof talks to the system's libvirt: run it with sudo.")
    for program in PROGRAMS:
        if not shutil.which(program):
            raise RunError(f"{program} is missing: apt-get install {' '.join(PACKAGES)}.")
    if not box.is_file():
        raise RunError(f"there is no box {box}: make one with box.sh make.")
    out.mkdir()
    with ExitStack() as stack:
        home = Path(stack.enter_context(TemporaryDirectory(prefix=".pathcost-", dir=box.parent)))
        checkout = home / NAME
        shutil.copytree(
            REPOSITORY, checkout, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_AT_HOME)
        )
        (home / "Vagrantfile").write_text(AT_HOME, encoding="utf-8")
        chosen = {"PATHCOST_BOX": NAME, "PATHCOST_DRIVER": driver or _driver()}
        if chosen["PATHCOST_DRIVER"] == "qemu":
            home.chmod(0o755)  # libvirt's own user starts what lies in it
            chosen["PATHCOST_EMULATOR"] = str(
                emulator.install(home / "qemu", invoker().cache, lambda _: None)
            )
        env = os.environ | chosen | {"VAGRANT_HOME": str(home), "VAGRANT_CHECKPOINT_DISABLE": "1"}
        transcript = stack.enter_context((out / "transcript.txt").open("w", encoding="utf-8"))
        shell = Shell(checkout, env, transcript)
        stack.enter_context(libvirt(out / "libvirtd.log"))
        _environment(shell, box, chosen)
        stack.callback(_leave, shell)
        shell.run(f"vagrant box add --name {NAME} {shlex.quote(str(box))}")
        shell.run("vagrant up --provider=libvirt")
        shell.run(f"vagrant ssh --no-tty -c '{ABOUT}'")
        shell.run(f"vagrant ssh --no-tty -c {shlex.quote(' '.join([MEASURE, *options]))}")
        shell.run(FETCH)
        _judge(shell, checkout, out)


def _driver() -> str:
    """What boots here, found by booting the project's own guest."""
    machine = guest.prepare(invoker().cache, DEFAULT_KERNEL)
    return "kvm" if machine.accelerator == "kvm" else "qemu"


def _environment(shell: Shell, box: Path, chosen: dict[str, str]) -> None:
    today = datetime.datetime.now(datetime.UTC).date()
    shell.say(f"# {today}, {os.cpu_count()} CPUs, {box.name} of {box.stat().st_size >> 20} MiB")
    shell.say(f"# {', '.join(f'{name}={value}' for name, value in chosen.items())}")
    shell.run("vagrant --version && virsh --version")
    shell.run("${PATHCOST_EMULATOR:-qemu-system-x86_64} --version | head -n 1")


def _judge(shell: Shell, checkout: Path, out: Path) -> None:
    """Keep the report that came back, and look into it."""
    (run,) = (checkout / "reports").glob("20*")
    manifest = json.loads((run / "run.json").read_text(encoding="utf-8"))
    lanes = [(lane["lane"], lane["rung"]) for lane in manifest["lanes"]]
    if lanes != [("host", "function")]:
        raise RunError(
            f"the machine's own kernel was to allow every probe, and the lanes are {lanes}."
        )
    for name in ("report.html", "report.md", "measurements.csv"):
        if not (run / name).stat().st_size:
            raise RunError(f"{name} came back empty.")
    shutil.move(run, out / "run")
    shell.say(f"# passed: {manifest['lanes'][0]['kernel']}, rung function, {manifest['seconds']} s")


@contextmanager
def libvirt(log: Path) -> Iterator[None]:
    """The system's libvirt; where no init starts it, ours for the time being."""
    if _answers():
        yield
        return
    with log.open("w") as words, ExitStack() as stack:
        for daemon in ("virtlogd", "libvirtd"):
            process = subprocess.Popen(
                command([find_program(daemon)]),
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
            )
            stack.callback(stop, process)
        until = time.monotonic() + START_SECONDS
        while not _answers():
            if time.monotonic() > until:
                raise RunError(f"libvirtd does not answer; its words are in {log}.")
            time.sleep(0.2)
        yield


def _answers() -> bool:
    return _virsh("version").returncode == 0


def _virsh(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["virsh", "--connect", URI, *arguments],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip


def _leave(shell: Shell) -> None:
    """Remove the machine, the box, its volume in libvirt's pool, and the network."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # nobody else would remove them
    for line in ("vagrant destroy --force", f"vagrant box remove --force {NAME}"):
        with suppress(RunError):
            shell.run(line)
    for volume in _virsh("vol-list", "default").stdout.split():
        if volume.startswith(f"{NAME}_vagrant_box_image"):
            _virsh("vol-delete", "--pool", "default", volume)
    for action in ("net-destroy", "net-undefine"):  # where vagrant has not
        _virsh(action, NAME)
