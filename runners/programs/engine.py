# SPDX-License-Identifier: GPL-2.0-or-later
"""Starts the server of a program's file and drives its client: all that a file leaves out.

    python3 -m runners.programs.engine PROGRAM CASE TRANSPORT SECONDS

drives a case for about so many seconds and prints its result as JSON; PROGRAM is a name or a .toml.
Servers and clients run as the invoking user or, where that is root, as nobody, since PostgreSQL and
MariaDB refuse root. A server lives as long as its keeper (runners/programs/keeper.py).
"""

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from runners.guest.store import Say
from runners.host.workload import private_directory
from runners.process import DONE, FAILED, UsageError, run_main
from runners.programs import packages
from runners.programs.place import LiveValues, Place, run_as
from runners.programs.program import Case, Program, find
from runners.programs.service import Service
from runners.store import invoker

__all__ = ["Service", "find", "prepared", "running", "serving"]


@contextmanager
def serving(program: Program, case: Case, transport: str, root: Path | None) -> Iterator[Service]:
    """Start the server. It listens, and ends with the block. Raises RunError."""
    user, _ = run_as()
    with private_directory(user) as directory, ExitStack() as stack:
        service = Service(program, Place(directory, root, program.over, program.path))
        (directory / "root").mkdir()
        values = LiveValues(program, case, transport, service.place)
        for name, text in program.files.items():
            (directory / name).write_text(values.text(text), encoding="utf-8")
        for process in program.processes:
            service.prepare(process.before, values)
        for number, process in enumerate(program.processes):
            stack.enter_context(service.started(process, values, number))
        yield service


def prepared(program: Program, cache: Path, say: Say, note: Say | None = None) -> Path | None:
    """The program's packages, unpacked in the cache. Raises RunError."""
    return packages.unpacked(program, cache, say, note)


@contextmanager
def running(
    program: Program, case: str, transport: str, cache: Path | None = None, say: Say = print
) -> Iterator[Service]:
    """The program's server, ready for `drive(service.program.case(case), transport, …)`, after a
    warm-up. Raises RunError, UsageError.
    """
    chosen = program.case(case)
    if transport not in program.transports:
        known = ", ".join(program.transports)
        raise UsageError(f"unknown transport '{transport}': there is {known}.")
    root = prepared(program, cache or invoker().cache, say)
    with serving(program, chosen, transport, root) as service:
        service.warm_up(chosen, transport)
        yield service


def main(argv: list[str]) -> int:
    if len(argv) != 4 or not argv[3].isdigit():
        raise UsageError("usage: python3 -m runners.programs.engine PROGRAM CASE TRANSPORT SECONDS")
    program = find(argv[0])
    say: Say = lambda text: print(text, file=sys.stderr)  # noqa: E731
    with running(program, argv[1], argv[2], say=say) as service:
        result = service.drive(program.case(argv[1]), argv[2], seconds=int(argv[3]))
    print(json.dumps(result))
    return FAILED if result["error"] else DONE


if __name__ == "__main__":
    sys.exit(run_main(lambda: main(sys.argv[1:])))
