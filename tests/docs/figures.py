# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures that README, CONTRIBUTING and docs/ quote: filled from what runs have stored.

    python -m tests.docs.figures    # fill them again; so does each command that stores a run

figures.toml has the words that stand around each figure, and where it comes from. A page may have
no other figure: `typed` finds those. A figure is a number with a unit of time, of memory, of
instructions or of a share; a number with a comma for thousands; one with two digits after its
point, which is no release of a kernel; and one number of another.
"""

import importlib
import json
import re
import tarfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment

from analysis.claims.files import load_claims
from analysis.claims.rules import Unsettled
from analysis.predict.prices import Prices
from analysis.raw.programs import PriceList
from analysis.statistics import Estimate, compared
from analysis.wording import MINUS
from runners.process import REPOSITORY
from tests.docs.transcripts import steps

REFRESH = "python -m tests.docs.figures"
TABLE = Path(__file__).with_suffix(".toml")
EVERY = "every page"  # a key of the table beside the pages' names
LESSONS = REPOSITORY / "docs/lessons"
PAGES = [
    REPOSITORY / "README.md",
    REPOSITORY / "CONTRIBUTING.md",
    *sorted((REPOSITORY / "docs").rglob("*.md")),
    REPOSITORY / "docs/course/bank.toml",
]
# Lines that another command of tests/docs, or a test's, makes: a page's, by how they begin.
MADE = {
    "docs/audit.md": r".* compared \(",
    "docs/choosing.md": r"\|",
    "docs/comparison-with-peers.md": r"\|",
    "docs/in-real-programs.md": r"\|",
    "docs/intervals.md": r"\| [^|]+ \|( [\d.]+%? \|)+$",
    "docs/install.md": r"\| .* \| \d+, \d+, \d+; ",
    "docs/knobs.md": r"\|",
    "docs/arm64.md": "",
    "docs/path-over-time.md": "",
    "docs/your-server.md": r"\| [\w-]+/",
}
NUMBER = rf"[{MINUS}+-]?\d+(?:[.,]\d+)*"
UNITS = "µs|ms|ns|s|seconds?|minutes?|MB|GB|%|per cent|percent|instructions|steps|times"
RELEASE = r"(?:[5-7]\.\d+|24\.04|3\.1\d)(?![\d.]*\d)"  # of Linux, Ubuntu, Python
FIGURE = re.compile(
    rf"(?<![\w.,/-])(?:"
    rf"{NUMBER}(?:(?:\u2013|-| to | and | or |, ){NUMBER})*\s?(?:{UNITS})(?!\w)"
    rf"|{NUMBER} of {NUMBER}(?![.\w])"
    rf"|\d{{1,3}}(?:,\d{{3}})+(?!\w)"
    rf"|(?!{RELEASE})\d+\.\d\d(?![.\d\w]))"
)
PLACE = re.compile(r"\{\{(.*?)\}\}")
CODE = re.compile(r"(?ms)^```.*?^```|`[^`\n]*`|<!--.*?-->|\]\([^)\s]*\)")


def shown(page: str, before: str, number: int = 0, group: int = 0) -> float:
    """A figure of a page's transcripts: a group of the pattern `before`, counted from 0.

    `page` begins the name of a lesson, `number` counts from 0 where the pattern is there again.
    """
    [path] = LESSONS.glob(f"{page}-*.md")
    text = "\n".join(line for step in steps(path) for line in step.shown)
    found = list(re.finditer(before, text, re.MULTILINE))
    return float(found[number][1 + group].replace(",", ""))


def tree(page: str, function: str, number: int = 0) -> float:
    """What a function has in a call tree that a lesson shows."""
    return shown(page, rf"^ *([\d,]+) +{re.escape(function)}$", number)


@cache
def rows(path: str) -> pd.DataFrame:
    """A stored table."""
    return pd.read_csv(REPOSITORY / path, sep="\t" if path.endswith(".tsv") else ",", comment="#")


def cell(path: str, column: str, **where: Any) -> Any:
    """A column's value in the row of a stored table in which these columns have these values."""
    table = rows(path)
    for name, value in where.items():
        table = table[table[name] == value]
    [value] = table[column].unique()
    return value


