# SPDX-License-Identifier: Apache-2.0
"""A job array on a one-node Slurm, recorded on the whole host: each job and step of Slurm's own account is there."""

import pytest

from e2e import account
from e2e.slurm import Slurm
from harness import tracer

SCRIPT = """#!/bin/sh
#SBATCH --job-name=count-reads
case $SLURM_ARRAY_TASK_ID in
2) echo "bad input" >&2; exit 3 ;;
3) kill -TERM $$; sleep 5 ;;
esac
gzip -dc {samples}/liver.fastq.gz | awk 'NR % 4 == 2' | sort | uniq -c | wc -l
srun --ntasks=1 sh -c 'gzip -dc {samples}/heart.fastq.gz | wc -l'
"""


@pytest.fixture(scope="module")
def scene(samples, tmp_path_factory):
    folder = tmp_path_factory.mktemp("slurm")
    script = folder / "count.sh"
    script.write_text(SCRIPT.format(samples=samples))
    with Slurm(folder) as slurm:
        recording = tracer.run(["sbatch", "--wait", "--array=1-4", "--mem=200", f"--output={folder}/%A_%a.out", script],
                               folder / "out.ndjson", options=["--system"], cwd=folder, env=slurm.environment)
        slurm.wait_for(lambda: len(slurm.completions()) == 4, "not all jobs ended")
        jobs = slurm.completions()
    assert recording.returncode == 15 or recording.returncode == 3, recording.stderr[-3000:]
    return recording, jobs


def job_of(process):
    """The number of the Slurm job a process belongs to, from the id of its run."""
    return int(str(process.run_id).rsplit(":", 1)[-1].rsplit("/", 1)[-1].rsplit("-", 1)[-1])


def test_every_job_is_there(scene):
    recording, jobs = scene
    assert len(jobs) == 4
    seen = {job_of(process) for process in account.of_engine(recording, "slurm")}
    assert seen == {int(job["JobId"]) for job in jobs}


def test_codes_and_signals(scene):
    recording, jobs = scene
    for job in jobs:
        script = [process for process in account.of_engine(recording, "slurm") if job_of(process) == int(job["JobId"])
                  and (process["script"] or "").endswith("slurm_script")]
        assert len(script) == 1, job
        code, signal = map(int, job["ExitCode"].split(":"))
        assert (script[0]["exit_code"] or 0, script[0]["signal"] or 0) == (code, signal), job
        first = min((process for process in recording.processes if process.task_id == script[0].task_id
                     and process.run_id == script[0].run_id), key=lambda process: process["start_ns"])
        assert first == script[0], f"the batch task of {job['JobId']} begins with {first['args']}"


def test_steps_and_tools(scene):
    recording, jobs = scene
    good = [int(job["JobId"]) for job in jobs if job["JobState"] == "COMPLETED"]
    assert len(good) == 2
    for number in good:
        processes = [process for process in account.of_engine(recording, "slurm") if job_of(process) == number]
        tasks = {process.task_id for process in processes} - {None}
        assert len(tasks) >= 2, f"job {number}: batch and one step, tasks {tasks}"
        tools = account.tools_of(processes)
        assert {"gzip", "sort", "uniq", "wc", "srun"} <= {tool.split()[0] for tool in tools}, tools
        assert len([process for process in processes if process["args"][:1] == ["gzip"]]) == 2


def test_report(scene):
    recording, _ = scene
    account.report_names(recording, "slurm", "gzip", "sort")
    account.report_shows_failure(recording)


def test_nothing_lost(scene):
    assert not scene[0].gaps
