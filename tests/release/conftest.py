# SPDX-License-Identifier: Apache-2.0
import pytest

from life import Life

PROGRAM = "#!/bin/sh\necho tracer\n"


@pytest.fixture(scope="session")
def ceremony(tmp_path_factory):
    """Keys, a root, one release (of a program that is none), published. For tests that change nothing of it."""
    folder = tmp_path_factory.mktemp("release")
    (folder / "program").write_text(PROGRAM)
    life = Life(folder / "life")
    life.begin()
    life.stage("1.0.0", folder / "program")
    life.installer("1.0.0", "https://updates.example")
    life.publish()
    yield life
    life.close()
