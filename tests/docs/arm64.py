# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/arm64.md, made from the rows in reports/reference/arm64.

    python -m tests.docs.arm64            # make the page again
    python -m tests.docs.arm64 RUN …      # take rows from these runs of exact mode first

The text stands in docs/site/arm64.md.j2, which has no figure of its own. cells.csv has a row for
each cell; purposes.csv what the instructions of the usual cell are for; shared.csv how many of the
functions that both architectures execute there are called equally often; probed.csv has calls that
the probes of a guest counted (`run --target guest --arch arm64`), beside exact mode's; needs.csv is
of studies of lesions (`exact --arch arm64 --lesions --sched fifo --placements same-cpu`).
"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from analysis.paths.cells import ExactCell, read_exact
from analysis.raw.run import read_run
from analysis.wording import signed
from probes.functions import told
from probes.isa import ISAS
from probes.transports import PAIR
from runners.process import REPOSITORY

ROWS = REPOSITORY / "reports/reference/arm64"
PAGE = REPOSITORY / "docs/arm64.md"
REFRESH = "python -m tests.docs.arm64"
USUAL_CELL = {"kernel": "6.12", "size": "64", "placement": "same-cpu"}
USUAL_CELL |= {"sched": "fifo", "knob": ""}
NEEDED_CELL = {"size": "64", "placement": "same-cpu", "knob": ""}
NEEDED_CELL |= {"order": "largest first", "form": "no state differs"}
TEXTS = {"kernel": str, "size": str}
NO_PURPOSE = "unaccounted"
KEY = ["kernel", "arch", "knob", "transport", "size", "placement", "sched"]


class Rows:
    """The tables."""

    def __init__(self) -> None:
        self.cells, self.purposes, self.shared = (
            pd.read_csv(ROWS / f"{name}.csv", keep_default_na=False, dtype=TEXTS)
            for name in ("cells", "purposes", "shared")
        )
        self.probed = pd.read_csv(ROWS / "probed.csv")
        folders = {"arm64": ROWS, "x86-64": ROWS.with_name("lesions")}
        self.needs = {
            arch: pd.read_csv(folder / "needs.csv", keep_default_na=False, dtype=str)
            for arch, folder in folders.items()
        }

    def of(self, arch: str, transport: str, column: str = "instructions", **where: str) -> int:
        """A cell's figure; the usual cell's but for what is given."""
        wanted = USUAL_CELL | {"arch": arch, "transport": transport} | where
        [value] = match(self.cells, wanted)[column]
        return int(value)

    def ratio(self, arch: str, **where: str) -> str:
        return f"{self.of(arch, 'tcp', **where) / self.of(arch, 'unix', **where):.2f}"

    def more(self, transport: str) -> Iterator[tuple[str, int]]:
        """Purpose → instructions that arm64 executes more, the greatest difference first."""
        rows = match(self.purposes, {"transport": transport})
        pairs = rows.pivot(index="purpose", columns="arch", values="instructions").fillna(0)
        differs = (pairs["arm64"] - pairs["x86-64"]).astype(int)
        named = [(str(purpose), more) for purpose, more in differs.items()]
        yield from sorted(named, key=lambda pair: -abs(pair[1]))

    def equal(self, transport: str) -> tuple[int, int]:
        [row] = match(self.shared, {"transport": transport}).to_dict("records")
        return row["alike"], row["both"]

    def left(self, arch: str, transport: str, purpose: str = "left") -> int:
        """Instructions that delivery over a transport needs; `all`: that it takes."""
        where = NEEDED_CELL | {"transport": transport, "purpose": purpose}
        if purpose == "all":
            where |= {"form": ""}
        rows = match(self.needs[arch], where)
        [value] = rows[rows["kernel"].str.startswith("6.12.")]["instructions"]
        return int(value)

    def orders_apart(self, transport: str) -> int:
        """How far the orders of taking lesions together end from each other on arm64."""
        where = {"transport": transport, "form": NEEDED_CELL["form"], "purpose": "left"}
        left = match(self.needs["arm64"], where)["instructions"].astype(int)
        return int(left.max() - left.min())

    @property
    def probed_alike(self) -> int:
        """Functions that probes found called as often as exact mode, in each cell and repeat."""
        differs = (self.probed["least"] != self.probed["exact"]) | (
            self.probed["most"] != self.probed["exact"]
        )
        return self.probed["function"].nunique() - self.probed[differs]["function"].nunique()

    @property
    def transports(self) -> list[str]:
        """Those that were counted in arm64's usual cell."""
        return list(match(self.cells, USUAL_CELL | {"arch": "arm64"})["transport"])


