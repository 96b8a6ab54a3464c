# SPDX-License-Identifier: Apache-2.0
"""Plain scripts without an engine: xargs -P, GNU parallel, and the pipeline that ships in demo/."""

import json
import subprocess

import pytest

from e2e import account, engines
from harness import tracer

XARGS = """#!/bin/sh
# One pipe for each sample, two at a time; the sample "missing" fails.
bwa index reference.fa 2> /dev/null
printf '%s\\n' liver kidney heart missing |
	xargs -n 1 -P 2 ./one.sh
"""

PARALLEL = """#!/bin/sh
bwa index reference.fa 2> /dev/null
parallel --will-cite -j 2 ./one.sh ::: liver kidney heart missing
"""

ONE = """#!/bin/sh
[ -f "$1.fastq.gz" ] || exit 4
bwa mem reference.fa "$1.fastq.gz" 2> /dev/null | samtools sort -o "$1.bam" - 2> /dev/null
"""


@pytest.fixture(params=["xargs", "parallel"])
def scene(request, aligners, samples, tmp_path):
    if request.param == "parallel":
        engines.debian("parallel")
    for path in samples.iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "reference.fa").unlink()
    (tmp_path / "reference.fa").write_bytes((samples / "reference.fa").read_bytes())
    for name, text in (("align.sh", XARGS if request.param == "xargs" else PARALLEL), ("one.sh", ONE)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tracer.run(["./align.sh"], tmp_path / "out.ndjson", cwd=tmp_path,
                      check=123 if request.param == "xargs" else 1)


def test_parallel_script(scene, tmp_path):
    runs = account.runs_of(scene, "script")
    assert len(runs) == 1, runs
    assert not [process for process in scene.processes if process.run_id not in runs]
    assert len(scene.with_tool("bwa index")) == 1
    assert len(scene.with_tool("bwa mem")) == 3
    assert len(scene.with_tool("samtools sort")) == 3
    assert sorted(process["sample"] for process in scene.with_tool("bwa mem")) == ["heart", "kidney", "liver"]
    aligned = {process.task_id for process in scene.with_tool("bwa mem")}
    assert len(aligned) == 3 and None not in aligned, f"three samples, tasks {aligned}"
    failed = [process for process in scene.processes
              if process["exit_code"] == 4 and (process["script"] or "").endswith("one.sh")]
    assert len(failed) == 1 and failed[0]["args"][-1] == "missing"
    account.report_names(scene, "align.sh", "bwa mem", "samtools sort")
    account.report_shows_failure(scene)
    # What parallel asks for itself (the terminal, how long a process takes) fails, and is not in the list.
    summary = json.loads(subprocess.run([tracer.BINARY, "report", "--json", tmp_path / "out.ndjson"], check=True, capture_output=True).stdout)
    told = [failure for failure in summary["failures_by_tool"] if "end" not in failure]
    assert "sh one.sh" in {failure["tool"] for failure in told}
    assert not [failure for failure in told if "tput" in failure["first_command"] or failure["first_command"].startswith("sleep")], told
    assert not scene.gaps


def test_demo_pipeline(tmp_path):
    recording = tracer.run([tracer.ROOT / "demo" / "pipeline.sh"], tmp_path / "out.ndjson", check=0)
    runs = account.runs_of(recording, "script")
    assert len(runs) == 1, runs
    tasks = account.tasks_of(recording, "script")
    steps = {}
    for process in recording.processes:
        if process["script"] and not process["images"][-1].get("forked"):
            name = process["script"].rsplit("/", 1)[-1]
            steps.setdefault(name, []).append(process)
    counts = {name: len(processes) for name, processes in steps.items()}
    assert counts == {"pipeline.sh": 1, "reads.sh": 6, "trim.sh": 6, "kmers.sh": 6, "index.sh": 1, "check.sh": 2,
                      "merge.sh": 1}
    own = {process.task_id for name, processes in steps.items() if name != "pipeline.sh" for process in processes}
    assert None not in own and len(own) == 22, f"22 steps, {len(own)} tasks"
    assert own <= {task for _, task in tasks}
    assert sorted(process["exit_code"] for process in steps["check.sh"]) == [0, 75]
    storm = [process for process in recording.processes if process["args"][:1] in (["cksum"], ["wc"])
             and process.task_id == steps["index.sh"][0].task_id]
    assert len(storm) > 900
    account.report_names(recording, "pipeline.sh", "kmers.sh", "sort", "gzip")
    account.report_shows_failure(recording)
    assert not recording.gaps
