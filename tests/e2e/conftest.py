# SPDX-License-Identifier: Apache-2.0
"""What the engine tests share: generated reads, and ways to ask a recording about runs, tasks and tools."""

import pytest

from e2e import engines, reads


@pytest.fixture(scope="session")
def aligners():
    engines.debian("bwa", "samtools")


@pytest.fixture(scope="session")
def samples(tmp_path_factory):
    """A folder with reference.fa and a fastq.gz for each sample."""
    folder = tmp_path_factory.mktemp("samples")
    reads.write_samples(folder)
    return folder
