# SPDX-License-Identifier: Apache-2.0
"""The ClickHouse store against the real engine: the cases of every store, and exactly once whatever dies."""

import json
import os
import re
import signal
import subprocess
import time

import pytest

from tests.clickhouse.conftest import BINARY, ENVIRONMENT, PASSWORD, ROOT, UNIT, write, writer


def expected(last):
    """What the records 1 to last of clickhouse_writer add up to: an opened process counts once, by its end."""
    process = [n for n in range(1, last + 1) if n % 10 not in (0, 3)]
    living = [n for n in range(1, last + 1) if n % 10 == 3 and n + 1 > last]
    return {"rows": len(process) + len(living), "cpu": sum(process) + sum(living),
            "read": 4096 * (sum(process) + sum(living)), "living": len(living),
            "points": last // 10, "point_cpu": sum(range(10, last + 1, 10)) * 7}


def facts(url, workspace="w"):
    process = subprocess.run([UNIT / "clickhouse_writer", url, "facts", workspace], stdout=subprocess.PIPE, text=True,
                             env=ENVIRONMENT, timeout=120)
    assert process.returncode == 0, process.stdout
    found = {}
    for line in process.stdout.splitlines():
        name, *words = line.split()
        found[name] = {key: int(value) for key, value in zip(words[::2], words[1::2])}
    return found


def assert_exact(url, last, hosts=1):
    """Every record once, in every table and in everything that is derived from them."""
    found, want = facts(url), expected(last)
    assert found["processes"]["rows"] == want["rows"] * hosts
    assert found["processes"]["cpu"] == want["cpu"] * hosts
    assert found["hosts"]["records"] == last * hosts and found["hosts"]["acked"] == last * hosts
    for entity in ("hosts", "pipelines", "runs", "tasks", "tools", "containers"):
        assert found[entity]["processes"] == want["rows"] * hosts, entity
        assert found[entity]["cpu"] == want["cpu"] * hosts, entity
        assert found[entity]["read"] == want["read"] * hosts, entity
        assert found[entity]["living"] == want["living"] * hosts, entity
    assert found["points"]["rows"] == want["points"] * hosts and found["points"]["cpu"] == want["point_cpu"] * hosts


CASES = (ROOT / "tests/unit/store_cases_all.h").read_text().count("cmocka_unit_test_setup(")


def test_conformance(clickhouse):
    """The cases of tests/unit/store_cases.h, as for SQLite."""
    process = subprocess.run([UNIT / "clickhouse_conformance"], env=dict(ENVIRONMENT, CLICKHOUSE_URL=clickhouse.url),
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    assert process.returncode == 0, process.stdout
    assert f"PASSED  ] {CASES} test" in process.stdout, process.stdout


STEPS = ["INSERT INTO chain.*claim", "INSERT INTO processes_rows", "INSERT INTO open_rows", "INSERT INTO points_host",
         "INSERT INTO hosts_part", "INSERT INTO runs_part", "INSERT INTO tasks_part", "INSERT INTO chain",
         "SELECT max.batch., uniqExact", "FROM hosts_part AS p WHERE"]
SHORT_STEPS = {("INSERT INTO runs_part", "before"), ("INSERT INTO chain", "before"), ("INSERT INTO chain", "after")}


@pytest.mark.parametrize(("step", "when"), [
    pytest.param(step, when, marks=() if (step, when) in SHORT_STEPS else pytest.mark.long)
    for step in STEPS for when in ("before", "after")])
def test_instance_dies_at(clickhouse, step, when):
    """An instance is killed while a statement of it is under way; the statement itself is carried out later, while the
    agent already sends again, cut differently, to another instance."""
    url = clickhouse.database()
    write(url, "w", "host-1", 1, 10, 10)
    clickhouse.fault()
    skip = 1 if step == "INSERT INTO chain" else 0  # the claim comes first
    clickhouse.fault(match=step, when=when, action="wait", seconds=2.5, skip=skip)
    victim = writer(url, "write", "w", "host-1", 11, 100, 90)
    pattern = re.compile(step)
    deadline = time.monotonic() + 20
    while sum(bool(pattern.search(query)) for query in clickhouse.log()) <= skip:
        assert time.monotonic() < deadline, clickhouse.log()
        time.sleep(0.05)
    time.sleep(0.3)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    write(url, "w", "host-1", 1, 150, 37)
    time.sleep(2.5)
    clickhouse.fault()
    assert_exact(url, 150)
    write(url, "w", "host-1", 1, 163, 163)
    assert_exact(url, 163)


@pytest.mark.parametrize(("when", "action"), [
    ("after", "cut"), pytest.param("before", "cut", marks=pytest.mark.long),
    pytest.param("before", "fail", marks=pytest.mark.long), pytest.param("after", "fail", marks=pytest.mark.long)])
def test_no_answer(clickhouse, action, when):
    """Statements whose outcome the instance cannot know: it finds out or does them anew under another number."""
    url = clickhouse.database()
    write(url, "w", "host-1", 1, 10, 10)
    clickhouse.fault()
    clickhouse.fault(match="INSERT INTO (chain|tasks_part|points_host)", when=when, action=action, times=5)
    write(url, "w", "host-1", 1, 100, 60)
    clickhouse.fault()
    assert_exact(url, 100)


def test_instances_at_once(clickhouse):
    """Three instances are given the same host's records at the same time, each cut in its own way."""
    url = clickhouse.database()
    write(url, "w", "host-1", 1, 10, 10)
    crowd = [writer(url, "write", "w", "host-1", 1, 200, cut) for cut in (23, 41, 200)]
    crowd += [writer(url, "write", "w", "host-2", 1, 200, 50)]
    for process in crowd:
        output = process.communicate(timeout=240)[0]
        assert process.returncode == 0, output
        assert "acked 200 " in output
    assert_exact(url, 200, hosts=2)


def test_rows_as_the_views_have_them(clickhouse):
    """What the store puts together from parts, or picks first, is what the views say: of living processes too."""
    url = clickhouse.database()
    database = re.search(r"/(db\d+)", url).group(1)
    for host in ("host-1", "host-2"):
        write(url, "w", host, 1, 93, 31)
    assert int(clickhouse.query(f"SELECT count() FROM {database}.live")) == 2
    assert int(clickhouse.query(f"SELECT max(c) FROM (SELECT count() AS c FROM {database}.runs_part GROUP BY id)")) > 2
    for table, order, limit in (("runs", "id", 0), ("runs", "-start_ns", 1), ("tasks", "id", 0), ("tasks", "id", 7),
                                ("tasks", "-cpu_ns", 7), ("tools", "id", 0), ("tools", "-processes", 3),
                                ("processes", "-id", 0), ("processes", "id", 7), ("hosts", "host", 0)):
        column, down = order.lstrip("-"), "DESC" if order[0] == "-" else "ASC"
        want = clickhouse.query(f"SELECT * FROM {database}.{table} ORDER BY {column} {down} NULLS LAST, id "
                                f"LIMIT {limit or 1000} FORMAT JSONEachRow").splitlines()
        got = subprocess.run([BINARY, table, "--json", "--sort", order, "--limit", str(limit), "--store", url],
                             check=True, stdout=subprocess.PIPE, text=True, timeout=60).stdout.splitlines()
        assert want and len(got) == len(want), table
        for mine, theirs in zip(map(json.loads, got), map(json.loads, want)):
            different = {name: (mine.get(name), value) for name, value in theirs.items()
                         if not isinstance(mine.get(name), (list, dict)) and str(mine.get(name)) != str(value)}
            assert not different, (table, different)


@pytest.mark.parametrize("when", ["after", pytest.param("before", marks=pytest.mark.long)])
def test_server_dies(clickhouse, when):
    """ClickHouse itself is killed around the statement that publishes, and started again on what it left."""
    url = clickhouse.database("fsync=1")
    write(url, "w", "host-1", 1, 10, 10)
    clickhouse.fault()
    clickhouse.fault(match="INSERT INTO chain", when=when, action="die", skip=1)
    process = writer(url, "write", "w", "host-1", 1, 100, 45)
    clickhouse.restart()
    output = process.communicate(timeout=120)[0]
    assert process.returncode == 0, output
    assert_exact(url, 100)


def test_upkeep(clickhouse):
    """What is left of a dead instance goes, once its number is void; nothing else does."""
    url = clickhouse.database()
    database = re.search(r"/(db\d+)", url).group(1)
    write(url, "w", "host-1", 1, 10, 10)
    clickhouse.fault()
    clickhouse.fault(match="INSERT INTO chain", when="before", action="fail", skip=1)
    victim = writer(url, "write", "w", "host-1", 11, 100, 90, 0)
    victim.communicate(timeout=60)
    assert victim.returncode == 1
    count = f"SELECT count() FROM {database}.processes_rows"
    before = int(clickhouse.query(count))
    assert before > expected(10)["rows"]
    clickhouse.query(f"ALTER TABLE {database}.chain UPDATE written = now64(3) - 7200 WHERE 1 SETTINGS mutations_sync = 1")
    assert writer(url, "maintain").wait(timeout=60) == 0
    assert int(clickhouse.query(count)) == expected(10)["rows"]
    assert_exact(url, 10)
    write(url, "w", "host-1", 1, 100, 30)
    assert_exact(url, 100)


def migrate(source, target):
    return subprocess.run([BINARY, "datalake", "migrate", "--from", source, "--to", target], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=300)


def test_migrate(clickhouse, tmp_path):
    """A lake moves from SQLite: cut off and taken up again, proven equal, and then written on."""
    source, url = f"sqlite:{tmp_path}/lake", clickhouse.database()
    write(source, "w", "host-1", 1, 203, 50)
    write(source, "other", "host-2", 1, 9, 9)
    assert writer(source, "maintain").wait(timeout=60) == 0
    clickhouse.fault()
    clickhouse.fault(match="INSERT INTO chain", when="before", action="fail", code=1, skip=12)
    cut = migrate(source, url)
    assert cut.returncode == 1 and "a fault of the test" in cut.stdout, cut.stdout
    assert PASSWORD not in cut.stdout
    clickhouse.fault()
    whole = migrate(source, url)
    assert whole.returncode == 0 and "equal" in whole.stdout, whole.stdout
    here, there = facts(url), facts(source)
    for entity in here:
        assert here[entity] == there[entity], entity
    assert here["processes"]["rows"] == expected(203)["rows"] and here["runs"]["living"] == 1
    assert migrate(source, url).returncode == 0
    # The tables are to keep what the server keeps (90 d of processes, 7 d of points), not everything.
    ttl = clickhouse.query("SELECT name, extract(engine_full, 'toIntervalSecond.([0-9]+)') FROM system.tables WHERE database = "
                           f"'{re.search('/(db[0-9]+)', url).group(1)}' AND name IN ('processes_rows', 'points_host') ORDER BY name")
    assert ttl.split() == ["points_host", str(14 * 86400), "processes_rows", str(97 * 86400)]
    write(url, "w", "host-1", 204, 250, 50)
    assert_exact(url, 250)
    refused = migrate(source, url)
    assert refused.returncode == 2 and "other data" in refused.stdout


def test_migrate_finds_a_difference(clickhouse, tmp_path):
    source, url = f"sqlite:{tmp_path}/lake", clickhouse.database()
    database = re.search(r"/(db\d+)", url).group(1)
    write(source, "w", "host-1", 1, 50, 50)
    assert migrate(source, url).returncode == 0
    clickhouse.query(f"ALTER TABLE {database}.processes_rows UPDATE read_bytes = read_bytes + 1 WHERE pid = 7 "
                     "SETTINGS mutations_sync = 1")
    broken = migrate(source, url)
    assert broken.returncode == 1 and "processes.read_bytes: 40 values" in broken.stdout, broken.stdout


SQL = [
    ("SELECT count() FROM processes", "OK"), ("WITH x AS (SELECT pid FROM processes) SELECT count() FROM x", "OK"),
    ("SELECT pid FROM processes WHERE pid IN (1, 2) ORDER BY pid -- end", "OK"),
    ("SELECT * FROM system.users", "EACCES"), ("SELECT * FROM `system`.`tables`", "EACCES"),
    ("SELECT * FROM chain", "EACCES"), ("SELECT 'chain as (', * FROM chain", "EACCES"),
    ("SELECT (1, '', 2, 3, now64(3)) IN chain", "EACCES"), ("SELECT count() FROM rollups_rows", "EACCES"),
    ("SELECT (SELECT count() FROM chain)", "EACCES"), ("SELECT * FROM url('http://127.0.0.1:1/', 'CSV', 'a Int8')", "EACCES"),
    ("SELECT * FROM file('/etc/passwd', 'CSV', 'a String')", "EACCES"), ("SELECT * FROM merge('.*', '.*')", "EACCES"),
    ("SELECT 1 FROM processes SETTINGS additional_table_filters = {}", "EACCES"), ("DROP TABLE chain", "EACCES"),
    ("INSERT INTO chain SELECT 1", "EACCES"), ("SELECT 1 FORMAT CSV", "EACCES"), ("SELECT sleep(3)", "EACCES"),
    ("SELECT 1; DROP TABLE chain", "EACCES"), ("SELECT 1) UNION ALL (SELECT 2", "EINVAL"), ("SELEC", "EINVAL"),
    ("SELECT nothing FROM processes", "EINVAL"), ("SELECT arrayJoin(range(1000))", "E2BIG"),
    ("SELECT groupArray(repeat('x', 1000000)) FROM (SELECT arrayJoin(range(100000)))", "ENOMEM"),
    ("SELECT count() FROM (SELECT arrayJoin(range(1000000)) AS a) AS a, (SELECT arrayJoin(range(1000000)) AS b) AS b",
     "ETIME"),
]


def test_sql(clickhouse):
    """Hostile statements end at a limit, harmless ones see one workspace only."""
    url = clickhouse.database()
    write(url, "w", "host-1", 1, 20, 20)
    write(url, "other", "host-2", 1, 20, 20)
    for statement, outcome in SQL:
        started = time.monotonic()
        output = subprocess.run([UNIT / "clickhouse_writer", url, "sql", "w", statement], stdout=subprocess.PIPE,
                                text=True, env=ENVIRONMENT, timeout=60).stdout
        assert f"outcome {outcome} " in output, (statement, output)
        assert time.monotonic() - started < 15
        if "count() FROM" in statement and outcome == "OK":
            assert f"row {expected(20)['rows']}\n" in output, (statement, output)


def test_replicated_tables(clickhouse):
    """Read by the engine and not carried out. With a real ZooKeeper (`zookeeper` in its configuration) chDB makes such a
    table, but no replica of it ever takes rows: only a ClickHouse server sets the interserver address that they need."""
    url = clickhouse.database("replicated=1&cluster=c&path=/clickhouse/tables/{uuid}/{shard}")
    output = writer(url, "ddl").communicate(timeout=60)[0]
    statements = output.splitlines()
    assert len(statements) > 30
    for statement in statements:
        clickhouse.query("EXPLAIN AST " + statement)
        if "CREATE TABLE" in statement:
            assert "ReplicatedMergeTree('/clickhouse" in statement and "ON CLUSTER `c`" in statement
    assert "replicated_deduplication_window" in statements[0]


def test_refusals(clickhouse):
    """A wrong password, a wrong address, a server that is not there: what, and never the password."""
    wrong = clickhouse.database().replace(PASSWORD, "not-this-one")
    for url, words in [(wrong, "does not know this user"), ("clickhouse://127.0.0.1:1/x?fsync=0", "onnect"),
                       ("clickhouse://127.0.0.1/x?nothing=1", "option"), ("clickhouse://127.0.0.1/x'y", "letters"),
                       ("clickhouse://127.0.0.1/x?password_file=/nothing/there", "No such file")]:
        process = writer(url, "facts", "w")
        output = process.communicate(timeout=60)[0]
        assert process.returncode == 1 and words in output, (url, output)
        assert "not-this-one" not in output and PASSWORD not in output


def test_password_file(clickhouse, tmp_path):
    secret = tmp_path / "password"
    secret.write_text(PASSWORD + "\n")
    url = f"clickhouse://default@127.0.0.1:{clickhouse.port}/db_password?fsync=0&password_file={secret}"
    os.chmod(secret, 0o644)
    output = writer(url, "facts", "w").communicate(timeout=60)[0]
    assert "chmod 600" in output
    os.chmod(secret, 0o600)
    write(url, "w", "host-1", 1, 20, 20)
    assert_exact(url, 20)


@pytest.mark.long
def test_a_million_records(clickhouse):
    url = clickhouse.database()
    process = writer(url, "write", "w", "host-1", 1, 1000000, 20000, 3600)
    output = process.communicate(timeout=3600)[0]
    assert process.returncode == 0, output
    assert_exact(url, 1000000)
