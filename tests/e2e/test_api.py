# SPDX-License-Identifier: Apache-2.0
"""The API of the real datalake against docs/openapi.yaml, and the commands that ask it: pages, filters, workspaces, SQL,
the live tail, and the same answers from the store and over the network."""

import contextlib
import csv
import io
import json
import select
import socket
import subprocess
import sys

import openapi_spec_validator
import pytest
import schemathesis
import yaml
from hypothesis import HealthCheck, Phase, given, settings

from harness import tracer
from harness.lake import Agent, Lake, frame, process

sys.path.insert(0, str(tracer.ROOT / "tools"))
import openapi  # noqa: E402  # the generator of the document

DOCUMENT = tracer.ROOT / "docs/openapi.yaml"
COUNT = 300


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    with Lake() as running:
        for workspace in ("default", "other"):
            agent = Agent(running, running.token("ingest", "--workspace", workspace))
            records = [process(i, tool=f"tool-{i % 3}", run=f"run-{i % 2}", run_name=f"name-{i % 2}", task=f"task-{i % 50}",
                               engine="script", cpu_ns=i * 1000, exit_code=i % 5 == 0 and 1 or 0)
                       for i in range(1, COUNT + 1)]
            assert agent.post(frame(agent.epoch, 1, records), 1, COUNT)[0] == 200
        running.read = running.token("read")
        running.other = running.token("read", "--workspace", "other")
        running.token_file = tmp_path_factory.mktemp("token") / "read"
        running.token_file.touch(mode=0o600)
        running.token_file.write_text(running.read)
        yield running
        assert running.process.poll() is None, running.log.read_text()


def ask(lake, path, token=None, method="GET", body=None):
    status, headers, answer = lake.request(method, path, body, {"Authorization": f"Bearer {token or lake.read}"})
    if headers.get_content_type() == "application/problem+json":
        answer = json.loads(answer)
    return status, headers, answer


def sql(lake, text, token=None, **more):
    return ask(lake, "/api/v1/sql", token, "POST", json.dumps({"sql": text, **more}))


def test_the_document_is_valid_and_says_what_the_datalake_says(lake):
    document = yaml.safe_load(DOCUMENT.read_text())
    openapi_spec_validator.validate(document)
    status, _, schema = ask(lake, "/api/v1/schema")
    assert status == 200
    for entity in schema["entities"]:
        component = document["components"]["schemas"][openapi.camel(entity["singular"])]
        assert list(component["properties"]) == [column["name"] for column in entity["columns"]]
        for column in entity["columns"]:
            assert component["properties"][column["name"]] == openapi.column_schema(column), (entity["name"], column)
    assert document == openapi.document(schema), "make it again: tools/openapi.py"


def test_answers_are_what_the_document_says(lake):
    schema = schemathesis.openapi.from_dict(yaml.safe_load(DOCUMENT.read_text()))
    asked = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path == "/api/v1/tail":
            continue

        @settings(max_examples=6, deadline=None, database=None, derandomize=True, phases=[Phase.explicit, Phase.generate],
                  suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy())
        def run(case):
            nonlocal asked
            answer = case.call(base_url=f"http://127.0.0.1:{lake.port}", headers={"Authorization": f"Bearer {lake.read}"})
            assert answer.status_code < 500, answer.text
            operation.validate_response(answer)
            asked += 1

        run()
    assert asked > 100


def test_pages_hold_every_row_once_while_rows_arrive(lake):
    agent = Agent(lake, lake.token("ingest"))
    for sort in ("", "&sort=-cpu_ns", "&sort=pid"):
        seen, cursor = [], ""
        while True:
            status, headers, page = ask(lake, f"/api/v1/processes?limit=37&tool.null=false{sort}{cursor}")
            assert status == 200, page
            seen += [row["id"] for row in page["items"]]
            agent.send(5)  # processes without a tool
            if not page["next"]:
                break
            assert headers["Tracer-Next"] == page["next"]
            cursor = f"&cursor={page['next']}"
        assert len(seen) == len(set(seen)) == COUNT


def test_filters_and_forms(lake):
    _, _, page = ask(lake, "/api/v1/processes?tool=tool-1&cpu_ns.gte=100us&fields=pid,cpu_ns&sort=cpu_ns&limit=1000")
    expected = [i * 1000 for i in range(1, COUNT + 1) if i % 3 == 1 and i >= 100]
    assert [row["cpu_ns"] for row in page["items"]] == expected
    assert list(page["items"][0]) == ["pid", "cpu_ns"]
    query = "/api/v1/processes?tool=tool-1&fields=pid,tool,args,signal&limit=3&format="
    table = list(csv.reader(io.StringIO(ask(lake, query + "csv")[2].decode())))
    lines = [json.loads(line) for line in ask(lake, query + "ndjson")[2].splitlines()]
    assert table[0] == ["pid", "tool", "args", "signal"] and len(table) == 4 and len(lines) == 3
    assert table[1] == [str(lines[0]["pid"]), "tool-1", '["true"]', ""] and lines[0]["signal"] is None


@pytest.mark.parametrize(("path", "status", "code", "parameter"), [
    ("/api/v1/runs?nothing=1", 400, "unknown_parameter", "nothing"),
    ("/api/v1/runs?cpu_ns=many", 400, "bad_value", "cpu_ns"),
    ("/api/v1/runs?sort=command", 400, "not_sortable", "sort"),
    ("/api/v1/runs?limit=0", 400, "bad_value", "limit"),
    ("/api/v1/runs/1", 404, "not_found", None),
    ("/api/v1/runs/1/tree", 404, "not_found", None),
    ("/api/v1/points?kind=host", 400, "bad_value", "owner_id"),
    ("/api/v1/runs?format=xml", 400, "bad_value", "format"),
])
def test_what_is_wrong_is_named(lake, path, status, code, parameter):
    got, headers, problem = ask(lake, path)
    assert (got, problem["code"], problem.get("parameter")) == (status, code, parameter)
    assert headers.get_content_type() == "application/problem+json" and problem["detail"]


