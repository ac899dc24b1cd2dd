# SPDX-License-Identifier: GPL-2.0-or-later
"""The tables of docs/knobs.md, made from the rows in reports/reference/knobs.csv.

    python -m tests.docs.knobs            # fill the page again
    python -m tests.docs.knobs RUN …      # take the rows from these runs of exact mode first

A row is a knob on a kernel over a transport: instructions and steps of a message more than without
it, and events of a message where the knob is a probe.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.analyse import analyse
from analysis.raw.run import read_run
from analysis.wording import ABSENT, signed
from probes.transports import PAIR
from runners.process import REPOSITORY
from tests.docs import figures

ROWS = REPOSITORY / "reports/reference/knobs.csv"
PAGE = REPOSITORY / "docs/knobs.md"
REFRESH = "python -m tests.docs.knobs"
TABLE = re.compile(r"(?m)(^\|.*\n)+")
CPU, PROBE = ("cpu=", "pti="), ("probe=", "bpftrace=")
NEWEST_STABLE = "6.12"


def take(runs: list[Path]) -> pd.DataFrame:
    """The rows of these runs; an invalid cell ends it."""
    pairs = [pair for run in runs for pair in analyse(read_run(run)).knobs]
    if broken := [pair.words for pair in pairs if not pair.valid]:
        raise SystemExit(f"pathcost: {ROWS} is as it was; invalid: {', '.join(broken)}")
    return pd.DataFrame({
        "kernel": pair.after.kernel.split("-")[0].split("+")[0], "transport": pair.transport,
        "knob": pair.after.knob and pair.after.knob.name,
        "instructions": pair.difference, "steps": pair.steps, "events": pair.events,
    } for pair in pairs).drop_duplicates(["kernel", "transport", "knob"])  # fmt: skip


def tables(rows: pd.DataFrame) -> Iterator[str]:
    """Yield the page's three tables: on each kernel, the CPU itself, probes."""
    cells: dict[Any, Any] = {
        (row.knob, row.transport, row.kernel): row for row in rows.itertuples()
    }
    kernels = sorted(set(rows["kernel"]), key=lambda name: [int(n) for n in name.split(".")])
    [newest] = (kernel for kernel in kernels if kernel.startswith(NEWEST_STABLE))
    names: list[str] = list(rows["knob"].unique())
    usual = [name for name in names if not name.startswith((*CPU, *PROBE))]
    places = [(transport, kernel) for transport in PAIR for kernel in kernels]
    yield _table(
        ("knob", *(" ".join(place) for place in places)),
        ((name, *(_signed(cells[name, *place].steps) for place in places)) for name in usual),
    )
    yield _table(
        ("knob", *(f"{name}, {unit}" for name in PAIR for unit in ("instructions", "steps"))),
        (
            (name, *(_signed(getattr(cells[name, one, newest], unit)) for one in PAIR
                     for unit in ("instructions", "steps")))
            for name in names if name.startswith(("control", *CPU))
        ),
    )  # fmt: skip
    yield _table(
        ("knob", "events a message: unix, tcp", "an event", "a unix message", "a tcp message"),
        (
            (name, _pair(f"{one.events:,.0f}" for one in both),
             _pair(f"{one.steps / one.events:,.0f}" for one in both if one.events),
             *(_signed(one.steps) for one in both))
            for name in names if name.startswith(PROBE)
            for both in [[cells[name, transport, newest] for transport in PAIR]]
        ),
    )  # fmt: skip


def _signed(value: float) -> str:
    return signed(value) if value else "0"


def _pair(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(values)) or ABSENT


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table in Markdown. `cpu=Haswell+pcid=off+rtm=off` is `cpu=Haswell+…=off` in it."""
    lines = [heads, ("---", *["---:"] * (len(heads) - 1))]
    lines += [(f"`{re.sub(r'[+].*=off$', '+…=off', name)}`", *cells) for name, *cells in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def page(rows: pd.DataFrame) -> str:
    """Return the page with the tables of these rows."""
    made = tables(rows)
    return TABLE.sub(lambda _: next(made), PAGE.read_text(encoding="utf-8"))


def main() -> None:
    if runs := [Path(name) for name in sys.argv[1:]]:
        take(runs).to_csv(ROWS, index=False)
    PAGE.write_text(page(pd.read_csv(ROWS)), encoding="utf-8")
    figures.fill()


if __name__ == "__main__":
    main()
