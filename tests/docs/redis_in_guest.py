# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel functions of a GET of redis beside those of the C workload, counted in a guest.

    python -m tests.docs.redis_in_guest       # count, and print docs/in-real-programs.md's table

The kernel's function tracer (Documentation/trace/ftrace.rst) writes down every function that a
guest with one CPU enters. A longer run less a shorter one, divided by the requests between them, is
a request's share.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from runners import guest
from runners.guest.kernels import DEFAULT
from runners.programs import engine
from runners.run import pack
from runners.store import invoker

# The landmarks of the script `path`, without the landmarks that no message passes.
FUNCTIONS = (
    "unix_stream_sendmsg", "unix_stream_recvmsg", "unix_write_space",
    "sock_alloc_send_pskb", "sock_def_readable", "sock_wfree",
    "skb_copy_datagram_iter", "skb_release_data",
    "tcp_sendmsg", "tcp_write_xmit", "__ip_queue_xmit", "ip_send_check", "loopback_xmit",
    "net_rx_action", "ip_rcv", "tcp_v4_rcv", "tcp_rcv_established", "tcp_ack", "tcp_queue_rcv",
    "tcp_recvmsg",
)  # fmt: skip
SHORT, LONG = 50, 250  # requests
LEAST = 0.95  # calls a request: of a function that belongs to each
COLUMNS = [("c", "unix"), ("redis", "unix"), ("c", "tcp"), ("redis", "tcp")]
SCRIPT = """
set -e
tracefs=/sys/kernel/tracing
export LD_LIBRARY_PATH=$PWD/root/usr/lib/x86_64-linux-gnu PATH=$PATH:$PWD/root/usr/bin
mkdir sockets
redis-server --port 6379 --bind 127.0.0.1 --unixsocket "$PWD/redis" --save '' --appendonly no >log &
until redis-cli -s redis ping >/dev/null 2>&1; do sleep 0.1; done
redis-benchmark -s redis -t set -n 1 >/dev/null
echo 65536 >$tracefs/buffer_size_kb
echo 0 >$tracefs/tracing_on
echo 0 >$tracefs/options/print-parent
echo function >$tracefs/current_tracer
traced() {
	file=$1
	shift
	echo >$tracefs/trace
	echo 1 >$tracefs/tracing_on
	"$@" >/dev/null
	echo 0 >$tracefs/tracing_on
	grep -q '^overrun: 0$' $tracefs/per_cpu/cpu0/stats
	sed -n 's/^[^#].*: //p' $tracefs/trace | sort | uniq -c >"out/$file"
}
for count in SHORT LONG; do
	for transport in unix tcp; do
		traced c-$transport-$count ./pathcost-workload --transport $transport --dir sockets \\
			--warmup 0 --messages $((2 * count))
	done
	traced redis-unix-$count redis-benchmark -s redis -c 1 -n $count -t get
	traced redis-tcp-$count redis-benchmark -c 1 -n $count -t get
done
"""


def calls_in(file: Path) -> Counter[str]:
    """Function → calls, of uniq's lines."""
    rows = (line.split() for line in file.read_text().splitlines())
    return Counter({name: int(count) for count, name in rows})


def counted(folder: Path) -> dict[tuple[str, str], dict[str, float]]:
    """Program and transport → function → calls for a request."""
    found = {}
    for program, transport in COLUMNS:
        short, long = (
            calls_in(folder / f"{program}-{transport}-{count}") for count in (SHORT, LONG)
        )
        found[program, transport] = {
            name: (calls - short[name]) / (LONG - SHORT) for name, calls in long.items()
        }
    return found


def table(found: Mapping[tuple[str, str], Mapping[str, float]]) -> Iterator[str]:
    """Markdown: the landmarks of both paths."""
    yield "| function | C, unix | redis, unix | C, tcp | redis, tcp |"
    yield "| --- | --- | --- | --- | --- |"
    for name in FUNCTIONS:
        figures = [found[column].get(name, 0) for column in COLUMNS]
        if max(figures) >= LEAST:
            yield f"| `{name}` | " + " | ".join(f"{figure:.2f}" for figure in figures) + " |"


def main() -> None:
    cache = invoker().cache
    root = engine.unpacked(engine.find("redis-benchmark"), cache, print)
    machine = guest.prepare(cache, DEFAULT)
    with tempfile.TemporaryDirectory(prefix="pathcost-") as folder:
        payload, out = Path(folder, "in.tar"), Path(folder, "out")
        pack(payload, [(root, "root")] if root else [])
        script = SCRIPT.replace("SHORT LONG", f"{SHORT} {LONG}")
        machine.run(
            payload, out, ["sh", "-c", script], timeout=400, cpus=1, memory=1024,
            on_line=lambda line: print(line, file=sys.stderr),
        )  # fmt: skip
        print(f"Linux {machine.release}\n", *table(counted(out)), sep="\n")


if __name__ == "__main__":
    main()
