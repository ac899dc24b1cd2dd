# SPDX-License-Identifier: GPL-2.0-or-later
"""Predict, or measure, the cases of cases.tsv: what judge.py compares.

    sudo python docs/blind/trial.py predict|prove ATTEMPT FOLDER [CASE…]

`predict` watches each case over TCP for three seconds, and writes FOLDER/CASE.json; `prove` runs it
over both, and leaves FOLDER/CASE/. Commands start in the repository's root.
"""

import csv
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
PORT = 7950
START_SECONDS = 30
ENVIRONMENT = os.environ | {
    "PATH": f"{ROOT / 'runners/programs/tools/build'}:/usr/sbin:/usr/bin:/sbin:/bin"
}


@contextmanager
def running(command: list[str]) -> Iterator[None]:
    """Run a server that listens on the port, and end it with all its children."""
    while not socket.socket().connect_ex(("127.0.0.1", PORT)):
        time.sleep(0.1)  # the server before it still ends
    process = subprocess.Popen(
        command, cwd=ROOT, env=ENVIRONMENT, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        end = time.monotonic() + START_SECONDS
        while socket.socket().connect_ex(("127.0.0.1", PORT)):
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"nothing listens on port {PORT}: {shlex.join(command)}")
            time.sleep(0.1)
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def predict(case: dict[str, str], folder: Path) -> None:
    again = ["bash", "-c", f"while {case['client']}; do :; done"]
    with running(shlex.split(case["server"])):
        client = subprocess.Popen(
            again, cwd=ROOT, env=ENVIRONMENT, start_new_session=True, stdout=subprocess.DEVNULL
        )
        try:
            time.sleep(2)  # what a program does once, at its start
            watch = [ROOT / "runners/run.sh", "watch", "3", "--port", str(PORT), "--json"]
            (folder / f"{case['case']}.json").write_bytes(subprocess.check_output(watch))
        finally:
            os.killpg(client.pid, signal.SIGKILL)
            client.wait()


def prove(case: dict[str, str], folder: Path) -> None:
    command = [ROOT / "runners/run.sh", "prove", "--port", str(PORT), "--repeats", "6"]
    client = shlex.join(["bash", "-c", case["client"]])
    pair = ["--server", case["server"], "--client", client]
    subprocess.run([*command, *pair, "--out", folder / case["case"]], cwd=ROOT, env=ENVIRONMENT)


def main(how: str, attempt: str, folder: str, *cases: str) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    with (ROOT / "docs/blind/cases.tsv").open() as file:
        lines = [line for line in file if line[0] != "#"]
    rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    for row in rows:
        if row["attempt"] == attempt and (not cases or row["case"] in cases):
            row["client"] = row["client"].replace(" N ", f" {row['n']} ")
            print(row["case"], flush=True)
            {"predict": predict, "prove": prove}[how](row, Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
