#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Set-up: distribution packages, a Python environment from a lock file with hashes, the C workload.
# Nothing is installed twice; what is there already is left alone.
#
#   setup.sh [--no-install] [--guest] [--exact] [--analysis] [--claims] [--programs] [--dev] [--site] [--campaign]
#
#   --no-install  name the packages that are missing, and stop with status 1
#   --guest       also what building and booting a guest needs
#   --exact       what exact mode needs, which has no use for probes
#   --analysis    the Python environment alone
#   --claims      also the tools whose options claims name
#   --programs    also what unpacks and drives the programs of runners/programs/*.toml
#   --dev         also what the tests and the checks of this repository need
#   --site        the Python environment alone, with what makes the documentation's site
#   --campaign    also Snakemake, in a Python environment of its own
# shellcheck source-path=SCRIPTDIR
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
user=${SUDO_UID:-$(id -u)} group=${SUDO_GID:-$(id -g)}
home=$(getent passwd "$user" | cut -d: -f6) || true # a user without an entry: HOME, then
export PATHCOST_CACHE=${PATHCOST_CACHE:-${home:-$HOME}/.cache/pathcost}
cache=$PATHCOST_CACHE
groups=${home:+init} groups=${groups:-clear} # without an entry the user has no further groups either

packages=(bpftrace gcc libc6-dev make python3 python3-bpfcc python3-venv util-linux mount)
guest_packages=(debian-archive-keyring e2fsprogs)
# Where apt knows no Debian mirror, mmdebstrap knows one.
grep -q '^ID=debian' /etc/os-release || guest_packages+=(mmdebstrap)
# Ubuntu has a perf for each of its kernels; without one, what perf counts is missing.
! grep -q '^ID=debian' /etc/os-release || packages+=(linux-perf)
dev_packages=(binutils clang-format git mmdebstrap nftables shellcheck shfmt sockperf strace)
lock=$here/requirements.lock install=yes
parts=("$here/workload")

fail() {
	echo "pathcost: $*" >&2
	exit 1
}

# What the user owns is made by the user: the environment and the workload, not the packages.
as_user() {
	if [ "$(id -u)" = 0 ] && [ "$user" != 0 ]; then
		HOME=$home setpriv --reuid "$user" --regid "$group" "--$groups-groups" -- "$@"
	else
		"$@"
	fi
}

# In a checkout of root's, root builds.
as_owner() {
	if [ -O "$1" ]; then env "${@:2}"; else as_user "${@:2}"; fi
}

install_packages() {
	local missing=() log
	for package in "${packages[@]}"; do
		dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	[ $install = yes ] || fail "these packages are missing: ${missing[*]} (apt-get install ${missing[*]})."
	[ "$(id -u)" = 0 ] || fail "installing ${missing[*]} needs root: run it with sudo."
	echo "installing ${missing[*]}"
	log=$(mktemp)
	# In a session of its own: a package half installed would be worse than one too many.
	if ! { apt-get update && DEBIAN_FRONTEND=noninteractive setsid --wait apt-get install -y --no-install-recommends --no-remove "${missing[@]}"; } >"$log" 2>&1 </dev/null; then
		grep -E '^(E|Err):?' "$log" | tail -n 2 >&2 || true
		rm -f "$log"
		fail "apt-get could not install ${missing[*]}: without a package mirror, install them by hand and try again."
	fi
	rm -f "$log"
}

# Each file of the environment and its size; links count as their target's name does.
files_of_environment() {
	as_user find -H "$environment" ! -type d ! -path "$environment/complete*" -printf '%P %s\n' | LC_ALL=C sort
}

# One environment for each lock file and Python. The last step leaves a list of its files: it is whole
# while all of these are there, with their sizes. To read them all would take seconds at each start.
make_environment() {
	local key list there lost
	key=$({ cat "$lock" && /usr/bin/python3 --version && echo files; } | sha256sum | cut -c1-12)
	environment=$cache/python-$key
	# All as the user: a link in its place would show another's file to root.
	if as_user test -f "$environment/complete" && as_user test -s "$environment/complete"; then
		# What cannot be listed now is not lost.
		if ! list=$(as_user cat "$environment/complete") || ! there=$(files_of_environment) || [ -z "$there" ]; then
			fail "the files of $environment cannot be listed."
		fi
		lost=$(export LC_ALL=C && comm --nocheck-order -23 <(echo "$list") <(echo "$there") |
			sed -n '1{s/ [0-9]*$//;s/^$/its list/;p}' | tr -c '[:print:]\n' '?')
		if [ -z "$lost" ]; then
			as_user touch -c "$environment/complete" 2>/dev/null || true # when it was last used
			return 0
		fi
		echo "pathcost: the Python environment $environment is damaged ($lost): making it anew" >&2
	fi
	echo "making the Python environment"
	as_user rm -rf "$environment"
	as_user mkdir -p "$cache"
	as_user /usr/bin/python3 -m venv "$environment"
	as_user "$environment/bin/pip" --quiet --disable-pip-version-check install --require-hashes -r "$lock" ||
		fail "pip could not install the Python packages of $lock: is there a package index to reach?"
	# Written whole or not at all: a list that breaks off would miss what is lost.
	files_of_environment | as_user tee "$environment/complete.partial" >/dev/null
	as_user mv "$environment/complete.partial" "$environment/complete"
}

for word in "$@"; do
	case $word in
	--no-install) install=no ;;
	--guest) packages+=("${guest_packages[@]}") ;;
	--exact) packages=(gcc libc6-dev make python3 python3-venv util-linux debian-archive-keyring) parts+=("$here/exact/init" "$here/exact/knob" "$here/../probes/exact") ;;
	--analysis) packages=(python3 python3-venv) parts=() ;;
	--site) packages=(git python3 python3-venv) parts=() lock=$here/requirements-site.lock ;;
	--campaign) lock=$here/requirements-campaign.lock ;;
	--programs) packages+=(ca-certificates "${guest_packages[@]}") parts+=("$here/programs/tools") ;;
	--claims) packages+=(wrk) ;;
	--dev) packages+=("${dev_packages[@]}") lock=$here/requirements-dev.lock ;;
	esac
done

for tool in find getent sed setpriv sha256sum; do
	command -v $tool >/dev/null || fail "there is no $tool here, and nothing can be set up without it."
done
command -v apt-get >/dev/null || fail "this set-up knows Debian 12, Debian 13 and Ubuntu 24.04, and there is no apt-get here."
install_packages
for part in "${parts[@]}"; do
	if ! words=$(as_owner "$part" make --silent -j "$(nproc)" -C "$part" 2>&1); then
		fail "$(basename "$part") does not compile: $(grep -i -m 1 error <<<"$words" || tail -n 1 <<<"$words") (make -C $part shows all)."
	fi
done
make_environment
# The last line is for who called: where the environment is.
echo "$environment"
