# SPDX-License-Identifier: GPL-2.0-or-later
"""`server.py ADDRESS`: a gRPC server; `echo` sends bytes back, `count` says how often."""

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import grpc

lock = Lock()
calls = 0


def echo(request: bytes, _: grpc.ServicerContext) -> bytes:
    global calls
    with lock:
        calls += 1
    return request


def count(_: bytes, __: grpc.ServicerContext) -> bytes:
    return calls.to_bytes(8, "big")


handlers = {
    "echo": grpc.unary_unary_rpc_method_handler(echo),
    "count": grpc.unary_unary_rpc_method_handler(count),
}
server = grpc.server(ThreadPoolExecutor(8))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench", handlers),))
if not server.add_insecure_port(sys.argv[1]):
    sys.exit(f"cannot listen on {sys.argv[1]}")
server.start()
server.wait_for_termination()
