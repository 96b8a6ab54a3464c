# SPDX-License-Identifier: Apache-2.0
"""The datalake pushes to an OpenTelemetry collector: through refusals and restarts, each ended run, and metrics."""

import http.server
import json
import subprocess
import threading
import time

import pytest

from e2e import engines
from e2e.test_world import as_other_run, wait_for
from harness import certificates as made
from harness import tracer
from harness.posting import Lake


class Receiver:
    """Takes OTLP/HTTP and keeps it; answers with the statuses it is given first."""

    def __init__(self, context=None):
        self.statuses, self.taken, self.seen, self.secrets = [], [], 0, set()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):  # pylint: disable=invalid-name
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                assert self.headers["Content-Type"] == "application/json"
                receiver.seen += 1
                receiver.secrets.add(self.headers["Authorization"])
                status = receiver.statuses.pop(0) if receiver.statuses else 200
                if status == 200:
                    receiver.taken.append((self.path, body))
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None  # who does not trust us hangs up
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def of(self, path):
        return [body for where, body in self.taken if where == path]

    def traces(self):
        """Trace ids, each with how many spans came."""
        found = {}
        for body in self.of("/v1/traces"):
            spans = [span for resource in body["resourceSpans"] for scope in resource["scopeSpans"] for span in scope["spans"]]
            found[spans[0]["traceId"]] = len(spans)
        return found


def record(folder):
    return tracer.run(["sh", "-c", "seq 1 1000 | sort >/dev/null; gzip -c /bin/sh >/dev/null; sleep 2.2"], folder / "out.ndjson", cwd=folder,
                      check=0)


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    return record(tmp_path_factory.mktemp("recording"))


