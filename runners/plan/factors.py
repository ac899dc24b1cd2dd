# SPDX-License-Identifier: GPL-2.0-or-later
"""The factors of a cell: each value's name, and half a line that says what it is.

The C workload knows the same names in the same order; a test compares them with its --list.
"""

TRANSPORTS = {
    "unix": "Unix stream socket, bound to a path",
    "unix-abstract": "Unix stream socket, bound to an abstract name",
    "unix-pair": "Unix stream sockets of socketpair(2)",
    "unix-dgram": "Unix datagram sockets of socketpair(2)",
    "unix-seqpacket": "Unix SOCK_SEQPACKET socket: a stream that keeps message boundaries",
    "tcp": "TCP over IPv4 loopback with TCP_NODELAY",
    "tcp-nagle": "TCP over IPv4 loopback without TCP_NODELAY: Nagle's algorithm is on",
    "tcp6": "TCP over IPv6 loopback with TCP_NODELAY",
    "udp": "connected UDP sockets over IPv4 loopback",
    "pipe": "two pipes, one for each direction",
    "fifo": "two named pipes, one for each direction",
    "mq": "two POSIX message queues, one for each direction",
    "shm": "two rings in shared memory; a reader without data sleeps on a futex",
    "shm-spin": "two rings in shared memory; a reader without data spins",
    "vsock": "AF_VSOCK stream socket over its loopback address",
    "tcp-sockmap": "TCP whose payload a BPF sockmap hands to the peer's socket",
    "tcp-zerocopy": "TCP with MSG_ZEROCOPY",
    "uring-unix": "Unix stream socket, sent and received through io_uring",
    "uring-tcp": "TCP with TCP_NODELAY, sent and received through io_uring",
    "tcp-veth": "TCP between two network namespaces, joined by a veth pair",
    "tcp-bridge-nat": "TCP to a container's published port: routing, DNAT, conntrack, a bridge",
    "tcp-redirect": "TCP whose port an nftables REDIRECT changes, as for a sidecar",
    "tcp-proxy": "TCP through a forwarder in user space: two connections for each message",
    "tcp-ktls": "TCP whose records the kernel encrypts and decrypts (AES-128-GCM)",
    "unix-mounted": "Unix stream socket whose folder a bind mount shares with a container",
}
PATTERNS = {
    "pingpong": "the client sends, the server answers; a round trip is two messages",
    "stream": "the client sends, the server only reads",
    "pipeline": "ping-pong with several messages in flight (--in-flight)",
    "connect": "connect, one round trip, close, again and again",
    "selfloop": "one thread writes at one end and reads at the other, one way only",
    "selfecho": "one thread plays ping-pong with itself: no switch, no wake-up",
    "clients": "several clients, each with a connection, and one server with epoll (--clients)",
    "paced": "clients with so many requests a second (--rate), timed from when each was due",
}
PLACEMENTS = {
    "same-cpu": "both processes on one CPU",
    "cross-cpu": "each process on a CPU of its own",
    "free": "wherever the scheduler puts them",
}
WAITS = {
    "block": "a blocking read sleeps until a message comes",
    "epoll": "epoll_wait(2) sleeps until a read need not block",
    "spin": "non-blocking reads, again and again",
}
SCHEDULERS = {
    "other": "SCHED_OTHER, the default policy",
    "batch": "SCHED_BATCH",
    "fifo": "SCHED_FIFO, real time",
}
TOPOLOGIES = {
    "one": "one connection for both directions",
    "two": "two connections, one for each direction",
}
USUAL_IN_FLIGHT, MOST_IN_FLIGHT = 8, 65_536
USUAL_CLIENTS, MOST_CLIENTS = 4, 4_096
MANY_CLIENTS = ("clients", "paced")  # the patterns that --clients is of
USUAL_RATE, MOST_RATE = 1_000, 1_000_000  # requests a second
MOST_WORK = 1_000_000  # microseconds
LARGEST = 1 << 30  # bytes of payload
