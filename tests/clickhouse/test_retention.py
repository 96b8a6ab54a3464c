# SPDX-License-Identifier: Apache-2.0
"""Retention of the ClickHouse store: what goes is counted once, in the workspace that it was of, whoever is killed."""

import re
import signal
import time

import pytest

from tests.clickhouse.conftest import ENVIRONMENT, writer
from tests.clickhouse.test_store import expected
from tests.clickhouse.test_upkeep import name_of, number

DAY = 86400


class Policy:
    """Instances that are all told to keep the same."""

    def __init__(self, url, processes=0, points=0, aggregates=0, size=0):
        self.url = url
        self.keep = f"{processes} {points} {aggregates} {size}"

    def start(self, *arguments, ago=0):
        return writer(self.url, *arguments, env=dict(ENVIRONMENT, WRITER_AGO=str(ago), WRITER_KEEP=self.keep))

    def run(self, *arguments, ago=0):
        process = self.start(*arguments, ago=ago)
        output = process.communicate(timeout=120)[0]
        assert process.returncode == 0, output

    def maintain(self, ago=0):
        self.run("maintain", ago=ago)

    def fill(self):
        """Five days ago."""
        self.run("write", "w", "host-1", 1, 199, 199, ago=5 * DAY)
        self.run("write", "other", "host-2", 1, 60, 60, ago=5 * DAY)


def gone(clickhouse, url):
    """(workspace, reason) -> how many."""
    rows = clickhouse.query(f"SELECT workspace, reason, sum(count) FROM {name_of(url)}.gaps WHERE room = 'retention' GROUP BY "
                            "workspace, reason FORMAT TSVRaw")
    return {tuple(line.split("\t")[:2]): int(line.split("\t")[2]) for line in rows.splitlines()}


def test_ages(clickhouse):
    """Rows past their age go and are told; younger ones stay; a second round counts nothing twice."""
    url = clickhouse.database()
    policy = Policy(url, processes=3 * DAY, points=3 * DAY)
    policy.fill()
    policy.maintain(ago=4 * DAY)
    assert gone(clickhouse, url) == {}
    policy.run("write", "w", "host-1", 200, 219, 20)
    for _ in range(2):
        policy.maintain()
        told = gone(clickhouse, url)
        assert told[("w", "processes past their age")] == expected(199)["rows"], told
        assert told[("other", "processes past their age")] == expected(60)["rows"], told
        assert told[("w", "points past their age")] >= expected(199)["points"], told
        assert number(clickhouse, url, "SELECT count() FROM @processes") == expected(219)["rows"] - expected(199)["rows"]
        assert number(clickhouse, url, "SELECT count() FROM @points_host") == 2
    # Sums and steps stay, and so does what tells of it.
    assert number(clickhouse, url, "SELECT sum(processes) FROM @runs WHERE workspace = 'w'") == expected(219)["rows"]
    assert number(clickhouse, url, "SELECT count() FROM @rollup_steps") > 0
    assert set(told) <= {(w, f"{what} past their age") for w in ("w", "other") for what in ("processes", "points")}


@pytest.mark.long
def test_runs(clickhouse):
    """Runs, tasks and their series go when nothing came for them for so long; what still gets processes stays whole."""
    url = clickhouse.database()
    policy = Policy(url, aggregates=3 * DAY)
    policy.fill()
    policy.maintain(ago=5 * DAY)
    runs = number(clickhouse, url, "SELECT count() FROM @runs WHERE workspace = 'w'")
    policy.run("write", "w", "host-1", 200, 201, 2)
    processes = number(clickhouse, url, "SELECT sum(processes) FROM @hosts WHERE workspace = 'w'")
    for _ in range(2):
        policy.maintain()
        assert number(clickhouse, url, "SELECT count() FROM @runs WHERE workspace = 'w'") == 1
        assert gone(clickhouse, url)[("w", "runs past their age")] == runs - 1
        assert gone(clickhouse, url)[("other", "tasks past their age")] > 0
        assert number(clickhouse, url, "SELECT sum(processes) FROM @hosts WHERE workspace = 'w'") == processes
    assert number(clickhouse, url, "SELECT processes FROM @runs WHERE workspace = 'w'") > 20
    assert number(clickhouse, url, "SELECT count() FROM @rollup_steps WHERE kind = 'run' AND workspace = 'other'") == 0
    assert gone(clickhouse, url)[("other", "series of runs and containers past their age")] > 0
    Policy(url, points=3 * DAY).maintain()
    assert number(clickhouse, url, "SELECT count() FROM @series WHERE kind = 'run' AND workspace = 'other'") == 0
    assert number(clickhouse, url, "SELECT count() FROM @series WHERE kind = 'host'") == 2  # steps are left of them


