# SPDX-License-Identifier: Apache-2.0
"""Snakemake over bwa and samtools: every job that Snakemake's own log names is a task with the right tools and end."""

import collections
import csv
import io
import os
import pathlib
import re
import shutil

import pytest

from e2e import account, engines
from harness import tracer
from harness.posting import Lake

TOOLS = {
    "index": {"bwa index"},
    "align": {"bwa mem", "samtools sort"},
    "flagstat": {"samtools flagstat"},
    "merge": {"samtools merge"},
    "index_bam": {"samtools index"},
    "broken": {"samtools view"},
}


def jobs_in_log(text):
    """(rule, job id) of each start of a job, retries included."""
    found = []
    for match in re.finditer(r"^(?:local)?(?:rule|checkpoint) (\w+):\n((?:    .*\n)+)", text, re.M):
        number = re.search(r"^    jobid: (\d+)$", match.group(2), re.M)
        found.append((match.group(1), int(number.group(1))))
    return [job for job in found if job[0] != "all"]


@pytest.fixture(scope="module")
def scene(aligners, samples, tmp_path_factory):
    folder = tmp_path_factory.mktemp("snakemake") / "work"
    shutil.copytree(samples, folder)
    shutil.copy(engines.HERE / "snakemake" / "Snakefile", folder)
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder.parent / "cache"), "HOME": str(folder.parent)}
    recording = tracer.run([engines.python() / "snakemake", "--cores", "2", "--keep-going"], folder / "out.ndjson",
                           cwd=folder, env=environment, check=1)
    log = next((folder / ".snakemake" / "log").glob("*.log")).read_text()
    return recording, jobs_in_log(log)


def test_engine_and_run(scene):
    recording, _ = scene
    runs = account.runs_of(recording, "snakemake")
    assert len(runs) == 1, f"one workflow, {len(runs)} runs: {runs}"
    outside = [process for process in recording.processes if process.run_id not in runs]
    assert not outside, [process["args"] for process in outside][:5]


def test_every_job_is_a_task(scene):
    recording, jobs = scene
    assert len(jobs) == 12, jobs
    tasks = account.tasks_of(recording, "snakemake")
    assert len(tasks) == len(jobs), f"{len(jobs)} jobs, {len(tasks)} tasks: {sorted(tasks)}"


def test_tools_of_each_job(scene):
    recording, jobs = scene
    wanted = collections.Counter()
    for rule, _ in jobs:
        wanted[frozenset(TOOLS.get(rule, ()))] += 1
    seen = collections.Counter()
    known = set().union(*TOOLS.values())
    for processes in account.tasks_of(recording, "snakemake").values():
        seen[frozenset(account.tools_of(processes) & known)] += 1
    assert seen == wanted


def test_failures(scene):
    recording, _ = scene
    failed = recording.with_tool("samtools view")
    assert [process["exit_code"] for process in failed] == [1, 1]
    assert len({process.task_id for process in failed}) == 2


def test_samples(scene):
    recording, _ = scene
    by_sample = collections.Counter(process["sample"] for process in recording.with_tool("bwa mem"))
    assert by_sample == {"liver": 1, "kidney": 1, "heart": 1}


def test_report(scene):
    recording, _ = scene
    account.report_names(recording, "snakemake", "bwa mem", "bwa index", "samtools sort", "samtools flagstat",
                         "samtools merge", "samtools index", "samtools view")
    account.report_shows_failure(recording)


def test_nothing_lost(scene):
    assert not scene[0].gaps


def test_export_reads_like_a_benchmark(scene, tmp_path):
    """The rule that aligns has a benchmark: of Snakemake itself."""
    recording, _ = scene
    folder = pathlib.Path(recording.with_tool("bwa mem")[0]["cwd"])
    theirs = [next(csv.DictReader(path.open(encoding="utf-8"), delimiter="\t")) for path in folder.glob("*.benchmark.tsv")]
    assert len(theirs) == 3
    with Lake(tmp_path / "lake") as lake:
        lake.agent().post(recording.records)
        text = lake.tracer("export", "--format", "snakemake", next(iter(account.runs_of(recording, "snakemake")))).decode()
    rows = list(csv.DictReader(io.StringIO(text), delimiter="\t"))
    assert len(rows) == 12
    ours = [row for row in rows if "bwa mem" in row["rule_name"]]
    assert list(ours[0])[:len(theirs[0])] == list(theirs[0])
    assert len(ours) == 3
    for mine, other in zip(sorted(ours, key=lambda row: float(row["s"])), sorted(theirs, key=lambda row: float(row["s"]))):
        assert abs(float(mine["s"]) - float(other["s"])) < 1, (mine, other)
        for row in (mine, other):
            assert re.fullmatch(r"\d+:\d\d:\d\d", row["h:m:s"]) and re.fullmatch(r"\d+\.\d+", row["s"])
            for column in ("max_rss", "io_in", "io_out", "mean_load", "cpu_time", "max_vms"):
                assert re.fullmatch(r"\d+\.\d\d|NA", row[column]), (column, row[column])
