# SPDX-License-Identifier: GPL-2.0-or-later
"""The file of a small program: a server that echoes and counts, and its client."""

import sys
from pathlib import Path

PYTHON = sys.executable
# Listens where it is told to, or only on TCP, or nowhere, and echoes.
SERVER = """
import socket, sys
listening = []
for end in sys.argv[1:]:
    if end.isdigit():
        listening.append(socket.create_server(("127.0.0.1", int(end))))
    else:
        listening.append(socket.socket(socket.AF_UNIX))
        listening[-1].bind(end)
        listening[-1].listen()
served = 0
while True:
    connection, _ = listening[-1].accept()
    while data := connection.recv(64):
        if data == b"count":
            connection.sendall(b"served %d" % served)
            break
        served += 1
        connection.sendall(data)
    connection.close()
"""
CLIENT = """
import socket, sys
end, requests = sys.argv[1], int(sys.argv[2])
family = socket.AF_INET if end.isdigit() else socket.AF_UNIX
with socket.socket(family) as connection:
    connection.connect(("127.0.0.1", int(end)) if end.isdigit() else end)
    for _ in range(requests):
        connection.sendall(b"x")
        assert connection.recv(64) == b"x"
print(f"sent {requests}; mean 2.5 us")
"""
WHOLE = """
about = "an echo server"
[[process]]
command = ["{python}", "server.py", "{end}"]
[files]
"server.py" = '''{server}'''
"client.py" = '''{client}'''
[words]
python = "PYTHON"
server = '''SERVER'''
client = '''CLIENT'''
[unix]
end = "{socket}"
[tcp]
end = "{port}"
[client]
command = ["{python}", "client.py", "{end}", "{requests}"]
requests = 'sent (\\d+)'
mean_us = 'mean ([\\d.]+) us'
[counter]
ask = "count"
to = "{end}"
requests = 'served (\\d+)'
[[case]]
name = "echo"
requests = 23
"""


def write(folder: Path, text: str = WHOLE, name: str = "mine") -> Path:
    """The file of a program."""
    text = text.replace("PYTHON", PYTHON).replace("'''SERVER'''", f"'''{SERVER}'''")
    file = folder / f"{name}.toml"
    file.write_text(text.replace("'''CLIENT'''", f"'''{CLIENT}'''"))
    return file


def changed(folder: Path, before: str, after: str) -> Path:
    assert before in WHOLE
    return write(folder, WHOLE.replace(before, after))
