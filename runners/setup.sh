#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Set-up: distribution packages, a Python environment from a lock file with hashes, the C workload.
# Nothing is installed twice. In a package (pathcost.deb) the programs are compiled, and nothing is installed: what
# is missing is named. Where the distribution's Python packages serve, they are used; elsewhere the environment is
# made by the user who runs pathcost first. packages.tsv has the packages by these words.
#
#   setup.sh [--no-install] [--unprobed] [--no-python] [--guest] [--claims] [--programs] [--images] [--dev] [--campaign] [--tools]
#   setup.sh --exact [--arm64] | --analysis | --watch | --site | --browser: what these need, and no more; watch installs nothing
#
# --no-install names the packages that are missing, and stops with status 1. --unprobed, the first word but that,
# leaves out what only probes need. --dev is what the tests need.
# shellcheck source-path=SCRIPTDIR
set -euo pipefail

# In two steps: where a signal ends dirname, set-up ends, too, and does not go on in another folder.
here=$(dirname "${BASH_SOURCE[0]}")
here=$(cd "$here" && pwd)
user=${SUDO_UID:-$(id -u)} group=${SUDO_GID:-$(id -g)}
home=$(getent passwd "$user" | cut -d: -f6) || true # a user without an entry: HOME, then
groups=${home:+init} groups=${groups:-clear}        # without an entry the user has no further groups either

# The manager to which the machine's shell belongs: any of them can be there as a mere program.
manager=apt how=(apt-get install -y --no-install-recommends --no-remove)
! rpm -q --quiet bash 2>/dev/null || manager=dnf how=(dnf install -y --setopt=install_weak_deps=False)
! pacman -Qq bash >/dev/null 2>&1 || manager=pacman how=(pacman -S --noconfirm --needed)
lock=$here/requirements.lock install=yes parts=("$here/workload") kinds='run|probes|perf' browser='|browser' other=() elsewhere=
grep -q '^ID=debian' /etc/os-release || elsewhere='|elsewhere'
[ -z "$elsewhere" ] || [ $manager != apt ] || kinds='run|probes' browser=
source "$here/environment.sh"
[[ $here != *[:$'\n']* ]] || fail "$(printf %q "${here%/*}") has a colon or a line feed, and no program finds what lies there: move the checkout."

# What the user owns is made by the user: the environment and the workload, not the packages. As `become`.
become_user() {
	if [ "$(id -u)" != 0 ] || [ "$user" = 0 ]; then become "$@"; fi
	HOME=$home exec setpriv --reuid "$user" --regid "$group" "--$groups-groups" --pdeathsig KILL -- "$@"
}

# A folder's owner builds in it: what root left there, the owner could not change. Where root cannot become the owner,
# who has no number in a user namespace, or the owner cannot write there, it is as `become_user`.
become_owner() {
	local own uid gid place as
	own=$(stat -c %u "$1")
	IFS=: read -r uid gid place < <(getent passwd "$own" | cut -d: -f3,4,6 | grep . || echo "$own:65534:/") # no entry, no group
	as=(setpriv --reuid "$uid" --regid "$gid" --clear-groups)
	# shellcheck disable=SC2016 # the inner shell's $0
	if [ "$(id -u)" = 0 ] && "${as[@]}" sh -c '[ -w "$0" ] && { [ ! -e "$0/build" ] || [ -w "$0/build" ]; }' "$1" 2>/dev/null; then
		HOME=$place exec "${as[@]}" --pdeathsig KILL -- "${@:2}"
	fi
	become_user "${@:2}"
}

# Whether a program is there, wherever it comes from, or a file.
has() { PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null || compgen -G "$1" >/dev/null; }

install_packages() {
	local missing=() words package sign dnf pacman
	command -v "${how[0]}" >/dev/null || return 0 # an image, which has all that it needs
	# shellcheck disable=SC2034 # the manager's name is also the column's
	while IFS=$'\t' read -r package sign dnf pacman _; do
		# In a package the programs are compiled.
		[ -e "$here/c.mk" ] || [[ ! $package =~ ^(gcc.*|libc6-dev.*|make|python3-venv)$ ]] || continue
		apt=$package
		[ "${!manager}" = - ] || has "$sign" || missing+=("${!manager}")
	done < <(grep -E "[[:blank:]]($kinds)( |$)" "$here/packages.tsv")
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

# Compile a part, with further words for make, alone: two would write the same files. The lock is a file that no other user can open: a folder's
# anybody could hold. Who may not write there compiles nothing.
compile() {
	local part=$1 name=${1##*/} lock=$1/.lock status=0 words make=(make --silent -j "$(nproc)" -C "$1" "${@:2}")
	# shellcheck disable=SC2016 # the inner shell's $0
	if (become_owner "$part" sh -c '[ -w "$0" ] && umask 077 && : >>"$0/.lock" && chmod 600 "$0/.lock"' "$part") 2>/dev/null; then
		words=$(become_owner "$part" flock -E 75 --nonblock "$lock" "${make[@]}" 2>&1) || status=$?
		if [ $status = 75 ]; then
			echo "waiting: another set-up compiles $name ($(holder "$lock"))"
			status=0
			words=$(become_owner "$part" flock -E 75 --timeout $patience "$lock" "${make[@]}" 2>&1) || status=$?
		fi
		[ $status != 75 ] || fail "another set-up has been compiling $name for $((patience / 60)) minutes ($(holder "$lock")): end it, and try again."
	else
		words=$(become_owner "$part" "${make[@]}" 2>&1) || status=$?
	fi
	[ $status = 0 ] || fail "$name does not compile: $(why "$words") (make -C $part shows all)."
}

