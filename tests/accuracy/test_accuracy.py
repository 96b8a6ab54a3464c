# SPDX-License-Identifier: Apache-2.0
"""Every process of every workload against the workload's own truth: present, right, counted once."""

import json
import shutil
import subprocess
import time

import pytest

from accuracy import join, programs, scenes
from harness import tracer
from harness.cgroup import cgroup


def check(scene):
    """Fails with the first differences and how many there are."""
    lines = join.differences(scene.pairs)
    shown = "\n".join(lines[:25])
    assert not lines, f"{len(lines)} differences over {len(scene.pairs)} processes:\n{shown}"
    assert scene.pairs, "the workload told no truth"


@pytest.mark.parametrize("name", ["threads", "spawn", "ends", "memory", "io", "images", "arguments", "places", "traced"])
def test_workload(name, tmp_path):
    check(scenes.record(name, tmp_path))


def test_storm_of_ten_thousand(tmp_path):
    with cgroup("cpuacct", "storm") as group:
        scene = scenes.record("storm", tmp_path, 10000, 8, group=group)
        counted = group.cpu_ns()
    assert len(scene.pairs) == 10000
    check(scene)
    assert not scene.recording.gaps
    summed = scenes.cpu_in_tree(scene)
    assert abs(summed - counted) <= 0.01 * counted, f"{summed} ns recorded, {counted} ns in the cgroup"


def test_oom_kill_in_a_cgroup(tmp_path):
    with cgroup("memory", "oom") as group:
        group.limit_memory(64 << 20)
        scene = scenes.record("oom", tmp_path, group.path)
    check(scene)
    limits = {pair.record["oom_limit"] for pair in scene.pairs if pair.truth["oom"]}
    assert limits == {"/" + str(group.path.relative_to(group.root))}, f"the limit was {group.path}, not {limits}"


def test_zombie_nobody_reaps(tmp_path):
    """Its figures are exact although the kernel has not let go of it: they are read from the zombie itself."""
    check(scenes.record("zombie", tmp_path, 3, options=["--wait"]))


def test_zombie_at_the_end_of_the_recording(tmp_path):
    scene = scenes.record("zombie", tmp_path, 3)
    assert len(scene.pairs) == 4
    for pair in scene.pairs:
        assert pair.record is not None and pair.record["exit_code"] == pair.truth["exit_code"]


def test_never_released(tmp_path):
    """The kernel never says that it let go of them: giving back their memory is in their CPU time all the same."""
    truth = tmp_path / "truth.ndjson"
    recording = tracer.run([programs.program("unreaped"), truth, 20], tmp_path / "records.ndjson", check=0)
    deadline = time.monotonic() + 30
    while len(join.read_truth(truth)) < 20 and time.monotonic() < deadline:
        time.sleep(0.1)
    pairs = join.join(join.read_truth(truth), recording.processes)
    assert len(pairs) == 20 and not [pair for pair in pairs if pair.record is None]
    wrong = [join.cpu_error(pair) for pair in pairs if not join.cpu_right(pair)]
    assert len(wrong) <= 1, f"ns between cpu_ns and wait4: {wrong}"


def test_pid_reuse(tmp_path):
    scene = scenes.record("reuse", tmp_path, 200)
    check(scene)
    pids = [pair.truth["pid"] for pair in scene.pairs]
    assert len(set(pids)) < len(pids), "no pid was had again: the case was not tested"


def test_waits(tmp_path):
    check(scenes.record("waits", tmp_path, 2000))


def test_argument_bounds(tmp_path):
    """Whole up to 16 KiB; above that the beginning, marked as cut. Nothing of the environment anywhere."""
    scene = scenes.record("arguments", tmp_path)
    sized = {pair.case: pair for pair in scene.pairs if "bytes of arguments" in pair.case or "B of" in pair.case}
    assert len(sized) == 5
    for case, pair in sized.items():
        total = pair.truth["args_total_bytes"]
        kept = sum(len(argument) + 1 for argument in pair.record["args"])
        if total <= 16384:
            assert kept == total, case
            assert "args_total_bytes" not in pair.record, case
        else:
            assert 16384 - 1024 <= kept <= 16385, f"{case}: {kept}"
            assert pair.record["args_total_bytes"] == total, case
    text = (tmp_path / "records.ndjson").read_text()
    assert "ENVIRONMENT-MUST-NOT-BE-READ" not in text
    assert "\x1b]0" not in scene.recording.report and "\x07" not in scene.recording.report


