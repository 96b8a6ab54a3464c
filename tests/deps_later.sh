#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds all nine pinned libraries from the pinned sources and runs a static program over those that
# build/tracer does not link yet, so that their pins and recipes hold on the day they are needed.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sources=$PWD/build/sources

if ! deps/unpack.sh --all "$sources" "$work/src" >/dev/null 2>&1; then
	deps/fetch.sh --all "$sources"
	rm -rf "$work/src"
	deps/unpack.sh --all "$sources" "$work/src"
fi
cp -rL build/deps "$work/out" 2>/dev/null || deps/build.sh "$work/src" "$work/out"
deps/build_later.sh "$work/src" "$work/out"
"$work/out/bin/musl-cc" -Wall -Wextra -Werror -O2 -fPIE -o "$work/later" tests/deps_later.c \
	-lcurl -lmbedtls -lmbedx509 -lmbedcrypto -lsodium -lz
if readelf -lW "$work/later" | grep -q INTERP; then
	echo "deps_later: the program needs a loader"
	exit 1
fi
"$work/later"
echo "deps_later: passed"
