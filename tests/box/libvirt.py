# SPDX-License-Identifier: GPL-2.0-or-later
"""libvirt for the proof: the system's, or a temporary one; removes what a proof leaves in it.

The temporary one runs in its own network namespace (ip-netns(8)), and so do the commands that reach
its machine. Its bridge, its firewall rules and its sysctls never touch the host, and go with it.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from runners.guest.process import find_program
from runners.process import RunError, attempt, command, stop

# The name of box, folder, network and namespace, and so of machine and volumes. Nothing else has
# this name.
NAME = "pathcost-proof"
URI = "qemu:///system"
POOL = "default"
MACHINES, NETWORKS = ("list", "--all", "--name"), ("net-list", "--all", "--name")
VOLUMES = ("vol-list", POOL)
START_SECONDS = 30
ANSWER_SECONDS = 60  # virsh needs milliseconds, and 15 s to destroy a machine


@contextmanager
def libvirt(log: Path) -> Iterator[list[str]]:
    """A libvirt that answers, without anything of a proof in it, before or after the block.

    Yields the words before a command that reaches its machines. Needs root. Raises RunError.
    """
    _drop_namespace()  # left by a killed proof
    with ExitStack() as stack:
        enter = [] if _answers() else stack.enter_context(_ours(log))
        _clear()
        had_pool = POOL in _virsh("pool-list", "--all", "--name").stdout.split()
        failed = True
        try:
            yield enter
            failed = False
        finally:
            left = _clear()
            if not had_pool:  # then Vagrant has made it
                with suppress(RunError):
                    _virsh("pool-destroy", POOL)
                    _virsh("pool-undefine", POOL)
            if left:
                sentence = f"libvirt keeps {', '.join(left)} of the proof: remove it with virsh."
                if not failed:
                    raise RunError(sentence)
                print(f"pathcost: {sentence}", file=sys.stderr)


@contextmanager
def _ours(log: Path) -> Iterator[list[str]]:
    with log.open("w") as words, ExitStack() as stack:
        _ip("netns", "add", NAME)
        stack.callback(_drop_namespace)
        _ip("-n", NAME, "link", "set", "lo", "up")
        enter = [find_program("ip"), "netns", "exec", NAME]
        for daemon in ("virtlogd", "libvirtd"):
            process = subprocess.Popen(
                command([*enter, find_program(daemon)]),
                stdin=subprocess.DEVNULL, stdout=words, stderr=words,
            )  # fmt: skip
            stack.callback(stop, process)
        until = time.monotonic() + START_SECONDS
        while not _answers():
            if time.monotonic() > until:
                raise RunError(f"libvirtd does not answer: its words are in {log}.")
            time.sleep(0.2)
        stack.callback(_end_networks)
        yield enter


def _clear() -> list[str]:
    """Remove every machine, volume and network of a proof. Returns what could not be removed."""
    try:
        for machine in _named(*MACHINES):
            _virsh("destroy", machine)
            _virsh("undefine", "--managed-save", "--snapshots-metadata", machine)
        for volume in _named(*VOLUMES):
            _virsh("vol-delete", "--pool", POOL, volume)
        if _named(*NETWORKS):
            _virsh("net-destroy", NAME)
            _virsh("net-undefine", NAME)
        return [name for listing in (MACHINES, VOLUMES, NETWORKS) for name in _named(*listing)]
    except RunError as error:  # it hangs
        return [f"what is called {NAME} ({str(error).rstrip('.')})"]


def _named(*listing: str) -> list[str]:
    """The words of a listing that are names of a proof."""
    words = _virsh(*listing).stdout.split()
    return [word for word in words if word == NAME or word.startswith(f"{NAME}_")]


def _end_networks() -> None:
    """End them first: libvirt's notes on running networks would outlive their namespace."""
    with suppress(RunError):
        for network in _virsh("net-list", "--name").stdout.split():
            _virsh("net-destroy", network)


def _answers() -> bool:
    return _virsh("version").returncode == 0


def _virsh(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Raises RunError where libvirt hangs."""
    return _ask(["virsh", "--connect", URI, *arguments])


def _ip(*arguments: str) -> None:
    done = _ask([find_program("ip"), *arguments])
    if done.returncode != 0:
        raise RunError(
            f"no network namespace for libvirtd ({done.stderr.strip()}): start libvirtd by hand, "
            "or in a container, run it with --privileged."
        )


def _drop_namespace() -> None:
    """End all its processes too: dnsmasq, and a killed proof's machine, outlive libvirtd."""
    ip = find_program("ip")
    for pid in _ask([ip, "netns", "pids", NAME]).stdout.split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    _ask([ip, "netns", "delete", NAME])


def _ask(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return attempt(argv, timeout=ANSWER_SECONDS)
    except subprocess.TimeoutExpired:
        raise RunError(
            f"libvirt hangs: '{' '.join(argv)}' has not ended after {ANSWER_SECONDS} s; restart "
            "libvirtd and try again."
        ) from None
