#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Finds the commit of a kernel tree that made an exact round trip longer: git bisect run, whose step is
# `run.sh --exact --kernel TREE --against GOOD`.
#
#   bisect.sh GOOD BAD [--tree DIR] [option of run.sh --exact …]
#
#   GOOD, BAD     commits: a round trip of BAD takes more instructions than one of GOOD
#   --tree DIR    the kernel's git tree, with nothing uncommitted in it (default: this folder)
#   --out DIR     where the runs of GOOD, of each step and of the commit go (default: a new folder)
#
# The other options choose the cells and the allowance: --transports tcp --sizes 64,16K --allowance 50.
# A commit that does not build or boot is skipped. Exit status: 0 found, 1 not found, 2 wrong use.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

refuse() {
	echo "pathcost: $*" >&2
	exit 2
}

# What git bisect run calls for each commit: 0 good, 1 bad, 125 skip. Any other status would be taken
# for bad up to 127, so what is none of these ends the bisect.
if [ "${1:-}" = --step ]; then
	shift
	commit=$(git rev-parse --short=12 HEAD) began=$SECONDS status=0
	"$here/run.sh" --exact --quiet --kernel "$PWD" --against "$1/good" --out "$1/step-$commit" "${@:2}" || status=$?
	echo "step $commit: status $status after $((SECONDS - began)) s"
	case $status in 0 | 1 | 125) exit $status ;; *) exit 128 ;; esac
fi

[[ $# -ge 2 && $1 != -* && $2 != -* ]] || refuse "bisect.sh GOOD BAD [--tree DIR]: two commits come first."
good=$1 bad=$2 tree=$PWD out=
shift 2
cells=() allowance=()
while [ $# -gt 0 ]; do
	[ $# -ge 2 ] || refuse "$1 needs a value."
	case $1 in
	--tree) tree=$2 ;;
	--out) out=$2 ;;
	--kernel | --against) refuse "bisect.sh chooses $1 itself: leave it out." ;;
	--allowance) allowance=("$1" "$2") ;;
	*) cells+=("$1" "$2") ;;
	esac
	shift 2
done
# The cells of a gate: on one CPU, where no scheduler decides.
case " ${cells[*]-} " in *" --placements "*) ;; *) cells+=(--placements same-cpu) ;; esac
case " ${cells[*]-} " in *" --sched "*) ;; *) cells+=(--sched fifo) ;; esac

tree=$(cd "$tree" 2>/dev/null && pwd) || refuse "there is no folder $tree."
out=$(realpath -m "${out:-$here/../reports/bisect-$(date +%Y%m%d-%H%M%S)}")
git="git -C $tree"
if [ ! -f "$tree/Kconfig" ] || ! $git rev-parse --git-dir >/dev/null 2>&1; then
	refuse "$tree is no git tree of a kernel: name one with --tree."
fi
for commit in "$good" "$bad"; do
	$git rev-parse --quiet --verify "$commit^{commit}" >/dev/null || refuse "$tree has no commit $commit."
done
[ -z "$($git status --porcelain --untracked-files=no)" ] || refuse "$tree has changes that are not committed: commit or stash them."
[ ! -e "$($git rev-parse --absolute-git-dir)/BISECT_START" ] || refuse "$tree is in a bisect already: end it with git bisect reset."
mkdir -p "$out"

# GOOD is counted once; every step is judged by this run.
was=$($git symbolic-ref --quiet --short HEAD || $git rev-parse HEAD)
trap '$git bisect reset >/dev/null 2>&1 || true; $git checkout --quiet "$was"' EXIT
count() { "$here/run.sh" --exact --kernel "$tree" "$@" "${cells[@]}"; }
$git checkout --quiet --detach "$good"
count --quiet --out "$out/good" || { echo "pathcost: $good cannot be counted." >&2 && exit 1; }
# Without a difference, every step would be good and BAD would be blamed.
$git checkout --quiet --detach "$bad"
status=0
count --against "$out/good" "${allowance[@]}" --out "$out/bad" || status=$?
[ $status = 1 ] || { echo "pathcost: $bad takes no more than $good (status $status): there is nothing to find." >&2 && exit 1; }

$git bisect start "$bad" "$good" >/dev/null
(cd "$tree" && git bisect run "$here/bisect.sh" --step "$out" "${cells[@]}" "${allowance[@]}") 2>&1 | tee "$out/bisect.log"
grep -q "is the first bad commit" "$out/bisect.log" || { echo "pathcost: no commit was found: see $out/bisect.log." >&2 && exit 1; }

# The commit's own diff: it against its parent.
first=$($git rev-parse refs/bisect/bad)
$git checkout --quiet "$first~1"
count --quiet --out "$out/parent"
$git checkout --quiet "$first"
echo
$git log -1 --format='%h %s' "$first"
count --against "$out/parent" --out "$out/commit" || [ $? = 1 ]
