#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A small real pipeline: six samples of made-up sequencing reads are trimmed, counted, indexed, checked and merged.
# Needs nothing but POSIX tools; works in a temporary folder that it removes. DEMO_READS=N changes the size.
set -eu
steps=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/pipeline.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cd "$work"

samples="brain heart kidney liver lung spleen"
reads=${DEMO_READS:-120000}

say() { printf '%s\n' "pipeline: $*"; }

# Runs one step for every sample, two at a time; any failure fails the pipeline.
each_sample() {
	step=$1
	shift
	first=
	for sample in $samples; do
		"$steps/$step.sh" "$sample" "$@" &
		if [ -z "$first" ]; then
			first=$!
		else
			wait "$first"
			first=
			wait $!
		fi
	done
	wait
}

say "making $reads reads for each of: $samples"
each_sample reads "$reads"
say "trimming"
each_sample trim
say "counting k-mers"
each_sample kmers
say "indexing (many short-lived processes)"
"$steps/index.sh" liver

say "checking"
attempt=1
until "$steps/check.sh" heart "$attempt"; do
	attempt=$((attempt + 1))
	[ "$attempt" -le 3 ] || exit 1
	say "check failed, attempt $attempt"
done

say "merging"
# shellcheck disable=SC2086 # one argument a sample
"$steps/merge.sh" $samples
cat summary.tsv
