# SPDX-License-Identifier: Apache-2.0
"""A real `tracer datalake` on loopback with a store of its own, and agents that post recordings to it over the wire, each
under a host's name of its choice."""

import base64
import gzip
import hashlib
import json
import re
import subprocess
import time
import urllib.error
import urllib.request
import uuid

from harness import tracer
from harness.datalake import crc32c


class Lake:
    """Stopped by stop(), or at the end of a with statement."""

    def __init__(self, folder, *options, store=None):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "datalake.log"
        self.common = ["--store", store or f"sqlite:{folder}/store", "--state", f"{folder}/state", "--user", "root"]
        (folder / "store").mkdir(exist_ok=True)
        (folder / "state").mkdir(exist_ok=True)
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([tracer.BINARY, "datalake", "--listen", "127.0.0.1:0", *self.common, *options],
                                            stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.port = int(self._wait(r"listening on http://127\.0\.0\.1:(\d+)"))
        self._wait(r"(taking batches)")
        self.url = f"http://127.0.0.1:{self.port}"
        self.token_file = folder / "token"
        self.token_file.write_text(self.token("admin"))
        self.token_file.chmod(0o600)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def _wait(self, pattern, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = re.search(pattern, self.log.read_text())
            if found:
                return found[1]
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        raise AssertionError(f"no {pattern} in {self.log.read_text()}")

    def token(self, role):
        done = subprocess.run([tracer.BINARY, "datalake", "token", "create", "--role", role, "--json", *self.common],
                              capture_output=True, text=True, check=True, timeout=30)
        return json.loads(done.stdout)["token"]

    def ask(self, path, data=None, token=None, **headers):
        """Status, headers and body of an answer."""
        request = urllib.request.Request(self.url + path, data=data, headers={
            "Authorization": f"Bearer {token or self.token_file.read_text()}",
            **{name.replace("_", "-"): value for name, value in headers.items()}})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    def get(self, path):
        status, _, body = self.ask(path)
        assert status == 200, (path, status, body[:500])
        return body

    def rows(self, entity, **where):
        query = "&".join(f"{name}={value}" for name, value in where.items())
        return [json.loads(line) for line in self.get(f"/api/v1/{entity}?format=ndjson&limit=10000&{query}").splitlines()]

    def agent(self, host=None, host_id=None):
        return Agent(self, host, host_id)

    def tracer(self, *words, check=0):
        """A command that reads this lake; its output."""
        done = subprocess.run([tracer.BINARY, *words, "--url", self.url, "--token-file", self.token_file],
                              capture_output=True, timeout=120, check=False)
        assert done.returncode == check, (words, done.returncode, done.stderr.decode())
        return done.stdout

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        assert self.process.wait(timeout=60) == 0, self.log.read_text()[-3000:]


class Agent:
    """Posts records in order, as one host. host None: the name they were recorded under."""

    def __init__(self, lake, host=None, host_id=None):
        self.lake, self.host, self.sequence = lake, host, 0
        self.host_id = host_id or str(uuid.uuid4())
        self.epoch = uuid.uuid4().hex[:16]
        body = json.dumps({"host_id": self.host_id, "host": host or "host", "machine_id": uuid.uuid4().hex}).encode()
        status, _, answer = lake.ask("/api/v1/enrol", body, lake.token("ingest"), Content_Type="application/json")
        assert status == 200, (status, answer)
        self.token = json.loads(answer)["token"]

    def post(self, records, size=5000):
        records = list(records)
        for at in range(0, len(records), size):
            self._post(records[at:at + size])

    def _post(self, records):
        lines = []
        for record in records:
            record = json.loads(record) if isinstance(record, (str, bytes)) else dict(record)
            record["host"] = self.host or record["host"]
            lines.append(json.dumps(record, separators=(",", ":")).encode() + b"\n")
        text = b"".join(lines)
        first, last = self.sequence + 1, self.sequence + len(lines)
        frame = (f'{{"frame":"tracer-spool-1","class":"p","epoch":"{self.epoch}","seq":{first:20},"records":{len(lines):8},'
                 f'"bytes":{len(text):8},"time_ns":{time.time_ns():20},"crc":"{crc32c(text):08x}"').encode()
        frame += f',"check":"{crc32c(frame):08x}"}}\n'.encode()
        body = gzip.compress(frame + text)
        digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
        status, _, answer = self.lake.ask(
            "/api/v1/ingest", body, self.token, Content_Type="application/x-ndjson", Content_Encoding="gzip",
            Content_Digest=f"sha-256=:{digest}:", Tracer_Host=self.host_id, Tracer_Epoch=self.epoch,
            Tracer_Sequence=f"{first}-{last}", Tracer_After=str(self.sequence))
        assert status == 200, (status, answer)
        assert json.loads(answer)["acked"] == last
        self.sequence = last
