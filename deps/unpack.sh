#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks the source packages in a folder against deps.lock and unpacks them, with Debian's patches applied. Needs no network. Refuses a tarball whose sha256 is not the pinned one.
#
#   deps/unpack.sh [--locked] DIR SRC     DIR holds the .dsc and tar files; SRC/NAME/ is written,
#                                         and SRC/revisions says what was taken
set -euo pipefail
export LC_ALL=C

HERE=$(cd "$(dirname "$0")" && pwd)
LOCK=${LOCK:-$HERE/../deps.lock}
locked=0
[ "${1:-}" = --locked ] && { locked=1; shift; }
DIR=$(cd "$1" 2>/dev/null && pwd) || { printf 'unpack: %s: no such folder\n' "$1" >&2; exit 2; }
SRC=$2

say() { printf 'unpack: %s\n' "$*"; }
die() { printf 'unpack: %s\n' "$*" >&2; exit 1; }
sha256() { sha256sum "$1" | cut -d' ' -f1; }

# Prints the .dsc in DIR with the highest revision of SOURCE_UPSTREAM; under --locked only the pinned one.
find_dsc() { # SOURCE UPSTREAM REVISION
	if [ "$3" = - ]; then
		if [ -f "$DIR/$1_$2.dsc" ]; then printf '%s\n' "$DIR/$1_$2.dsc"; fi
		return
	fi
	if [ "$locked" = 1 ]; then
		if [ -f "$DIR/$1_$2-$3.dsc" ]; then printf '%s\n' "$DIR/$1_$2-$3.dsc"; fi
		return
	fi
	local f
	for f in "$DIR/$1_$2"-*.dsc; do
		if [ -f "$f" ]; then printf '%s\n' "$f"; fi
	done | sort -V | tail -1
}

# unpack_one NAME SOURCE UPSTREAM REVISION TAR_SHA256 DSC_SHA256
unpack_one() {
	local name=$1 source=$2 upstream=$3 revision=$4 want=$5 want_dsc=$6 tar='' dsc rev got f
	for f in "$DIR/${source}_$upstream".orig.tar.* "$DIR/${source}_$upstream".tar.*; do
		case $f in *.asc) ;; *) [ -f "$f" ] && tar=$f ;; esac
	done
	[ -n "$tar" ] || die "$DIR: no upstream tarball ${source}_$upstream.orig.tar.*; fill the folder with './build.sh sources DIR'"
	got=$(sha256 "$tar")
	[ "$got" = "$want" ] || die "$tar: sha256 is $got, deps.lock pins $want; delete the file and fetch again"
	rm -rf "${SRC:?}/$name"
	dsc=$(find_dsc "$source" "$upstream" "$revision")
	if [ -z "$dsc" ]; then
		[ "$want_dsc" = - ] || die "$DIR: no ${source}_$upstream-$revision.dsc; fill the folder with './build.sh sources DIR'"
		mkdir -p "$SRC/$name"
		tar -xf "$tar" -C "$SRC/$name" --strip-components=1
		printf '%s %s -\n' "$name" "$upstream" >>"$SRC/revisions"
		return
	fi
	rev=${dsc##*"$source"_"$upstream"}
	rev=${rev#-}
	rev=${rev%.dsc}
	rev=${rev:--}
	if [ "$rev" = "$revision" ]; then
		[ "$(sha256 "$dsc")" = "$want_dsc" ] || die "$dsc: sha256 is not the one deps.lock pins; delete the file and fetch again"
	else
		say "$name: Debian revision $rev instead of the pinned $revision"
	fi
	dpkg-source --require-strong-checksums -x "$dsc" "$SRC/$name" >"$SRC/$name.log" 2>&1 ||
		{ cat "$SRC/$name.log" >&2; die "$dsc: cannot be unpacked"; }
	rm -f "$SRC/${source}_$upstream".orig*.tar.* "$SRC/${source}_$upstream".tar.*
	printf '%s %s %s\n' "$name" "$upstream" "$rev" >>"$SRC/revisions"
}

mkdir -p "$SRC"
: >"$SRC/revisions"
while read -r name source upstream revision tar dsc _; do
	case $name in '' | '#'*) continue ;; esac
	unpack_one "$name" "$source" "$upstream" "$revision" "$tar" "$dsc"
done <"$LOCK"