def code(name: str) -> Any:
    """A constant of the code, such as `runners.store.locks.FREE_SECONDS`."""
    module, _, constant = name.rpartition(".")
    return getattr(importlib.import_module(module), constant)


def stored(path: str) -> Any:
    """A stored JSON or TOML file."""
    text = (REPOSITORY / path).read_text(encoding="utf-8")
    return tomllib.loads(text) if path.endswith(".toml") else json.loads(text)


def gate(name: str, words: str) -> tuple[float, float]:
    """The instructions before and after, in a line of a stored output of the gate."""
    text = (REPOSITORY / "docs/af-unix" / f"gate-{name}.txt").read_text(encoding="utf-8")
    [line] = re.findall(rf"^{re.escape(words)} +([\d,]+) -> +([\d,]+)  ", text, re.MULTILINE)
    before, after = (float(value.replace(",", "")) for value in line)
    return before, after


def held(figure: str, *attempts: str) -> tuple[int, int]:
    """How many measured gains lay in the predicted interval, of how many, in these attempts."""
    table = rows("docs/predictions.tsv")
    table = table[table["attempt"].astype(str).isin(attempts) & (table["figure"] == figure)]
    return int((table["inside"] == "yes").sum()), len(table)


def claims(kind: str) -> int:
    """How many claims that others make: `all`, `judged` without a program, of a `program`, open.

    `sources` are those who make them, `ours` the claims of our own pages.
    """
    every = load_claims()
    others = [claim for claim in every if not claim.source.ours]
    unsettled = sum(isinstance(claim.rule, Unsettled) for claim in others)
    programs = sum(bool(claim.scope.programs) for claim in others)
    return {
        "all": len(others),
        "judged": len(others) - unsettled - programs,
        "program": programs,
        "open": unsettled,
        "sources": len({claim.source.id for claim in others}),
        "ours": len(every) - len(others),
    }[kind]


def gates(name: str) -> Counter[str]:
    """How many cells of a stored output of the gate are `shorter`, `longer` or `equal`."""
    lines = (REPOSITORY / "docs/af-unix" / f"gate-{name}.txt").read_text(encoding="utf-8")
    pairs = re.findall(r" ([\d,]+) -> +([\d,]+)  ", lines)
    sizes = [[int(value.replace(",", "")) for value in pair] for pair in pairs]
    return Counter(
        "equal" if before == after else "shorter" if after < before else "longer"
        for before, after in sizes
    )


def pairs(column: str, kernel: str, transport: str, connections: int, server: str) -> float:
    """A column of guest.csv."""
    where = {"kernel": kernel, "transport": transport, "connections": connections}
    return float(cell("docs/af-unix/guest.csv", column, server=server, **where))


def woken(kernel: str, function: str) -> float:
    """Wake-ups of a round trip by a function, with five connections and threads."""
    where = {"kernel": kernel, "transport": "unix", "connections": 5, "server": "threads"}
    return float(cell("docs/af-unix/wakers.csv", f"by_{function}", **where))


def longer(transport: str, connections: int) -> Estimate:
    """By how many µs a median is longer than a Unix socket's, with threads and without pauses."""
    table = rows("docs/af-unix/runs.csv")
    of_cell = (table["server"] == "threads") & (table["idle_us"] == 0)
    own = table[of_cell & (table["connections"] == connections)]
    times = own.pivot_table(index="repeat", columns="transport", values="p50")
    return compared(times["unix"].to_numpy(), times[transport].to_numpy()).added


def slower() -> tuple[float, float]:
    """How many times as long TCP's median is at least and at most, over all runs."""
    keys = ["repeat", "connections", "server", "idle_us"]
    times = rows("docs/af-unix/runs.csv").pivot_table(index=keys, columns="transport", values="p50")
    ratios = times["tcp"] / times["unix"]
    return float(ratios.min()), float(ratios.max())