def match(table: pd.DataFrame, where: dict[str, str]) -> pd.DataFrame:
    for name, value in where.items():
        table = table[table[name] == value]
    return table


def page(rows: Rows) -> str:
    environment = Environment(
        loader=FileSystemLoader(REPOSITORY / "docs/site"),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"whole": lambda value: f"{value:,}", "signed": signed}
    return environment.get_template("arm64.md.j2").render(rows=rows)


def kernel_name(cell: ExactCell) -> str:
    """`6.12`, or `6.12-arm64-16k`, as --kernel takes it."""
    isa = ISAS[cell.arch]
    series, kind = ".".join(cell.kernel.split(".")[:2]), isa.kind_of(cell.kernel)
    return series if kind == isa.kernels[0] else f"{series}-{kind}"


def cell_row(cell: ExactCell) -> dict[str, Any]:
    return {
        "kernel": kernel_name(cell),
        "arch": cell.arch,
        "knob": cell.knob.name if cell.knob else "",
        "transport": cell.transport,
        "size": str(cell.size),
        "placement": cell.placement,
        "sched": cell.sched,
        "release": cell.kernel,
        "qemu": cell.qemu,
        "cpu": cell.knob.cpu if cell.knob and cell.knob.cpu else cell.cpu,
        "instructions": cell.total,
        "mean": round(cell.window.instructions / cell.iterations),
        "identical": cell.identical,
        "iterations": cell.iterations,
        "copies": "" if cell.payload is None else cell.payload.per_byte(cell.size),
        "valid": cell.valid,
    }


def purpose_rows(cell: ExactCell) -> Iterator[dict[str, Any]]:
    purposes: Counter[str] = Counter()
    for span in cell.tree:
        purposes[told(span.path[-1], "purpose") or NO_PURPOSE] += span.instructions
    for purpose, count in sorted(purposes.items()):
        yield {
            "transport": cell.transport,
            "purpose": purpose,
            "arch": cell.arch,
            "instructions": count,
        }


def shared_row(first: ExactCell, second: ExactCell) -> dict[str, Any]:
    calls, others = first.calls(), second.calls()
    both = [name for name in calls if calls[name] and others[name]]
    alike = sum(calls[name] == others[name] for name in both)
    return {"transport": first.transport, "both": len(both), "alike": alike}


def probed_rows(run: Path) -> Iterator[dict[Any, Any]]:
    """Calls a round trip that a run's guest and exact mode counted; none without a guest."""
    table = pd.read_csv(run / "measurements.csv", low_memory=False)
    calls = table[table["quantity"] == "function_calls"]
    exact = calls[(calls["target"] == "exact") & (calls["conditions"] == "same-cpu+fifo")]
    known = exact.set_index(["transport", "key"])["value"]
    key = ["transport", "conditions", "messages", "key"]
    for names, rows in calls[calls["target"] == "guest"].groupby(key):
        transport, conditions, messages, function = names
        counts = rows["value"] / (rows["messages"] / 2)
        yield {
            "transport": transport,
            "placement": conditions,
            "messages": messages,
            "function": function,
            "least": counts.min(),
            "most": counts.max(),
            "exact": known.get((transport, function), 0),
        }


def take(runs: Sequence[Path]) -> None:
    """Take what these runs have counted into the tables; other rows stay."""
    counted = [cell for run in runs for cell in read_exact(read_run(run))]
    rows: list[dict[Any, Any]] = Rows().cells.to_dict("records")
    rows += map(cell_row, counted)
    newest = {tuple(row[name] for name in KEY): row for row in rows}
    write("cells", [newest[key] for key in sorted(newest)])
    if probed := [row for run in runs for row in probed_rows(run)]:
        write("probed", probed)
    usual = {
        (cell.arch, cell.transport): cell
        for cell in counted
        if all(cell_row(cell)[name] == value for name, value in USUAL_CELL.items())
    }
    if usual.keys() >= {*product(ISAS, PAIR)}:
        pairs = [[usual[arch, name] for arch in ISAS] for name in PAIR]
        write("purposes", [row for pair in pairs for cell in pair for row in purpose_rows(cell)])
        write("shared", [shared_row(*pair) for pair in pairs])


def write(name: str, rows: Sequence[dict[Any, Any]]) -> None:
    pd.DataFrame(rows).to_csv(ROWS / f"{name}.csv", index=False, lineterminator="\n")


if __name__ == "__main__":
    if sys.argv[1:]:
        take([Path(name) for name in sys.argv[1:]])
    PAGE.write_text(page(Rows()), encoding="utf-8")
