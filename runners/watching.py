# SPDX-License-Identifier: GPL-2.0-or-later
"""--watch and --what-if: what local connections spend now, and what a Unix socket would save.

Root's process starts probes/bcc/pairs.py, which counts; all else is the user's.
"""

import json
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from probes.messages import shown
from runners import prices
from runners.cli import Parser
from runners.host.root import Root
from runners.options import parse as parse_run
from runners.process import RunError, UsageError, last_line
from runners.session import Session
from runners.store import invoker, place
from runners.values import duration, path, size, whole_number

SECONDS, LONGEST = 10, 3600
LIMIT = 1.0  # percent
WATCH_STATUS = "Exit status: 0 done, 1 failed or nothing talked, 2 impossible, 130 interrupted."
DESCRIPTION = """\
Which processes of this machine talk to each other, and what would a Unix socket save?

It reads how much they send and when, never what. Root is needed for the probes alone."""
WHAT_IF = "What would a Unix socket save a client and a server like these? Needs no root."


def number(name: str, least: float, most: float) -> Any:
    """Parses a number between two bounds."""

    def parse(word: str) -> float:
        if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,6})?", word) or not least <= float(word) <= most:
            raise UsageError(f"{name} {shown(word)} is not a number from {least:g} to {most:g}.")
        return float(word)

    return parse


def numbers(name: str, most: int) -> Any:
    """Parses a list of whole numbers."""
    parse = whole_number(name, most)
    return lambda text: tuple(parse(word.strip()) for word in text.split(","))


Rows = tuple[tuple[str, str, dict[str, Any]], ...]


def _parser(action: str, description: str, usage: str, rows: Rows, /, **first: Any) -> Parser:
    """A parser of `action` and `rows`; `first`: what argparse needs for the action."""
    parser = Parser("run.sh", description, WATCH_STATUS, usage=usage)
    parser.add_argument(action, required=True, **first)
    for name, text, options in rows:
        parser.add_argument(name, help=text, **options)
    parser.add_argument("--help", "-h", action="help", help="show this help")
    return parser


def build_watch_parser() -> Parser:
    usage = "sudo ./runners/run.sh --watch [SECONDS] [option …]"
    return _parser(
        *("--watch", DESCRIPTION, usage, WATCH), nargs="?", metavar="SECONDS",
        const=float(SECONDS), type=number("--watch", 1, LONGEST),
        help=f"watch for so long (default: {SECONDS})",
    )  # fmt: skip


def build_what_if_parser() -> Parser:
    usage, text = "./runners/run.sh --what-if [option …]", "predict without watching"
    return _parser("--what-if", WHAT_IF, usage, PAIR, action="store_true", help=text)


def _takes(metavar: str, kind: Any, default: Any = None) -> dict[str, Any]:
    return {"metavar": metavar, "type": kind, "default": default}


COMMON: Rows = (
    ("--prices", "take what messages cost from a stored run (default: measured once, then kept)",
     _takes("RUN", path)),
    ("--json", "print one JSON object",
     {"dest": "shown", "action": "store_const", "const": "--json", "default": ""}),
    ("--no-install", "name the packages that are missing instead of installing them",
     {"action": "store_true"}),
)  # fmt: skip
WATCH: Rows = (
    ("--pid", "show only pairs of these processes",
     _takes("LIST", numbers("--pid", 1 << 22), ())),
    ("--port", "show only pairs that use these TCP ports",
     _takes("LIST", numbers("--port", 65535), ())),
    ("--limit", "let the probes take so much of the CPU time of what they watch, and count in a "
     f"part of the time where it would be more (default: {LIMIT:g}; 100 counts every call)",
     _takes("PERCENT", number("--limit", 0.01, 100), LIMIT)),
    *COMMON,
    ("--out", "write what was seen to DIR (default: reports/<time>)", _takes("DIR", path)),
)  # fmt: skip
PAIR: Rows = (
    ("--rate", "requests a second, of all clients together (default: 1000)",
     _takes("N", number("--rate", 0.001, 1e8), 1000.0)),
    ("--size", "bytes of a request and of its answer (default: 64)", _takes("BYTES", size, 64)),
    ("--work", "what the server does for a request, such as 300us or 5ms (default: nothing)",
     _takes("TIME", duration, 0.0)),
    ("--clients", "clients that each wait for their answer (default: 1)",
     _takes("N", whole_number("--clients", 100_000), 1)),
    ("--connect", "each request opens a connection of its own", {"action": "store_true"}),
    *COMMON,
)  # fmt: skip


