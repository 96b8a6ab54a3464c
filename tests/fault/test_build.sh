#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The command a person types first: wrong usage is named and gives 2, and a second call does nothing.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
cases=0

# expect RC WORDS ARG...
expect() {
	local want=$1 words=$2 rc=0 said
	shift 2
	said=$(./build.sh "$@" 2>&1 </dev/null) || rc=$?
	if [ "$rc" != "$want" ] || [ "${said#*"$words"}" = "$said" ]; then
		printf 'build.sh %s: exit %s (want %s), said:\n%s\n' "$*" "$rc" "$want" "$said"
		exit 1
	fi
	cases=$((cases + 1))
}

expect 0 'Usage: ./build.sh' --help
expect 2 'unknown option: --nothing' --nothing
expect 2 'unknown command: nothing' nothing
expect 2 '--offline needs a folder' --offline
expect 2 'no such folder: /nowhere' --offline /nowhere
expect 2 'sources: give one folder' sources
expect 2 'test: unknown argument: --short' test --short
expect 2 'clean: unknown argument: x' clean x

expect 0 'sha256' # builds, if anything changed
before=$(stat -c %Y.%s build/tracer)
started=$(date +%s%N)
expect 0 "sha256 $(sha256sum build/tracer | cut -d' ' -f1)"
took_ms=$((($(date +%s%N) - started) / 1000000))
[ "$(stat -c %Y.%s build/tracer)" = "$before" ] || { echo "the second call built again"; exit 1; }
[ "$took_ms" -lt 2000 ] || { echo "the second call took $took_ms ms (at most 2000)"; exit 1; }
printf 'build: %d cases passed, second call %d ms\n' "$cases" "$took_ms"
