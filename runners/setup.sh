#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Set-up: distribution packages, a Python environment from a lock file with hashes, the C workload.
# Nothing is installed twice; what is there already is left alone. In a package (pathcost.deb) the programs are
# compiled, and nothing is installed: what is missing is named. Where the distribution's Python packages serve,
# they are used; elsewhere the environment is made by the user who runs pathcost first.
#
#   setup.sh [--no-install] [--guest] [--exact] [--analysis] [--no-python] [--claims] [--programs] [--dev] [--images] [--site] [--campaign]
#
#   --no-install  name the packages that are missing, and stop with status 1
#   --watch       what `watch` needs: install nothing; one line to paste for what is missing
#   --guest       also what building and booting a guest needs
#   --exact       what exact mode needs, which has no use for probes
#   --analysis    the Python environment alone
#   --no-python   all but the Python environment
#   --claims      also the tools whose options claims name
#   --programs    also what unpacks and drives the programs of runners/programs/*.toml
#   --dev         also what the tests and the checks of this repository need
#   --images      also what builds and runs the images
#   --site        the Python environment alone, with what makes the documentation's site
#   --campaign    also Snakemake, in a Python environment of its own
# shellcheck source-path=SCRIPTDIR
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
user=${SUDO_UID:-$(id -u)} group=${SUDO_GID:-$(id -g)}
home=$(getent passwd "$user" | cut -d: -f6) || true # a user without an entry: HOME, then
groups=${home:+init} groups=${groups:-clear}        # without an entry the user has no further groups either

packages=(bpftrace gcc libc6-dev make python3 python3-bpfcc python3-venv util-linux mount)
guest_packages=(apt debian-archive-keyring dpkg e2fsprogs)
grep -q '^ID=debian' /etc/os-release || guest_packages+=(mmdebstrap)
# The manager to which the machine's shell belongs: any of them can be there as a mere program.
manager=apt how=(apt-get install -y --no-install-recommends --no-remove)
! rpm -q --quiet bash 2>/dev/null || manager=dnf how=(dnf install -y --setopt=install_weak_deps=False)
! pacman -Qq bash >/dev/null 2>&1 || manager=pacman how=(pacman -S --noconfirm --needed)
# Ubuntu has a perf for each of its kernels; without one, what perf counts is missing.
[ $manager = apt ] && ! grep -q '^ID=debian' /etc/os-release || packages+=(linux-perf)
dev_packages=(binutils clang-format debhelper git lintian mmdebstrap nftables shellcheck shfmt sockperf strace)
lock=$here/requirements.lock install=yes parts=("$here/workload")
source "$here/environment.sh"

# What the user owns is made by the user: the environment and the workload, not the packages. As `become`.
become_user() {
	if [ "$(id -u)" != 0 ] || [ "$user" = 0 ]; then become "$@"; fi
	HOME=$home exec setpriv --reuid "$user" --regid "$group" "--$groups-groups" --pdeathsig KILL -- "$@"
}

# In a checkout of root's, root builds.
become_owner() {
	if [ -O "$1" ]; then become "${@:2}"; else become_user "${@:2}"; fi
}

# Whether a program is there, wherever it comes from, or a file.
has() { PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null || compgen -G "$1" >/dev/null; }

install_packages() {
	local missing=() words apt sign dnf pacman
	command -v "${how[0]}" >/dev/null || return 0 # an image, which has all that it needs
	for package in "${packages[@]}"; do
		# shellcheck disable=SC2034 # the manager's name is also the column's
		IFS=$'\t' read -r apt sign dnf pacman < <(grep "^$package	" "$here/packages.tsv")
		[ "${!manager}" = - ] || has "$sign" || missing+=("${!manager}")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	[ -e "$here/c.mk" ] || fail "this is missing, and a packaged pathcost installs nothing: sudo apt install ${missing[*]}"
	[ $install != never ] || fail "watch installs nothing, and this is missing: sudo ${how[*]:0:2} ${missing[*]} && $here/setup.sh --analysis"
	[ $install = yes ] || fail "these packages are missing: ${missing[*]} (${how[*]:0:2} ${missing[*]})."
	[ "$(id -u)" = 0 ] || fail "installing ${missing[*]} needs root: run it with sudo."
	echo "installing: ${how[*]} ${missing[*]}"
	# In a session of its own: a package half installed would be worse than one too many.
	words=$({ [ $manager != apt ] || apt-get update; } 2>&1 && DEBIAN_FRONTEND=noninteractive setsid --wait "${how[@]}" "${missing[@]}" 2>&1 </dev/null) ||
		fail "$manager could not install ${missing[*]} ($(why "$words")): without a package mirror, install them by hand and try again."
}

