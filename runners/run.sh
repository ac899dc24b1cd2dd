#!/usr/bin/env -S --block-signal=INT,TERM,HUP,QUIT bash
# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The main job: set-up, workload, probes, report. `./runners/run.sh --help` lists the options.
# A package has a link to this file as /usr/bin/pathcost.
# A signal waits from the first line on, until Python can answer it with a sentence. SIGQUIT (Ctrl-\) is
# answered as SIGINT is. Where bash was started by hand (`bash run.sh`), it answers until then.
trap 'echo "pathcost: interrupted; nothing was kept." >&2; exit 130' INT TERM HUP QUIT
set -euo pipefail

here=$(readlink -f "${BASH_SOURCE[0]}")
here=${here%/*}

# PYTHONPATH is a list of folders with colons between.
case $here in *[:$'\n']*)
	printf 'pathcost: %q has a colon or a line feed, and no program finds what lies there: move the checkout.\n' "${here%/*}" >&2
	exit 2
	;;
esac

# The distribution's own Python, whatever else is first in PATH: bcc's modules belong to it.
python=/usr/bin/python3
if [ ! -x "$python" ]; then
	# Installs it, or names it and stops. The user's own words are none of set-up's, which may be root.
	case " $* " in *" --no-install "*) "$here/setup.sh" --no-install ;; *) "$here/setup.sh" ;; esac
fi

# -B: run as root, it would leave root's byte code in the user's checkout.
# -P: modules come from beside this file, and never from the folder where the user happens to be.
# -s: nor from the user's home, where sudo keeps HOME.
umask u=rwx # what we make, we must be able to use
# The user's own settings may keep this Python from starting. The programs of `prove` get them back.
for name in "${!PYTHON@}"; do export "PATHCOST_GIVEN_$name=${!name}"; done
unset -v "${!PYTHON@}"
export PYTHONPATH="${here%/*}"
exec env --block-signal=INT,TERM,HUP,QUIT "$python" -B -P -s -m runners "$@"
