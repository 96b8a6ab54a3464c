# SPDX-License-Identifier: Apache-2.0
"""Upkeep of the ClickHouse store: parts become folds, the chain stays short, whoever is killed in between."""

import re
import signal
import time

import pytest

from harness.posting import Lake
from tests.clickhouse.conftest import write, writer
from tests.clickhouse.test_store import assert_exact


def name_of(url):
    return re.search(r"/(db\d+)", url).group(1)


def number(clickhouse, url, text):
    return int(clickhouse.query(text.replace("@", name_of(url) + ".")))


def age(clickhouse, url):
    """Two hours pass for whoever looks at the chain."""
    clickhouse.query(f"ALTER TABLE {name_of(url)}.chain UPDATE written = written - 7200 WHERE 1 SETTINGS mutations_sync = 1")


def maintain(url):
    process = writer(url, "maintain")
    output = process.communicate(timeout=120)[0]
    assert process.returncode == 0, output


def test_folds(clickhouse):
    """Many batches leave few parts and a short chain, and the sums stay; a second round folds what came since."""
    url = clickhouse.database()
    counting = "SELECT count() FROM @hosts_part WHERE batch IN (SELECT batch FROM @part_batches)"
    write(url, "w", "host-1", 1, 203, 10)
    assert number(clickhouse, url, counting) > 20
    maintain(url)
    assert number(clickhouse, url, "SELECT count() FROM @chain WHERE kind = 'fold'") == 1
    assert number(clickhouse, url, counting) < 8
    assert_exact(url, 203)
    age(clickhouse, url)
    maintain(url)
    assert number(clickhouse, url, "SELECT count() FROM @hosts_part") < 8
    assert number(clickhouse, url, "SELECT count() FROM @chain") < 12
    assert_exact(url, 203)
    write(url, "w", "host-1", 180, 400, 11)
    maintain(url)
    assert number(clickhouse, url, counting) < 8
    assert_exact(url, 400)


@pytest.mark.parametrize(("step", "when"), [
    pytest.param("INSERT INTO runs_part .* SELECT", "after", marks=pytest.mark.long),
    pytest.param("INSERT INTO hosts_part .* SELECT", "before", marks=pytest.mark.long),
    pytest.param("INSERT INTO chain", "before", marks=pytest.mark.long),
    pytest.param("INSERT INTO chain", "after", marks=pytest.mark.long),
    pytest.param("ALTER TABLE hosts_part", "before", marks=pytest.mark.long),
    pytest.param("ALTER TABLE chain", "before", marks=pytest.mark.long),
    pytest.param("ALTER TABLE chain", "after", marks=pytest.mark.long)])
def test_killed_while_it_folds(clickhouse, step, when):
    """Another instance folds and writes on; what the dead one left is not seen, and goes."""
    url = clickhouse.database()
    write(url, "w", "host-1", 1, 190, 10)
    if step.startswith("ALTER"):
        maintain(url)
        age(clickhouse, url)
    clickhouse.fault()
    clickhouse.fault(match=step, when=when, action="wait", seconds=2.5)
    victim = writer(url, "maintain")
    deadline = time.monotonic() + 60
    while not any(re.search(step, query) for query in clickhouse.log()):
        assert time.monotonic() < deadline and victim.poll() is None, clickhouse.log()
        time.sleep(0.05)
    time.sleep(0.2)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    write(url, "w", "host-1", 150, 250, 37)
    assert_exact(url, 250)
    time.sleep(2.5)
    clickhouse.fault()
    maintain(url)
    assert_exact(url, 250)
    age(clickhouse, url)
    maintain(url)
    write(url, "w", "host-1", 240, 303, 60)
    assert_exact(url, 303)
    assert number(clickhouse, url, "SELECT count() FROM @hosts_part WHERE batch NOT IN (SELECT batch FROM @chain)") == 0


@pytest.mark.long
def test_folds_at_once(clickhouse):
    """Two instances fold the same parts while a third writes: one of them counts."""
    url = clickhouse.database()
    write(url, "w", "host-1", 1, 190, 10)
    crowd = [writer(url, "maintain"), writer(url, "maintain"), writer(url, "write", "w", "host-1", 180, 300, 10)]
    for process in crowd:
        output = process.communicate(timeout=240)[0]
        assert process.returncode == 0, output
    assert number(clickhouse, url, "SELECT count() FROM @chain WHERE kind = 'fold'") == 1
    assert_exact(url, 300)


def test_roll_ups(clickhouse):
    """Steps are rolled up once; points that come later roll their span up again; points that go leave the steps."""
    url = clickhouse.database()
    write(url, "w", "host-1", 1, 600, 100)
    maintain(url)
    steps = "SELECT count() FROM @rollup_steps WHERE kind = 'host'"
    first = number(clickhouse, url, steps)
    assert first > 0
    maintain(url)
    assert number(clickhouse, url, steps) == first
    points = number(clickhouse, url, "SELECT count() FROM @points_host")
    for level in (10, 60, 3600):
        assert number(clickhouse, url, "SELECT sum(counts[2]) FROM (SELECT argMax(counts, version) AS counts FROM @rollup_steps "
                      f"WHERE kind = 'host' AND level_s = {level} GROUP BY owner_id, label, time_ns)") <= points
    write(url, "w", "host-1", 601, 700, 100)
    maintain(url)
    # The same steps again, with what came since: the older versions go.
    assert number(clickhouse, url, steps) == first
    assert number(clickhouse, url, "SELECT count() FROM (SELECT 1 FROM @rollup_steps GROUP BY owner_id, kind, level_s, label, "
                  "time_ns HAVING count() > 1)") == 0
    sums = "SELECT sum(counts[2]) FROM @rollup_steps WHERE kind = 'host' AND level_s = 10"
    # Of a counter: the first point is no rise.
    assert number(clickhouse, url, sums) == number(clickhouse, url, "SELECT count() FROM @points_host") - 1


def test_no_batch_waits_for_upkeep(clickhouse, tmp_path):
    """A statement of upkeep that does not come to its end keeps nobody from storing, nor the datalake from stopping."""
    url = clickhouse.database()
    record = {"kind": "process", "time_ns": 1700000000000000500, "host": "h", "boot": "b", "ppid": 1,
              "start_ns": 1700000000000000000, "end_ns": 1700000000000000500, "comm": "x", "cpu_ns": 5}
    step = "SELECT max.upto., max.over_ns. FROM rollup_state"
    clickhouse.fault()
    clickhouse.fault(match=step, when="before", action="hang", times=100)
    with Lake(tmp_path, store=url) as lake:
        agent = lake.agent()
        deadline = time.monotonic() + 60
        sent = 0
        while not any(re.search(step, query) for query in clickhouse.log()):
            assert time.monotonic() < deadline, clickhouse.log()
            time.sleep(0.05)
        for _ in range(3):
            sent += 1
            agent.post([dict(record, pid=sent, start_boot_ns=sent)])
        assert len(lake.rows("processes")) == sent
    clickhouse.fault()
