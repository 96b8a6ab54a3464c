#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One end-to-end run of the whole binary under the address and undefined-behaviour sanitizers.
# Any report of theirs fails the test, even when the exit code is right.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export ASAN_OPTIONS=detect_leaks=1:log_path=$work/report UBSAN_OPTIONS=print_stacktrace=1:log_path=$work/report

bin=build/asan/tracer
"$bin" version
"$bin" help >/dev/null
rc=0
# shellcheck disable=SC2016  # the inner shell expands it
"$bin" run -o "$work/out.ndjson" -- sh -c 'i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i + 1)); done; exit 7' || rc=$?
if compgen -G "$work/report*" >/dev/null; then
	cat "$work"/report*
	echo "asan: the sanitizers reported the above"
	exit 1
fi
[ "$rc" = 7 ] || { echo "asan: run gave exit code $rc; the command's was 7"; exit 1; }
count=$(grep -c '"kind":"process"' "$work/out.ndjson")
[ "$count" -ge 201 ] || { echo "asan: $count process records; 201 processes ran"; exit 1; }
echo "asan: $count process records, no report: passed"
