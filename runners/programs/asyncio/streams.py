# SPDX-License-Identifier: GPL-2.0-or-later
"""The article's server and client: echo and sink over asyncio's streams.

    streams.py LOOP server TRANSPORT ADDRESS
    streams.py LOOP client TRANSPORT ADDRESS PATTERN SIZE MESSAGES

LOOP is asyncio or uvloop, ADDRESS a socket's path or a port of the loopback. The server runs until
it is killed. After a warm-up the client prints "ready" and waits for a line; then it measures one
connection, prints one line of JSON and waits for the end of its input.

The first line of a connection is `echo` or `sink`: the server sends everything back, or only reads
it. After the client's last byte the server sends the number of bytes that it has received and the
CPU time since the first line (getrusage(2), microseconds). All of this is outside the timed part.
asyncio sets TCP_NODELAY by itself.
"""

import asyncio
import json
import resource
import sys
from array import array
from time import perf_counter_ns

BUFFER = 64 * 1024  # the article's
WARMUP = 200  # messages


def cpu_us() -> list[int]:
    """CPU time of this process in user mode and in the kernel."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return [round(usage.ru_utime * 1e6), round(usage.ru_stime * 1e6)]


def since(before: list[int]) -> dict[str, int]:
    user, system = cpu_us()
    return {"user_us": user - before[0], "system_us": system - before[1]}


async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    echoes = await reader.readline() == b"echo\n"
    before, received = cpu_us(), 0
    while data := await reader.read(BUFFER):
        received += len(data)
        if echoes:
            writer.write(data)
            await writer.drain()
    writer.write(json.dumps({"received": received, **since(before)}).encode())
    writer.close()
    await writer.wait_closed()


async def serve(transport: str, address: str) -> None:
    if transport == "unix":
        server = await asyncio.start_unix_server(serve_one, address, limit=BUFFER)
    else:
        server = await asyncio.start_server(serve_one, "127.0.0.1", int(address), limit=BUFFER)
    await server.serve_forever()


async def measure(transport: str, address: str, pattern: str, size: int, messages: int) -> None:
    await exchange(transport, address, pattern, size, min(WARMUP, messages))
    print("ready", flush=True)
    if not sys.stdin.readline():
        sys.exit("nobody said go")
    print(json.dumps(await exchange(transport, address, pattern, size, messages)), flush=True)
    sys.stdin.read()  # the reader of our counters needs this process alive


async def exchange(
    transport: str, address: str, pattern: str, size: int, messages: int
) -> dict[str, object]:
    """One connection; a stream lasts until its last byte has arrived."""
    if transport == "unix":
        reader, writer = await asyncio.open_unix_connection(address, limit=BUFFER)
    else:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(address), limit=BUFFER)
    echoes = pattern == "pingpong"
    writer.write(b"echo\n" if echoes else b"sink\n")
    before, start = cpu_us(), perf_counter_ns()
    iterations = await (pingpong if echoes else stream)(reader, writer, bytes(size), messages)
    ended, mine = perf_counter_ns(), since(before)
    writer.write_eof()
    theirs = json.loads(await reader.read())
    if not echoes:
        ended, mine = perf_counter_ns(), since(before)
    writer.close()
    return {
        "window_ns": ended - start,
        "messages": 2 * messages if echoes else messages,
        "sent": messages * size,
        "received": theirs.pop("received"),
        "client": mine,
        "server": theirs,
        "iterations_ns": iterations,
    }


async def pingpong(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, payload: bytes, messages: int
) -> list[int]:
    """Median and 99th percentile of the round trips."""
    iterations = array("Q")
    for _ in range(messages):
        start = perf_counter_ns()
        writer.write(payload)
        await writer.drain()
        await reader.readexactly(len(payload))
        iterations.append(perf_counter_ns() - start)
    ranked = sorted(iterations)
    return [ranked[len(ranked) // 2], ranked[len(ranked) * 99 // 100]]  # of thousands


async def stream(
    _reader: asyncio.StreamReader, writer: asyncio.StreamWriter, payload: bytes, messages: int
) -> list[int]:
    for _ in range(messages):
        writer.write(payload)
        await writer.drain()
    return []


def main() -> None:
    loop, role, transport, address, *rest = sys.argv[1:]
    if loop == "uvloop":
        import uvloop

        uvloop.install()
    if role == "server":
        asyncio.run(serve(transport, address))
    else:
        pattern, size, messages = rest
        asyncio.run(measure(transport, address, pattern, int(size), int(messages)))


if __name__ == "__main__":
    main()
