# SPDX-License-Identifier: Apache-2.0
"""Generated sequencing data: one small reference and reads taken from it, the same for the same seed."""

import gzip
import pathlib
import random

SAMPLES = ("liver", "kidney", "heart")


def write_reference(path, bases=60_000, seed=7):
    generator = random.Random(seed)
    sequence = "".join(generator.choices("ACGT", k=bases))
    lines = "\n".join(sequence[i:i + 60] for i in range(0, bases, 60))
    pathlib.Path(path).write_text(f">chr1\n{lines}\n")
    return sequence


def write_reads(path, sequence, count, seed, length=100, error_rate=0.01):
    generator = random.Random(seed)
    complement = str.maketrans("ACGT", "TGCA")
    with gzip.GzipFile(path, "wb", compresslevel=1, mtime=0) as out:
        for number in range(count):
            start = generator.randrange(len(sequence) - length)
            read = sequence[start:start + length]
            if generator.random() < 0.5:
                read = read.translate(complement)[::-1]
            bases = [generator.choice("ACGT") if generator.random() < error_rate else base for base in read]
            out.write(f"@read.{number}\n{''.join(bases)}\n+\n{'I' * length}\n".encode())


def write_samples(folder, samples=SAMPLES, count=4000):
    """FOLDER/reference.fa and FOLDER/SAMPLE.fastq.gz for each sample."""
    folder = pathlib.Path(folder)
    sequence = write_reference(folder / "reference.fa")
    for number, sample in enumerate(samples):
        write_reads(folder / f"{sample}.fastq.gz", sequence, count, seed=100 + number)
