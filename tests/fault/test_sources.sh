#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Third-party sources that are not what deps.lock pins: each must be refused with the file and the
# remedy named, or, for a newer Debian revision, be taken and said. Works on a source package made
# here, without a network.
set -euo pipefail
cd "$(dirname "$0")/../.."
repo=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cases=0

# make_revision N: writes the source package toy 1.0-N; its Debian patch makes answer.c hold N.
make_revision() {
	local tree=$work/tree/toy-1.0
	rm -rf "$work/tree"
	mkdir -p "$tree/debian/source" "$tree/debian/patches"
	printf 'int answer = 0;\n' >"$tree/answer.c"
	if ! [ -f "$work/pool/toy_1.0.orig.tar.gz" ]; then
		mkdir -p "$work/pool"
		tar -C "$work/tree" --exclude=debian --mtime=@0 --sort=name -czf "$work/pool/toy_1.0.orig.tar.gz" toy-1.0
	fi
	printf '3.0 (quilt)\n' >"$tree/debian/source/format"
	printf 'toy (1.0-%s) stable; urgency=low\n\n  * Revision.\n\n -- T <t@example.org>  Thu, 01 Jan 1970 00:00:00 +0000\n' "$1" >"$tree/debian/changelog"
	printf 'Source: toy\nMaintainer: T <t@example.org>\n\nPackage: toy\nArchitecture: any\nDescription: toy\n' >"$tree/debian/control"
	printf -- '--- a/answer.c\n+++ b/answer.c\n@@ -1 +1 @@\n-int answer = 0;\n+int answer = %s;\n' "$1" >"$tree/debian/patches/answer"
	printf 'answer\n' >"$tree/debian/patches/series"
	cp "$work/pool/toy_1.0.orig.tar.gz" "$work/tree/"
	(cd "$tree" && patch -s -p1 <debian/patches/answer && dpkg-source -b . >/dev/null 2>&1)
	cp "$work"/tree/toy_1.0-"$1".* "$work/pool/"
}

sum() { sha256sum "$1" | cut -d' ' -f1; }

write_lock() { # TAR_SHA256 DSC_SHA256
	printf 'toy toy 1.0 1 %s %s MIT\n' "$1" "$2" >"$work/lock"
}

# expect RC WORDS ARG...: unpack.sh in a fresh folder gives RC and says WORDS.
expect() {
	local want=$1 words=$2 rc=0
	shift 2
	rm -rf "$work/src"
	LOCK=$work/lock "$repo/deps/unpack.sh" "$@" "$work/pool" "$work/src" >"$work/said" 2>&1 || rc=$?
	if [ "$rc" != "$want" ] || { [ -n "$words" ] && ! grep -q -- "$words" "$work/said"; }; then
		printf 'unpack.sh %s: exit %s (want %s), said:\n' "$*" "$rc" "$want"
		cat "$work/said"
		exit 1
	fi
	cases=$((cases + 1))
}

holds() { # TEXT
	grep -qx "$1" "$work/src/toy/answer.c" || { echo "answer.c does not hold: $1"; exit 1; }
}

make_revision 1
tar_sum=$(sum "$work/pool/toy_1.0.orig.tar.gz")
dsc_sum=$(sum "$work/pool/toy_1.0-1.dsc")
wrong=$(printf '%064d' 0)

write_lock "$tar_sum" "$dsc_sum"
expect 0 ''
holds 'int answer = 1;'
grep -qx 'toy 1.0 1' "$work/src/revisions"

write_lock "$wrong" "$dsc_sum"
expect 1 'deps.lock pins'
[ ! -e "$work/src/toy" ] || { echo "a refused tarball was unpacked"; exit 1; }

write_lock "$tar_sum" "$wrong"
expect 1 'sha256 is not the one'

# A patch that changed on the way: the .dsc is right, what it names is not.
write_lock "$tar_sum" "$dsc_sum"
cp "$work/pool/toy_1.0-1.debian.tar.xz" "$work/keep"
printf 'x' >>"$work/pool/toy_1.0-1.debian.tar.xz"
expect 1 'cannot be unpacked'
mv "$work/keep" "$work/pool/toy_1.0-1.debian.tar.xz"

# A newer revision is taken and said; --locked takes the pinned one, and refuses when only the newer is there.
make_revision 2
expect 0 'revision 2 instead of the pinned 1'
holds 'int answer = 2;'
expect 0 '' --locked
holds 'int answer = 1;'
rm "$work"/pool/toy_1.0-1.*
expect 1 'no toy_1.0-1.dsc' --locked
rm "$work"/pool/toy_1.0-2.*

# The tarball alone, where deps.lock names no revision to apply.
write_lock "$tar_sum" -
expect 0 ''
holds 'int answer = 0;'

rm "$work"/pool/*
expect 1 'no upstream tarball'
rm -r "$work/pool"
expect 2 'no such folder'
printf 'sources: %d cases passed\n' "$cases"
