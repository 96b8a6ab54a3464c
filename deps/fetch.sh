#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fetches the source packages that deps.lock pins into a folder, through apt's own signed index
# (deps/apt.sh).
#
#   deps/fetch.sh [--locked] DIR
#
# Only downloads; deps/unpack.sh judges what lies in DIR, fetched or brought along.
set -euo pipefail
export LC_ALL=C

SUITE=trixie
HERE=$(cd "$(dirname "$0")" && pwd)
LOCK=${LOCK:-$HERE/../deps.lock}
APT_DIR=${APT_DIR:-$HERE/../build/apt}
locked=0
while [ $# -gt 1 ]; do
	case $1 in
	--locked) locked=1 ;;
	*) printf 'fetch: unknown option %s\n' "$1" >&2; exit 2 ;;
	esac
	shift
done
# shellcheck source=deps/apt.sh
. "$HERE/apt.sh"
mkdir -p "$1"
DIR=$(cd "$1" && pwd)

say() { printf 'fetch: %s\n' "$*"; }
die() { printf 'fetch: %s\n' "$*" >&2; exit 1; }

command -v apt-get >/dev/null ||
	die "apt-get not found: fetch the sources on Debian 12 or 13 with './build.sh sources DIR' and build here with '--offline DIR'"

# listed_versions SOURCE UPSTREAM: Debian's versions of that upstream version, newest first.
listed_versions() {
	apt_private "$APT_DIR" apt-cache showsrc "$1" 2>/dev/null | sed -n 's/^Version: //p' | sort -uVr |
		while read -r v; do
			local up=${v#*:}
			[ "${up%-*}" != "$2" ] || printf '%s\n' "$v"
		done
}

# fetch_failed WHAT LOG: says why, without naming the archive.
fetch_failed() {
	printf '%s\n' "$2" | sed 's|[a-z]*://[^ /]*|(archive)|g' | tail -5 >&2
	die "$1 cannot be downloaded"
}

# fetch_one SOURCE UPSTREAM REVISION DSC_SHA256
fetch_one() {
	local source=$1 upstream=$2 revision=$3 dsc=$4 versions v err rev
	if [ "$revision" = - ]; then
		err=$(cd "$DIR" && apt_private "$APT_DIR" apt-get source --download-only "$source=$upstream" 2>&1) && return 0
		fetch_failed "$source $upstream" "$err"
	fi
	versions=$(listed_versions "$source" "$upstream")
	[ -n "$versions" ] ||
		die "$source: deps.lock pins $upstream, which Debian $SUITE no longer lists; update deps.lock, or build from a folder of sources with '--offline DIR'"
	for v in $versions; do
		rev=${v##*-}
		[ "$locked" = 1 ] && [ "$rev" != "$revision" ] && continue
		dpkg --compare-versions "$rev" lt "$revision" && continue
		[ "$dsc" = - ] && [ "$rev" = "$revision" ] && continue
		if err=$(cd "$DIR" && apt_private "$APT_DIR" apt-get source --download-only "$source=$v" 2>&1); then
			[ "$rev" = "$revision" ] || say "$source: Debian revision $rev, newer than the pinned $revision"
			return 0
		fi
		say "$source: Debian lists revision $rev but its files cannot be downloaded; trying an older one"
	done
	# The upstream tarball alone: any listed version has it.
	for v in $versions; do
		[ "$dsc" = - ] || break
		err=$(cd "$DIR" && apt_private "$APT_DIR" apt-get source --download-only --tar-only "$source=$v" 2>&1) && return 0
	done
	fetch_failed "$source $upstream-$revision" "${err:-}"
}

say "reading Debian's signed index of source packages"
apt_setup "$APT_DIR" deb-src "$SUITE" ||
	die "no sources from here: use '--offline DIR' with a folder that './build.sh sources DIR' filled, or the Containerfile"
APT_DIR=$(cd "$APT_DIR" && pwd)
while read -r name source upstream revision _ dsc _; do
	case $name in '' | '#'*) continue ;; esac
	say "$name $upstream"
	fetch_one "$source" "$upstream" "$revision" "$dsc"
done <"$LOCK"
