# SPDX-License-Identifier: Apache-2.0
"""Compiles the workloads. Each is one source file and truth.h; the results lie in build/accuracy."""

import pathlib
import subprocess

from harness.tracer import BUILD

SOURCES = pathlib.Path(__file__).resolve().parent
FOLDER = BUILD / "accuracy"
FLAGS = ["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]


def program(name):
    """The path of a workload, compiled when it is older than its source."""
    source, target = SOURCES / f"{name}.c", FOLDER / name
    newest = max(source.stat().st_mtime, (SOURCES / "truth.h").stat().st_mtime)
    if not target.exists() or target.stat().st_mtime < newest:
        FOLDER.mkdir(parents=True, exist_ok=True)
        subprocess.run(["gcc", *FLAGS, str(source), "-o", str(target)], check=True)
    return target
