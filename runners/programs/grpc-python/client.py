# SPDX-License-Identifier: GPL-2.0-or-later
"""`client.py ADDRESS THREADS CALLS` makes CALLS calls in each thread and prints their times.

`client.py ADDRESS count` asks for the number of calls that the server has answered.
"""

import json
import sys
import time
from threading import Thread

import grpc

PAYLOAD = bytes(32)


def make_calls(channel: grpc.Channel, calls: int, times: list[int]) -> None:
    echo = channel.unary_unary("/bench/echo")
    for _ in range(calls):
        began = time.perf_counter_ns()
        if echo(PAYLOAD, wait_for_ready=True) != PAYLOAD:
            sys.exit("the answer is not the request")
        times.append(time.perf_counter_ns() - began)


with grpc.insecure_channel(sys.argv[1]) as channel:
    if sys.argv[2] == "count":
        number = channel.unary_unary("/bench/count")(b"", wait_for_ready=True)
        print(f"calls {int.from_bytes(number, 'big')}")
        sys.exit()
    grpc.channel_ready_future(channel).result(10)
    times: list[int] = []
    clients, calls = map(int, sys.argv[2:])
    threads = [Thread(target=make_calls, args=(channel, calls, times)) for _ in range(clients)]
    began = time.perf_counter_ns()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter_ns() - began
    if len(times) != clients * calls:
        sys.exit(f"only {len(times)} calls were answered")
times.sort()
latency = {"mean": sum(times) // len(times)}
latency |= {f"p{part}": times[len(times) * part // 100] for part in (50, 99)}
print(json.dumps({"requests": len(times), "window_ns": took, "latency_ns": latency}))