def test_scripts_and_interpreters(tmp_path):
    """The record keeps both the script and what ran it, through nested #! lines."""
    plain = tmp_path / "plain.sh"
    plain.write_text("#!/bin/sh -e\nexit 31\n")
    inner = tmp_path / "inner"
    inner.write_text("#!/bin/sh\nexit 32\n")
    nested = tmp_path / "nested"
    nested.write_text(f"#!{inner}\n")
    by_env = tmp_path / "by_env"
    by_env.write_text("#!/usr/bin/env sh\nexit 33\n")
    for script in (plain, inner, nested, by_env):
        script.chmod(0o755)
    driver = f"{plain} one; {nested} two; {by_env} three; sh {plain} four; true"
    recording = tracer.run(["sh", "-c", driver], tmp_path / "out.ndjson", cwd=tmp_path, check=0)
    by_code = {process["exit_code"]: process for process in recording.processes if process["exit_code"] in (31, 32, 33)
               and process["args"][-1] != "four"}
    assert set(by_code) == {31, 32, 33}
    assert by_code[31]["script"] == str(plain)
    assert by_code[31]["interpreter"] == "/bin/sh"
    assert by_code[31]["args"] == ["/bin/sh", "-e", str(plain), "one"]
    assert by_code[32]["script"] == str(nested)
    assert by_code[32]["args"] == ["/bin/sh", str(inner), str(nested), "two"]
    assert by_code[33]["args"] == ["sh", str(by_env), "three"]
    before = [image for image in by_code[33]["images"][:-1] if not image.get("forked")]
    assert [image["args"][:2] for image in before] == [["/usr/bin/env", "sh"]]
    assert before[0]["script"] == str(by_env) and before[0]["interpreter"] == "/usr/bin/env"
    called = [process for process in recording.processes if process["args"][-1:] == ["four"]]
    assert len(called) == 1 and called[0]["exit_code"] == 31 and called[0]["script"] is None


def test_running_processes_are_seeded(tmp_path):
    """What ran before the recorder did is there, with its whole life, and is marked as seeded."""
    before = subprocess.Popen(["sh", "-c", "sleep 3; exit 41"])
    recording = tracer.run(["sleep", "4"], tmp_path / "out.ndjson", options=["--system"], check=0)
    assert before.wait() == 41
    found = [process for process in recording.processes if process["pid"] == before.pid]
    assert len(found) == 1, f"{len(found)} records of a process that ran before"
    assert found[0]["exit_code"] == 41
    assert found[0]["args"] == ["sh", "-c", "sleep 3; exit 41"]
    # What the kernel runs for itself is no process of anybody's.
    kernel = [record["pid"] for record in recording.records if record["kind"] in ("process", "open") and 2 in (record["pid"], record["ppid"])]
    assert not kernel, f"threads of the kernel were recorded: {kernel}"


def test_report_counts_from_the_beginning_of_the_recording(tmp_path):
    """What a process used before is in its record, and in no row or total of the report."""
    burner, output = tmp_path / "burner", tmp_path / "out.ndjson"
    shutil.copy("/bin/sh", burner)
    loop = "i=0; while [ $i -lt 1500000 ]; do i=$((i + 1)); done; echo; read -r line; exit 42"
    with subprocess.Popen([burner, "-c", loop], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as before:
        before.stdout.readline()
        driver = ["sh", "-c", f"sleep 0.5; echo >/proc/{before.pid}/fd/0; sleep 0.5"]
        recording = tracer.run(driver, output, options=["--system"], check=0)
        assert before.wait() == 42
    process, = [process for process in recording.processes if process["pid"] == before.pid]
    assert process["cpu_ns"] > 200_000_000, "too little to tell"
    after_ns = sum(image.get("cpu_ns", 0) for image in process["images"])
    assert after_ns < 50_000_000
    done = subprocess.run([tracer.BINARY, "report", "--json", output], check=True, capture_output=True, text=True)
    report = json.loads(done.stdout)
    rows = {}

    def walk(row):
        if row.get("name") == "burner":
            rows[row["name"]] = row
        for below in row.get("rows", []):
            walk(below)

    walk(report)
    assert rows["burner"]["cpu_ns"] == after_ns
    assert report["cpu_ns"] == sum(row["cpu_ns"] for row in report["rows"])


def test_host_cpu_sum(tmp_path):
    """With --system, the processes that began and ended meanwhile use no more than the host's own counter says."""
    program = programs.program("storm")

    def busy():
        with open("/proc/stat", encoding="ascii") as lines:
            fields = [int(field) for field in lines.readline().split()[1:]]
        return (fields[0] + fields[1] + fields[2]) * 10_000_000

    started, started_ns = busy(), time.time_ns()
    recording = tracer.run([program, tmp_path / "truth.ndjson", 1500, 8], tmp_path / "out.ndjson",
                           options=["--system"], check=0)
    used = busy() - started
    summed = sum(process["cpu_ns"] for process in recording.processes if process["start_ns"] > started_ns)
    assert 0 < summed <= used * 1.05 + 50_000_000, f"{summed} ns recorded, the host used {used}"


def test_records_are_one_line_of_json_each(tmp_path):
    """A hostile argument cannot forge a record or break a line."""
    forged = '\n{"kind":"process","pid":1,"exit_code":77}\n'
    recording = tracer.run(["sh", "-c", ":", forged], tmp_path / "out.ndjson", check=0)
    assert not [process for process in recording.processes if process["exit_code"] == 77]
    assert [process for process in recording.processes if forged in process["args"]]
    assert json.dumps(forged)[1:-1] in (tmp_path / "out.ndjson").read_text()
