# SPDX-License-Identifier: Apache-2.0
"""Each check of the updater's verifier is taken out, and a unit test has to fail: one check for each attack in the short run, all
of them in the long one."""

import subprocess
import sys

import pytest

from harness.tracer import ROOT


def mutate(*arguments):
    done = subprocess.run([sys.executable, ROOT / "tests/updater/mutate.py", *arguments], capture_output=True, text=True)
    print(done.stdout + done.stderr)
    return done


def test_one_check_of_each_attack():
    done = mutate("--first")
    assert done.returncode == 0 and "10 of 10 noticed" in done.stdout


@pytest.mark.long
def test_every_check():
    done = mutate()
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) > 100
