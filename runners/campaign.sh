#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A campaign: the cells of a plan as jobs of Snakemake, on this machine or on others, gathered into one
# run. `./runners/campaign.sh --help` lists the options, docs/campaigns.md has a plan.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ "$(id -u)" = 0 ] && [ "${SUDO_UID:-0}" != 0 ]; then
	echo "pathcost: exact cells need no root: run campaign.sh without sudo, which it calls itself where it times." >&2
	exit 2
fi
environment=$("$here/setup.sh" --exact --campaign | while IFS= read -r line; do
	case $line in /*) echo "$line" ;; *) echo "$line" >&2 ;; esac
done)
umask u=rwx
unset -v "${!PYTHON@}"
export PYTHONPATH="${here%/*}"
exec env --block-signal=INT,TERM,HUP "$environment/bin/python" -B -P -m runners.campaign "$@"
