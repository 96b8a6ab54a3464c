# SPDX-License-Identifier: Apache-2.0
cwlVersion: v1.2
class: CommandLineTool
baseCommand: [samtools, sort]
inputs:
  sam: {type: File, inputBinding: {position: 1}}
arguments: [-o, sorted.bam]
outputs:
  bam: {type: File, outputBinding: {glob: sorted.bam}}