def test_a_tree_has_every_task(lake):
    _, _, runs = ask(lake, "/api/v1/runs?run=run-0")
    run = runs["items"][0]
    status, _, tree = ask(lake, f"/api/v1/runs/{run['id']}/tree")
    assert status == 200 and tree["run"] == run and tree["parts"] == [run["id"]]
    column = tree["columns"].index("task")
    assert sorted(row[column] for row in tree["tasks"]) == sorted(f"task-{i}" for i in range(0, 50, 2))
    assert len(tree["tools"]) == 3 and tree["next"] is None


def test_a_workspace_is_its_tokens_only(lake):
    _, _, mine = ask(lake, "/api/v1/runs?fields=id,workspace&run=run-0")
    _, _, theirs = ask(lake, "/api/v1/runs?fields=id,workspace&run=run-0", lake.other)
    assert mine["items"][0]["workspace"] == "default" and theirs["items"][0]["workspace"] == "other"
    assert ask(lake, f"/api/v1/runs/{theirs['items'][0]['id']}")[0] == 404
    assert sql(lake, "SELECT DISTINCT workspace FROM processes")[2]["rows"] == [["default"]]
    assert sql(lake, "SELECT count(*) FROM processes", lake.other)[2]["rows"] == [[COUNT]]
    assert sql(lake, "WITH runs AS (SELECT * FROM main.runs) SELECT * FROM runs")[0] in (400, 403)
    assert lake.request("GET", "/api/v1/runs")[0] == 401


def test_hostile_sql_leaves_the_server_small_and_alive(lake):
    forever = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
    before = lake.rss_bytes()
    for text, status in ((forever + "SELECT count(*) FROM c", 422), (forever + "SELECT printf('%.*c', 200000, 'a') FROM c ORDER BY 1", 422),
                         ("SELECT zeroblob(1000000000)", 403), ("ATTACH '/etc/passwd' AS x", 403), ("PRAGMA database_list", 403),
                         ("SELECT load_extension('x')", 400), ("SELECT sqlite_version()", 403)):
        got, _, answer = sql(lake, text, time_ms=500)
        assert got == status, (text[:80], answer)
    assert lake.rss_bytes() < before + (160 << 20)
    _, _, answer = sql(lake, forever + "SELECT x FROM c", limit=5)
    assert answer["truncated"] and len(answer["rows"]) == 5


def test_who_asks_much_and_long_keeps_nobody_from_a_quick_answer():
    forever = {"sql": "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c", "time_ms": 60000}
    with Lake(options=["--readers", "2"]) as running, contextlib.ExitStack() as stack:
        body, token = json.dumps(forever), running.token("read")
        head = f"POST /api/v1/sql HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n\r\n"
        links = [stack.enter_context(running.connect()) for _ in range(40)]
        for link in links:
            link.sendall((head + body).encode())
        # More than may wait: those are told to come again, and by then the others have been taken in.
        refused = select.select(links, [], [], 60)[0]
        assert refused
        for link in refused:
            text = link.recv(4096).decode()
            assert text.startswith("HTTP/1.1 429 ") and "Retry-After:" in text and '"busy"' in text, text
        assert running.request("GET", "/api/v1/health")[0] == 200
        assert running.request("GET", "/api/v1/runs", None, {"Authorization": f"Bearer {token}"})[0] == 200
        Agent(running, running.token("ingest")).send(3)
        running.stop(9)


def test_the_tail_goes_on_where_it_was(lake):
    agent = Agent(lake, lake.token("ingest"))

    def events(last=None, count=0):
        with socket.create_connection(("127.0.0.1", lake.port), 10) as link:
            resume = f"Last-Event-ID: {last}\r\n" if last else ""
            link.sendall(f"GET /api/v1/tail?entities=processes HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer "
                         f"{lake.read}\r\n{resume}\r\n".encode())
            text = ""
            while "event: ready" not in text:
                text += link.recv(65536).decode()
            if count:
                agent.send(count)
            while text.count("event: process") < count:
                text += link.recv(65536).decode()
            return text

    text = events(count=3)
    last = [line[4:] for line in text.splitlines() if line.startswith("id: ")][-1]
    agent.send(4)
    assert events(last).count("event: process") >= 4


@pytest.mark.parametrize("words", [
    ["runs", "--json"], ["tasks", "--run", "name-0", "--csv"], ["tools"], ["processes", "--where", "cpu_ns>=200us", "-n", "7"], ["hosts"],
    ["sql", "SELECT tool, count(*) FROM processes WHERE tool IS NOT NULL GROUP BY 1"], ["show", "name-1"],
])
def test_commands_answer_alike_from_the_store_and_over_the_network(lake, words):
    def run(*where):
        return subprocess.run([lake.binary, *words, *where], capture_output=True, text=True, timeout=60, check=False)

    local = run("--store", str(lake.directory), "--workspace", "default")
    remote = run("--url", f"http://127.0.0.1:{lake.port}", "--token-file", str(lake.token_file))
    assert local.returncode == remote.returncode == 0, (local.stderr, remote.stderr)
    assert local.stdout == remote.stdout and local.stdout.strip()
