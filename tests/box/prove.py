# SPDX-License-Identifier: GPL-2.0-or-later
"""Proves that a box works: does by script what a student types, and keeps the output.

The machine has no way out to any network, so what passes here passes in a class without a network.
Everything, VAGRANT_HOME too, is in one folder that is removed afterwards.
"""

import datetime
import json
import os
import shlex
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from runners import guest
from runners.box import disk, emulator
from runners.guest.process import find_program
from runners.process import REPOSITORY, RunError, UsageError, command, stop
from runners.store import Invoker, invoker, measuring, place, scratch
from tests.box.libvirt import NAME, libvirt

# libvirt writes this file, where it may write; at the end it is moved beside the transcript.
CONSOLE = Path(f"/var/log/libvirt/qemu/{NAME}-console.log")
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
# Added to the checkout's file: vagrant-libvirt 0.11 fails where a later file has no serials.
AT_END = f"""
Vagrant.configure("2") do |config|
  config.vm.provider "libvirt" do |machine|
    machine.serial type: "file", source: {{ path: "{CONSOLE}" }}
  end
end
"""
PROGRAMS = ("vagrant", "virsh", "libvirtd", "rsync", "ip")
PACKAGES = (
    "vagrant", "vagrant-libvirt", "libvirt-daemon-system", "libvirt-clients", "rsync", "iproute2",
)  # fmt: skip
SPACE = 3 << 30  # beside the box: the unpacked box, the emulator, the report
LEFT_AT_HOME = (".git", "build", "__pycache__", ".*_cache", ".vagrant", "20*")
ABOUT = "uname -r; grep PRETTY /etc/os-release; systemd-detect-virt; systemd-analyze | head -n 1"
MEASURE = "cd /vagrant && sudo ./runners/run.sh"
FETCH = "vagrant ssh --no-tty -c 'tar -C /vagrant -c reports' | tar -x"
CONSOLE_LOG = "console.log"
A_WEEK = 7 * 24 * 60
PATIENCE_MINUTES = 30.0  # an emulated machine boots and sets up in 68 s, and measures in 191 s
# For a command without a boot or a measurement: it takes seconds, even on an emulated CPU.
SHORT_MINUTES = 10.0
ERASE = "\x1b[K"
PROGRESS = f"{ERASE}Progress: "  # without a terminal, Vagrant prints a line for each change


class HungError(RunError):
    """A command was ended because its time was over."""


@dataclass(frozen=True)
class Shell:
    """Runs lines in `folder`; the transcript gets each with its output and its seconds.

    `enter` are the words before a command that reaches the machine.
    """

    folder: Path
    env: dict[str, str]
    transcript: TextIO
    enter: Sequence[str]

    def say(self, text: str) -> None:
        """Print a line, and write it to the transcript."""
        print(text, flush=True)
        print(text, file=self.transcript, flush=True)

    def run(self, line: str, minutes: float = SHORT_MINUTES) -> None:
        """Run a line of bash. Raises RunError if it fails, HungError after `minutes`."""
        self.say(f"$ {line}")
        began, seconds = time.monotonic(), minutes * 60
        limit = ["timeout", "--signal=KILL", f"{seconds}"]  # the children too
        process = subprocess.Popen(
            command([*self.enter, *limit, "bash", "-o", "pipefail", "-c", line]),
            cwd=self.folder, env=self.env, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,  # so that its children can be ended with it
        )  # fmt: skip
        last = ""
        try:
            assert process.stdout is not None
            for printed in process.stdout:
                if PROGRESS not in printed:
                    self.say(last := printed.rstrip().removeprefix(ERASE))
            process.wait()
        finally:
            if process.poll() is None:
                _end(process)
        took = time.monotonic() - began
        self.say(f"# {took:.0f} s\n")
        if process.returncode and took >= seconds:
            said = f'its last line was "{last.strip()}"' if last else "it printed nothing"
            raise HungError(f"'{line}' hangs: it has not ended after {minutes:g} min, and {said}")
        if process.returncode != 0:
            raise RunError(f"the box does not pass: '{line}' ended with {process.returncode}")


