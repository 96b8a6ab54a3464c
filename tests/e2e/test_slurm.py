# SPDX-License-Identifier: Apache-2.0
"""A job array on a one-node Slurm, recorded on the whole host: each job and step of Slurm's own account is there."""

import pathlib
import shutil
import tempfile

import pytest

from e2e import account, engines
from e2e.slurm import Slurm
from e2e.test_nextflow import OPENS
from e2e.test_world import wait_for
from harness import tracer
from harness.posting import Lake

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


PIPELINE = """nextflow.enable.dsl = 2
process COUNT {
    input: val number
    script: "seq 1 \\$(( $number * 1000 )) | sort | wc -l; sleep 2"
}
workflow { COUNT(channel.of(1, 2)) }
"""

CONFIG = """process.executor = 'slurm'
process.memory = '100 MB'
executor { queueSize = 4; pollInterval = '1 sec'; queueStatInterval = '2 sec'; submitRateLimit = '10/1sec' }
"""


@pytest.mark.long
def test_a_pipeline_and_its_jobs_on_another_node_are_one_run(tmp_path):
    """Nextflow submits to Slurm; what ran in jobs goes to the datalake as another host's, as on a cluster."""
    # A directory that hosts share: none below /tmp is.
    shared = pathlib.Path(tempfile.mkdtemp(prefix="tracer-test-", dir="/srv"))
    try:
        (shared / "main.nf").write_text(PIPELINE)
        (shared / "nextflow.config").write_text(CONFIG)
        (shared / "plugins").mkdir()
        with Slurm(tmp_path) as slurm:
            environment = {**slurm.environment, "NXF_HOME": str(shared / "home"), "NXF_PLUGINS_DIR": str(shared / "plugins"),
                           "NXF_OFFLINE": "true", "NXF_ANSI_LOG": "false"}
            command = ["java", "-XX:TieredStopAtLevel=1", *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENS),
                       "-cp", f"{engines.nextflow()}/*", "nextflow.cli.Launcher", "run", "main.nf", "-offline", "-w", shared / "work"]
            recording = tracer.run(command, tmp_path / "out.ndjson", options=["--system"], cwd=shared, env=environment, check=0)
        jobs = {process.run_id for process in account.of_engine(recording, "slurm")}
        assert len(jobs) == 2, jobs
        heads = account.runs_of(recording, "nextflow")
        assert len(heads) == 1, heads
        with Lake(tmp_path / "lake") as lake:
            lake.agent("node").post(record for record in recording.records if record.get("run") in jobs)
            lake.agent("login").post(record for record in recording.records if record["kind"] == "host" or record.get("run") in heads)
            wait_for(lambda: len({run["run"] for run in lake.rows("runs") if run["stitched_id"]}) == 3)
            runs = {run["run"]: run for run in lake.rows("runs")}
            wholes = {run["stitched_id"] for run in runs.values()}
            head = next(iter(heads))
            assert wholes == {runs[head]["id"]}, "the engine stands for the whole"
            why = {(join["run_id"], join["key"].split(":")[0]) for join in lake.rows("joins") if join["how"] != "weak"}
            assert {(runs[job]["id"], "nextflow-task") for job in jobs} <= why
            assert {(runs[job]["id"], "nextflow") for job in jobs} <= why
            assert "part on node: Nextflow submitted the job from this task directory" in lake.tracer("show", runs[head]["id"]).decode()
    finally:
        shutil.rmtree(shared)
