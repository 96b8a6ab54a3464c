#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# index.sh SAMPLE: splits the k-mer table into small parts and sums each in a process of its own: SAMPLE.index.
set -eu
sample=$1
mkdir "$sample.parts"
awk -v folder="$sample.parts" 'NR <= 60000 {
	print > sprintf("%s/%04d", folder, int(NR / 50))
	if (NR % 50 == 49)
		close(sprintf("%s/%04d", folder, int(NR / 50)))
}' "$sample.kmers.tsv"
for part in "$sample.parts"/*; do
	cksum "$part"
	wc -l "$part"
done > "$sample.index"
rm -r "$sample.parts"
