# SPDX-License-Identifier: Apache-2.0
"""From a spool through the streamer, TLS and a datalake into each store, the datalake killed on the way: what is there is
what the spool held, counts and the sum of every figure, to the last unit. A million records under --long."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import time

import pytest

from harness.port import free_port
from tests.clickhouse.conftest import BINARY, ROOT

FILL = ROOT / "build/tests/bench/spool_fill"
REASONS = ("disk", "network_fs", "socket", "pipe", "lock", "child", "timer", "other")
ENTITIES = ("hosts", "runs", "tasks", "tools", "samples", "containers", "pipelines")
SUMMED = ("cpu_ns", "run_delay_ns", "minor_faults", "rchar_bytes", "write_bytes")


class Lake:
    """A real datalake over TLS, with the certificate it made itself."""

    def __init__(self, folder, store):
        self.folder, self.port, self.process = folder, free_port(), None
        self.where = ["--store", store, "--state", str(folder / "state"), "--user", "root"]
        self.log = folder / "lake.log"
        self.start()
        self.token = folder / "token"
        self.token.write_text(self.ask("token", "create", "--role", "ingest").split()[-1] + "\n")
        self.token.chmod(0o600)
        self.options = ["--stream-url", f"https://127.0.0.1:{self.port}", "--stream-token-file", str(self.token),
                        "--stream-pin", re.search(r"sha256//\S+", self.ask("certificate"))[0]]

    def ask(self, *words):
        return subprocess.run([BINARY, "datalake", *words, *self.where], check=True, text=True, stdout=subprocess.PIPE).stdout

    def start(self):
        with open(self.log, "ab") as log:
            before = log.tell()
            self.process = subprocess.Popen([BINARY, "datalake", "--listen", f"127.0.0.1:{self.port}", "--tls", "on",
                                             *self.where], stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while b"taking batches" not in self.log.read_bytes()[before:]:
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.02)

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        self.process.wait(timeout=60)


class Sqlite:
    def __init__(self, folder):
        self.folder, self.url = folder, f"sqlite:{folder}/lake"

    def row(self, question):
        with sqlite3.connect(f"file:{self.folder}/lake/lake.db?mode=ro", uri=True, timeout=60) as store:
            return list(store.execute(question).fetchone())

    def figures(self, table, columns):
        """{column: (values, their sum)}; in two halves, since SQLite adds up in 63 bits."""
        row = self.row("SELECT count(*)," + ",".join(
            f"count({c}),ifnull(sum({c}>>20),0),ifnull(sum({c}&1048575),0)" for c in columns) + f" FROM {table}")
        return row[0], {c: (row[3 * i + 1], (row[3 * i + 2] << 20) + row[3 * i + 3]) for i, c in enumerate(columns)}


class ClickHouse:
    def __init__(self, clickhouse):
        self.clickhouse, self.url = clickhouse, clickhouse.database()
        self.name = re.search(r"/(db\d+)", self.url)[1]

    def row(self, question):
        return json.loads(self.clickhouse.query(question + " FORMAT JSONCompactStringsEachRow"))

    def figures(self, table, columns):
        row = self.row("SELECT count()," + ",".join(
            f"count({c}),ifNull(sum(toUInt128({c})),0)" for c in columns) + f" FROM {self.name}.{table}")
        row = [int(value) for value in row]
        return row[0], {c: tuple(row[2 * i + 1:2 * i + 3]) for i, c in enumerate(columns)}


def stats(spool):
    return json.loads(subprocess.run([BINARY, "spool", "stats", "--json", spool], stdout=subprocess.PIPE, check=True).stdout)


def source(spool, columns):
    """What the spool holds, reckoned here and by nothing of the datalake."""
    count, sums, values = 0, dict.fromkeys(columns, 0), dict.fromkeys(columns, 0)
    names = {"runs": set(), "tasks": set(), "samples": set(), "containers": set(), "hosts": set()}
    plain = [c for c in columns if not re.fullmatch(r"blocked_\w+_ns", c)]
    dump = subprocess.Popen([BINARY, "spool", "dump", spool], stdout=subprocess.PIPE)
    for line in dump.stdout:
        record = json.loads(line)
        count += 1
        for column in plain:
            value = record.get(column)
            if value is not None:
                values[column] += 1
                sums[column] += value
        blocked = record["blocked_ns"]
        for reason in REASONS if blocked is not None else ():
            values[f"blocked_{reason}_ns"] += 1
            sums[f"blocked_{reason}_ns"] += blocked.get(reason, 0)
        run = record["run"]
        names["hosts"].add(record["host"])
        names["runs"].add(run)
        names["tasks"].add((run, record["task"]))
        names["samples"].add((run, record["sample"]))
        names["containers"].add(record["cgroup"])
    assert dump.wait() == 0
    return count, {c: (values[c], sums[c]) for c in columns}, {name: len(found) for name, found in names.items()}


def numbers(lake):
    """The columns that hold a figure of a process."""
    words = subprocess.run([BINARY, "sql", "--tables", "--json", "--store", lake], check=True, text=True,
                           stdout=subprocess.PIPE).stdout
    table = next(e for e in json.loads(words)["entities"] if e["name"] == "processes")
    return [c["name"] for c in table["columns"] if c["type"] in ("u64", "i64", "bool")]


def deliver(spool, lake, total, kills, options):
    """Streams until nothing is left; the datalake is killed each time another part is there."""
    streamer = subprocess.Popen([BINARY, "stream", "--spool", spool, *lake.options, "--stream-retry-limit", "200ms", *options],
                                stderr=subprocess.PIPE, text=True)
    killed, deadline = 0, time.monotonic() + 1800
    try:
        while (now := stats(spool))["pending"]:
            assert streamer.poll() is None and time.monotonic() < deadline, now
            if killed < kills and now["delivered"] > total * (killed + 1) // (kills + 2):
                lake.kill()
                killed += 1
                lake.start()
            time.sleep(0.01)
    finally:
        streamer.send_signal(signal.SIGTERM)
        log = streamer.communicate(timeout=30)[1]
    assert killed == kills, log
    assert stats(spool)["delivered"] == total, log


@pytest.mark.parametrize("total", [20_000, pytest.param(1_000_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["sqlite", "clickhouse"])
def test_counts_and_sums(request, tmp_path, kind, total):
    spool = tmp_path / "spool"
    subprocess.run([FILL, spool, str(total)], check=True)
    store = Sqlite(tmp_path) if kind == "sqlite" else ClickHouse(request.getfixturevalue("clickhouse"))
    lake = Lake(tmp_path, store.url)
    began = time.monotonic()
    try:
        # Small enough that a kill finds some of them under way; ClickHouse takes about as long for a small one as for a large one.
        kills, parts = (5, 40) if kind == "sqlite" or total == 1_000_000 else (3, 10)
        small = ["--stream-batch-records", str(total // parts)]
        deliver(spool, lake, total, kills, small if total < 1_000_000 else ["--stream-batch-bytes", "16M"])
        took = time.monotonic() - began
        columns = numbers(store.url)
        count, want, names = source(spool, columns)
        rows, found = store.figures("processes", columns)
        assert (count, rows) == (total, total)
        assert found == want
        for entity in ENTITIES:
            rows, sums = store.figures(entity, ("processes", *SUMMED))
            assert rows == names.get(entity, rows), entity
            assert sums["processes"][1] == total, entity
            assert {c: sums[c][1] for c in SUMMED} == {c: want[c][1] for c in SUMMED}, entity
        print(f"{kind}: {total} records in {took:.1f} s, {len(columns)} sums equal, {kills} kills")
    finally:
        lake.kill(signal.SIGTERM)
        assert os.path.getsize(lake.log)
