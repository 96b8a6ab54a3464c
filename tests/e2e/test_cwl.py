# SPDX-License-Identifier: Apache-2.0
"""A cwltool workflow with scattered steps, two of which fail: each job of cwltool's log is a task."""

import json
import os
import re

import pytest

from e2e import account, engines
from harness import tracer


def jobs_in_log(text):
    """Name and exit status of each job."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    jobs = dict.fromkeys(re.findall(r"\[job (\S+)\] /\S+\$ ", text), 0)
    for name, status in re.findall(r"\[job (\S+)\] exited with status: (\d+)", text):
        jobs[name] = int(status)
    return jobs


@pytest.fixture(scope="module")
def scene(aligners, samples, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cwl")
    file = {"class": "File"}
    (folder / "job.json").write_text(json.dumps({
        "reference": {**file, "path": str(samples / "reference.fa")},
        "reads": [{**file, "path": str(samples / f"{name}.fastq.gz")} for name in ("liver", "heart")],
    }))
    command = [engines.python() / "cwltool", "--parallel", "--on-error", "continue", "--outdir", folder / "results",
               engines.HERE / "cwl" / "workflow.cwl", folder / "job.json"]
    recording = tracer.run(command, folder / "out.ndjson", cwd=folder, check=1,
                           env={**os.environ, "HOME": str(folder)})
    return recording, jobs_in_log(recording.stderr)


def test_engine_and_run(scene):
    recording, _ = scene
    runs = account.runs_of(recording, "cwltool")
    assert len(runs) == 1, runs
    assert not [process for process in recording.processes if process.run_id not in runs]


def test_every_job_is_a_task(scene):
    recording, jobs = scene
    assert sorted(jobs) == ["align", "align_2", "check", "check_2", "index", "sort", "sort_2"]
    tasks = account.tasks_of(recording, "cwltool")
    assert len(tasks) == len(jobs), sorted(tasks)
    tools = sorted(next(iter(account.tools_of(processes) - {"cwltool"})) for processes in tasks.values())
    assert tools == ["bwa index", "bwa mem", "bwa mem", "samtools sort", "samtools sort", "samtools view",
                     "samtools view"]


def test_failures_and_report(scene):
    recording, jobs = scene
    assert sorted(jobs.values()) == [0, 0, 0, 0, 0, 1, 1]
    assert [process["exit_code"] for process in recording.with_tool("samtools view")] == [1, 1]
    account.report_names(recording, "cwl", "bwa index", "bwa mem", "samtools sort", "samtools view")
    account.report_shows_failure(recording)


def test_nothing_lost(scene):
    assert not scene[0].gaps
