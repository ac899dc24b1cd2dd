# SPDX-License-Identifier: GPL-2.0-or-later
"""libvirt for the proof: the system's, or ours for the time being, and what must not stay in it.

Ours runs in a network namespace of its own (ip-netns(8)), and so do the commands that reach its
machine: its bridge, its firewall's rules and its sysctls never touch the host, and go with it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from runners.errors import RunError
from runners.guest.process import find_program
from runners.process import command, stop

# Of box, folder, network and namespace, and so of machine and volumes: nothing of the user's is
# called so.
NAME = "pathcost-proof"
URI = "qemu:///system"
POOL = "default"
START_SECONDS = 30
ANSWER_SECONDS = 60  # virsh: what it asks for takes milliseconds, and destroying a machine 15 s


@contextmanager
def libvirt(log: Path) -> Iterator[list[str]]:
    """A libvirt that answers and holds nothing of a proof; nothing of one stays in it either.

    Yields how a command line has to start to reach its machines. Needs root. Raises RunError.
    """
    _drop_namespace()  # of a proof that was killed
    with ExitStack() as stack:
        enter = [] if _answers() else stack.enter_context(_ours(log))
        _clear()
        had_pool = POOL in _listed("pool-list")
        try:
            yield enter
        except BaseException:
            if left := _end(had_pool):
                print(f"pathcost: {_sentence(left)}", file=sys.stderr)
            raise
        if left := _end(had_pool):
            raise RunError(_sentence(left))


def _sentence(left: list[str]) -> str:
    return f"libvirt keeps {', '.join(left)} of the proof: remove it with virsh."


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


def _end(had_pool: bool) -> list[str]:
    """Leave libvirt as it was; what stayed all the same."""
    left = _clear()
    if not had_pool:  # then Vagrant has made it
        with suppress(RunError):
            _virsh("pool-destroy", POOL)
            _virsh("pool-undefine", POOL)
    return left


def _clear() -> list[str]:
    """Remove every machine, volume and network of a proof; what stayed all the same."""
    try:
        for machine in _machines():
            _virsh("destroy", machine)
            _virsh("undefine", "--managed-save", "--snapshots-metadata", machine)
        for volume in _volumes():
            _virsh("vol-delete", "--pool", POOL, volume)
        if _networks():
            _virsh("net-destroy", NAME)
            _virsh("net-undefine", NAME)
        return [*_machines(), *_volumes(), *_networks()]
    except RunError as error:  # it hangs
        return [f"what is called {NAME} ({str(error).rstrip('.')})"]


def _machines() -> list[str]:
    return [name for name in _listed("list") if name.startswith(f"{NAME}_")]


def _networks() -> list[str]:
    return [name for name in _listed("net-list") if name == NAME]


def _volumes() -> list[str]:
    printed = _virsh("vol-list", POOL).stdout.split()
    return [word for word in printed if word.startswith(f"{NAME}_")]


def _listed(what: str) -> list[str]:
    return _virsh(what, "--all", "--name").stdout.split()


def _end_networks() -> None:
    """Libvirt's notes on running networks would outlast the namespace where they ran."""
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
    """End whatever is in it (dnsmasq outlives libvirtd; of a killed proof the machine, too)."""
    ip = find_program("ip")
    for pid in _ask([ip, "netns", "pids", NAME]).stdout.split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    _ask([ip, "netns", "delete", NAME])


def _ask(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=ANSWER_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise RunError(
            f"libvirt hangs: '{' '.join(argv)}' has not ended after {ANSWER_SECONDS} s; restart "
            "libvirtd and try again."
        ) from None
