#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The Python environment, in the working directory. setup.sh sources this.

fail() {
	echo "pathcost: $*" >&2
	exit 1
}

# Become a program that dies with our first process, whatever ends that: call this in ( ) or $( ).
become() { exec setpriv --pdeathsig KILL -- "$@"; }

# What a program said last of an error.
why() { grep -E '^(E|Err|ERROR):|error:|Permission denied' <<<"$1" | tail -n 1 | grep . || grep -v ' Waiting for unfinished jobs' <<<"$1" | tail -n 1; }

patience=1800 # seconds: for what another set-up makes

# The process that holds the lock on a file.
holder() {
	local pid
	pid=$(sed -nE "s/^[0-9]+: FLOCK .* ([0-9]+) [0-9a-f]+:[0-9a-f]+:$(stat -L -c %i "$1") .*/\1/p" /proc/locks | head -n 1)
	if [ -z "$pid" ]; then echo "in another container"; else echo "process $pid: $(cat "/proc/$pid/comm" 2>/dev/null || echo it has ended, and a child of it has not)"; fi
}

# Take the lock on a file that no other user can open, and so hold, until we end. `what` we wait for, if we do.
take() {
	local file=$1 what=$2
	[ ! -L "$file" ] || fail "$PWD/$file is a link, and a lock is not: remove it."
	(umask 077 && : 9<>"$file") 2>/dev/null || true
	{ exec 9<>"$file"; } 2>/dev/null || fail "no lock can be taken on $PWD/$file: who has made it? Remove it, or the cache."
	chmod go= "$file" 2>/dev/null || true
	flock --nonblock 9 && return
	echo "waiting: another set-up $what ($(holder "$file"))"
	flock --timeout $patience 9 || fail "another set-up still $what after $((patience / 60)) minutes ($(holder "$file")): end it, and try again."
}

# Whether the environment is there with all files of the list that was left when it was complete: `lost` has
# the first that is not. To read them all would take seconds at each start.
is_whole() {
	local list
	lost="its list"
	list=$(cat "$environment/complete" 2>/dev/null) && [ -n "$list" ] || return
	lost=$(export LC_ALL=C && comm --nocheck-order -23 <(echo "$list") <(files_of "$environment") |
		sed -n '1{s/ [0-9]* [0-9.]*$//;p}' | tr -c '[:print:]\n' '?')
	[ -z "$lost" ] || return
	touch -c "$environment/complete" 2>/dev/null || true # when it was last used
}

# Prints where Python's packages are: the distribution's, where those of a package serve, or an environment.
python_environment() {
	local because environment lock=$1
	if [ ! -e "${here-}/c.mk" ] && [ "$lock" = "${here-}/requirements.lock" ]; then
		because=$(/usr/bin/python3 -I -B "$here/host/distribution.py") && [ -z "${PATHCOST_LOCKED-}" ] && echo /usr && return
		compgen -G '/usr/share/python-wheels/pip-*.whl' >/dev/null || fail "this is missing, and a packaged pathcost installs nothing: sudo apt install python3-venv"
	fi
	# One for each lock file and Python.
	environment=python-$({ cat "$lock" "$here/unused.txt" && /usr/bin/python3 --version && echo files, sizes and times; } | sha256sum | cut -c1-12)
	make_environment "$environment" "$lock"
	echo "$PATHCOST_CACHE/$environment"
}

# As the user, in the cache. A new environment is made beside the old one, which stays where that fails.
make_environment() {
	local environment=$1 lock=$2 lost words
	local partial=$environment.partial
	! is_whole || return 0
	[ "${install-}" != never ] || fail "watch installs nothing, and its Python environment is missing: ${here-}/setup.sh --analysis"
	words=$(: 2>&1 >>set-up) || fail "nothing can be written in the cache $PWD (${words##*: }): name another with PATHCOST_CACHE."
	take set-up "makes the Python environment in $PWD"
	! is_whole || return 0 # who waited finds what another made
	[ ! -e "$environment" ] || echo "pathcost: the Python environment $PWD/$environment is damaged ($lost): making it anew" >&2
	# In a package: why the distribution's own packages do not serve.
	echo "making the Python environment${because:+ in $PWD, from the package index: the distribution has $because}"
	rm -rf python-*.partial # of those who were killed
	if ! install_lock "$partial"; then
		rm -rf "$partial"
		[ -x "$environment/bin/python" ] || fail "the Python packages of $lock cannot be installed in $PWD ($(why "$words")): is there room, and a package index to reach?"
		echo "pathcost: it cannot be made anew ($(why "$words")), and is used as it is" >&2
		return 0
	fi
	rm -rf "$environment"
	mv "$partial" "$environment"
	# Written whole or not at all: a list that breaks off would miss what is lost.
	files_of "$environment" >"$environment/complete.partial"
	mv "$environment/complete.partial" "$environment/complete"
}

# The distribution's own pip, of which an environment needs no copy, fetches uv, which installs in a sixth of
# the time; where uv cannot be had, pip goes on. Both check the hashes. Runs keep the bytecode of what they
# import, so nothing is compiled here. Scripts name the place where the environment will be.
install_lock() {
	local uv=$PWD/$1/tmp/uv
	words=$(become /usr/bin/python3 -m venv --without-pip "$1" 2>&1 && mkdir "$1/tmp" 2>&1) || return
	words=$(
		index=$(pip "$1" config get global.index-url 2>/dev/null) && export UV_DEFAULT_INDEX="$index"
		pip "$1" install --target "$uv" --require-hashes -r "${BASH_SOURCE[0]%/*}/requirements-uv.lock" 2>&1 &&
			become "$uv/bin/uv" pip install --quiet --no-config --system-certs --cache-dir "$uv/cache" \
				--python "$1/bin/python" --require-hashes -r "$lock" 2>&1
	) ||
		words=$(pip "$1" install --no-compile --require-hashes -r "$lock" 2>&1) || return
	grep -v '^#' "${BASH_SOURCE[0]%/*}/unused.txt" | (cd "$1"/lib/python3*/site-packages && xargs sh -c 'rm -rf $@' sh)
	rm -rf "$1/tmp"
	{ grep -lIr "^#!$PWD/$1/" "$1/bin" || true; } | xargs -r sed -i "1s|/$1/|/${1%.partial}/|"
}

pip() (
	wheel=$(compgen -G '/usr/share/python-wheels/pip-*.whl' || compgen -G '/usr/lib/python3*/ensurepip/_bundled/pip-*.whl')
	TMPDIR=$PWD/$1/tmp become "$1/bin/python" "${wheel%%$'\n'*}/pip" --quiet --disable-pip-version-check "${@:2}"
)

# Each file of an environment, its size and time; links count as their target's name does.
files_of() {
	find -H "$1" ! -type d ! -path "$1/complete*" -printf '%P %s %T@\n' | LC_ALL=C sort
}
