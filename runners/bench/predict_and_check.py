# SPDX-License-Identifier: GPL-2.0-or-later
"""predict-and-check.sh: predicts what programs gain over a Unix socket, and only then measures it.

`predict` runs each case over TCP alone, watches it, and writes the prediction with its digest.
`check` verifies the digests, runs each case over both transports in turn, and compares.
docs/predicting.md has the rules of what counts, which were written before the first attempt.
"""

import argparse
import datetime
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from runners import mounts, prices
from runners.bench.in_turn import PLACEMENTS, measure_case, serving, started_on
from runners.cli import DONE, STATUS, Parser, run_main
from runners.host import bcc
from runners.host.scripts import PROBES
from runners.invoker import invoker
from runners.process import REPOSITORY, RunError, UsageError, attempt, command, last_line
from runners.programs import engine
from runners.programs.place import LiveValues
from runners.programs.program import Case, Program, client_command, names
from runners.programs.service import Service

DEVELOPED_ON = ("asyncio", "gin", "go", "grpc-go", "redis", "redis-benchmark")
SETTLE_SECONDS, WATCH_SECONDS, DRIVE_SECONDS = 0.5, 3, 5
PAIRS = (bcc.PYTHON, "-B", "-P", str(PROBES / "bcc/pairs.py"))
PART = 10  # of a case's requests: so many are counted exactly
LEDGER, MEASURED = "digests.tsv", "measured.json"


def main(argv: list[str]) -> int:
    return run_main(lambda: _main(_parser().parse(argv)))


def _parser() -> Parser:
    parser = Parser("predict-and-check.sh", __doc__.partition("\n")[2].strip(), STATUS)
    parser.add_argument("what", choices=("predict", "check", "table"))
    parser.add_argument("folder", type=Path, help="of this attempt")
    parser.add_argument("--programs", default="", help="LIST (default: all that judge)")
    parser.add_argument(
        "--placement", choices=PLACEMENTS, default="same-cpu", help="(default: %(default)s)"
    )
    parser.add_argument("--developing", action="store_true", help="the programs it was made with")
    return parser


def _main(given: argparse.Namespace) -> int:
    if given.what == "table":
        return _table(given.folder)
    if given.what == "predict" and os.geteuid() != 0:
        raise RunError("watching needs root: sudo ./runners/predict-and-check.sh predict …")
    programs = [engine.find(name) for name in _chosen(given)]
    if given.what == "check":
        return _check(given.folder, programs)
    return _predict(given.folder, programs, given.placement)


def _chosen(given: argparse.Namespace) -> list[str]:
    served = [name for name in names() if engine.find(name).processes]
    used = {*DEVELOPED_ON, *judged_before(given.folder)}
    known = [name for name in served if (name in used) == given.developing]
    if not given.programs:
        return known
    wanted: list[str] = given.programs.split(",")
    for name in wanted:
        if name not in names() and not name.endswith(".toml"):
            raise UsageError(f"unknown program '{name}': there is {', '.join(known)}.")
        if Path(name).stem in used and not given.developing:
            raise UsageError(
                f"{name} is a program that the model was made with, or that judged an earlier "
                "attempt: a program judges once."
            )
    return wanted


def judged_before(folder: Path) -> set[str]:
    """The programs of the attempts beside this one: what was measured there is known."""
    ledgers = (path for path in folder.parent.glob(f"*/{LEDGER}") if path.parent != folder)
    return {line.split(".")[0] for path in ledgers for line in path.read_text().splitlines()}


def cases(programs: Sequence[Program]) -> Iterator[tuple[Program, Case, str]]:
    for program in programs:
        for case in program.cases:
            yield program, case, f"{program.name}.{case.name}"


# Predict


