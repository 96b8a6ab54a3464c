#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check.sh SAMPLE ATTEMPT: fails with exit code 75 on the first attempt, as a busy file server would; then compares.
set -eu
sample=$1 attempt=$2
if [ "$attempt" -lt 2 ]; then
	sleep 0.5
	echo "check.sh: $sample: not there yet, try again" >&2
	exit 75
fi
gzip -t "$sample.trimmed.fastq.gz"
LC_ALL=C sort -c -k2,2nr "$sample.kmers.tsv"
