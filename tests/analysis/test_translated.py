# SPDX-License-Identifier: GPL-2.0-or-later
"""Pairs whose client reaches its server by a translated address."""

import json

from analysis.predict.pairs import unpaired
from analysis.predict.waits import notes
from analysis.raw.programs import Watched
from tests.analysis.test_predict import CLIENT, SERVER, TALK, end, made, watched

SERVICE = "127.0.0.1:9999"
THERE, BACK = end(CLIENT, SERVICE, 1), end(SERVER, CLIENT, 2)
PEOPLE = {"1": {"comm": "p1"}, "2": {"comm": "p2", "listening": [6379]}}


def test_a_client_behind_a_translated_destination_has_its_server() -> None:
    (pair,) = made(THERE, BACK, processes=PEOPLE)
    assert (pair.client.comm, pair.server.comm, pair.place) == ("p1", "p2", SERVER)
    assert notes(pair) == [f"reached as {SERVICE}, which is translated (DNAT)"]
    seen = Watched.model_validate_json(json.dumps(watched(THERE, BACK, processes=PEOPLE)))
    assert unpaired(seen) == 0


def test_what_may_be_another_connection_has_no_other_end() -> None:
    second = end(CLIENT, "127.0.0.1:9998", 1)
    assert made(THERE, second, BACK, processes=PEOPLE) == []
    # Of a listener's port each connection has an end, and one to another machine is no caller.
    remote, silent = end(SERVER, "10.0.0.9:5555", 2), end(CLIENT, SERVER, 1)
    assert made(remote, silent, processes=PEOPLE) == []
    (pair,) = made(*TALK, processes=PEOPLE)
    assert notes(pair) == []
