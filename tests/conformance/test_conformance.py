# SPDX-License-Identifier: GPL-2.0-or-later
"""What a program sees over TCP as it is, rerouted over TCP, and rerouted over a Unix socket."""

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import pytest

from probes.files import read_rows
from runners.process import REPOSITORY, free_port
from runners.programs.place import TOOLS_FOLDER
from tests.build import make
from tests.conformance import calls

MODES = ("", "tcp", "unix")
PARTS = 4  # of the rows, which mostly wait
TRIES = 3
LISTED = {
    name: row["difference"]
    for row in read_rows(REPOSITORY / "probes/differences.tsv")
    for name in row["rows"].split()
}
KTLS = "option-ulp"  # over TCP as it is, only a kernel without kTLS refuses it
Seen = dict[str, list[list[str]]]


def see(mode: str, names: list[str], folder: Path) -> Seen:
    """The steps and outcomes of these rows."""
    port = free_port()
    words = [sys.executable, "-ISB", calls.__file__, str(port), *names]
    if mode:
        path = str(folder / f"{port}")
        words = [str(TOOLS_FOLDER / "reroute"), mode, str(port), path, "server", *words]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (mode, done.stderr[-2000:])
    return dict(map(json.loads, done.stdout.splitlines()))


def see_all(names: list[str], folder: Path, at_once: int) -> dict[str, Seen]:
    """What each mode makes of these rows, with so many programs at once."""
    parts = [names[part::PARTS] for part in range(PARTS)]
    pairs = [pair for pair in product(MODES, parts) if pair[1]]
    found: dict[str, Seen] = {mode: {} for mode in MODES}
    with ThreadPoolExecutor(at_once) as pool:
        seen = pool.map(lambda pair: see(pair[0], pair[1], folder), pairs)
        for (mode, _), part in zip(pairs, seen, strict=True):
            found[mode] |= part
    return found


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen]:
    """What differs once may be late: on a busy machine, the loopback hands over bytes later.

    It is tried again with one program at a time.
    """
    make(REPOSITORY / "runners/programs/tools")
    folder = tmp_path_factory.mktemp("ends")
    found = see_all([*calls.rows()], folder, PARTS * len(MODES))
    for _ in range(TRIES):
        differing = unlike(found, "unix").keys()
        # Both what differs and is not listed, and what is listed and does not.
        late = unlike(found, "tcp").keys() | (differing ^ LISTED.keys())
        again = see_all(sorted(late), folder, 1)
        for name in late:
            for mode in MODES:
                found[mode][name] = again[mode][name]
    return found


def unlike(seen: dict[str, Seen], mode: str) -> dict[str, list[str]]:
    """The steps that this mode has otherwise than TCP as it is."""
    return {
        name: [f"{step}: {mine}" for step, mine in steps]
        for name, steps in seen[mode].items()
        if steps != seen[""][name]
    }


def test_the_filter_alone_changes_nothing(seen: dict[str, Seen]) -> None:
    assert len(seen[""]) >= 300
    assert unlike(seen, "tcp").keys() <= {KTLS}


def test_a_unix_socket_differs_as_listed_alone(seen: dict[str, Seen]) -> None:
    found = unlike(seen, "unix")
    assert {name: steps for name, steps in found.items() if name not in LISTED} == {}
    assert LISTED.keys() - found.keys() <= {KTLS}


def test_ktls_is_refused_under_the_filter(seen: dict[str, Seen]) -> None:
    for mode in ("tcp", "unix"):
        assert [outcome for _, outcome in seen[mode][KTLS]] == ["ENOENT", "ENOENT"]


def test_what_is_noted_has_a_sentence() -> None:
    source = (REPOSITORY / "runners/programs/tools/differences.c").read_text()
    noted = {*re.findall(r'"([a-z-]+)"\}', source), "full"}
    assert noted <= {*LISTED.values()}
