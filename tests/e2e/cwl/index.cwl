# SPDX-License-Identifier: Apache-2.0
cwlVersion: v1.2
class: CommandLineTool
baseCommand: [bwa, index]
requirements:
  InitialWorkDirRequirement:
    listing: [{entry: $(inputs.reference), writable: true}]
inputs:
  reference: {type: File, inputBinding: {position: 1}}
outputs:
  indexed:
    type: File
    secondaryFiles: [.amb, .ann, .bwt, .pac, .sa]
    outputBinding: {glob: $(inputs.reference.basename)}
