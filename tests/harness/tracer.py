# SPDX-License-Identifier: Apache-2.0
"""Runs the real binary and reads what it wrote. TRACER names another binary than build/tracer."""

import dataclasses
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
BINARY = pathlib.Path(os.environ.get("TRACER", BUILD / "tracer"))


class Process(dict):
    """One record of kind process. Attribute access to its members; a member that is absent fails the test."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"record of pid {self.get('pid')} has no member {name!r}") from None

    @property
    def run_id(self):
        return self["run"]

    @property
    def task_id(self):
        return self["task"]


@dataclasses.dataclass
class Recording:
    returncode: int
    stdout: str
    stderr: str
    records: list

    @property
    def report(self):
        """What was printed, wherever the report goes when nobody is watching."""
        return self.stdout + self.stderr

    def of_kind(self, kind):
        return [record for record in self.records if record.get("kind") == kind]

    @property
    def processes(self):
        """Processes that ended; the opening records of long ones are not among them."""
        return [Process(record) for record in self.of_kind("process") if record["end_ns"] is not None]

    @property
    def gaps(self):
        return self.of_kind("gap")

    def with_tool(self, tool):
        return [process for process in self.processes if process["tool"] == tool]


def read_records(path):
    """Every line must be one JSON object: a damaged line is a failure, not something to pass over."""
    records = []
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                record = json.loads(line.decode("utf-8"))
            except (UnicodeDecodeError, json.JSONDecodeError) as error:
                raise AssertionError(f"{path}:{number}: {error}: {line[:200]!r}") from None
            assert isinstance(record, dict) and "kind" in record, f"{path}:{number}: {line[:200]!r}"
            records.append(record)
    return records


def need_binary():
    assert BINARY.is_file(), f"{BINARY} is missing: build it with ./build.sh"
    assert os.geteuid() == 0, "these tests record with BPF and need root"


def run(command, output, *, options=(), cwd=None, env=None, timeout=300, check=None):
    """tracer run -o OUTPUT [OPTIONS] -- COMMAND. check: the exit code it must have."""
    need_binary()
    output = pathlib.Path(output)
    full = [str(BINARY), "run", "-o", str(output), *options, "--", *map(str, command)]
    done = subprocess.run(full, cwd=cwd, env=env, timeout=timeout, capture_output=True, check=False)
    recording = Recording(
        done.returncode,
        done.stdout.decode("utf-8", "replace"),
        done.stderr.decode("utf-8", "replace"),
        read_records(output) if output.exists() else [],
    )
    if check is not None:
        assert recording.returncode == check, (
            f"exit code {recording.returncode}, not {check}\n{recording.stdout[-4000:]}\n{recording.stderr[-4000:]}"
        )
    return recording
