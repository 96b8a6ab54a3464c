# SPDX-License-Identifier: Apache-2.0
"""Runs over several hosts become one, and what the datalake holds goes out to other tools: a real datalake, records of real
runs posted under the names of several hosts, real Prometheus."""

import collections
import csv
import io
import json
import subprocess
import time
import urllib.parse
import urllib.request

import pytest

from e2e import engines
from harness import tracer
from harness.posting import Lake

SCRIPT = """#!/bin/sh
for i in 1 2 3; do dd if=/dev/zero bs=1M count=20 2>/dev/null | gzip -1 | wc -c; done
(sleep 0.4; false) & seq 1 100000 | sort -n | tail -1
wait
"""


def wait_for(what, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError("it never came")


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recording")
    script = folder / "part.sh"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    return tracer.run([script], folder / "out.ndjson", options=["--trace-id", "study-7"], cwd=folder, check=0)


def as_other_run(records, number):
    """The same run, as if it had been started anew elsewhere: another boot, so other ids."""
    text = "\n".join(json.dumps(record) for record in records)
    boot = next(record["boot"] for record in records)
    return text.replace(boot[:8], f"{number:08x}").splitlines()


@pytest.fixture(scope="module")
def lake(recording, tmp_path_factory):
    with Lake(tmp_path_factory.mktemp("lake")) as running:
        for number, host in enumerate(["alpha", "beta", "gamma"], 1):
            running.agent(host).post(as_other_run(recording.records, number))
        wait_for(lambda: len([run for run in running.rows("runs") if run["stitched_id"]]) == 3)
        yield running


@pytest.fixture(scope="module")
def whole(lake):
    """Id of the run that stands for all."""
    wholes = {run["stitched_id"] for run in lake.rows("runs")}
    assert len(wholes) == 1
    return wholes.pop()


# --- one run over hosts ------------------------------------------------------------------------------------------------


def test_parts_with_one_trace_identifier_are_one_run(lake, whole):
    runs = {run["host"]: run for run in lake.rows("runs")}
    assert set(runs) == {"alpha", "beta", "gamma"}
    joins = lake.rows("joins")
    assert {join["run_id"] for join in joins} == {run["id"] for run in runs.values()}
    assert {join["stitched_id"] for join in joins} == {whole}
    assert {join["key"] for join in joins} == {"trace:study-7"}
    assert {join["confidence"] for join in joins} == {1}
    tree = json.loads(lake.get(f"/api/v1/runs/{whole}/tree"))
    assert set(tree["parts"]) == {run["id"] for run in runs.values()}


def test_show_says_why(lake, whole):
    report = lake.tracer("show", whole).decode()
    for host in ("alpha", "beta", "gamma"):
        assert f"part on {host}: the same trace identifier was given" in report, report


def head_of(records, change):
    """One recorded process with other members, alone in a run of its own."""
    process = dict(next(record for record in records if record["kind"] == "process" and record.get("join")))
    process.pop("join")
    return process | change


def test_a_nextflow_head_and_its_jobs_on_other_nodes(recording, tmp_path):
    """Heads and jobs as the collectors of a cluster tell them; the second pipeline shares the work directory."""
    def part(number, run, engine, join, start, end):
        base = 1_800_000_000_000_000_000
        return head_of(recording.records, {
            "run": run, "run_name": run, "engine": engine, "join": join, "start_ns": base + start, "end_ns": base + end,
            "time_ns": base + end, "start_boot_ns": 10**12 + number, "pid": 1000 + number})

    def place(key, **more):
        return {"key": f"nextflow:{key}", "why": "the task ran below the work directory", "how": "place", "within_s": 60, **more}

    def task(key):
        return {"key": f"nextflow-task:{key}", "why": "submitted from this task directory", "how": "id", "within_s": None}

    minute = 60 * 10**9
    parts = {
        "login": [part(1, "nextflow-a", "nextflow", [place("/scratch/w", head=True), task("/scratch/w/ab/1")], 0, 100 * minute)],
        "node1": [part(2, "slurm-12", "slurm", [task("/scratch/w/ab/1"), place("/scratch/w")], 5 * minute, 9 * minute),
                  part(3, "slurm-99", "slurm", [{"key": "slurm-job:1000/99", "why": "the same Slurm job", "how": "id",
                                                 "within_s": 3600}], 5 * minute, 9 * minute)],
        "node2": [part(4, "slurm-13", "slurm", [place("/scratch/w")], 20 * minute, 30 * minute)],
        "node3": [part(5, "slurm-99", "slurm", [{"key": "slurm-job:1000/99", "why": "the same Slurm job", "how": "id",
                                                 "within_s": 3600}], 900 * minute, 910 * minute)],
    }
    with Lake(tmp_path / "one") as lake:
        hosts = {}
        for host in ("node2", "node1", "node3", "login"):
            hosts[host] = lake.agent(host)
            hosts[host].post(parts[host])

        def joined():
            runs = lake.rows("runs")
            groups = collections.defaultdict(set)
            for run in runs:
                groups[run["stitched_id"]].add((run["host"], run["run"]))
            return groups

        wait_for(lambda: any(len(group) == 3 for whole, group in joined().items() if whole))
        groups = joined()
        assert groups[None] == {("node1", "slurm-99"), ("node3", "slurm-99")}, "a job number that came again is another job"
        hosts["login"].post([part(6, "nextflow-b", "nextflow", [place("/scratch/w", head=True)], 10 * minute, 50 * minute)])
        # Two pipelines work there now: what only the place tells is nobody's, what the task's directory tells stays.
        expected = {("login", "nextflow-a"), ("node1", "slurm-12")}
        wait_for(lambda: expected in joined().values())
        assert ("node2", "slurm-13") in joined()[None]


# --- Prometheus ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prometheus_tools():
    engines.debian("prometheus")


def samples_of(page):
    found = {}
    for line in page.decode().splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            assert name not in found, name
            found[name] = float(value)
    return found


def test_promtool_finds_nothing_wrong(lake, prometheus_tools):
    status, headers, page = lake.ask("/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0 and not done.stdout + done.stderr, done.stdout + done.stderr


def test_metrics_agree_with_the_rows(lake):
    page = samples_of(lake.get("/metrics"))
    hosts = lake.rows("hosts")
    for host in hosts:
        label = f'{{workspace="default",host="{host["host"]}",host_id="{host["host_id"]}"}}'
        assert page["tracer_host_records_total" + label] == host["records"]
        assert page["tracer_host_acknowledged_sequence" + label] == host["records"]
        assert page["tracer_host_records_lost_total" + label] == 0
        assert page["tracer_host_processes_total" + label] == host["processes"]
    assert page["tracer_lake_records_total"] == sum(host["records"] for host in hosts)
    assert page['tracer_metrics_omitted{kind="hosts"}'] == 0
    runs = [name for name in page if name.startswith("tracer_run_cpu_seconds_total")]
    assert len(runs) == 3
    assert sum(page[name] for name in runs) == pytest.approx(sum(run["cpu_ns"] for run in lake.rows("runs")) / 1e9)


def test_a_stranger_gets_no_metrics(lake):
    assert lake.ask("/metrics", token="nonsense")[0] in (401, 403)
    # A token for reading sees its workspace, and nothing of the server.
    status, _, page = lake.ask("/metrics", token=lake.token("read"))
    assert status == 200 and b"tracer_host_records_total" in page and b"tracer_lake_records_total" not in page


def dashboard_queries():
    board = json.loads((tracer.ROOT / "docs" / "grafana.json").read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"].replace("$__rate_interval", "1m").replace("$workspace", ".*").replace("$host", ".*")


def test_a_real_prometheus_scrapes_it_and_answers_the_dashboard(lake, prometheus_tools, tmp_path):
    config = tmp_path / "prometheus.yml"
    config.write_text(f"""
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: tracer
    authorization: {{credentials_file: {lake.token_file}}}
    static_configs: [{{targets: ['127.0.0.1:{lake.port}']}}]
""")
    port = 19090 + lake.port % 1000
    server = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path}/data",
                               f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ask(expression):
        query = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{query}", timeout=10) as answer:
                return json.load(answer)["data"]["result"]
        except OSError:
            return []

    def answered(expression):
        end = time.monotonic() + 30
        while not ask(expression):
            if time.monotonic() > end:
                return False
            time.sleep(0.2)
        return True

    try:
        result = wait_for(lambda: ask("sum(tracer_host_records_total)"), 40)
        assert float(result[0]["value"][1]) == sum(host["records"] for host in lake.rows("hosts"))
        assert ask("up")[0]["value"][1] == "1"
        queries = list(dashboard_queries())
        assert len(queries) > 8
        for title, expression in queries:
            assert answered(expression.removesuffix(" or vector(0)")), f"{title}: {expression} returns nothing"
    finally:
        server.terminate()
        server.wait(timeout=30)


# --- formats ---------------------------------------------------------------------------------------------------------------


def test_command_and_api_write_the_same(lake, whole):
    for name in ("trace", "snakemake", "csv", "ndjson", "perfetto", "otlp"):
        assert lake.tracer("export", "--format", name, whole) == lake.get(f"/api/v1/runs/{whole}/export?format={name}")
    assert lake.ask("/api/v1/runs/1/export?format=csv")[0] == 404
    assert lake.ask(f"/api/v1/runs/{whole}/export?format=xml")[0] == 400
    assert b"is no format" in subprocess.run([tracer.BINARY, "export", "--format", "xml", "x"], capture_output=True, check=False).stderr


def test_csv_has_each_process_once(lake, whole, recording):
    rows = list(csv.DictReader(io.StringIO(lake.tracer("export", "--format", "csv", whole).decode())))
    expected = [process for process in recording.processes if process["run"]]
    assert len(rows) == 3 * len(expected)
    assert sum(int(row["cpu_ns"]) for row in rows) == 3 * sum(process["cpu_ns"] for process in expected)
    assert {row["host"] for row in rows} == {"alpha", "beta", "gamma"}
    assert {row["signal"] for row in rows} == {""}, "unknown and none are empty, not 0"


def test_ndjson_has_runs_tasks_tools_and_processes(lake, whole):
    rows = [json.loads(line) for line in lake.tracer("export", "--format", "ndjson", whole).splitlines()]
    count = collections.Counter(row["entity"] for row in rows)
    assert count["run"] == 3 and count["join"] == 3
    assert count["task"] == len(lake.rows("tasks")) and count["process"] == sum(run["processes"] for run in lake.rows("runs"))


def test_otlp_is_a_tree_of_spans(lake, whole):
    trace = json.loads(lake.tracer("export", "--format", "otlp", whole))
    spans = [span for resource in trace["resourceSpans"] for scope in resource["scopeSpans"] for span in scope["spans"]]
    by_id = {span["spanId"]: span for span in spans}
    assert len(by_id) == len(spans)
    assert len({span["traceId"] for span in spans}) == 1 and all(len(span["traceId"]) == 32 for span in spans)
    roots = [span for span in spans if "parentSpanId" not in span]
    assert len(roots) == 1
    assert all(span["parentSpanId"] in by_id for span in spans if span is not roots[0])
    assert all(int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]) for span in spans)
    links = [link for span in spans for link in span.get("links", [])]
    assert links and sum(link["spanId"] in by_id for link in links) > len(links) / 2
    assert any(span["status"].get("code") == 2 for span in spans), "the part that failed is an error"
    for span in spans:
        error = [item["value"]["stringValue"] for item in span["attributes"] if item["key"] == "error.type"]
        assert error == ([span["status"]["message"]] if span["status"] else []), span
    assert {part["schemaUrl"] for resource in trace["resourceSpans"] for part in (resource, *resource["scopeSpans"])} == {
        "https://opentelemetry.io/schemas/1.44.0"}
    hosts = [{item["key"]: item["value"] for item in resource["resource"]["attributes"]} for resource in trace["resourceSpans"]]
    assert {host["host.name"]["stringValue"] for host in hosts} == {"alpha", "beta", "gamma"}
    assert {host["os.type"]["stringValue"] for host in hosts} == {"linux"}


def test_perfetto_reads_the_trace(lake, whole):
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

    trace = Trace()
    trace.ParseFromString(lake.tracer("export", "--format", "perfetto", whole))
    tracks, open_slices, names = {}, collections.Counter(), collections.Counter()
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id == 1
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
    events = sorted((packet for packet in trace.packet if packet.HasField("track_event")), key=lambda packet: packet.timestamp)
    for packet in events:
        event = packet.track_event
        assert event.track_uuid in tracks
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            open_slices[event.track_uuid] += 1
            names[event.categories[0]] += 1
        elif event.type == TrackEvent.TYPE_SLICE_END:
            open_slices[event.track_uuid] -= 1
    assert not +open_slices and not -open_slices
    assert all(not track.parent_uuid or track.parent_uuid in tracks for track in tracks.values())
    assert names["run"] == 3 and names["task"] == len(lake.rows("tasks"))
    assert names["process"] == sum(run["processes"] for run in lake.rows("runs"))
