# SPDX-License-Identifier: GPL-2.0-or-later
"""Whatever a claims file holds: known verdicts, or one sentence that names the file."""

import json
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from analysis.claims.files import load_claims, needs
from analysis.claims.judge import judge
from probes.messages import RunError, UsageError
from tests.analysis.made_claims import measured
from tests.faults.strategies import DIGITS, ODD, check_sentence, mutate, some_and_a_thousand

FILE = "claims/made-up.toml"
VERDICTS = {"CONFIRMED", "REFUTED", "CONDITIONAL", "NOT REPRODUCED", "NOT MEASURED"}
FIGURES = measured("switches", lambda transport, *_: {"unix": 2.0}.get(transport, 3.0))
RULES: tuple[dict[str, Any], ...] = (
    {"kind": "values", "expected": {"unix": 2, "tcp": 3.0}, "tolerance": 0.1},
    {"kind": "bounds", "least": {"tcp": 2}, "most": {"tcp": 4}},
    {"kind": "ratio", "over": "tcp", "under": "unix", "least": 1, "most": 2.5},
    {"kind": "ratio", "over": "tcp", "under": "unix", "about": 1.5},
    {"kind": "present", "on": ["tcp"], "not_on": ["unix"]},
    {"kind": "across", "key": "conditions", "over": "same-cpu", "under": "cross-cpu",
     "transports": ["tcp"], "least": 0.9},
    {"kind": "consistent", "stated": [{"what": "w", "larger": 3, "smaller": 1.5, "times": 2}]},
    {"kind": "consistent", "stated": [{"what": "w", "parts": [1, 2], "total": 3}]},
    {"kind": "check", "check": "peercred", "facts": {"uid": 1}, "when": {"umask": "022"}},
    {"kind": "option", "tool": "wrk", "option": "--latency"},
    {"kind": "unsettled", "why": "w"},
    {"kind": "part", "over": "tcp", "under": "unix", "least": 0.5},
)  # fmt: skip
SOURCE = {"id": "made-up", "description": "d", "title": "t"}
VALUES = [*ODD, DIGITS, 0, 1, 2.5, "tcp", "unix", "switches", "stream", "free+9-clients"]
WHERE = {"pattern": ["pingpong"], "size": [64], "conditions": ["same-cpu", "cross-cpu+spin"]}


def claims_file(rule: dict[str, Any]) -> dict[str, Any]:
    words = {"id": "one", "quote": "q", "statement": "s", "reading": "r", "scope": WHERE}
    over = ("values", "bounds", "ratio", "present", "across", "part")
    if rule["kind"] == "part":
        words["scope"] = WHERE | {"conditions": ["same-cpu"]}
    figures = {"quantity": "switches", "mechanism": "{switches.tcp}"}
    words |= figures if rule["kind"] in over else {}
    return {"source": SOURCE, "claim": [words | {"rule": rule}]}


def toml(value: Any) -> str:
    """A value as TOML; all tables are inline, so that each may stand anywhere."""
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key)} = {toml(inner)}" for key, inner in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.dumps(value).replace("\\u007f", "\x7f") if value is not None else "1979-05-27"


def text(file: dict[str, Any]) -> str:
    return "".join(f"{json.dumps(key)} = {toml(value)}\n" for key, value in file.items())


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    file = json.loads(json.dumps(claims_file(draw(st.sampled_from(RULES)))))
    for _ in range(draw(st.integers(1, 2))):
        mutate(file, draw(st.randoms(use_true_random=False)), VALUES)
    data = text(file).encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 9)) == 0:
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.binary(max_size=4)) + data[at + draw(st.integers(0, 9)) :]
    return data


def check(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "made-up.toml").write_bytes(data)
        try:
            claims = load_claims(Path(folder))
        except UsageError as error:
            check_sentence(str(error))
            assert str(error).startswith((FILE, "claims: two claims"))
            return
    assert all(map(math.isfinite, numbers([claim.model_dump() for claim in claims])))
    try:
        needs(claims)  # what --claims would run
    except RunError as error:
        check_sentence(str(error))
    for verdict in judge(claims, FIGURES, []):
        assert verdict.verdict in VERDICTS
        assert "nan" not in verdict.why
        assert "inf" not in verdict.why


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from numbers(inner)
    elif isinstance(value, int | float):
        yield value


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_is_judged_as_it_stands(rule: dict[str, Any]) -> None:
    """Else a mutation would change nothing that is looked at."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "made-up.toml").write_text(text(claims_file(rule)))
        (claim,) = load_claims(Path(folder))
    assert judge([claim], FIGURES, [])[0].verdict in VERDICTS


@pytest.mark.parametrize(
    "data",
    [
        b"a = " + b"[" * 200_000,
        b"a = " + DIGITS.encode(),
        text(claims_file(RULES[0] | {"expected": {"tcp": math.nan}})).encode(),
        text(claims_file({"kind": "consistent", "stated": [
            {"what": "w", "larger": 1, "smaller": 0, "times": 1}]})).encode(),
    ],
)  # fmt: skip
def test_what_was_found_once(data: bytes) -> None:
    check(data)


test_some_claims_files, test_a_thousand_claims_files = some_and_a_thousand(check, mutated())
