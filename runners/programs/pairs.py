# SPDX-License-Identifier: GPL-2.0-or-later
"""The verbs `watch` and `what-if`: what local connections spend, and what a Unix socket would save.

Root's process starts probes/bcc/pairs.py, which counts; all else is the user's.
"""

import json
import tempfile
from argparse import Namespace as Options
from pathlib import Path
from typing import Any

from runners.host.root import Root
from runners.host.session import Session, analyse
from runners.process import REPOSITORY, RunError, UsageError, last_line
from runners.programs.prices import prices
from runners.store import place


def watch(options: Options) -> int:
    """Watch, store, predict: the exit status. Raises UsageError, RunError."""
    for pid in options.pid:
        if not Path(f"/proc/{pid}").is_dir():
            raise UsageError(f"there is no process {pid}.")
    destination, session = place(options.out, REPOSITORY / "reports"), Session(options)
    root = session.need_root()
    stored = _set_up(session)
    root.mounts()
    with session.progress.step(f"watching for {options.seconds:g} s"):
        watched = _observe(root, options.seconds, options.limit)
    watched["only"] = {"pids": list(options.pid), "ports": list(options.port)}
    destination.mkdir(parents=True, exist_ok=True)
    return _predict("--watch", destination, stored | {"watch.json": watched}, options)


def what_if(options: Options) -> int:
    """Predict for a pair that is described: the exit status. Raises RunError."""
    stored = _set_up(Session(options))
    described = {name: getattr(options, name) for name in ("rate", "size", "clients", "connect")}
    stored["what-if.json"] = described | {"work_us": float(options.work or 0)}
    with tempfile.TemporaryDirectory(prefix="pathcost-") as folder:
        return _predict("--what-if", Path(folder), stored, options)


def _set_up(session: Session) -> dict[str, Any]:
    """Set up; the prices as the file that a prediction reads, unless a run has them."""
    with session.progress.step("set-up"):
        session.set_up()
    if session.options.prices:
        return {}
    with session.progress.step("prices"):
        return {"prices.json": prices(session.invoker.cache, session.progress.note)}


def _observe(root: Root, seconds: float, limit: float) -> dict[str, Any]:
    """What root's program counted. Raises RunError."""
    with tempfile.TemporaryFile() as complaints:
        program = root.start("pairs", [f"{seconds:g}", f"{limit:g}"], stderr=complaints.fileno())
        counted = program.stdout.read()
        if program.wait()[0] != 0:
            why = last_line(complaints).removeprefix("ERROR: ") or "it gave no reason"
            raise RunError(f"this kernel's connections cannot be watched: {why}")
    result: dict[str, Any] = json.loads(counted)
    return result


def _predict(verb: str, folder: Path, stored: dict[str, Any], options: Options) -> int:
    """Store what is known, and let the analysis predict from it: its exit status."""
    for name, content in stored.items():
        (folder / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    prices = ["--prices", str(options.prices.resolve())] if options.prices else []
    return analyse(verb, str(folder), *prices, *([options.show] if options.show else []))
