# SPDX-License-Identifier: GPL-2.0-or-later
"""Carrying out the faults of the table, each in a mount namespace of its own."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Container
from typing import Any

import psutil

from tests.faults.campaign import FORMS, Campaign, forget_checkpoints, instead
from tests.faults.signals import report
from tests.faults.started import BUSY, PATIENCE, Started, forget, last, start, wrong
from tests.faults.table_of_faults import FAULTS, SHELL, Fault

BATCH = 8
MOMENT = 0.3  # after a process has appeared, so that it is in its work


def wrapped(campaign: Campaign, fault: Fault) -> list[str]:
    """The shell that prepares the fault and becomes run.sh; its mounts end with it."""
    sandbox = campaign.sandbox
    names = {"STATE": sandbox.state, "CACHE": sandbox.cache, "WARM": sandbox.warm}
    names |= {"OUT": sandbox.out, "CHECKOUT": sandbox.checkout}
    known = "".join(f"{name}={path}\n" for name, path in names.items())
    script = f'{known}WHO={sandbox.user}\n{SHELL}\n{fault.shell}\nexec {fault.wrap} "$@"'
    apart = ["unshare", "--mount", "--propagation", "private", "--"]
    return [*apart, "sh", "-ec", script, "sh"]


def interfere(run: Started, fault: Fault, patience: float) -> bool:
    """Wait for the process, and do to it what the fault says; whether it came to that."""
    while True:
        if not run.watch(lambda: bool(run.of_role(fault.when)), patience):
            return False
        time.sleep(MOMENT)
        with_role = run.of_role(fault.whom or fault.when)
        if with_role or "$PID" not in fault.then:
            break  # else it has ended already, as the preflight's bpftrace does
    place = ["nsenter", "--target", str(run.process.pid), "--mount", "--", "sh", "-c"]
    above = run.out.parent
    pid = with_role[0].pid if with_role else ""
    words = f"PID={pid}; RUN={run.process.pid}; OUT={above}\n{fault.then}"
    subprocess.run([*place, words], check=False)
    return True


def carry_out(campaign: Campaign, fault: Fault) -> dict[str, Any]:
    """One fault, and what is wrong with the run's end."""
    usual = campaign.usual[fault.form]
    sandbox = campaign.sandbox
    forget_checkpoints(sandbox)
    row: dict[str, Any] = {"kind": "fault", "name": fault.name, "group": fault.group}
    run = start(
        sandbox,
        instead(FORMS[fault.form], fault.arguments),
        wrap=[*(sandbox.with_network if fault.damages else []), *wrapped(campaign, fault)],
        environment=fault.environment,
        name=fault.out,
    )
    failures: list[str] = []
    # What a private mount held is gone with the run.
    hidden = 'small "$OUT"' in fault.shell or "/mnt/to" in fault.shell
    bound = PATIENCE + 3 * usual.seconds + fault.bound
    if fault.when and not interfere(run, fault, bound):
        failures.append(f"no {fault.when} to interfere with")
    if not run.wait(bound):
        failures.append(f"hangs for {bound:.0f} s")
    row |= {"status": run.status, "seconds": round(run.seconds, 1), "said": last(run.text())}
    if BUSY.search(run.text()):
        row["busy"] = True
    elif run.ended and not any(what.startswith("hangs") for what in failures):
        failures += wrong(run, usual, statuses=fault.statuses, heard=fault.heard, seen=not hidden)
    if run.status == 0 and fault.refused:
        failures.append("status 0, where no figure can be right")
    for process in psutil.Process().children(recursive=True):  # what was stopped cannot end
        if process.status() == psutil.STATUS_STOPPED:
            process.resume()
    forget(run)
    return row | {"failures": failures}


def faults(campaign: Campaign, only: str, without: Container[str]) -> None:
    """Carry out the faults that are not in the results yet; damage of the cache one by one."""
    todo = [
        fault
        for fault in FAULTS
        if re.search(only, fault.name)
        and fault.form not in without
        and not campaign.results.has(kind="fault", name=fault.name)
    ]
    if not todo:
        return
    campaign.warm_up("counters", *dict.fromkeys(fault.form for fault in todo))
    # Faults that damage the cache have their next start alone: it has to heal.
    groups = [[fault for fault in todo if not fault.damages]]
    groups += [[fault] for fault in todo if fault.damages]
    for group in groups:
        # What is damaged may have to be downloaded again.
        wrap = campaign.sandbox.with_network if group and group[0].damages else []
        for row in campaign.batches(group, BATCH, lambda fault: carry_out(campaign, fault), wrap):
            if not row.pop("busy", False):
                campaign.results.add(**row)
                report(row)
        campaign.sandbox.fresh_cache()
