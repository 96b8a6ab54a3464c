# SPDX-License-Identifier: Apache-2.0
"""A ClickHouse of the test's own: the real engine behind tests/harness/clickhouse_server.py."""

import contextlib
import itertools
import json
import os
import pathlib
import subprocess
import sys
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVER = ROOT / "tests/harness/clickhouse_server.py"
UNIT = ROOT / "build/asan/unit"
BINARY = ROOT / "build/tracer"
PASSWORD = "secret-of-the-test"
ENVIRONMENT = dict(os.environ, ASAN_OPTIONS="detect_leaks=1", UBSAN_OPTIONS="print_stacktrace=1")


class ClickHouse:
    def __init__(self, directory):
        self.directory = directory
        self.databases = itertools.count(1)
        self.process = None
        self.port = 0
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, SERVER, self.directory, "--port", str(self.port), "--password", PASSWORD],
            stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("port "), f"the server did not start: {line!r}"
        self.port = int(line.split()[1])

    def stop(self):
        self.process.kill()
        self.process.wait()

    def restart(self):
        self.process.wait(timeout=60)
        self.start()

    @property
    def url(self):
        return f"clickhouse://default:{PASSWORD}@127.0.0.1:{self.port}"

    def database(self, options="fsync=0"):
        return f"{self.url}/db{next(self.databases)}?{options}"

    def post(self, path, data):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=data.encode(),
                                         headers={"X-ClickHouse-User": "default", "X-ClickHouse-Key": PASSWORD})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read().decode()

    def query(self, text):
        return self.post("/", text)

    def fault(self, **rule):
        self.post("/_fault", json.dumps(rule))

    def log(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/_log", timeout=60) as answer:
            return json.loads(answer.read())


@pytest.fixture(scope="session")
def clickhouse(tmp_path_factory):
    server = ClickHouse(str(tmp_path_factory.mktemp("clickhouse") / "store"))
    with contextlib.closing(contextlib.ExitStack()) as stack:
        stack.callback(server.stop)
        yield server


def writer(*arguments, **options):
    return subprocess.Popen([UNIT / "clickhouse_writer", *map(str, arguments)], stdout=subprocess.PIPE, text=True,
                            **{"env": ENVIRONMENT, **options})


def write(url, *arguments):
    """Runs a writer to its end: everything must be acknowledged."""
    process = writer(url, "write", *arguments)
    output = process.communicate(timeout=120)[0]
    assert process.returncode == 0, output
    return output
