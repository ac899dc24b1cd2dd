#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Snakemake's submit command for hosts without a queue: runs a job script on a host by ssh, and ends as
# it does. The hosts see the campaign's folder, the checkout and the Python environment under the same
# paths. A host takes AT_ONCE jobs; who has a lock has the place. A host that does not answer is left out.
#
#   ssh.sh AT_ONCE HOST[,HOST…] SCRIPT     in the campaign's folder
set -euo pipefail

at_once=$1 script=${*: -1}
IFS=, read -ra hosts <<<"$2"
mkdir -p hosts
options=(-o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=10 -o ServerAliveCountMax=3)

while :; do
	alive=no
	for host in "${hosts[@]}"; do
		[ ! -e "hosts/$host.silent" ] || continue
		alive=yes
		for ((place = 1; place <= at_once; place++)); do
			exec 9>"hosts/$host.$place"
			flock -n 9 || continue
			status=0
			# shellcheck disable=SC2029 # this folder is meant
			ssh "${options[@]}" "$host" "cd $(printf %q "$PWD") && exec bash" <"$script" 2>"hosts/$host.$place.said" || status=$?
			[ $status = 255 ] || exit $status # the job's own
			touch "hosts/$host.silent"        # and the next host takes the job
			break
		done
	done
	[ $alive = yes ] || { echo "pathcost: no host answers ssh any more: ${hosts[*]}." >&2 && exit 1; }
	sleep 1
done
