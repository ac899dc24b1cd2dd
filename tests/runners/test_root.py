# SPDX-License-Identifier: GPL-2.0-or-later
"""What root's process does for one whom it does not trust."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from runners import store
from runners.host import root
from runners.host.root import LARGEST, Monitor
from runners.store import Invoker

pytestmark = pytest.mark.root
USER = (12345, 12345)


@pytest.fixture
def channel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The user's end, where `collect` makes its folder and no more."""
    monkeypatch.setattr(store, "ROOT", tmp_path / "run")
    monkeypatch.setitem(root.PROGRAMS, "collect", lambda _, out, __: ["mkdir", str(out)])
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    who = Invoker(USER[0], tmp_path, USER, named=False)
    serving = Thread(target=Monitor(who).serve, args=(ours,))
    serving.start()
    yield theirs
    theirs.close()
    serving.join()
    ours.close()


def ask(channel: socket.socket, request: object) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    socket.send_fds(channel, [json.dumps(request).encode()], [nowhere] * 3)
    os.close(nowhere)


def answer(channel: socket.socket) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(channel.recv(LARGEST))
    return found


def test_a_folder_is_given_away_once(channel: socket.socket) -> None:
    """A request with the number of an earlier one would have root write in the user's folder."""
    folders = []
    for _ in range(2):
        ask(channel, {"number": 1, "what": "collect", "words": []})
        assert answer(channel) == {"number": 1}
        ended = answer(channel)
        assert ended["status"] == 0
        folders.append(Path(ended["out"]))
    assert folders[0] != folders[1]
    for folder in folders:
        assert (folder.stat().st_uid, folder.stat().st_gid) == USER
        assert folder.parent.stat().st_uid == 0


@pytest.mark.parametrize(
    "request_",
    [
        {"number": 1, "what": "sh", "words": ["-c", "id"]},
        {"number": "x", "what": "collect", "words": []},
        {"what": "collect"},
        [],
    ],
)
def test_what_no_process_of_ours_asks_ends_the_service(
    channel: socket.socket, request_: object
) -> None:
    ask(channel, request_)
    channel.settimeout(20)
    ask(channel, {"number": 1, "what": "collect", "words": []})
    with pytest.raises(TimeoutError):
        channel.settimeout(0.5)
        channel.recv(LARGEST)