def knob(name: str, transport: str, unit: str = "steps") -> float:
    return float(cell("reports/reference/knobs.csv", unit, knob=name, transport=transport))


def events(begin: str) -> list[float]:
    """What an event costs over each transport, of the knobs that begin so, in steps."""
    table = rows("reports/reference/knobs.csv")
    own = table[table["knob"].str.startswith(begin) & (table["events"] > 0)]
    return [float(cost) for cost in own["steps"] / own["events"]]


def needs(transport: str, purpose: str) -> int:
    """Instructions of a round trip that no lesion may take (`left`), that those of a purpose take
    where no state may differ, or `all`."""
    table = rows("reports/reference/lesions/needs.csv")
    where = "kernel.str.startswith('6.12') and transport == @transport and size == 64"
    where += " and placement == 'same-cpu' and knob.isna()"
    where += " and order == 'largest first' and form == 'no state differs'"
    own = table.query(where).set_index("purpose")["instructions"]
    return int(own.sum() if purpose == "all" else own[purpose])


def said(kernel: str, transport: str, size: int) -> float:
    """Somebody's median round trip, in µs."""
    where = {"kernel": kernel, "transport": transport, "size": size, "pattern": "pingpong"}
    return float(cell("reports/reference/over-time/outside.csv", "value", **where))


def grown(kernel: str, transport: str) -> float:
    """By how much it is longer for 16 KiB than for 4 KiB."""
    return said(kernel, transport, 16384) - said(kernel, transport, 4096)


def _blind(attempt: str) -> pd.DataFrame:
    table = rows("docs/predictions.tsv")
    return table[(table["attempt"].astype(str) == attempt) & (table["figure"] == "time")]


def opened(attempt: str) -> int:
    """How many verdicts of an attempt were open."""
    return int(_blind(attempt)["kind"].str.startswith("open").sum())


def unsettled(attempt: str) -> int:
    """How many measured gains of an attempt are smaller than their own error."""
    cases = _blind(attempt)
    return int((cases["measured_us"].abs() < cases["error_us"]).sum())


def missed(attempt: str, guess: float | None = None, of: str = "mean") -> float:
    """By how many per cent of a request's time the prediction missed, or this guess for all.

    `of` these is the mean, or the median.
    """
    cases = _blind(attempt)
    told = cases["predicted_us"] if guess is None else guess
    return float(100 * ((told - cases["measured_us"]).abs() / cases["of_us"]).agg(of))


def after(code_kib: int, data_kib: int, cpus: int) -> float:
    """TCP's extra time after so much other work, in µs: the median of reports/reference/cold."""
    table = rows("reports/reference/cold/table.csv")
    chosen = table.query(f"code_kib == {code_kib} and data_kib == {data_kib} and cpus == {cpus}")
    ns = chosen.pivot_table("median_ns", "repeat", "transport")
    return float((ns["tcp"] - ns["unix"]).median() / 1000)


@cache
def extra(folder: str, cold: float) -> float:
    """TCP's extra time in ping-pong on one CPU, in µs, by the prices that an attempt has stored."""
    with tarfile.open(REPOSITORY / "reports/reference/blind.tar.xz") as archive:
        file = archive.extractfile(f"{folder}/prices.json")
        assert file
        prices = Prices(PriceList.model_validate_json(file.read()).cells)
    return float(prices.saved("pingpong", 1, 64, cold)[0])


def overlaps() -> tuple[int, int]:
    """In how many stored settings both ways to a Unix socket agree, of how many."""
    table = rows("reports/reference/proofs.csv").dropna(subset=["own", "rerouted"])
    agree = (table["own_low"] <= table["rerouted_high"]) & (
        table["rerouted_low"] <= table["own_high"]
    )
    return int(agree.sum()), len(table)


def seconds(run: str, step: str = "") -> float:
    """How long a stored run took, or its step of this name."""
    record = stored(f"reports/reference/{run}/run.json")
    if not step:
        return float(record["seconds"])
    [value] = [
        value for name, value in record["seconds_by_step"].items() if re.fullmatch(step, name)
    ]
    return float(value)