def asked(argv: Sequence[str], name: str) -> bool:
    return any(word == name or word.startswith(f"{name}=") for word in argv)


def check_prices(place: Path | None) -> None:
    """Raises UsageError."""
    if place is not None and not place.exists():
        raise UsageError(f"--prices {shown(str(place))} is not there: name the folder of a run.")


def session_of(given: Any) -> Session:
    return Session(parse_run(["--no-install"] if given.no_install else []))


def watch(argv: list[str]) -> int:
    """Watch, store, predict: the exit status of the analysis. Raises UsageError, RunError."""
    given = build_watch_parser().parse(argv)
    check_prices(given.prices)
    for pid in given.pid:
        if not Path(f"/proc/{pid}").is_dir():
            raise UsageError(f"there is no process {pid}.")
    destination = place(given.out, Path("reports"))
    session = session_of(given)
    if session.root is None:
        raise RunError("watching needs root, for its probes: sudo ./runners/run.sh --watch")
    with session.progress.step("set-up"):
        python = session.set_up()
    if given.prices is None:
        with session.progress.step("prices"):
            listed = prices.prices(session.invoker.cache, session.progress.note)
    session.root.mounts()
    with session.progress.step(f"watching for {given.watch:g} s"):
        found = observed(session.root, given.watch, given.limit)
    found["only"] = {"pids": list(given.pid), "ports": list(given.port)}
    destination.mkdir(parents=True, exist_ok=True)
    write(destination / "watch.json", found)
    if given.prices is None:
        write(destination / "prices.json", listed)
    return analyse(session, python, "--watch", destination, given)


def analyse(session: Session, python: Path, action: str, where: Path, given: Any) -> int:
    """Run the analysis, and return its exit status."""
    from_run = ["--prices", str(given.prices.resolve())] if given.prices else []
    shown_as = [given.shown] if given.shown else []
    return session.analyse(python, action, str(where), *from_run, *shown_as)


def observed(root: Root, seconds: float, limit: float) -> dict[str, Any]:
    """What root's program counted. Raises RunError."""
    with tempfile.TemporaryFile() as complaints:
        words = [f"{seconds:g}", f"{limit:g}"]
        program = root.start("pairs", words, stderr=complaints.fileno())
        said = program.stdout.read()
        if program.wait()[0] != 0:
            why = last_line(complaints).removeprefix("ERROR: ") or "it gave no reason"
            raise RunError(f"this kernel's connections cannot be watched: {why}")
    result: dict[str, Any] = json.loads(said)
    return result


def write(file: Path, found: dict[str, Any]) -> None:
    file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def what_if(argv: list[str]) -> int:
    """Predict for a pair that is described: the exit status of the analysis."""
    given = build_what_if_parser().parse(argv)
    check_prices(given.prices)
    session = session_of(given)
    with session.progress.step("set-up"):
        python = session.set_up()
    with tempfile.TemporaryDirectory(prefix="pathcost-") as name:
        where = Path(name)
        if given.prices is None:
            with session.progress.step("prices"):
                write(where / "prices.json", prices.prices(invoker().cache, session.progress.note))
        described = {name: getattr(given, name) for name in ("rate", "size", "clients", "connect")}
        write(where / "what-if.json", described | {"work_us": given.work})
        return analyse(session, python, "--what-if", where, given)


PARSERS = {"--watch": build_watch_parser, "--what-if": build_what_if_parser}