def _predict(folder: Path, programs: Sequence[Program], placement: str) -> int:
    """Predict every case that has no prediction yet in this attempt."""
    folder.mkdir(parents=True, exist_ok=True)
    mounts.private()
    listed = prices.prices(invoker().cache, _say)
    (folder / "prices.json").write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    for program, case, name in cases(programs):
        file = folder / f"{name}.json"
        if file.exists():
            continue
        _say(f"predicting {name}")
        try:
            found = predict_case(program, case, folder, placement)
        except (RunError, UsageError) as error:
            found = {"failed": str(error)}
        found |= {"case": name, "placement": placement, "commit": _commit(), "when": _now()}
        text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
        file.write_text(text, encoding="utf-8")
        with (folder / LEDGER).open("a", encoding="utf-8") as ledger:
            print(name, digest(file), _now(), sep="\t", file=ledger)
        _say(f"  {found.get('failed') or found['says']}")
    return DONE


def predict_case(program: Program, case: Case, folder: Path, placement: str) -> dict[str, Any]:
    """Drive a case over TCP, watch it, and predict. Raises RunError."""
    with tempfile.TemporaryDirectory(prefix="pathcost-") as place:
        where = Path(place)
        with serving(program, case, "tcp", placement, _say) as service:
            turns = turns_by_port(service, case, folder, placement)
            done: dict[str, Any] = {}
            seen_enough = threading.Event()

            def drive() -> None:
                while not done.get("error") and not (done and seen_enough.is_set()):
                    with started_on(PLACEMENTS[placement][1]):
                        done.update(service.drive(case, "tcp", seconds=DRIVE_SECONDS))

            thread = threading.Thread(target=drive)
            thread.start()
            try:
                time.sleep(SETTLE_SECONDS)
                seen = _watch(WATCH_SECONDS)
                pids, ports = service.pids, switched_ports(service, case)
            finally:
                seen_enough.set()
                thread.join()
        if done.get("error"):
            raise RunError(done["error"])
        predicted = _analysed(where, seen, folder)
    return together(predicted, pids, ports, turns, done)


