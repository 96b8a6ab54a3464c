# SPDX-License-Identifier: Apache-2.0
"""One report whoever makes it: `tracer run` at the end, `tracer report` from its file, `tracer show` from a lake that got
the same records, here and over the network."""

import subprocess

from harness import tracer
from harness.posting import Lake

COMMAND = "seq 1 100000 | sort | gzip -c >/dev/null; (sleep 0.2; false); cat /bin/sh | md5sum >/dev/null; true; sleep 2.2"


def test_run_report_and_show_say_the_same_to_the_byte(tmp_path):
    recording = tracer.run(["sh", "-c", COMMAND], tmp_path / "out.ndjson", check=0)
    report = subprocess.run([tracer.BINARY, "report", tmp_path / "out.ndjson"], capture_output=True, check=True).stdout.decode()
    assert "1 ended with a failure" in report and "losses     none" in report
    # Only the first line differs: there the command and how it ended.
    assert report.strip().split("\n", 1)[1] == recording.report.strip().split("\n", 1)[1]
    with Lake(tmp_path / "lake") as lake:
        agent = lake.agent()
        agent.post(recording.records)
        run = next(record["run"] for record in recording.records if record.get("run"))
        assert lake.tracer("show", run).decode() == report
        done = subprocess.run([tracer.BINARY, "show", run, "--store", tmp_path / "lake/store"], capture_output=True, check=True)
        assert done.stdout.decode() == report
