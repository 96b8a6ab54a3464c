# SPDX-License-Identifier: Apache-2.0
"""Runs one workload under tracer run and joins its truth with the records."""

import dataclasses
import pathlib

from accuracy import join, programs
from harness import tracer


@dataclasses.dataclass
class Scene:
    name: str
    pairs: list
    recording: tracer.Recording
    root_pid: int


def record(name, folder, *arguments, group=None, options=()):
    """tracer run WORKLOAD truth.ndjson ARGUMENTS, in folder, inside group when one is given."""
    folder = pathlib.Path(folder)
    truth = folder / "truth.ndjson"
    command = [str(programs.program(name)), str(truth), *map(str, arguments)]
    if group is not None:
        command = group.enter(command)
    recording = tracer.run(command, folder / "records.ndjson", cwd=folder, options=options, check=0)
    pairs = join.join(join.read_truth(truth), recording.processes)
    return Scene(name, pairs, recording, 0)


def cpu_in_tree(scene):
    """CPU of every recorded process, the workload's own included."""
    return sum(process["cpu_ns"] for process in scene.recording.processes)
