#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# A hook of a kernel's tree (.git/hooks/pre-push, a link to this): no push that makes a path longer.
run=$(dirname "$(readlink -f "$0")")/../../../runners/run.sh
while read -r _ tip _ base; do
	case $tip$base in
	*0000000000000000000000000000000000000000*) continue ;; # a new branch, or one that goes
	esac
	"$run" gate --kernel . --against "$base..$tip" --quiet || exit 1
done
