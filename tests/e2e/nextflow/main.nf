// SPDX-License-Identifier: Apache-2.0
// Alignment of generated reads. CHECK fails on its first try for each sample, and for "heart" always (its error is ignored).
nextflow.enable.dsl = 2

process INDEX {
    input: path reference
    output: tuple path(reference), path("${reference}.*")
    script: "bwa index $reference"
}

process ALIGN {
    tag "$sample"
    input:
    tuple val(sample), path(reads)
    tuple path(reference), path(index)
    output: tuple val(sample), path("${sample}.bam")
    script: "bwa mem $reference $reads | samtools sort -o ${sample}.bam -"
}

process STATS {
    tag "$sample"
    input: tuple val(sample), path(bam)
    output: path "${sample}.txt"
    script: "samtools flagstat $bam > ${sample}.txt"
}

process CHECK {
    tag "$sample"
    errorStrategy { task.attempt < 2 ? 'retry' : 'ignore' }
    maxRetries 1
    input: tuple val(sample), path(bam)
    output: val sample
    script:
    """
    [ ${task.attempt} -ge 2 ] && [ $sample != heart ] || exit 7
    samtools quickcheck $bam
    """
}

workflow {
    reads = Channel.fromPath("${params.data}/*.fastq.gz").map { [it.simpleName, it] }
    index = INDEX(file("${params.data}/reference.fa"))
    aligned = ALIGN(reads, index)
    STATS(aligned)
    CHECK(aligned)
}
