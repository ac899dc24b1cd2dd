#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The documentation as a static site. Strict: a warning, such as a dead link, makes it fail.
#
#   docs/build.sh [--student] OUT [TREE]
#   docs/build.sh slides OUT
#
#   --student  the student's edition: docs/site/editions.py
#   slides     the slides of docs/course/slides instead: OUT/lecture.html, OUT/lab-1.html; needs npm
#   OUT        the folder of the site: OUT/index.html
#   TREE       where the pages are prepared, if they are to stay there; prepared pages are taken as they are
set -euo pipefail

fail() {
	echo "docs/build.sh: $2" >&2
	exit "$1"
}

set_up() {
	environment=$(./runners/setup.sh --site | tee >(cat >&2) | tail -n 1)
	export PATH=$environment/bin:$PATH PYTHONPATH=$PWD PYTHONDONTWRITEBYTECODE=1
}

build_slides() {
	local words
	command -v npm >/dev/null || fail 1 "npm is missing, which fetches reveal.js: sudo apt install npm."
	cp docs/site/reveal/*.json "$work"
	words=$(npm ci --prefix "$work" --ignore-scripts --no-audit --no-fund 2>&1) ||
		fail 1 "npm cannot fetch reveal.js, so there are no slides: $(grep -m 1 'npm error' <<<"$words")"
	set_up
	mkdir -p "$out"
	python -m docs.site.slides "$out" "$work/node_modules/reveal.js"
}

build_site() {
	local tree=${1:-$work/tree}
	git rev-parse --git-dir >/dev/null 2>&1 || fail 1 "$PWD is no git checkout, which names the files of the site."
	set_up
	[ -e "$tree/index.md" ] || python -m docs.site.pages "$tree" "${edition[@]}"
	sphinx-build --quiet --fail-on-warning --jobs auto "${edition[@]/#--/--tag=}" -c docs/site -d "$tree/.doctrees" "$tree" "$out"
}

usage="name the folder of the site: docs/build.sh [--student] OUT [TREE], or docs/build.sh slides OUT."
what=site edition=() tree=
case ${1-} in
slides)
	what=slides
	shift
	;;
--student)
	edition=(--student)
	shift
	;;
esac
[ $# = 1 ] || { [ $# = 2 ] && [ $what = site ]; } || fail 2 "$usage"
[[ $1 != -* ]] || fail 2 "$usage"
out=$(realpath -m "$1")
if [ $# = 2 ]; then
	tree=$(realpath -m "$2")
	[ -e "$tree/index.md" ] || [ -z "$(ls -A "$tree" 2>/dev/null)" ] || fail 2 "$tree is not empty, and holds no prepared pages."
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ $what = slides ]; then
	build_slides
else
	build_site "$tree"
fi