SOURCES = (
    after, cell, claims, code, events, extra, gate, gates, grown, held, knob, longer, missed,
    needs, opened, overlaps, pairs, said, seconds, shown, slower, stored, tree, unsettled, woken,
)  # fmt: skip
# Lines of transcripts, with a group for each figure.
LINES = {
    "p50": r"^. iteration, median \(p50\) [|] ([\d.]+) µs[^|]*[|] ([\d.]+) µs",
    "executed": r"^. instructions, kernel and user [|] ([\d,]+) [|] ([\d,]+) [|] ([\d,]+)",
    "full": r"^unix     64 B: full after +(\d+) writes with +([\d,]+) B; .* after +([\d,]+) B",
    "cell16": r"^  unix pingpong 16384 B +([\d,]+) -> +([\d,]+)",
}


def written(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:,.0f}".replace("-", MINUS)


def places(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}".replace("-", MINUS)


def change(pair: tuple[float, float]) -> float:
    """By how many per cent the second is more than the first."""
    return 100 * (pair[1] / pair[0] - 1)


@cache
def _environment() -> Environment:
    environment = Environment()
    environment.filters |= {"places": places, "change": change}
    return environment


def value_of(source: str) -> str:
    """What stands at a place: an expression of Jinja over the functions above."""
    compiled = _environment().compile_expression(source, undefined_to_none=False)
    return written(compiled({function.__name__: function for function in SOURCES} | LINES))


def pattern(words: str) -> re.Pattern[str]:
    """Find these words, however their lines are broken, with any number at a place."""
    parts = PLACE.split(words)[::2]
    literal = (re.sub(r"(?:\\?\s)+", r"\\s+", re.escape(part)) for part in parts)
    return re.compile(f"({NUMBER})".join(literal))


def read_table() -> dict[str, dict[str, Any]]:
    """A page's name → `filled`, a list of words with places; `constant`, words → why."""
    table: dict[str, dict[str, Any]] = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return table


def name_of(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


def filled(page: Path, table: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page with its figures. Raises ValueError where their words are not in it once."""
    text = page.read_text(encoding="utf-8")
    for words in table.get(name_of(page), {}).get("filled", ()):
        found = list(pattern(words).finditer(text))
        if len(found) != 1:
            raise ValueError(f"{name_of(page)} has {len(found)} times: {words}")
        values = [value_of(source) for source in PLACE.findall(words)]
        for number, value in reversed(list(enumerate(values, 1))):
            text = text[: found[0].start(number)] + value + text[found[0].end(number) :]
    return text


def typed(page: Path, table: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield each figure of a page that is neither filled nor a constant with a reason."""
    name, text = name_of(page), page.read_text(encoding="utf-8")
    text = CODE.sub(lambda match: re.sub(r"[^\n]", "`", match[0]), text)
    own = table.get(name, {})
    constants = chain(own.get("constant", ()), table[EVERY]["constant"])
    spans = [match.span() for words in constants for match in pattern(words).finditer(text)]
    for words in own.get("filled", ()):
        for match in pattern(words).finditer(page.read_text(encoding="utf-8")):
            spans += [match.span(number) for number in range(1, len(match.groups()) + 1)]
    made = MADE.get(name)
    for match in FIGURE.finditer(text):
        line = text[text.rfind("\n", 0, match.start()) + 1 :].partition("\n")[0]
        numbers = re.finditer(NUMBER, match[0])
        places = [(match.start() + n.start(), match.start() + n.end()) for n in numbers]
        known = all(any(a <= start and end <= b for a, b in spans) for start, end in places)
        if not known and not (made is not None and re.match(made, line)):
            number = text.count("\n", 0, match.start()) + 1
            yield f"{name}:{number}: {match[0]}"


def fill() -> None:
    """Fill all pages again. Raises ValueError."""
    table = read_table()
    for page in PAGES:
        page.write_text(filled(page, table), encoding="utf-8")


if __name__ == "__main__":
    fill()
