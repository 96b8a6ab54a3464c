# SPDX-License-Identifier: Apache-2.0
"""A datalake on ClickHouse, whole: batches posted, parts of a run on several hosts joined, everything written out, the same
as from SQLite."""

import json
import time

import pytest

from harness import tracer
from harness.posting import Lake

PARTS = 3


def wait_for(what, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.3)
    raise AssertionError("it never came")


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recording")
    script = folder / "part.sh"
    script.write_text("#!/bin/sh\nfor i in 1 2 3; do seq 1 20000 | sort -n | wc -l; done\nsleep 0.3\nfalse\n")
    script.chmod(0o755)
    return tracer.run([script], folder / "out.ndjson", options=["--trace-id", "study-7"], cwd=folder, check=1).records


def fill(lake, records):
    boot = next(record["boot"] for record in records)
    for number, host in enumerate(["alpha", "beta", "gamma"][:PARTS], 1):
        lines = "\n".join(json.dumps(record) for record in records).replace(boot[:8], f"{number:08x}").splitlines()
        lake.agent(host, f"00000000-0000-4000-8000-00000000000{number}").post(lines)
    wait_for(lambda: len([run for run in lake.rows("runs") if run["stitched_id"]]) == PARTS)
    lake.run = next(run["stitched_id"] for run in lake.rows("runs") if run["stitched_id"])


def exported(lake, form):
    return lake.get(f"/api/v1/runs/{lake.run}/export?format={form}")


def test_the_same_as_from_sqlite(clickhouse, records, tmp_path):
    with Lake(tmp_path / "a", store=clickhouse.database()) as here, Lake(tmp_path / "b") as there:
        fill(here, records)
        fill(there, records)
        assert here.run == there.run
        for entity in ("runs", "tasks", "tools", "hosts", "pipelines", "joins"):
            left, right = (sorted(lake.rows(entity), key=lambda row: str(row["id"])) for lake in (here, there))
            assert len(left) == len(right), entity
            differences = {name: (row[name], other[name]) for row, other in zip(left, right) for name in row
                           if row[name] != other[name] and name not in ("epoch", "first_seen_ns", "last_seen_ns")}
            assert not differences, (entity, differences)
        for form in ("csv", "ndjson", "trace", "snakemake", "otlp"):
            left, right = exported(here, form), exported(there, form)
            assert left and len(left.splitlines()) == len(right.splitlines()), form
            if form == "csv":  # but for the ids of processes, which each store gives itself
                left, right = (sorted(line.partition(b",")[2] for line in text.splitlines()) for text in (left, right))
                assert left == right
        assert len(exported(here, "perfetto")) > 1000
