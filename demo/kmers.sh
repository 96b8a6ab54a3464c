#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kmers.sh SAMPLE: counts 12-mers: SAMPLE.trimmed.fastq.gz to SAMPLE.kmers.tsv, most frequent first.
set -eu
sample=$1
gzip -dc "$sample.trimmed.fastq.gz" |
	awk 'NR % 4 == 2 { for (i = 1; i + 11 <= length($0); i += 3) print substr($0, i, 12) }' |
	LC_ALL=C sort | uniq -c | LC_ALL=C sort -k1,1nr -k2 |
	awk -v OFS='\t' '{ print $2, $1 }' > "$sample.kmers.tsv"
