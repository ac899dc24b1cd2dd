#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The documentation as a static site. Strict: a warning, such as a dead link, makes it fail.
#
#   docs/build.sh [--student] OUT [TREE]
#   docs/build.sh slides OUT
#   docs/build.sh browser OUT
#
#   --student  the student's edition: docs/site/editions.py
#   slides     the slides of docs/course/slides instead: OUT/lecture.html, OUT/lab-1.html; needs npm
#   browser    a stored run in a browser instead: docs/site/browser.py; needs npm
#   OUT        the folder of the site: OUT/index.html
#   TREE       where the pages are prepared, if they are to stay there; prepared pages are taken as they are
set -euo pipefail

fail() {
	echo "docs/build.sh: $2" >&2
	exit "$1"
}

set_up() {
	environment=$(./runners/setup.sh "--$1" | tee >(cat >&2) | tail -n 1)
	export PATH=$environment/bin:$PATH PYTHONPATH=$PWD PYTHONDONTWRITEBYTECODE=1
}

# Fetch the package that a folder of docs/site pins.
fetch() {
	local words
	command -v npm >/dev/null || fail 1 "npm is missing, which fetches $1: sudo apt install npm."
	mkdir "$work/npm"
	cp "docs/site/$2/"package*.json "$work/npm"
	words=$(npm ci --prefix "$work/npm" --ignore-scripts --no-audit --no-fund 2>&1) ||
		fail 1 "npm cannot fetch $1, so nothing is built: $(grep -m 1 'npm error' <<<"$words")"
}

build_slides() {
	fetch reveal.js reveal
	set_up site
	mkdir -p "$out"
	python -m docs.site.slides "$out" "$work/npm/node_modules/reveal.js"
}

build_browser() {
	fetch Pyodide pyodide
	set_up browser
	mkdir "$work/lite"
	python -m docs.site.browser "$out" "$work/npm/node_modules/pyodide" "$work/lite"
}

build_site() {
	local tree=${1:-$work/tree}
	git rev-parse --git-dir >/dev/null 2>&1 || fail 1 "$PWD is no git checkout, which names the files of the site."
	set_up site
	[ -e "$tree/index.md" ] || python -m docs.site.pages "$tree" "${edition[@]}"
	sphinx-build --quiet --fail-on-warning --jobs auto "${edition[@]/#--/--tag=}" -c docs/site -d "$tree/.doctrees" "$tree" "$out"
}

usage="name the folder of the site: docs/build.sh [--student] OUT [TREE], or docs/build.sh slides|browser OUT."
what=site edition=() tree=
case ${1-} in
slides | browser)
	what=$1
	shift
	;;
--student)
	edition=(--student)
	shift
	;;
esac
[ $# = 1 ] || { [ $# = 2 ] && [ "$what" = site ]; } || fail 2 "$usage"
[[ $1 != -* ]] || fail 2 "$usage"
out=$(realpath -m "$1")
if [ $# = 2 ]; then
	tree=$(realpath -m "$2")
	[ -e "$tree/index.md" ] || [ -z "$(ls -A "$tree" 2>/dev/null)" ] || fail 2 "$tree is not empty, and holds no prepared pages."
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case $what in
slides) build_slides ;;
browser) build_browser ;;
site) build_site "$tree" ;;
esac
