# SPDX-License-Identifier: GPL-2.0-or-later
"""A git series over Debian's kernel source, some of whose changes cost instructions.

    python -m tests.kernel.series DIR

DIR holds linux-source-6.1, unpacked. Only net/ is in git: nothing else changes. The commit before
the series has the tag `base`; each commit that costs something has a tag of its own.
"""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

UNIX, TCP = "net/unix/af_unix.c", "net/ipv4/tcp.c"
SENDMSG = "static int unix_stream_sendmsg(struct socket *sock, struct msghdr *msg,\n"
READY = "\t\tfds_sent = true;\n\n\t\tskb_put(skb, size - data_len);\n"
QUEUE = "\t\tREAD_ONCE(other->sk_data_ready)(other);\n\t\tsent += size;\n"
COPIED = (
    "\t\tunix_state_lock(other);\n\n\t\tif (sock_flag(other, SOCK_DEAD) ||\n"
    "\t\t    (other->sk_shutdown"
)
STAMP = "static void tcp_tx_timestamp(struct sock *sk, u16 tsflags)\n{\n"
HEAD = "# Unix Domain Sockets\n"
PASSCRED = "static bool unix_passcred_enabled(const struct socket *sock,\n"


class Planted(NamedTuple):
    """A commit: `old` becomes `new` in `file`. One that costs instructions has a `tag`."""

    subject: str
    file: str
    old: str
    new: str
    tag: str = ""


SERIES = (
    Planted("af_unix: comment", UNIX, SENDMSG, f"/* Sends a stream of bytes. */\n{SENDMSG}"),
    Planted(
        *("af_unix: a copy of each message under CONFIG_HUGETLBFS", UNIX, READY),
        "#ifdef CONFIG_HUGETLBFS\n\t\tmemzero_explicit(skb->head, size);\n#endif\n" + READY,
    ),
    Planted(
        *("af_unix: one instruction", UNIX, QUEUE, f'\t\tasm volatile("nop");\n{QUEUE}'),
        "instruction",
    ),
    Planted(
        *("af_unix: move code", UNIX, PASSCRED),
        "static void __used noinline unix_moves_code(struct sock *sk)\n{\n"
        f"\tsk->sk_peek_off = -1;\n\tsk->sk_mark = 0;\n}}\n\n{PASSCRED}",
    ),
    Planted(
        *("af_unix: one more copy", UNIX, COPIED),
        "\t\t{\n\t\t\tstatic char spare[64];\n\n"
        "\t\t\tskb_copy_bits(skb, 0, spare, min_t(int, size, sizeof(spare)));\n\t\t}\n" + COPIED,
        "copy",
    ),
    Planted(
        *("af_unix: a longer path", UNIX, QUEUE),
        "\t\tfor (data_len = 0; data_len < 32; data_len++)\n\t\t\tbarrier();\n" + QUEUE,
        "path",
    ),
    Planted("unix: a comment of Kconfig", "net/unix/Kconfig", HEAD, f"{HEAD}# Local only.\n"),
    Planted(
        *("tcp: a loop under CONFIG_HUGETLBFS", TCP, STAMP),
        f"{STAMP}#ifdef CONFIG_HUGETLBFS\n\tint n = 32;\n\n\twhile (n--)\n\t\tbarrier();\n#endif\n",
    ),
)


def make(tree: Path) -> None:
    """Commit the series. Raises ValueError where the source is another one."""
    _git(tree, "init", "--quiet", "--initial-branch=series")
    _git(tree, "add", "--force", "net")
    _git(tree, "commit", "--quiet", "--message=base")
    _git(tree, "tag", "base")
    for planted in SERIES:
        file = tree / planted.file
        before = file.read_text(encoding="utf-8")
        if before.count(planted.old) != 1:
            raise ValueError(f"{file} has not just once: {planted.old!r}")
        file.write_text(before.replace(planted.old, planted.new), encoding="utf-8")
        _git(tree, "commit", "--quiet", "--all", f"--message={planted.subject}")
        if planted.tag:
            _git(tree, "tag", planted.tag)


def _git(tree: Path, *words: str) -> None:
    who = ("-c", "user.name=pathcost", "-c", "user.email=pathcost@localhost")
    fast = ("-c", "core.looseCompression=0")
    subprocess.run(["git", "-C", str(tree), *who, *fast, *words], check=True)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
