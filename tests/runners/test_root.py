# SPDX-License-Identifier: GPL-2.0-or-later
"""What root's process does for one whom it does not trust."""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from runners.host import root
from runners.host.root import LARGEST_MESSAGE, Monitor, RootCommand
from runners.process import RunError
from runners.store import folders
from runners.store.folders import Invoker

pytestmark = pytest.mark.root
USER = (12345, 12345)


@pytest.fixture
def channel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The user's end, where `collect` makes its folder and no more."""
    monkeypatch.setattr(folders, "ROOT", tmp_path / "run")
    monkeypatch.setitem(
        root.ROOT_COMMANDS, "collect", RootCommand(lambda _, out: ["mkdir", str(out)])
    )
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    who = Invoker(USER[0], tmp_path, USER, named=False)
    serving = Thread(target=Monitor(who).serve, args=(ours,))
    serving.start()
    yield theirs
    theirs.close()
    serving.join()
    ours.close()


def ask(channel: socket.socket, request: object) -> socket.socket:
    """Where the answer to a request comes."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    nowhere = os.open(os.devnull, os.O_RDWR)
    with theirs:
        message = json.dumps(request).encode()
        socket.send_fds(channel, [message], [theirs.fileno(), nowhere, nowhere, nowhere])
    os.close(nowhere)
    return ours


def test_what_a_program_made_is_given_away(channel: socket.socket) -> None:
    folders = []
    for _ in range(2):
        ended = root.read_answer(ask(channel, ["collect"]))
        assert ended["status"] == 0
        folders.append(Path(ended["out"]))
    assert folders[0] != folders[1], "root would write in the user's folder"
    for folder in folders:
        assert (folder.stat().st_uid, folder.stat().st_gid) == USER
        assert folder.parent.stat().st_uid == 0


@pytest.mark.parametrize("request_", [["sh", "-c", "id"], {"what": "collect"}, "collect", [], 1])
def test_what_no_process_of_ours_asks_ends_the_service(
    channel: socket.socket, request_: object
) -> None:
    with pytest.raises(RunError, match="has ended"):
        root.read_answer(ask(channel, request_))
    channel.settimeout(0.5)
    answer = ask(channel, ["collect"])
    answer.settimeout(0.5)
    with pytest.raises(TimeoutError):
        answer.recv(LARGEST_MESSAGE)
