#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# merge.sh SAMPLE...: one line a sample to summary.tsv: reads kept, distinct k-mers, the most frequent one.
set -eu
printf 'sample\treads\tkmers\ttop\n' > summary.tsv
for sample in "$@"; do
	kept=$(gzip -dc "$sample.trimmed.fastq.gz" | awk 'END { print NR / 4 }')
	distinct=$(wc -l < "$sample.kmers.tsv" | tr -d ' ')
	top=$(head -n 1 "$sample.kmers.tsv" | cut -f 1)
	printf '%s\t%s\t%s\t%s\n' "$sample" "$kept" "$distinct" "$top" >> summary.tsv
done
