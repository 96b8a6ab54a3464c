#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the third-party libraries and the binary twice, in two folders of different depth, and
# compares bytes: build/tracer must not depend on where it was built.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build_id=$(git describe --always --dirty --abbrev=12 --exclude '*' 2>/dev/null || true)

# build_in FOLDER: a copy of the tree as git sees it, with its own libraries.
build_in() {
	mkdir -p "$1"
	git ls-files -z --cached --others --exclude-standard | tar -cf - --null --ignore-failed-read -T - | tar -xf - -C "$1"
	(
		cd "$1"
		deps/unpack.sh "$sources" build/src >/dev/null
		deps/build.sh build/src build/deps >/dev/null
		make -s -j"${JOBS:-$(nproc)}" BUILD_ID="$build_id" all >/dev/null
	)
}

sources=$PWD/build/sources
if ! deps/unpack.sh "$sources" "$work/check" >/dev/null 2>&1; then
	deps/fetch.sh "$sources"
fi
rm -rf "$work/check"
build_in "$work/a"
build_in "$work/a-much-longer-name/of-another/depth"
rc=0
for file in tracer deps/musl/lib/libc.a deps/musl/lib/libbpf.a deps/musl/lib/libelf.a deps/musl/lib/libcurl.a \
	deps/musl/lib/libmbedtls.a deps/musl/lib/libsqlite3.a deps/musl/lib/libsodium.a; do
	if cmp "$work/a/build/$file" "$work/a-much-longer-name/of-another/depth/build/$file"; then
		printf 'repro: %s: same bytes, sha256 %s\n' "$file" "$(sha256sum <"$work/a/build/$file" | cut -d' ' -f1)"
	else
		rc=1
	fi
done
if [ -f build/tracer ] && ! cmp -s build/tracer "$work/a/build/tracer"; then
	printf 'repro: note: build/tracer of this folder is of another state of the tree\n'
fi
[ "$rc" = 0 ] && printf 'repro: passed\n'
exit "$rc"
