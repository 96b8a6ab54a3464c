#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# trim.sh SAMPLE: cuts the low-quality tail of each read: SAMPLE.fastq to SAMPLE.trimmed.fastq.gz.
set -eu
sample=$1
awk 'NR % 4 == 1 { name = $0 }
NR % 4 == 2 { bases = $0 }
NR % 4 == 0 {
	end = length($0)
	while (end > 0 && index("#!BCD", substr($0, end, 1)))
		end--
	if (end >= 92)
		printf "%s\n%s\n+\n%s\n", name, substr(bases, 1, end), substr($0, 1, end)
}' "$sample.fastq" | gzip -6 > "$sample.trimmed.fastq.gz"
