#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# release.sh [--images] OUT: what a release has, built from HEAD at two places: equal bytes, or exit status 1.
#
# The wheel and the Debian package, SHA256SUMS, and bills of materials (CycloneDX): Python packages of the lock file,
# Debian's packages whose code is in the C programs. With --images also both images, built once: `exact` has stored
# machines, of which no two are equal.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
fail() { echo "release.sh: $1" >&2 && exit "${2-1}"; }
images=()
[ "${1-}" != --images ] || { images=(exact probes) && shift; }
[[ $# = 1 && $1 != -* ]] || fail "name a folder: release.sh [--images] OUT" 2
out=$(realpath -m "$1")
[ -z "$(ls -A "$out" 2>/dev/null)" ] || fail "$out is not empty: name another folder." 2
[ -z "$(git -C "$here" status --porcelain)" ] || fail "there are changes that no commit has: commit or stash them."
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../pyproject.toml")
SOURCE_DATE_EPOCH=$(git -C "$here" log -1 --format=%ct)
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q --disable-pip-version-check install --require-hashes -r "$here/requirements.lock"
export PATH="$work/venv/bin:$PATH"

bill() { # the name of what it is of, and the words of debsbom for where that is
	debsbom generate -t cdx --distro-name "$1" --distro-version "$version" --distro-arch amd64 "${@:2}" -o "$place/out/$1" \
		--cdx-serialnumber "$(python3 -c 'import sys, uuid; print(uuid.uuid5(uuid.NAMESPACE_OID, sys.argv[1]))' "$1")" \
		--timestamp "$(date -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)" 2>"$work/log" || fail "no bill of $1: $(tail -n 1 "$work/log")"
}

for place in "$work/one" "$work/another/place"; do
	mkdir -p "$place/out"
	git clone -q "${here%/*}" "$place/pathcost"
	cd "$place/pathcost"
	cyclonedx-py requirements --output-reproducible --pyproject pyproject.toml \
		-o "$place/out/pathcost_${version}_python.cdx.json" runners/requirements.lock 2>/dev/null
	dpkg-query -W -f '${Package} ${Version} ${Architecture}\n' libc6-dev linux-libc-dev "libgcc-$(gcc -dumpversion)-dev" |
		bill "pathcost_${version}_compiled" --from-pkglist
	python3 -m build --wheel --no-isolation --outdir "$place/out" >"$work/log" 2>&1 ||
		fail "the wheel cannot be built: $(tail -n 1 "$work/log")"
	packaging/deb/build.sh "$place/out" >"$work/log" 2>&1 || fail "the package cannot be built: $(tail -n 1 "$work/log")"
	(cd "$place/out" && sha256sum -- *) >"$place/SHA256SUMS"
done
mkdir -p "$out"
mv "$work"/one/out/* "$work/one/SHA256SUMS" "$out"
for kind in "${images[@]}"; do
	"$work/one/pathcost/packaging/image/build.sh" "$kind" "$out" >"$work/log" 2>&1 || fail "the image $kind cannot be built: $(tail -n 1 "$work/log")"
done
(cd "$out" && sha256sum --check --quiet "$place/SHA256SUMS") >"$work/log" 2>&1 ||
	fail "built again, these have other bytes: $(sed -n 's/: FAILED.*//p' "$work/log" | paste -sd ' ')"
echo "$out: pathcost $version; $(wc -l <"$out/SHA256SUMS") files, built twice to the same bytes"
[ ${#images[@]} = 0 ] || (cd "$out" && sha256sum -- *.tar | tee -a SHA256SUMS)
