# SPDX-License-Identifier: GPL-2.0-or-later
"""Campaigns of small cells on the kernel that the other tests of exact mode have stored already.

PATHCOST_PLAN names another plan, a file of JSON, with which all of them can be done.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from runners.process import REPOSITORY
from tests.exact.conftest import built, exact_guest

__all__ = ["built", "exact_guest"]  # fixtures of exact mode
SMALL: dict[str, Any] = {
    "kernels": ["6.12"],
    "transports": ["unix", "tcp"],
    "sizes": [64],
    "placements": ["same-cpu"],
    "schedulings": ["fifo", "other"],
    "messages": 100,
}
GIVEN = os.environ.get("PATHCOST_PLAN")
PLAN = json.loads(Path(GIVEN).read_text(encoding="utf-8")) if GIVEN else SMALL
OPTIONS = {"kernels": "kernel", "schedulings": "sched"}  # their names, where they differ
ORDER = ["target", "kernel", "transport", "size", "cell", "quantity", "key"]


@dataclass
class Campaign:
    """A plan in a folder of its own."""

    folder: Path
    plan: dict[str, Any]
    path: Sequence[str] = ()  # before PATH
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def out(self) -> Path:
        return self.folder / "campaign"

    def enlarge(self, *sizes: int) -> None:
        """With more jobs than one, which the given plan has."""
        if not GIVEN:
            self.plan["sizes"] = [*SMALL["sizes"], *sizes]

    def argv(self, *words: str) -> list[str]:
        # JSON is YAML.
        plan = self.folder / "plan.yaml"
        plan.write_text(json.dumps(self.plan))
        script = REPOSITORY / "runners/campaign.sh"
        return [str(script), str(plan), "--out", str(self.out), *words]

    @property
    def environment(self) -> dict[str, str]:
        path = os.pathsep.join([*self.path, os.environ["PATH"]])
        return os.environ | {"PATH": path, **self.extra}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*words), capture_output=True, text=True, check=False, env=self.environment
        )

    def table(self) -> pd.DataFrame:
        return table(self.out / "run")


def table(run: Path) -> pd.DataFrame:
    """A run's tidy table, in an order that does not depend on who counted first."""
    tidy = pd.read_parquet(run / "measurements.parquet").drop(columns="run")
    return tidy.sort_values(ORDER, ignore_index=True)


def same_cells(tidy: pd.DataFrame, exact: pd.DataFrame) -> None:
    """The cells of `exact` are in a larger table, figure by figure, under whatever numbers."""
    columns = [name for name in exact if name != "cell"]
    found = tidy[tidy["size"].isin(exact["size"])][columns]
    pd.testing.assert_frame_equal(found.reset_index(drop=True), exact[columns])


@pytest.fixture(scope="session")
def exact(exact_guest: object, tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """The same cells in one call of run.sh."""
    out = tmp_path_factory.mktemp("exact") / "run"
    run = [str(REPOSITORY / "runners/run.sh"), "exact", "--quiet", "--out", str(out)]
    for key, values in PLAN.items():
        words = values if isinstance(values, list) else [values]
        run += [f"--{OPTIONS.get(key, key)}", ",".join(map(str, words))]
    subprocess.run(run, check=True, capture_output=True)
    return table(out)


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    return Campaign(tmp_path, dict(PLAN))
