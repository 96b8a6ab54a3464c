# SPDX-License-Identifier: Apache-2.0
"""The modules' own options: from file, variable and flag into the modules, and wrong ones refused by line."""

import json
import os
import signal
import subprocess
import time

import pytest

from harness import tracer


def collect(tmp_path, arguments, environment=()):
    """What a collector with these arguments recorded while a child of ours slept for 1.2 s."""
    spool, socket = tmp_path / "spool", tmp_path / "status.sock"
    process = subprocess.Popen([tracer.BINARY, "collect", "--spool", spool, "--status-socket", socket,
                                "--status-processes-socket", "", "--sample-interval", "1s", *arguments],
                               env={**os.environ, **dict(environment)}, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 20
        while not socket.exists():
            assert process.poll() is None and time.monotonic() < deadline, "the collector did not start"
            time.sleep(0.05)
        child = subprocess.Popen(["sleep", "1.2"])
        assert child.wait() == 0
        time.sleep(0.5)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    out = subprocess.run([tracer.BINARY, "spool", "dump", spool], check=True, capture_output=True, text=True).stdout
    records = [json.loads(line) for line in out.splitlines()]
    slept = [record for record in records if record["kind"] == "process" and record["pid"] == child.pid]
    samples = [record for record in records if record["kind"] == "hostsample"]
    assert len(slept) == 1 and samples
    return slept[0], samples[-1]


def test_defaults(tmp_path):
    slept, sample = collect(tmp_path, [])
    assert set(slept["blocked_ns"]) == {"timer"}
    assert slept["reclaim_stall_ns"] == 0
    assert sample["mounts"]


def test_switched_off(tmp_path):
    (tmp_path / "tracer.yaml").write_text("sched:\n  blocked: false\nio:\n  mounts: true\n")
    slept, sample = collect(tmp_path, ["--config", tmp_path / "tracer.yaml", "--io-mounts", "false"],
                            {"TRACER_MEM_STALLS": "no"}.items())
    assert slept["blocked_ns"] is None and slept["blocked_samples"] == 0
    assert slept["reclaim_stall_ns"] is None and slept["compaction_stall_ns"] is None
    assert slept["cpu_ns"] > 0, "the other figures are there"
    assert sample["mounts"] is None and sample["disks"] is not None


@pytest.mark.parametrize("line, reason", [
    ("blokced: true", "sched.blokced: no such key; did you mean sched.blocked?"),
    ("blocked: perhaps", "sched.blocked: \"perhaps\" is not true or false"),
    ("blocked_interval: 1ms", "sched.blocked_interval:"),
])
def test_refused_with_its_line(tmp_path, line, reason):
    file = tmp_path / "tracer.yaml"
    file.write_text(f"sched:\n  # a comment\n  {line}\n")
    done = subprocess.run([tracer.BINARY, "collect", "--config", file, "--spool", tmp_path / "spool"],
                          capture_output=True, text=True, check=False, timeout=20)
    assert done.returncode == 2
    assert f"{file}:3: {reason}" in done.stderr
    assert not (tmp_path / "spool").exists(), "something was written"
