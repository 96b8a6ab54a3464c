# SPDX-License-Identifier: Apache-2.0
cwlVersion: v1.2
class: Workflow
requirements:
  ScatterFeatureRequirement: {}
inputs:
  reference: File
  reads: File[]
outputs:
  bams: {type: "File[]", outputSource: sort/bam}
  regions: {type: "File[]", outputSource: check/text}
steps:
  index:
    run: index.cwl
    in: {reference: reference}
    out: [indexed]
  align:
    run: align.cwl
    scatter: reads
    in: {index: index/indexed, reads: reads}
    out: [sam]
  sort:
    run: sort.cwl
    scatter: sam
    in: {sam: align/sam}
    out: [bam]
  check:
    run: check.cwl
    scatter: bam
    in: {bam: sort/bam}
    out: [text]