def turns_by_port(service: Service, case: Case, folder: Path, placement: str) -> dict[str, float]:
    """Port → the client's turns for a request of the program: every call of a short drive counted.

    A rate that is sampled and a rate that the client tells are not of the same time. Empty where
    the client has a warm-up of its own, whose requests it does not tell.
    """
    if service.program.client.waits:
        return {}
    argv = [*PAIRS, "120", "100"]
    with tempfile.TemporaryDirectory(prefix="pathcost-") as place:
        process = subprocess.Popen(
            command(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert process.stdout and process.stderr
            while (line := process.stderr.readline()) and line != "counting\n":
                pass
            with started_on(PLACEMENTS[placement][1]):
                done = service.drive(case, "tcp", requests=max(case.clients, case.requests // PART))
            process.terminate()
            seen = json.loads(process.stdout.read())
        finally:
            process.kill()
            process.wait()
        if done["error"]:
            raise RunError(done["error"])
        found = _analysed(Path(place), seen, folder)
    turns: dict[str, float] = {}
    for pair in found["pairs"]:
        port = pair["place"].rpartition(":")[2]
        turns[port] = turns.get(port, 0.0) + pair["requests"] / done["requests"]
    return turns


def _analysed(where: Path, seen: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What the analysis predicts of what was seen. Raises RunError."""
    (where / "watch.json").write_text(json.dumps(seen), encoding="utf-8")
    (where / "prices.json").write_bytes((folder / "prices.json").read_bytes())
    _analyse(where)
    found: dict[str, Any] = json.loads((where / "prediction.json").read_text(encoding="utf-8"))
    return found


def switched_ports(service: Service, case: Case) -> set[str]:
    """The ports that the program's file names for TCP alone, or all where it names none there."""
    program = service.program
    values = LiveValues(program, case, "tcp", service.place)
    for word in program.transports["tcp"].values():
        values.command([word] if isinstance(word, str) else word)
    if not any(values.text(f"{{{name}}}").isdigit() for name in values.asked):
        client_command(program, case, values)
        for process in program.processes:
            values.command(process.command)
        for text in program.files.values():
            values.text(text)
    return {end for name in values.asked if (end := values.text(f"{{{name}}}")).isdigit()}


def together(
    predicted: dict[str, Any],
    pids: Sequence[int],
    ports: set[str],
    turns: dict[str, float],
    done: dict[str, Any],
) -> dict[str, Any]:
    """The case's prediction: all connections that switch, for one request of the program."""
    mine = [
        pair
        for pair in predicted["pairs"]
        if pair["prediction"] and pair["place"].rpartition(":")[2] in ports
    ]
    if not mine:
        raise RunError("no TCP connection of it was seen")
    found: dict[str, Any] = {"says": "; ".join(pair["prediction"]["says"] for pair in mine)}
    for figure in ("elapsed_us", "cpu_us", "time_us"):
        total = {"value": 0.0, "low": 0.0, "high": 0.0}
        for pair in mine:
            port = pair["place"].rpartition(":")[2]
            # Pairs at one port share its turns as they shared them while they were watched.
            share = pair["requests"] / sum(
                p["requests"] for p in mine if p["place"] == pair["place"]
            )
            told = pair["requests_per_s"] / done["per_second"]
            times = turns.get(port, 0.0) * share if turns else told
            for end in total:
                total[end] += pair["prediction"][figure][end] * times
        found[figure] = {end: round(value, 4) for end, value in total.items()}
    return found | {
        "per_second": round(done["per_second"], 3),
        "server_pids": len(pids),
        "verdict": mine[0]["prediction"]["verdict"],
        "limit": mine[0]["prediction"]["limit"],
        "probes": predicted["probes"],
        "active_s": predicted["active_s"],
        "seconds": predicted["seconds"],
        "pairs": mine,
    }


def _watch(seconds: float) -> dict[str, Any]:
    """What the probes saw of the whole machine. Raises RunError."""
    argv = [*PAIRS, str(seconds), "1"]
    with tempfile.TemporaryFile() as complaints:
        done = subprocess.run(
            command(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints,
            text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise RunError(last_line(complaints) or "the probes gave no reason")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _analyse(folder: Path) -> None:
    done = attempt(
        [sys.executable, "-P", "-B", "-m", "analysis", "--watch", folder, "--quiet"],
        cwd=REPOSITORY,
    )
    if done.returncode != 0:
        raise RunError(done.stderr.strip().removeprefix("pathcost: "))


# Check


def _check(folder: Path, programs: Sequence[Program]) -> int:
    """Measure every case whose prediction stands unchanged, and which is not measured yet."""
    file = folder / MEASURED
    measured = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    verify(folder)
    for program, case, name in cases(programs):
        if name in measured or not (folder / f"{name}.json").exists():
            continue
        said = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        if "failed" in said:
            continue
        _say(f"measuring {name}")
        try:
            found = measure_case(program, case, said["placement"], _say)
        except (RunError, UsageError) as error:
            found = {"failed": str(error)}
        measured[name] = found | {"commit": _commit(), "when": _now()}
        file.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    return _table(folder)


def verify(folder: Path) -> None:
    """Raise RunError for a prediction that is not what it was."""
    lines = (folder / LEDGER).read_text(encoding="utf-8").splitlines()
    digests = dict(line.split("\t")[:2] for line in lines)  # the last of each counts
    for name, known in digests.items():
        if digest(folder / f"{name}.json") != known:
            raise RunError(f"the prediction of {name} was changed after its digest was taken.")


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _commit() -> str:
    done = attempt(["git", "-C", REPOSITORY, "rev-parse", "--short=12", "HEAD"])
    return done.stdout.strip() or "unknown"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _table(folder: Path) -> int:
    argv = [sys.executable, "-P", "-B", "-m", "analysis.tools.calibration", str(folder)]
    return subprocess.run(argv, cwd=REPOSITORY, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
