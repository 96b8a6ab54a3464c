# SPDX-License-Identifier: Apache-2.0
"""The tables of the ClickHouse store over time: older versions, newer ones, what is kept for how long, kills in between."""

import re
import signal
import time

import pytest

from tests.clickhouse.conftest import write, writer
from tests.clickhouse.test_store import assert_exact


def name_of(url):
    return re.search(r"/(db\d+)", url).group(1)


def columns(clickhouse, database):
    return clickhouse.query("SELECT table, name, type FROM system.columns WHERE database = '%s' AND table NOT IN (SELECT "
                            "name FROM system.tables WHERE database = '%s' AND engine = 'View') ORDER BY table, position"
                            % (database, database))


def make_older(clickhouse, url):
    """The tables as a version before this one might have left them, with rows in them."""
    database = name_of(url)
    write(url, "w", "host-1", 1, 50, 50)
    whole = columns(clickhouse, database)
    for table, column in (("chain", "after"), ("events_rows", "payload"), ("points_host", "load_1m"), ("gaps_rows", "count")):
        if f"{table}\t{column}\t" in whole:
            clickhouse.query(f"ALTER TABLE {database}.{table} DROP COLUMN {column}")
    clickhouse.query(f"DROP TABLE {database}.rollup_state SYNC")
    clickhouse.query(f"DROP VIEW {database}.runs")
    clickhouse.query(f"ALTER TABLE {database}.chain UPDATE batch = 1 WHERE kind = 'schema' SETTINGS mutations_sync = 1")
    assert columns(clickhouse, database) != whole
    return database, whole


def test_older_version(clickhouse):
    """Opening brings the tables to this version, once, and the rows are all there."""
    url = clickhouse.database()
    database, whole = make_older(clickhouse, url)
    write(url, "w", "host-1", 1, 100, 30)
    assert columns(clickhouse, database) == whole
    assert_exact(url, 100)
    clickhouse.fault()
    write(url, "w", "host-1", 101, 110, 10)
    assert not [query for query in clickhouse.log() if "ALTER" in query or "CREATE" in query]


@pytest.mark.parametrize(("step", "when"), [
    ("ALTER TABLE .*ADD COLUMN", "before"), pytest.param("INSERT INTO chain", "before", marks=pytest.mark.long),
    pytest.param("ALTER TABLE .*ADD COLUMN", "after", marks=pytest.mark.long),
    pytest.param("CREATE TABLE", "after", marks=pytest.mark.long),
    pytest.param("CREATE OR REPLACE VIEW", "before", marks=pytest.mark.long),
    pytest.param("CREATE OR REPLACE VIEW", "after", marks=pytest.mark.long),
    pytest.param("INSERT INTO chain", "after", marks=pytest.mark.long)])
def test_killed_while_it_changes_the_tables(clickhouse, step, when):
    url = clickhouse.database()
    database, whole = make_older(clickhouse, url)
    clickhouse.fault()
    clickhouse.fault(match=step, when=when, action="wait", seconds=2.5, skip=0)
    victim = writer(url, "write", "w", "host-1", 51, 60, 10)
    deadline = time.monotonic() + 30
    while not any(re.search(step, query) for query in clickhouse.log()):
        assert time.monotonic() < deadline and victim.poll() is None, clickhouse.log()
        time.sleep(0.05)
    time.sleep(0.2)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    write(url, "w", "host-1", 1, 100, 30)
    time.sleep(2.5)
    clickhouse.fault()
    assert columns(clickhouse, database) == whole
    assert_exact(url, 100)


@pytest.mark.long
def test_server_dies_while_its_tables_change(clickhouse):
    url = clickhouse.database("fsync=1")
    database, whole = make_older(clickhouse, url)
    clickhouse.fault()
    clickhouse.fault(match="ALTER TABLE .*ADD COLUMN", when="after", action="die", skip=1)
    process = writer(url, "write", "w", "host-1", 51, 60, 10, 0)
    clickhouse.restart()
    process.communicate(timeout=120)
    write(url, "w", "host-1", 1, 100, 30)
    assert columns(clickhouse, database) == whole
    assert_exact(url, 100)


def test_newer_version(clickhouse):
    """Tables of a later version are left alone."""
    url = clickhouse.database()
    write(url, "w", "host-1", 1, 10, 10)
    clickhouse.query(f"ALTER TABLE {name_of(url)}.chain UPDATE batch = 99 WHERE kind = 'schema' SETTINGS mutations_sync = 1")
    process = writer(url, "facts", "w")
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 1 and "is of a newer Tracer (schema 99, this one knows " in output


def ttls(clickhouse, url):
    rows = clickhouse.query("SELECT name, extract(engine_full, ' TTL (.*) SETTINGS ') FROM system.tables WHERE database = "
                            f"'{name_of(url)}' AND engine LIKE '%MergeTree' ORDER BY name FORMAT TSVRaw")
    return dict(line.split("\t") for line in rows.splitlines())


WEEK = 7 * 86400


def test_what_is_kept_changes(clickhouse):
    """What is to be kept for how long reaches tables that are there: a TTL stands a week behind upkeep, which removes."""
    url = clickhouse.database()
    write(url, "w", "host-1", 1, 50, 50)
    assert set(ttls(clickhouse, url).values()) == {""}
    assert writer(url, "keep", 86400, 172800).wait(timeout=60) == 0
    first = ttls(clickhouse, url)
    assert first["processes_rows"] == f"received + toIntervalSecond({86400 + WEEK})", first
    assert first["gaps_rows"] == f"received + toIntervalSecond({86400 + WEEK}) WHERE room != 'retention'", first
    assert first["points_host"] == f"received + toIntervalSecond({172800 + WEEK})" and first["hosts_part"] == ""
    clickhouse.fault()
    assert writer(url, "keep", 86400, 172800).wait(timeout=60) == 0
    assert not [query for query in clickhouse.log() if "ALTER" in query]
    assert writer(url, "keep", 86400, 259200).wait(timeout=60) == 0
    changed = [query for query in clickhouse.log() if "ALTER" in query]
    assert changed and all("points_" in query and str(259200 + WEEK) in query for query in changed)
    # Points are needed until the day that they are of is rolled up.
    assert writer(url, "keep", 1, 1).wait(timeout=60) == 0
    least = ttls(clickhouse, url)
    assert least["points_host"] == f"received + toIntervalSecond({25 * 3600 + WEEK})", least
    assert least["processes_rows"] == f"received + toIntervalSecond({3600 + WEEK})", least
    assert writer(url, "keep", 0, 0).wait(timeout=60) == 0
    assert set(ttls(clickhouse, url).values()) == {""}