def _end(process: subprocess.Popen[str]) -> None:
    """End the command and all its children."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    stop(process)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def prove(
    box: Path, out: Path, driver: str | None, options: Sequence[str], patience: float
) -> None:
    """Add the box, boot it, measure in it, and fetch the report to the new folder `out`.

    `options` go to run.sh in the machine. A boot or a run.sh that takes more than `patience`
    minutes counts as hanging. Raises UsageError, RunError, RunError, OSError, KeyboardInterrupt.
    """
    _check(box, out, patience)
    who = invoker()
    with measuring(), scratch() as folders, ExitStack() as stack:
        with disk.written(out, "choose another place with --out"):
            out.mkdir(exist_ok=True)
        stack.callback(_give_away, who, out)
        with disk.written(box.parent, "copy the box to another folder"):
            home = folders.folder(box.parent, f".{NAME}")
        home.chmod(0o755)  # libvirt's own user starts the emulator in it
        chosen = _prepare(home, driver, who)
        try:
            _as_a_student(box, out, home, chosen, options, patience)
        except RunError as error:
            raise RunError(_with_traces(error, out)) from error
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"interrupted; the machine is removed, and what was printed is in {out}."
            ) from None


def _give_away(who: Invoker, out: Path) -> None:
    with suppress(OSError):
        out.rmdir()  # if it is empty
        return
    who.own(out)


def _check(box: Path, out: Path, patience: float) -> None:
    """Check everything that can be checked first. Raises UsageError, RunError."""
    if not 0 < patience <= A_WEEK:
        raise UsageError(f"--patience {patience:g} is no number of minutes above 0, up to a week.")
    if not box.is_file():
        raise UsageError(f"there is no box {box}: make one with box.sh make.")
    place(out, out.parent)
    if os.geteuid() != 0:
        raise RunError("the proof talks to the system's libvirt: run it with sudo.")
    if not tarfile.is_tarfile(box):
        raise UsageError(f"{box} is no box, which is a tar file: make one with box.sh make.")
    for program in PROGRAMS:
        try:
            find_program(program)
        except RunError:
            raise RunError(f"{program} is missing: apt-get install {' '.join(PACKAGES)}.") from None
    disk.check_room(box.parent, SPACE, "a proof", "copy the box to another folder")


def _prepare(home: Path, driver: str | None, who: Invoker) -> dict[str, str]:
    """Fill Vagrant's home: the checkout, and the emulator if needed. Returns the environment."""
    ignore = shutil.ignore_patterns(*LEFT_AT_HOME)
    shutil.copytree(REPOSITORY, home / NAME, symlinks=True, ignore=ignore)
    write_vagrantfiles(home)
    if driver is None:  # take the driver with which the project's own guest boots here
        machine = guest.prepare(who.cache)
        driver = "kvm" if machine.accelerator == "kvm" else "qemu"
    chosen = {"PATHCOST_BOX": NAME, "PATHCOST_DRIVER": driver}
    if driver == "qemu":
        emulator.check_reachable(home, "copy the box to another folder")
        program = emulator.install(home / "qemu", who.cache, lambda _: None)
        chosen["PATHCOST_EMULATOR"] = str(program)
    return chosen


def write_vagrantfiles(home: Path) -> None:
    """Add to the Vagrantfile: the proof's network, and the file for the console."""
    (home / "Vagrantfile").write_text(AT_HOME, encoding="utf-8")
    with (home / NAME / "Vagrantfile").open("a", encoding="utf-8") as ours:
        ours.write(AT_END)


def _as_a_student(
    box: Path, out: Path, home: Path,
    chosen: dict[str, str], options: Sequence[str], patience: float,
) -> None:  # fmt: skip
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VAGRANT_")}
    env = kept | chosen | {"VAGRANT_HOME": str(home), "VAGRANT_CHECKPOINT_DISABLE": "1"}
    CONSOLE.unlink(missing_ok=True)  # left by a killed proof
    with ExitStack() as stack:
        transcript = stack.enter_context((out / "transcript.txt").open("w", encoding="utf-8"))
        stack.callback(_keep_console, out)
        enter = stack.enter_context(libvirt(out / "libvirtd.log"))
        shell = Shell(home / NAME, env, transcript, enter)
        _environment(shell, box, chosen)
        stack.callback(_leave, shell)
        shell.run(f"vagrant box add --name {NAME} {shlex.quote(str(box))}")
        shell.run("vagrant up --provider=libvirt", patience)
        shell.run(f"vagrant ssh --no-tty -c '{ABOUT}'")
        measure = " ".join([MEASURE, *options])
        shell.run(f"vagrant ssh --no-tty -c {shlex.quote(measure)}", patience)
        shell.run(FETCH)
        _judge(shell, home / NAME, out)


def _leave(shell: Shell) -> None:
    """End as a student would; `libvirt` removes what is left."""
    for line in ("vagrant destroy --force", f"vagrant box remove --force {NAME}"):
        with suppress(RunError):
            shell.run(line)


def _keep_console(out: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.move(CONSOLE, out / CONSOLE_LOG)


def _with_traces(error: RunError, out: Path) -> str:
    """The error, with the files to look into and what to do."""
    said = f"{str(error).rstrip('.')}: see {out}/transcript.txt"
    if (out / CONSOLE_LOG).exists():
        said += f" and the machine's console, {out}/{CONSOLE_LOG}"
    if isinstance(error, HungError):
        said += "; if the machine is only slow, give it more time with --patience"
    return f"{said}."


def _environment(shell: Shell, box: Path, chosen: dict[str, str]) -> None:
    today = datetime.datetime.now(datetime.UTC).date()
    shell.say(f"# {today}, {os.cpu_count()} CPUs, {box.name} of {box.stat().st_size >> 20} MiB")
    shell.say(f"# {', '.join(f'{name}={value}' for name, value in chosen.items())}")
    shell.run("vagrant --version && virsh --version")
    shell.run("${PATHCOST_EMULATOR:-qemu-system-x86_64} --version | head -n 1")


def _judge(shell: Shell, checkout: Path, out: Path) -> None:
    """Keep the report that came back, and check it."""
    runs = list((checkout / "reports").glob("20*"))
    if len(runs) != 1:
        raise RunError(
            f"{len(runs)} reports came back instead of 1: the options after -- have to measure"
        )
    (run,) = runs
    manifest = json.loads((run / "run.json").read_text(encoding="utf-8"))
    counted = manifest["targets"] or manifest.get("exact", [])
    weak = [
        target["probe_level"]
        for target in manifest["targets"]
        if target["probe_level"] != "function"
    ]
    if weak or not counted:
        raise RunError(f"the machine should allow every probe, and it allows {weak or 'nothing'}")
    for name in ("report.html", "report.md", "measurements.csv"):
        if not (run / name).stat().st_size:
            raise RunError(f"{name} came back empty")
    shutil.move(run, out / "run")
    kernels = ", ".join(dict.fromkeys(target["kernel"] for target in counted))
    shell.say(f"# passed: {kernels}, probe level function, {manifest['seconds']} s")
