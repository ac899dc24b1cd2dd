# SPDX-License-Identifier: GPL-2.0-or-later
"""Dumps by netlink(7): what nft(8), tc(8) and ip(8) ask the kernel, without these programs."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator

HEADER = struct.Struct("=IHHII")  # struct nlmsghdr: length, type, flags, sequence, port
ATTRIBUTE = struct.Struct("=HH")  # struct nlattr: length, type
REQUEST_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
ERROR, DONE = 2, 3  # types of messages
KIND = 0x3FFF  # of an attribute's type, without NLA_F_NESTED and NLA_F_NET_BYTEORDER
MOST = 1 << 20  # bytes of one answer; the kernel sends 32 KiB at most
SECONDS = 10  # the kernel answers at once, or not at all


def dump(protocol: int, request: int, body: bytes) -> list[bytes]:
    """All that the kernel answers, each message without its header. Raises OSError."""
    found: list[bytes] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as kernel:
        kernel.settimeout(SECONDS)
        kernel.send(HEADER.pack(HEADER.size + len(body), request, REQUEST_DUMP, 1, 0) + body)
        done = False
        while not done:
            bodies, done = messages(kernel.recv(MOST))
            found += bodies
    return found


def messages(data: bytes) -> tuple[list[bytes], bool]:
    """The messages of one answer, and whether it is the last. Raises the OSError that it holds."""
    found: list[bytes] = []
    for kind, body in _parts(data, HEADER):
        if kind in (ERROR, DONE):
            code = int.from_bytes(body[:4], "little", signed=True)
            if code < 0:
                raise OSError(-code, os.strerror(-code))
            return found, True
        found.append(body)
    return found, False


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and value of each attribute (`enum nft_chain_attributes`, say), not of nested ones."""
    return ((kind & KIND, value) for kind, value in _parts(data, ATTRIBUTE))


def text(value: bytes) -> str:
    """The value of a string, up to its zero."""
    return value.partition(b"\0")[0].decode(errors="replace")


def _parts(data: bytes, header: struct.Struct) -> Iterator[tuple[int, bytes]]:
    """Type and value of each message, or of each attribute: both begin with length and type."""
    at = 0
    while at + header.size <= len(data):
        length, kind = header.unpack_from(data, at)[:2]
        yield kind, data[at + header.size : at + length]
        at += max(length + 3 & ~3, header.size)