# The part that is the user's: see the end. Root runs and writes nothing in a cache of the user's.
if [ "${1-}" = --environment ]; then
	[ "$(id -u)" != 0 ] || [ "$user" = 0 ] || fail "--environment is set-up's own word, for a process of the user's."
	cd "$PATHCOST_CACHE" && install=$3 python_environment "$2"
	exit
fi

for word in "$@"; do
	word=${word#--}
	case $word in
	no-install) install=no ;;
	unprobed) kinds=run ;;
	no-python) lock= ;;
	exact) kinds=exact parts+=("$here/exact/init" "$here/exact/knob" "$here/exact/launch" "$here/../probes/exact") ;;
	arm64) kinds+="|$word" other=("BUILD=build/$word" "CC=aarch64-linux-gnu-gcc") ;; # for emulated machines
	watch) kinds=watch install=never ;;
	analysis) kinds=analysis parts=() ;;
	site | browser) kinds=site parts=() lock=$here/requirements-$word.lock ;;
	campaign) lock=$here/requirements-campaign.lock ;;
	dev) kinds+="|dev$browser" lock=$here/requirements-dev.lock ;;
	tools) parts+=("$here/programs/tools") ;;
	programs) kinds+="|programs$elsewhere" parts+=("$here/programs/tools") ;;
	guest) kinds+="|guest$elsewhere" ;;
	claims | images) kinds+="|$word" ;;
	esac
done

for tool in find flock getent sed setpriv sha256sum; do
	command -v $tool >/dev/null || fail "there is no $tool here, and nothing can be set up without it."
done
[ ! -e "$here/c.mk" ] || command -v "${how[0]}" >/dev/null || fail "this set-up knows apt, dnf and pacman, and none of them is here."
[ -e "$here/c.mk" ] || parts=()
if [ "${PATHCOST_SETTING_UP-}" != $PPID ]; then
	# A signal is answered in one sentence: at once, but for packages, which are installed to the end.
	rest=
	trap 'kill -KILL $rest 2>/dev/null; echo "pathcost: set-up was interrupted." >&2; exit 130' INT TERM HUP QUIT
	install_packages
	PATHCOST_SETTING_UP=$$ setsid setpriv --pdeathsig KILL -- "$BASH" "$here/setup.sh" "$@" &
	rest=-$! # its process group
	wait $!
	exit
fi
for part in "${parts[@]}"; do
	compile "$part"
	[ ${#other[@]} = 0 ] || [[ $part = */probes/exact ]] || compile "$part" "${other[@]}"
done
[ -n "$lock" ] || exit 0
PATHCOST_CACHE=$(/usr/bin/python3 -I -B -c 'import sys; sys.path[:0] = sys.argv[1:]; from runners.store.folders import invoker; print(invoker().cache)' "${here%/*}" 2>&1) ||
	fail "set-up failed as it looked for the cache: ${PATHCOST_CACHE##*Error: }"
export PATHCOST_CACHE
words=$(become_user mkdir -p "$PATHCOST_CACHE" 2>&1) || fail "the cache $PATHCOST_CACHE cannot be made (${words##*: })."
# The last line is for who called: where the environment is.
become_user "$here/setup.sh" --environment "$lock" $install