def test_over_tls_with_a_secret_to_whom_the_authority_vouches_for(recording, tmp_path):
    authority, other = made.authority(), made.authority("Another")
    server = made.Certificate("collector", authority, names=["127.0.0.1"], extended=[made.SERVER])
    receiver = Receiver(made.server_context(tmp_path, server))
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    (tmp_path / "other.pem").write_bytes(other.pem)
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_text("Authorization: Bearer push-secret\n\nX-Scope-OrgID: 7\n")
    options = ["--otlp-endpoint", f"https://127.0.0.1:{receiver.port}", "--otlp-interval", "1s", "--otlp-header-file", secret, "--otlp-ca-file"]
    with Lake(tmp_path / "lake", *options, tmp_path / "other.pem") as lake:
        lake.agent("alpha").post(as_other_run(recording.records, 1))
        wait_for(lambda: b"tracer_lake_push_failures_total 0" not in lake.get("/metrics"))
        assert not receiver.seen  # not a byte, the secret least of all
    with Lake(tmp_path / "lake", *options, tmp_path / "ca.pem"):
        wait_for(lambda: receiver.traces(), 40)
    assert receiver.secrets == {"Bearer push-secret"}
    bad = tmp_path / "bad"
    bad.touch(mode=0o600)
    bad.write_text("no header\n")

    def refused(endpoint, file):
        done = subprocess.run([tracer.BINARY, "datalake", "--listen", "127.0.0.1:0", *lake.common, "--otlp-endpoint", endpoint,
                               "--otlp-header-file", file], capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode in (2, 3) and "push-secret" not in done.stderr, done.stderr
        return done.stderr

    assert "Name: value" in refused("https://127.0.0.1:1", bad)
    assert "https:// only" in refused("http://192.0.2.1:4318", secret)
    secret.chmod(0o640)
    assert "chmod 600" in refused("https://127.0.0.1:1", secret)


def test_ended_runs_and_metrics_arrive_through_refusals_and_restarts(recording, tmp_path):
    receiver = Receiver()
    options = ["--otlp-endpoint", f"http://127.0.0.1:{receiver.port}/", "--otlp-interval", "1s"]
    receiver.statuses = [503, 429, 500]
    with Lake(tmp_path / "lake", *options) as lake:
        time.sleep(1)
        agent = lake.agent("alpha")
        agent.post(as_other_run(recording.records, 1))
        wait_for(lambda: len(receiver.traces()) == 1, 40)
        assert not receiver.statuses
        wait_for(lambda: b"tracer_lake_pushed_traces_total 1" in lake.get("/metrics"))
        assert b"tracer_lake_push_failures_total 3" in lake.get("/metrics")
    # What ends while it is down for everybody is pushed after the restart, and what was pushed is not pushed again.
    with Lake(tmp_path / "lake") as lake:
        lake.agent("beta").post(as_other_run(recording.records, 2))
    with Lake(tmp_path / "lake", *options) as lake:
        wait_for(lambda: len(receiver.traces()) == 2, 40)
        time.sleep(3)
        runs = lake.rows("runs")
    assert len(receiver.of("/v1/traces")) == len(runs) == 2
    spans = sum(run["processes"] + run["tasks"] + 1 for run in runs)
    assert sum(receiver.traces().values()) == spans
    metrics = receiver.of("/v1/metrics")[-1]["resourceMetrics"]
    sums = {}
    for resource in metrics:
        for metric in resource["scopeMetrics"][0]["metrics"]:
            assert metric["sum"]["isMonotonic"] and metric["sum"]["aggregationTemporality"] == 2
            sums[metric["name"]] = sums.get(metric["name"], 0) + sum(
                point.get("asDouble", 0) + int(point.get("asInt", 0)) for point in metric["sum"]["dataPoints"])
    expected = sum(process["cpu_ns"] for process in recording.processes) * 2 / 1e9
    assert sums["process.cpu.time"] == pytest.approx(expected, rel=1e-3)
    assert sums["tracer.processes"] == 2 * len(recording.processes)


def test_what_is_no_address_is_refused(tmp_path):
    done = subprocess.run([tracer.BINARY, "datalake", "--listen", "127.0.0.1:0", "--store", f"sqlite:{tmp_path}", "--state", tmp_path,
                           "--user", "root", "--otlp-endpoint", "collector:4318"], capture_output=True, timeout=30, check=False)
    assert done.returncode == 2 and b"otlp_endpoint" in done.stderr


@pytest.mark.long
def test_a_real_collector_takes_runs_and_metrics(tmp_path):
    binary = engines.collector()
    recording = record(tmp_path)  # building the other may have taken longer than figures of a host count as those of now
    out, port = tmp_path / "out.json", 24318
    (tmp_path / "config.yaml").write_text(f"""
receivers: {{otlp: {{protocols: {{http: {{endpoint: 127.0.0.1:{port}}}}}}}}}
exporters: {{file: {{path: {out}}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    traces: {{receivers: [otlp], exporters: [file]}}
    metrics: {{receivers: [otlp], exporters: [file]}}
""")
    with open(tmp_path / "collector.log", "wb") as log:
        collector = subprocess.Popen([binary, "--config", tmp_path / "config.yaml"], stdout=log, stderr=log)
    try:
        with Lake(tmp_path / "lake", "--otlp-endpoint", f"http://127.0.0.1:{port}", "--otlp-interval", "1s") as lake:
            lake.agent("alpha").post(recording.records)
            run = wait_for(lambda: lake.rows("runs"))[0]
            wait_for(lambda: out.exists() and b"resourceSpans" in out.read_bytes() and b"resourceMetrics" in out.read_bytes(), 60)
            time.sleep(2)
    finally:
        collector.terminate()
        collector.wait(timeout=30)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    spans = [span for line in lines for resource in line.get("resourceSpans", []) for scope in resource["scopeSpans"]
             for span in scope["spans"]]
    assert len(spans) == run["processes"] + run["tasks"] + 1
    # The collector wrote what it understood: ids, times, links and attributes came through whole.
    sent = json.loads(tracer_export(lake, run["id"], tmp_path))
    expected = {span["spanId"]: span for resource in sent["resourceSpans"] for scope in resource["scopeSpans"] for span in scope["spans"]}
    for span in spans:
        want = expected[span["spanId"]]
        assert (span["traceId"], span["startTimeUnixNano"], span["endTimeUnixNano"], span["name"]) == (
            want["traceId"], want["startTimeUnixNano"], want["endTimeUnixNano"], want["name"])
        assert len(span["attributes"]) == len(want["attributes"])
    names = {metric["name"] for line in lines for resource in line.get("resourceMetrics", []) for scope in resource["scopeMetrics"]
             for metric in scope["metrics"]}
    assert {"process.cpu.time", "process.disk.io", "process.context_switches", "process.paging.faults", "system.cpu.time"} <= names


def tracer_export(lake, run_id, folder):
    """From the store itself: the datalake is down by then."""
    del folder
    done = subprocess.run([tracer.BINARY, "export", "--format", "otlp", "--store", lake.folder / "store", run_id], capture_output=True,
                          timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
