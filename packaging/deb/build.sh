#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# build.sh OUT [amd64|arm64]: pathcost_VERSION_ARCHITECTURE.deb in the folder OUT, from the files that git knows. Needs
# debhelper, and for an architecture other than this machine's its cross compiler.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$(realpath -m "${1:?build.sh OUT: name a folder for the package}")
here=$(dpkg --print-architecture) for=${2-$(dpkg --print-architecture)}
lack=
case $for in
amd64) compiler=x86-64-linux-gnu ;;
arm64) compiler=aarch64-linux-gnu ;;
*) echo "build.sh: there is no package for \"$for\": amd64 and arm64 are." >&2 && exit 2 ;;
esac
command -v dh >/dev/null || lack+=" debhelper"
[ "$for" = "$here" ] || command -v "${compiler/x86-64/x86_64}-gcc" >/dev/null || lack+=" gcc-$compiler libc6-dev-$for-cross"
[ -z "$lack" ] || { echo "build.sh: missing: sudo apt install$lack" >&2 && exit 1; }
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/pyproject.toml")
: "${SOURCE_DATE_EPOCH:=$(git -C "$root" log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out" "$work/pathcost"
git -C "$root" ls-files -z analysis probes runners packaging pyproject.toml |
	tar -C "$root" --null -T - -c | tar -C "$work/pathcost" -x
cd "$work/pathcost"
find . -exec touch -hd "@$SOURCE_DATE_EPOCH" {} + # with the same commit, the same bytes
mv packaging/deb/debian .
cat >debian/changelog <<END
pathcost ($version) unstable; urgency=low

  * CHANGELOG.md of the source has the changes.

 -- The pathcost authors <pathcost@localhost>  $(date -uRd "@$SOURCE_DATE_EPOCH")
END
# Its only need that has an architecture is Python, which runs here.
words=() && [ "$for" = "$here" ] || words=(--host-arch "$for" --no-check-builddeps)
dpkg-buildpackage "${words[@]}" --build=binary --unsigned-changes --no-pre-clean >"$work/log" 2>&1 || {
	tail -n 20 "$work/log" >&2
	exit 1
}
mv "$work"/pathcost_*.deb "$out"
ls "$out/pathcost_${version}_$for.deb"