if [ "${1-}" = --environment ]; then
	lock=$2 install=$3
	cd "$PATHCOST_CACHE"
	if [ ! -e "$here/c.mk" ] && [ "$lock" = "$here/requirements.lock" ]; then
		because=$(/usr/bin/python3 -I -B "$here/host/distribution.py") && [ -z "${PATHCOST_LOCKED-}" ] && echo /usr && exit
		compgen -G '/usr/share/python-wheels/pip-*.whl' >/dev/null || fail "this is missing, and a packaged pathcost installs nothing: sudo apt install python3-venv"
	fi
	# One for each lock file and Python.
	environment=python-$({ cat "$lock" "$here/unused.txt" && /usr/bin/python3 --version && echo files, sizes and times; } | sha256sum | cut -c1-12)
	make_environment "$environment" "$lock"
	echo "$PATHCOST_CACHE/$environment"
	exit
fi

for word in "$@"; do
	case $word in
	--no-install) install=no ;;
	--guest) packages+=("${guest_packages[@]}") ;;
	--exact) packages=(gcc libc6-dev make python3 python3-venv util-linux apt debian-archive-keyring dpkg) parts+=("$here/exact/init" "$here/exact/knob" "$here/../probes/exact") ;;
	--analysis) packages=(python3 python3-venv) parts=() ;;
	--no-python) lock= ;;
	--watch | watch) packages=(gcc libc6-dev make mount python3 python3-bpfcc python3-venv util-linux) install=never ;;
	--site) packages=(git python3 python3-venv) parts=() lock=$here/requirements-site.lock ;;
	--campaign) lock=$here/requirements-campaign.lock ;;
	--programs) packages+=(ca-certificates "${guest_packages[@]}") parts+=("$here/programs/tools") ;;
	--tools) parts+=("$here/programs/tools") ;;
	--claims) packages+=(wrk) ;;
	--images) packages+=(buildah podman runc) ;;
	--dev) packages+=("${dev_packages[@]}") lock=$here/requirements-dev.lock ;;
	esac
done

for tool in find getent sed setpriv sha256sum; do
	command -v $tool >/dev/null || fail "there is no $tool here, and nothing can be set up without it."
done
[ ! -e "$here/c.mk" ] || command -v "${how[0]}" >/dev/null || fail "this set-up knows apt, dnf and pacman, and none of them is here."
if [ ! -e "$here/c.mk" ]; then
	parts=()
	mapfile -t packages < <(printf '%s\n' "${packages[@]}" | grep -vxE 'gcc|libc6-dev|make|python3-venv')
fi
install_packages
for part in "${parts[@]}"; do
	words=$(become_owner "$part" make --silent -j "$(nproc)" -C "$part" 2>&1) ||
		fail "$(basename "$part") does not compile: $(why "$words") (make -C $part shows all)."
done
[ -n "$lock" ] || exit 0
PATHCOST_CACHE=$(/usr/bin/python3 -I -B -c 'import sys; sys.path[:0] = sys.argv[1:]; from runners.store import invoker; print(invoker().cache)' "${here%/*}")
export PATHCOST_CACHE
words=$(become_user mkdir -p "$PATHCOST_CACHE" 2>&1) || fail "the cache $PATHCOST_CACHE cannot be made (${words##*: })."
# The last line is for who called: where the environment is.
become_user "$here/setup.sh" --environment "$lock" $install
