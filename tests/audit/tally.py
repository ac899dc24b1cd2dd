# SPDX-License-Identifier: GPL-2.0-or-later
"""How many claims have which verdict: counted in claims.csv, with the claims' own files."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.audit.screen import Screen

CLAIMS = Path(__file__).parents[2] / "analysis/claims"
MEASURED, ARITHMETIC = "measured", "checked against the source's own numbers"
ANSWERED, OPEN = "answered by the kernel or a tool", "not measured"
# "20 claims: 8 measured (5 confirmed, 3 refuted), which rest on 4 quantities; 12 checked …"
KIND = (
    rf"(?P<count>\d+) (?P<kind>{MEASURED}|{ANSWERED}|{ARITHMETIC}|{OPEN})"
    r"(?: \((?P<verdicts>[^()]*)\))?(?:, which rest on (?P<quantities>\d+) quantit(?:y|ies))?"
)
_ANY = re.sub(r"\?P<\w+>", "?:", KIND)
TALLY = rf"(?P<all>\d+) claims?: (?P<kinds>{_ANY}(?:; {_ANY})*)"
PART = "in part of their scope "


class Claim(NamedTuple):
    """A claim's verdict, and what it rests on."""

    kind: str
    verdict: str
    quantity: str
    whole: bool  # all of its scope was measured


def wrong(screen: Screen, match: re.Match[str]) -> Iterator[str]:
    """One sentence for each number of the tally that claims.csv does not give."""
    claims = _claims(screen)
    if int(match["all"]) != len(claims):
        yield f"{match['all']} claims, and claims.csv has {len(claims)}"
    for part in re.finditer(KIND, match["kinds"]):
        found = [claim for claim in claims if claim.kind == part["kind"]]
        if int(part["count"]) != len(found):
            yield f"{part['count']} {part['kind']}, and claims.csv has {len(found)}"
        quantities = {claim.quantity for claim in found}
        if part["quantities"] and int(part["quantities"]) != len(quantities):
            yield f"{part['quantities']} quantities, and the claims name {len(quantities)}"
        for half in (part["verdicts"] or "").split("; "):
            whole = not half.startswith(PART)
            for number, name in re.findall(r"(\d+) ([a-z ]+)", half.removeprefix(PART)):
                own = [c for c in found if c.verdict == name.upper() and c.whole is whole]
                if int(number) != len(own):
                    yield f"{number} {name}, {part['kind']}, and claims.csv has {len(own)}"


@cache
def _claims(screen: Screen) -> list[Claim]:
    rules = {
        claim["id"]: claim
        for path in CLAIMS.glob("*.toml")
        for claim in tomllib.loads(path.read_text(encoding="utf-8")).get("claim", [])
    }
    rows = {row["claim"]: row for row in screen.folder.rows("claims.csv")}
    found = []
    for name, row in rows.items():
        rule = rules[name]
        kind = ANSWERED
        if row["verdict"] == "NOT MEASURED":
            kind = OPEN
        elif rule["rule"]["kind"] == "consistent":
            kind = ARITHMETIC
        elif rule.get("quantity"):
            kind = MEASURED
        quantity = rule.get("quantity", "")
        found.append(Claim(kind, row["verdict"], quantity, not row.get("lacking")))
    return found
