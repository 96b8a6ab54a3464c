# SPDX-License-Identifier: Apache-2.0
# Fails: samtools is asked for a region of a file that has no index.
cwlVersion: v1.2
class: CommandLineTool
baseCommand: [samtools, view]
inputs:
  bam: {type: File, inputBinding: {position: 1}}
arguments: [{position: 2, valueFrom: "chr1:1-1000"}]
outputs:
  text: {type: stdout}
stdout: region.txt
