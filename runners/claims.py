# SPDX-License-Identifier: GPL-2.0-or-later
"""--claims: the cells that the claims need and no more, and what is asked of kernel and tools.

The registry belongs to the analysis, which reads it in its own Python and says what it needs
(`python -m analysis.needs`); so a wrong claims file ends a run before anything is measured.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from probes.reasons import missing, reason
from runners.cells import GUEST, HOST, Defaults, cells, passes
from runners.collect.plan import Cell, CellRun, Pass, Plan
from runners.collect.scripts import read_scripts
from runners.errors import RunError, UsageError
from runners.invoker import Invoker
from runners.lanes import CHECKS, GUEST_NOBODY, WORKLOAD
from runners.options import PATTERNS, PLACEMENTS, TRANSPORTS, USUAL_IN_FLIGHT, Options

HERE = Path(__file__).parent
# What a placement may say of pipeline, as the tidy table does: `cross-cpu+256-in-flight`.
IN_FLIGHT = re.compile(r"\+([1-9]\d{0,4})-in-flight$")
FUNCTIONS = "functions"  # the script that sees every function
COUNTED_REPEATS = 2  # counts repeat: the second run shows it
SECONDS = 10  # for a tool's answer
COMPLAINTS = ("unrecognized", "unknown", "invalid option", "unexpected argument", "illegal option")

# Cells that run for their times, without probes for their counts, and with probes.
KINDS = ("timed", "undisturbed", "counted")
Needs = dict[str, Any]


def read_needs(python: Path, options: Options) -> Needs:
    """What the claims that were asked for need. Raises UsageError, RunError."""
    found = subprocess.run(
        [python, "-B", "-m", "analysis.needs", *(options.claims or ())],
        capture_output=True, text=True, check=False, cwd=HERE.parent,
    )  # fmt: skip
    if found.returncode != 0:
        lines = found.stderr.strip().splitlines() or ["the claims could not be read."]
        said = lines[-1].removeprefix("pathcost: ")
        raise (UsageError if found.returncode == 2 else RunError)(said)
    needs: Needs = json.loads(found.stdout)
    for cell in (cell for kind in KINDS for cell in needs[kind]):
        for key, known in (
            ("transport", TRANSPORTS),
            ("pattern", PATTERNS),
            ("placement", PLACEMENTS),
        ):
            if IN_FLIGHT.sub("", cell[key]) not in known:
                raise UsageError(
                    f"a claim needs the {key} '{cell[key]}': there is {', '.join(known)}."
                )
    return needs


def host_plan(needs: Needs, options: Options, rung: str, alone: bool, who: Invoker) -> Plan:
    """On this kernel: everything without probes; the counts too where there is no guest beside."""
    kinds = KINDS if alone else KINDS[:2]
    names = scripts(needs, rung) if alone else []
    todo = _passes(needs, options, HOST, kinds, names)
    asked = _asked(needs, CHECKS / "build")
    return Plan(str(WORKLOAD), todo, who.drop, samples=True, **asked)


def guest_plan(needs: Needs, options: Options) -> Plan:
    """In a guest: all that is no time."""
    workload = Path("/run/pathcost", WORKLOAD.name)
    todo = _passes(needs, options, GUEST, KINDS[1:], scripts(needs, "function"))
    asked = _asked(needs, Path("/run/pathcost", CHECKS.name))
    return Plan(str(workload), todo, GUEST_NOBODY, own_kernel=True, **asked)


def _asked(needs: Needs, folder: Path) -> dict[str, Any]:
    """What this kernel is asked: each kernel is, so that an answer stands on several."""
    return {"checks": tuple(needs["checks"]), "checks_folder": str(folder)}


def in_guest(needs: Needs) -> bool:
    """Whether there is anything that a guest can do for them: it has no times."""
    return any(needs[kind] for kind in KINDS[1:])


def lacking(needs: Needs, rung: str) -> list[dict[str, Any]]:
    """What is not counted on this rung."""
    able = scripts(needs, rung)
    table = read_scripts()
    return [
        missing(table[name][0].quantities, reason("needs-function-probes", script=name))
        for name in scripts(needs, "function")
        if name not in able
    ]


def _passes(
    needs: Needs, options: Options, defaults: Defaults, kinds: Sequence[str], names: Sequence[str]
) -> tuple[Pass, ...]:
    """Cells without probes, interleaved; then each stretch of scripts over the counted cells."""
    bare = [cell for kind in kinds if kind != "counted" for cell in needs[kind]]
    repeats = options.repeats or defaults.repeats
    done = passes(_cells(bare, options, defaults), repeats, (), seed=options.seed)
    if "counted" in kinds:
        todo = _cells(needs["counted"], options, GUEST)
        done += _counting(todo, names, sum(len(one.runs) for one in done) + 1)
    return done


def _cells(wanted: Iterable[dict[str, Any]], options: Options, defaults: Defaults) -> list[Cell]:
    """In the order of the registry, transports of one condition side by side."""
    found: dict[tuple[Any, ...], dict[str, None]] = {}
    for one in wanted:
        where = (one["pattern"], one["size"], one["placement"])
        found.setdefault(where, {})[one["transport"]] = None
    made = []
    for (pattern, size, placement), transports in found.items():
        many = IN_FLIGHT.search(placement)
        asked = replace(
            options,
            in_flight=int(many[1]) if many else USUAL_IN_FLIGHT,
            transports=tuple(transports),
            patterns=(pattern,),
            sizes=(size,),
            placements=(IN_FLIGHT.sub("", placement),),
            waits=("block",),
            scheds=("other",),
            topologies=("one",),
        )
        made += [cell for cell in cells(asked, defaults) if not cell.extra]
    return made


def _counting(todo: Sequence[Cell], names: Sequence[str], first: int) -> tuple[Pass, ...]:
    table, ids = read_scripts(), count(first)
    stretches: dict[str, list[str]] = {}
    for name in names:
        stretches.setdefault(table[name][0].stretch, []).append(name)
    made = []
    for stretch, chosen in stretches.items():
        repeats = COUNTED_REPEATS if stretch == "counts" else 1
        most = min((n for name in chosen if (n := table[name][0].most)), default=None)
        runs = tuple(
            CellRun(next(ids), _short(cell, most), repeat)
            for repeat in range(repeats)
            for cell in todo
        )
        made.append(Pass(tuple(chosen), runs))
    return tuple(made)


def _short(cell: Cell, most: int | None) -> Cell:
    return cell if most is None else replace(cell, messages=min(cell.messages, most))


def scripts(needs: Needs, rung: str) -> list[str]:
    """For each quantity the first script that counts it, where this rung can run it."""
    table = read_scripts()
    chosen = {
        next((name for name, rows in table.items() if quantity in rows[0].quantities), "")
        for quantity in needs["quantities"]
    }
    if needs["functions"]:
        chosen.add(FUNCTIONS)
    return [name for name, rows in table.items() if name in chosen and rows[0].runs_on(rung)]


def ask_tools(needs: Needs, out: Path) -> None:
    """Ask the tools; their answers go to tools.jsonl."""
    _write(out / "tools.jsonl", [_tool(name, asked) for name, asked in needs["tools"].items()])


def _tool(name: str, asked: Sequence[str]) -> dict[str, Any]:
    if shutil.which(name) is None:
        why = f"{name} is not installed (apt-get install {name})"
        return {"tool": name, "help": "", "options": {}, "error": why}
    options = {}
    for option in asked:
        said = _said([name, f"{option}=x" if option.startswith("--") else option])
        options[option] = not any(word in said.lower() for word in COMPLAINTS)
    return {"tool": name, "help": _said([name, "--help"]), "options": options, "error": None}


def _said(argv: list[str]) -> str:
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS,
            check=False, env=os.environ | {"LC_ALL": "C"},
        )  # fmt: skip
    except (subprocess.TimeoutExpired, OSError) as error:
        return str(error)
    return done.stdout + done.stderr


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")