@pytest.mark.long
def test_size(clickhouse):
    """Over the size cap the oldest goes: points, the finest steps, processes; nothing of the last day or hour."""
    url = clickhouse.database()
    policy = Policy(url, size=1)
    policy.fill()
    policy.maintain(ago=5 * DAY - 1800)
    assert gone(clickhouse, url) == {}  # too young
    policy.maintain(ago=4 * DAY)
    policy.run("write", "w", "host-1", 200, 219, 20)
    policy.maintain()
    told = gone(clickhouse, url)
    assert told[("w", "processes over the size cap")] == expected(199)["rows"] - expected(199)["living"], told
    assert told[("w", "points over the size cap")] >= expected(199)["points"]
    assert told[("w", "roll-ups of 10 s over the size cap")] > 0
    assert number(clickhouse, url, "SELECT count() FROM @points_host") == 2
    Policy(url, size=1 << 40).maintain()
    assert gone(clickhouse, url) == told


@pytest.mark.long
def test_nobody_looked(clickhouse):
    """Longer away than the TTL waits: it may have removed rows that nobody counted, and that is what is told."""
    url = clickhouse.database()
    policy = Policy(url, processes=3 * DAY)
    policy.fill()
    policy.maintain(ago=30 * DAY)
    policy.maintain()
    unknown = "SELECT count() FROM @gaps WHERE room = 'retention' AND reason = 'processes past their age' AND count IS NULL"
    assert number(clickhouse, url, unknown) == 4  # two workspaces; ended and living


@pytest.mark.parametrize(("step", "when"), [
    ("ALTER TABLE processes_rows", "before"),
    pytest.param("INSERT INTO chain", "before", marks=pytest.mark.long),
    pytest.param("INSERT INTO chain", "after", marks=pytest.mark.long),
    pytest.param("INSERT INTO gaps_rows", "after", marks=pytest.mark.long),
    pytest.param("INSERT INTO retention_state", "before", marks=pytest.mark.long)])
def test_killed(clickhouse, step, when):
    """Killed between counting and removing, and anywhere else: counted once, and gone in the end."""
    url = clickhouse.database()
    policy = Policy(url, processes=3 * DAY)
    policy.fill()
    clickhouse.fault()
    skip = 1 if step == "INSERT INTO chain" else 0  # the claim comes first
    clickhouse.fault(match=step, when=when, action="wait", seconds=2.5, skip=skip)
    victim = policy.start("maintain")
    deadline = time.monotonic() + 60
    while sum(bool(re.search(step, query)) for query in clickhouse.log()) <= skip:
        assert time.monotonic() < deadline and victim.poll() is None, clickhouse.log()
        time.sleep(0.05)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    policy.maintain()
    if skip or "ALTER" not in step:
        time.sleep(2.5)
        policy.maintain()
    clickhouse.fault()
    assert gone(clickhouse, url)[("w", "processes past their age")] == expected(199)["rows"]
    assert number(clickhouse, url, "SELECT count() FROM @processes") == 0


@pytest.mark.long
def test_at_once(clickhouse):
    """Two instances remove the same while a third writes: each row counts once."""
    url = clickhouse.database()
    policy = Policy(url, processes=3 * DAY)
    policy.fill()
    crowd = [policy.start("maintain"), policy.start("maintain"), policy.start("write", "w", "host-1", 200, 400, 10)]
    for process in crowd:
        output = process.communicate(timeout=240)[0]
        assert process.returncode == 0, output
    assert gone(clickhouse, url)[("w", "processes past their age")] == expected(199)["rows"]
