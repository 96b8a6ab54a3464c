#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# reads.sh SAMPLE COUNT: writes SAMPLE.fastq, the same for the same name and count.
set -eu
sample=$1 count=$2
seed=$(printf '%s' "$sample" | cksum | cut -d ' ' -f 1)
awk -v sample="$sample" -v count="$count" -v seed="$seed" 'BEGIN {
	srand(seed % 1000003)
	for (i = 0; i < 64; i++) {
		block[i] = ""
		for (j = 0; j < 16; j++)
			block[i] = block[i] substr("ACGT", int(rand() * 4) + 1, 1)
	}
	for (i = 1; i <= count; i++) {
		bases = quality = ""
		for (j = 0; j < 6; j++) {
			bases = bases block[int(rand() * rand() * 64)]
			quality = quality substr("IIIIIIIIIIIIHHHHHHHGGGGGFFFFEDCB#!!!", int(rand() * 23) + 1, 16)
		}
		printf "@%s.%d\n%s\n+\n%s\n", sample, i, bases, quality
	}
}' > "$sample.fastq"
