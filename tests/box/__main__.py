# SPDX-License-Identifier: GPL-2.0-or-later
"""Prove that a Vagrant box works: boot it as a student does, and measure in it. Takes minutes.

    sudo python3 -B -m tests.box BOX --out FOLDER [option …] [-- option of run.sh …]

It is no test of pytest's, as it needs Vagrant, libvirt and a box; it needs no Python packages.
"""

import argparse
import signal
import sys
from pathlib import Path

from runners.process import DONE, STATUS, run_main
from tests.box.prove import PATIENCE_MINUTES, prove

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(argv: list[str]) -> int:
    """Prove one box. Returns the exit status."""
    return run_main(lambda: _main(argv))


def _main(argv: list[str]) -> int:
    for number in SIGNALS:
        signal.signal(number, _interrupt)
    end = argv.index("--") if "--" in argv else len(argv)
    given = _parser().parse_args(argv[:end])
    box, out = given.box.absolute(), given.out.absolute()
    prove(box, out, given.driver, argv[end + 1 :], given.patience)
    return DONE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python3 -B -m tests.box",
        description="Boot a box by Vagrant and measure in it.",
        epilog=f"Options after -- go to run.sh in the machine. {STATUS}",
    )
    add = parser.add_argument
    add("box", type=Path)
    add("--out", type=Path, required=True, help="a new folder: transcript, console, report")
    add("--driver", choices=("kvm", "qemu"), help="default: kvm where it boots")
    limit = "minutes after which a boot or a run.sh counts as hanging (default: %(default)g)"
    add("--patience", type=float, default=PATIENCE_MINUTES, metavar="MINUTES", help=limit)
    return parser


def _interrupt(*_: object) -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # a second signal must not stop the clean-up
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
