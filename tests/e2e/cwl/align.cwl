# SPDX-License-Identifier: Apache-2.0
cwlVersion: v1.2
class: CommandLineTool
baseCommand: [bwa, mem]
requirements:
  InitialWorkDirRequirement:
    listing: [$(inputs.index)]
inputs:
  index: {type: File, secondaryFiles: [.amb, .ann, .bwt, .pac, .sa], inputBinding: {position: 1}}
  reads: {type: File, inputBinding: {position: 2}}
outputs:
  sam: {type: stdout}
stdout: $(inputs.reads.basename).sam
