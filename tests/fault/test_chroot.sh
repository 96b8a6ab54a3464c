#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The binary in a folder that holds nothing else: no loader, no library, no /proc, no /etc. It starts,
# prints what it embeds, and where something it needs is missing says so instead of crashing.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cp build/tracer "$dir/tracer"
as_root=()
[ "$(id -u)" = 0 ] || as_root=(unshare --user --map-root-user)
cases=0

# inside RC-MAX WORDS ARG...: the exit code is at most RC-MAX (a crash is more) and WORDS are said.
inside() {
	local most=$1 words=$2 rc=0 said
	shift 2
	said=$(env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "${as_root[@]}" chroot "$dir" /tracer "$@" 2>&1 </dev/null) || rc=$?
	if [ "$rc" -gt "$most" ] || [ "${said#*"$words"}" = "$said" ]; then
		printf 'in an empty root, tracer %s: exit %s (at most %s), said:\n%s\n' "$*" "$rc" "$most" "$said"
		exit 1
	fi
	cases=$((cases + 1))
}

inside 0 "tracer $(cat VERSION)" version
inside 0 'Commands' help
inside 0 'samtools sort' rules test -- samtools sort -o x.bam in.bam
inside 125 '/proc' run -- /tracer version

# With /proc alone it records, by whatever way is left.
if [ "$(id -u)" = 0 ]; then
	mkdir "$dir/proc"
	as_root=(unshare --mount --propagation private sh -c "mount -t proc proc '$dir/proc' && exec \"\$@\"" sh)
	inside 0 "tracer $(cat VERSION)" run -- /tracer version
	inside 127 '/nothing' run -- /nothing
fi
printf 'chroot: %d cases passed\n' "$cases"
