# SPDX-License-Identifier: GPL-2.0-or-later
"""The faults, as data. Shell text runs as root before run.sh, in a mount namespace of its own.

There $OUT is the folder above --out, $CACHE the cache, $CHECKOUT the repository, $WHO the user,
and /mnt a small file system that ends with the run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

# What the lines below use: a small or read-only file system, a folder of programs without some.
SHELL = r"""
small() { mount -t tmpfs -o "$2" small "$1"; }
read_only() { mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"; }
without() {
	mkdir /mnt/programs
	ln -s /usr/bin/* /mnt/programs/; ln -sf /usr/sbin/* /mnt/programs/
	for name; do rm -f "/mnt/programs/$name"; done
	PATH=/mnt/programs
}
fake() {
	printf '#!/bin/sh\n%s\n' "$2" >/mnt/fake
	chmod 755 /mnt/fake
	mount --bind /mnt/fake "$1"
}
full_cache() {
	small "$STATE/small" "size=$1"
	mkdir "$STATE/small/upper" "$STATE/small/work"
	chown $WHO "$STATE/small/upper"
	layers="lowerdir=$WARM,upperdir=$STATE/small/upper,workdir=$STATE/small/work"
	mount -t overlay -o "$layers" overlay "$CACHE"
}
elsewhere() { mkdir -p "$1"; mount --bind "$CACHE" "$1"; export PATHCOST_CACHE="$1"; }
empty() { for file in "$CACHE"/$1; do : >"$file"; done; }
cut() { for file in "$CACHE"/$1; do truncate -s 100K "$file"; done; }
flip() {
	for file in "$CACHE"/$1; do
		head -c 1M /dev/urandom | dd of="$file" bs=1M seek=4 conv=notrunc status=none
	done
}
instead() { rm -rf "$CACHE/$1"; $2 "$CACHE/$1"; chown $WHO "$CACHE/$1"; }
small /mnt size=50m
"""
WORKLOAD = '"$CHECKOUT/runners/workload/build/pathcost-workload"'
USER = "setpriv --reuid 65534 --regid 65534 --clear-groups --"


@dataclass(frozen=True)
class Fault:
    """`when` a process of that role has appeared, `then` is done to it as $PID, or to $RUN."""

    name: str
    shell: str = ""
    form: str = "counters"
    wrap: str = ""
    environment: Mapping[str, str | None] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    out: str = ""
    when: str = ""
    whom: str = ""  # the role of $PID, if it is another
    then: str = ""
    bound: float = 0.0  # seconds that this end may take longer than others
    heard: bool = True
    damages: bool = False  # the cache, so that the next start has to heal it
    statuses: tuple[int, ...] = (0, 1, 2)
    refused: bool = False  # no figure can be right


def group(name: str, *faults: Fault) -> list[Fault]:
    return [replace(fault, name=f"{name}: {fault.name}") for fault in faults]


def meanwhile(name: str, then: str, shell: str = "") -> Fault:
    """What is done while the workload runs."""
    return Fault(name, shell, "bpftrace", when="workload", then=then)


LIMITS = group(
    "limits",
    Fault("12 descriptors", "ulimit -n 12"),
    Fault("20 descriptors, exact", "ulimit -n 20", "exact"),
    Fault("32 descriptors, guest", "ulimit -n 32", "guest"),
    Fault("files of 0 bytes", "ulimit -f 0", heard=False),
    Fault("files of 4 MB, exact", "ulimit -f 8000", "exact"),
    Fault("one CPU, exact", form="exact", wrap="taskset -c 0"),
)
PLACES = group(
    "places",
    Fault("1 MB at --out", 'small "$OUT" size=1m'),
    meanwhile("--out fills up", 'head -c 1G /dev/zero >"$OUT/filler"', 'small "$OUT" size=120m'),
    meanwhile("--out goes", 'rm -rf "$OUT"/.[!.]*'),
    meanwhile(
        "--out appears",
        'cd "$OUT"; for run in .run*; do run=${run%%.path*}; mkdir -p "${run#.}/mine"; done',
    ),
    meanwhile("/tmp wiped", "rm -rf /tmp/*"),
    Fault("--out a dangling link", 'ln -s /nowhere/run "$OUT/link"', out="link"),
    Fault("--out a link to a folder", 'mkdir /mnt/to; ln -s /mnt/to "$OUT/link2"', out="link2"),
    Fault("--out with a newline", out="two\nlines"),
    Fault("--out not UTF-8", out="caf\udce9"),
    Fault("cache full", "full_cache 64k"),
    Fault("cache full, guest to store", "full_cache 100m; rm -r $CACHE/guest-*", "stored"),
    Fault("cache read-only", 'read_only "$CACHE"'),
    Fault("cache a file", "export PATHCOST_CACHE=/etc/hostname"),
    Fault("cache of an odd name", 'elsewhere "/mnt/a,b=c \'кэш-é\' \\"so\\""', "exact"),
    Fault("/tmp read-only", "read_only /tmp"),
    Fault("/tmp full", "small /tmp size=16k,mode=1777", "bpftrace"),
    Fault("/run full", "small /run/pathcost size=4k,nr_inodes=1"),
    Fault("/run read-only", "read_only /run"),
    Fault("/run/pathcost a link", "small /run size=1m; ln -s /etc /run/pathcost"),
    Fault("checkout read-only", 'read_only "$CHECKOUT"', "bpftrace"),
    Fault("the folder one is in is gone", "mkdir /mnt/gone; cd /mnt/gone; rmdir /mnt/gone"),
)
CACHE = [
    replace(fault, damages=True)
    for fault in group(
        "cache",
        Fault("empty manifests", "empty '*/manifest.json'", "exact"),
        Fault("kernel flipped", "flip 'kernel-*/kernel'", "exact"),
        Fault("disk cut off", "cut 'image-*/root.img'", "guest"),
        Fault("snapshots flipped", "flip 'snapshot-*/state'", "exact"),
        Fault("stored guest flipped", "flip 'guest-*/state'", "stored"),
        Fault("emulator without a library", "rm $CACHE/qemu-*/root/usr/lib/x86*/libglib*", "guest"),
        Fault("lock a fifo", "instead lock mkfifo", "guest"),
        Fault("in-use a fifo", "instead in-use mkfifo"),
        Fault("Python without pandas", "rm -r $CACHE/python-*/lib/python3*/site-packages/pandas"),
        Fault("Python gone", "rm $CACHE/python-*/bin/python*"),
    )
]
PROGRAMS = group(
    "programs",
    *(
        Fault(f"no {name}", f"without {name}", "bpftrace")
        for name in ("bpftrace", "setpriv", "mount", "perf", "make", "tar")
    ),
    Fault("bpftrace crashes", "fake /usr/bin/bpftrace 'kill -SEGV $$'", "bpftrace"),
    Fault("bpftrace says rubbish", "fake /usr/bin/bpftrace 'echo {nonsense; sleep 2'", "bpftrace"),
    Fault("bpftrace hangs", "fake /usr/bin/bpftrace 'exec sleep 3600'", "bpftrace", bound=240),
    Fault("workload missing", f"small $(dirname {WORKLOAD}) size=1m", refused=True),
    Fault("workload fails", f"fake {WORKLOAD} 'exit 3'", refused=True),
    Fault("workload says rubbish", f"fake {WORKLOAD} 'echo {{}}'", refused=True),
    Fault("workload hangs", f"fake {WORKLOAD} 'exec sleep 3600'", refused=True, bound=300),
)
KERNEL = group(
    "kernel",
    Fault("no tracefs", "mkdir /mnt/e; mount --bind /mnt/e /sys/kernel; ", "bpftrace"),
    Fault("no KVM", "mount --bind /dev/null /dev/kvm", "guest"),
    Fault("lo down", form="bpftrace", wrap="unshare --net --"),
    Fault(
        "no capabilities", form="bpftrace", wrap="setpriv --bounding-set -all --inh-caps -all --"
    ),
    Fault("no CAP_CHOWN", wrap="setpriv --bounding-set -chown,-dac_override,-fowner --"),
    Fault("no new privileges", form="bpftrace", wrap="setpriv --no-new-privs --"),
    Fault("root of a user namespace", wrap="unshare --user --map-root-user --"),
    Fault("not root, exact", form="exact", wrap=USER),
)
SETTINGS = group(
    "settings",
    *(
        Fault(f"SUDO_UID={value}", environment={"SUDO_UID": value})
        for value in ("abc", "4294967295", "12345")
    ),
    Fault(
        "POSIX, no UTF-8",
        environment={"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ),
    Fault(
        "PYTHONPATH with a json.py",
        "mkdir /mnt/py; echo 'raise SystemExit(9)' | tee /mnt/py/json.py >/mnt/py/pandas.py",
        environment={"PYTHONPATH": "/mnt/py"},
    ),
    Fault("TZ", environment={"TZ": "<+99>-99:59:59"}),
    Fault("one map key for bpftrace", environment={"BPFTRACE_MAX_MAP_KEYS": "1"}, form="bpftrace"),
    Fault("BASH_ENV", environment={"BASH_ENV": "/nowhere", "IFS": "o", "CDPATH": "/"}),
    *(Fault(f"umask {mask}", f"umask {mask}", "bpftrace") for mask in ("077", "777")),
)
STREAMS = group(
    "streams",
    Fault("output full", "exec >/dev/full"),
    Fault(
        "output's reader gone",
        "mkfifo /mnt/f; head -c 1 /mnt/f >/dev/null & exec >/mnt/f",
        statuses=(0,),  # as after `| head -1`: it is the reader who has seen enough
    ),
)
# These must live until they are found.
LONG = dict.fromkeys(("workload", "collector"), ("--messages", "400000"))
ALIVE = (
    *(("emulator", "exact"), ("emulator", "guest"), ("bpftrace", "bpftrace")),
    *(("workload", "bpftrace"), ("collector", "bpftrace")),
)
BRIEF = (("analysis", "counters"), ("set-up", "counters"))
PROCESSES = group(
    "processes",
    *(
        Fault(f"{role} {how}, {form}", "", form, arguments=LONG.get(role, ()), when=role,
              then=f"kill -{how} $PID", bound=bound)
        for how, bound, roles in (("KILL", 0, (*ALIVE, *BRIEF)), ("STOP", 300, ALIVE))
        for role, form in roles
    ),
    Fault("bpftrace killed in the window", "", "bpftrace", arguments=LONG["workload"],
          when="workload", whom="bpftrace", then="kill -KILL $PID"),
)  # fmt: skip
FAULTS = [*SETTINGS, *STREAMS, *LIMITS, *PLACES, *KERNEL, *PROGRAMS, *PROCESSES, *CACHE]
