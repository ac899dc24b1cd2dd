# SPDX-License-Identifier: GPL-2.0-or-later
"""How long a plan takes, rounded up, as on two cores without KVM (docs/where-the-seconds-go.md)."""

from __future__ import annotations

from runners.plan.model import Plan

SECONDS_PER_MESSAGE = {"host": 17e-6, "vm": 150e-6}
SECONDS_PER_CELL = {"host": 0.06, "vm": 0.7}
SECONDS_PER_BYTE = {"host": 0.0, "vm": 45e-9}
SECONDS_AROUND = {"host": 3, "vm": 25}
SECONDS_OF_ANALYSIS = 10


def seconds(plan: Plan, lane: str) -> float:
    """Of one kernel, without set-up."""
    messages = sum(cell.messages + cell.warmup for cell in plan.cells)
    payload = sum((cell.messages + cell.warmup) * cell.size for cell in plan.cells)
    return (
        messages * SECONDS_PER_MESSAGE[lane]
        + payload * SECONDS_PER_BYTE[lane]
        + plan.runs * SECONDS_PER_CELL[lane]
        + SECONDS_AROUND[lane]
    )
