#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fetches the source packages that deps.lock pins into a folder, through apt's own signed index.
# The apt configuration is private (under APT_DIR) and made from this machine's: its hosts, with the
# suite replaced by the one the pins come from. Nothing of the machine's own apt state is changed.
#
#   deps/fetch.sh [--locked] [--all] DIR     --all: also what is not linked yet
#
# Only downloads; deps/unpack.sh judges what lies in DIR, fetched or brought along.
set -euo pipefail
export LC_ALL=C

SUITE=trixie
HERE=$(cd "$(dirname "$0")" && pwd)
LOCK=${LOCK:-$HERE/../deps.lock}
APT_DIR=${APT_DIR:-$HERE/../build/apt}
locked=0 all=0
while [ $# -gt 1 ]; do
	case $1 in
	--locked) locked=1 ;;
	--all) all=1 ;;
	*) printf 'fetch: unknown option %s\n' "$1" >&2; exit 2 ;;
	esac
	shift
done
mkdir -p "$1"
DIR=$(cd "$1" && pwd)

say() { printf 'fetch: %s\n' "$*"; }
die() { printf 'fetch: %s\n' "$*" >&2; exit 1; }

command -v apt-get >/dev/null ||
	die "apt-get not found: fetch the sources on Debian 12 or 13 with './build.sh sources DIR' and build here with '--offline DIR'"

# Prints "URI SUITE COMPONENT" for each Debian entry this machine has, with the suite replaced.
debian_entries() {
	local uri release component
	# shellcheck disable=SC2016  # apt-get expands these
	apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Identifier: Packages' |
		while read -r uri release component; do
			case $release in
			bookworm | trixie | stable | oldstable) release=$SUITE ;;
			bookworm-* | trixie-* | stable-* | oldstable-*) release=$SUITE-${release#*-} ;;
			*) continue ;;
			esac
			case $release in
			"$SUITE" | "$SUITE-updates" | "$SUITE-security") printf '%s %s %s\n' "$uri" "$release" "$component" ;;
			esac
		done | awk '!seen[$0]++'
}

write_apt_config() {
	local uri release component keyring=
	local f
	for f in /usr/share/keyrings/debian-archive-keyring.pgp /usr/share/keyrings/debian-archive-keyring.gpg; do
		[ -r "$f" ] && keyring=" [signed-by=$f]" && break
	done
	mkdir -p "$APT_DIR"/{state/lists/partial,cache/archives/partial,sources}
	APT_DIR=$(cd "$APT_DIR" && pwd)
	debian_entries | while read -r uri release component; do
		printf 'deb-src%s %s %s %s\n' "$keyring" "$uri" "$release" "$component"
	done >"$APT_DIR/sources/pins.list"
	[ -s "$APT_DIR/sources/pins.list" ] ||
		die "this machine's apt configuration names no Debian 12 or 13 archive; use '--offline DIR', or the Containerfile"
	cat >"$APT_DIR/apt.conf" <<-EOF
		#clear APT::Update::Post-Invoke;
		#clear APT::Update::Post-Invoke-Success;
		Dir::State "$APT_DIR/state";
		Dir::State::status "/var/lib/dpkg/status";
		Dir::Cache "$APT_DIR/cache";
		Dir::Etc::sourcelist "/dev/null";
		Dir::Etc::sourceparts "$APT_DIR/sources";
		APT::Sandbox::User "";
		Acquire::Languages "none";
	EOF
}

apt_private() {
	local tool=$1
	shift
	"$tool" -c "$APT_DIR/apt.conf" -qq "$@"
}

# listed_versions SOURCE UPSTREAM: Debian's versions of that upstream version, newest first.
listed_versions() {
	apt_private apt-cache showsrc "$1" 2>/dev/null | sed -n 's/^Version: //p' | sort -uVr |
		while read -r v; do
			local up=${v#*:}
			[ "${up%-*}" != "$2" ] || printf '%s\n' "$v"
		done
}

# fetch_one SOURCE UPSTREAM REVISION DSC_SHA256
fetch_one() {
	local source=$1 upstream=$2 revision=$3 dsc=$4 versions v err rev
	versions=$(listed_versions "$source" "$upstream")
	[ -n "$versions" ] ||
		die "$source: deps.lock pins $upstream, which Debian $SUITE no longer lists; update deps.lock, or build from a folder of sources with '--offline DIR'"
	for v in $versions; do
		rev=${v##*-}
		[ "$locked" = 1 ] && [ "$rev" != "$revision" ] && continue
		dpkg --compare-versions "$rev" lt "$revision" && continue
		[ "$dsc" = - ] && [ "$rev" = "$revision" ] && continue
		if err=$(cd "$DIR" && apt_private apt-get source --download-only "$source=$v" 2>&1); then
			[ "$rev" = "$revision" ] || say "$source: Debian revision $rev, newer than the pinned $revision"
			return 0
		fi
		say "$source: Debian lists revision $rev but its files cannot be downloaded; trying an older one"
	done
	for v in $versions; do
		rev=${v##*-}
		if [ "$dsc" = - ] && [ "$rev" = "$revision" ]; then
			err=$(cd "$DIR" && apt_private apt-get source --download-only --tar-only "$source=$v" 2>&1) && return 0
		fi
	done
	printf '%s\n' "${err:-}" | sed 's|[a-z]*://[^ /]*|(archive)|g' | tail -5 >&2
	die "$source $upstream-$revision cannot be downloaded"
}

write_apt_config
say "reading Debian's signed index of source packages"
# The network is not always there at the first try.
for try in 1 2 3; do
	apt_private apt-get update >"$APT_DIR/update.log" 2>&1 && break
	[ "$try" = 3 ] && { cat "$APT_DIR/update.log" >&2; die "apt-get update failed for Debian $SUITE"; }
	sleep 2
done
while read -r name source upstream revision _ dsc _ use; do
	case $name in '' | '#'*) continue ;; esac
	[ "$all" = 1 ] || [ "$use" = build ] || continue
	say "$name $upstream"
	fetch_one "$source" "$upstream" "$revision" "$dsc"
done <"$LOCK"
