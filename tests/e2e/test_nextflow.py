# SPDX-License-Identifier: Apache-2.0
"""Nextflow from its jars, offline, local executor: each row of its trace is a task with the same pid, end and directory."""

import csv
import datetime
import io
import os
import re

import pytest

from e2e import account, engines
from harness import tracer
from harness.posting import Lake

OPENS = ["java.lang", "java.io", "java.nio", "java.nio.file.spi", "java.net", "java.util", "java.util.concurrent",
         "java.util.concurrent.locks", "sun.nio.ch", "sun.nio.fs", "sun.net.www.protocol.http"]


@pytest.fixture(scope="module")
def scene(aligners, samples, tmp_path_factory):
    folder = tmp_path_factory.mktemp("nextflow")
    (folder / "plugins").mkdir()
    environment = {**os.environ, "NXF_HOME": str(folder / "home"), "NXF_PLUGINS_DIR": str(folder / "plugins"),
                   "NXF_OFFLINE": "true", "NXF_ANSI_LOG": "false"}
    command = ["java", "-XX:TieredStopAtLevel=1", *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENS),
               "-cp", f"{engines.nextflow()}/*", "nextflow.cli.Launcher", "run", engines.HERE / "nextflow" / "main.nf",
               "-offline", "-with-trace", "trace.txt", "--data", samples]
    recording = tracer.run(command, folder / "out.ndjson", cwd=folder, env=environment, check=0)
    with open(folder / "trace.txt", encoding="utf-8") as lines:
        trace = list(csv.DictReader(lines, delimiter="\t"))
    return recording, trace


def test_engine_and_run(scene):
    recording, _ = scene
    runs = account.runs_of(recording, "nextflow")
    assert len(runs) == 1, runs
    assert not [process for process in recording.processes if process.run_id not in runs]


def test_every_row_of_the_trace_is_a_task(scene):
    recording, trace = scene
    assert len(trace) == 13, trace
    tasks = account.tasks_of(recording, "nextflow")
    hashes = sorted(row["hash"] for row in trace)
    assert sorted(task[:9] for _, task in tasks) == hashes


def test_pid_exit_and_directory_of_each_task(scene):
    recording, trace = scene
    by_pid = {process["pid"]: process for process in recording.processes}
    for row in trace:
        process = by_pid[int(row["native_id"])]
        assert process["exit_code"] == int(row["exit"]), row
        assert f"/work/{row['hash']}" in process["cwd"], row
        assert process.task_id.startswith(row["hash"]), row


def test_tools_of_each_process(scene):
    recording, trace = scene
    wanted = {"INDEX": {"bwa index"}, "ALIGN": {"bwa mem", "samtools sort"}, "STATS": {"samtools flagstat"}}
    tasks = {task[:9]: account.tools_of(processes)
             for (_, task), processes in account.tasks_of(recording, "nextflow").items()}
    for row in trace:
        tools = wanted.get(row["name"].split()[0])
        if tools is None:
            tools = {"samtools quickcheck"} if row["exit"] == "0" else set()
        assert tools <= tasks[row["hash"]], row


def test_failures_and_report(scene):
    recording, trace = scene
    assert [row["exit"] for row in trace].count("7") == 4
    account.report_names(recording, "nextflow", "bwa mem", "bwa index", "samtools sort", "samtools flagstat")
    account.report_shows_failure(recording)


def test_nothing_lost(scene):
    assert not scene[0].gaps


def seconds(text):
    """Of a duration as Nextflow prints it."""
    if text.endswith("ms"):
        return int(text[:-2]) / 1000
    return sum(float(number) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[unit] for number, unit in re.findall(r"([0-9.]+)([smhd])", text))


FORMATS = {"duration": r"\d+ms|[0-9. dhms]+", "realtime": r"\d+ms|[0-9. dhms]+", "%cpu": r"\d+\.\d%", "peak_rss": r"0|[0-9.]+ [KMGT]?B",
           "rchar": r"0|[0-9.]+ [KMGT]?B", "wchar": r"0|[0-9.]+ [KMGT]?B"}


def test_export_reads_like_the_trace(scene, tmp_path):
    recording, trace = scene
    run = account.runs_of(recording, "nextflow")
    with Lake(tmp_path / "lake") as lake:
        lake.agent().post(recording.records)
        text = lake.tracer("export", "--format", "trace", next(iter(run))).decode()
    rows = {row["native_id"]: row for row in csv.DictReader(io.StringIO(text), delimiter="\t")}
    assert text.split("\n")[0].split("\t") == list(trace[0])
    assert len(rows) == len(trace)
    for theirs in trace:
        ours = rows[theirs["native_id"]]
        assert (ours["hash"], ours["exit"], ours["status"]) == (theirs["hash"], theirs["exit"], theirs["status"])
        for column, pattern in FORMATS.items():
            for row in (ours, theirs):
                assert row[column] == "-" or re.fullmatch(pattern, row[column]), (column, row[column])
        assert abs(seconds(ours["duration"]) - seconds(theirs["duration"])) < 1.5, (ours, theirs)
        submitted = [datetime.datetime.strptime(row["submit"], "%Y-%m-%d %H:%M:%S.%f") for row in (ours, theirs)]
        assert abs((submitted[0] - submitted[1]).total_seconds()) < 1.5
