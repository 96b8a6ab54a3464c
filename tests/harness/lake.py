# SPDX-License-Identifier: Apache-2.0
"""The real `tracer datalake` for tests, and an agent that speaks its wire (docs/wire.md) byte by byte."""

import base64
import gzip
import hashlib
import http.client
import json
import pathlib
import shutil
import signal
import socket
import sqlite3
import ssl
import subprocess
import tempfile
import time
import uuid

from harness import tracer
from harness.port import free_port

CRC_TABLE = []
for _n in range(256):
    for _ in range(8):
        _n = (_n >> 1) ^ 0x82F63B78 if _n & 1 else _n >> 1
    CRC_TABLE.append(_n)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


class Lake:
    """One datalake in a directory of its own, on a free port of loopback; with tls on another, too."""

    def __init__(self, tls=False, options=(), binary=None):
        # Not below pytest's own directory: as root it becomes another user, who must get through to this one.
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="tracer-lake."))
        self.base.chmod(0o755)
        self.directory = self.base / "lake"
        self.binary = str(binary or tracer.BINARY)
        self.port = free_port()
        self.tls_port = free_port() if tls else None
        self.options = list(options)
        if "asan" in self.binary:
            self.options.append("--sandbox=false")  # the sanitizers read /proc when they report
        self.process = None
        self.log = self.base / "log"

    @property
    def listen(self):
        return f"127.0.0.1:{self.port}" + (f",127.0.0.2:{self.tls_port}" if self.tls_port else "")

    def arguments(self, *words):
        return [self.binary, "datalake", *words, "--store", f"sqlite:{self.directory}", "--listen", self.listen]

    def start(self):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([*self.arguments(), *self.options], stdout=log, stderr=log)
        for _ in range(600):
            if self.process.poll() is not None:
                raise AssertionError("the datalake ended: " + self.log.read_text())
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                time.sleep(0.05)
        raise AssertionError("the datalake does not listen: " + self.log.read_text())

    def stop(self, by=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(by)
            self.process.wait(60)
        return self.process.returncode if self.process else None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.base, ignore_errors=True)

    def command(self, *words, check=True):
        done = subprocess.run(self.arguments(*words), capture_output=True, text=True, timeout=60)
        if check:
            assert done.returncode == 0, done.stderr
        return done

    def token(self, role, *more):
        return self.command("token", "create", "--role", role, *more).stdout.strip()

    def rss_bytes(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")

    def connect(self, timeout=20):
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def request(self, method, path, body=None, headers=None):
        """Status, headers, body (parsed when it is JSON) of one request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            text = answer.read()
            if answer.headers.get_content_type() == "application/json":
                text = json.loads(text)
            return answer.status, answer.headers, text
        finally:
            connection.close()

    def raw(self, data, timeout=20, shut=False):
        """What comes back for these bytes, until the server hangs up or is silent."""
        with self.connect(timeout) as link:
            link.sendall(data)
            if shut:
                link.shutdown(socket.SHUT_WR)
            return read_all(link)

    def rows(self, sql):
        with sqlite3.connect(f"file:{self.directory}/lake.db?mode=ro", uri=True) as store:
            return store.execute(sql).fetchall()

    def count(self, table="processes"):
        return self.rows(f"SELECT count(*) FROM {table}")[0][0]


def read_all(link):
    data = b""
    try:
        while part := link.recv(65536):
            data += part
    except (TimeoutError, ConnectionResetError, ssl.SSLError):
        pass
    return data


def status_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else None


def process(number, **more):
    """A record of kind process as a collector writes it, the least there may be."""
    record = {
        "kind": "process", "time_ns": 1_790_000_000_000_000_000 + number, "host": "test-host",
        "boot": "11111111-1111-4111-8111-111111111111", "pid": 1000 + number, "ppid": 1,
        "start_ns": 1_790_000_000_000_000_000 + number, "end_ns": 1_790_000_000_001_000_000 + number,
        "start_boot_ns": 1_000_000 + number, "comm": "true", "exe": "/bin/true", "args": ["true"], "cpu_ns": 1000 + number,
        "quality": {},
    }
    record.update(more)
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def frame(epoch, first, records, kind="p"):
    """A frame line with its records, as core/spool_format.h has it."""
    data = b"".join(records)
    line = (
        f'{{"frame":"tracer-spool-1","class":"{kind}","epoch":"{epoch:016x}","seq":{first:20d},"records":{len(records):8d},'
        f'"bytes":{len(data):8d},"time_ns":{1_790_000_000_000_000_000:20d},"crc":"{crc32c(data):08x}"'
    ).encode()
    return line + f',"check":"{crc32c(line):08x}"}}\n'.encode() + data


def hole(first, last, reason="cap", count=None):
    body = {"hole": {"first": first, "last": last, "count": last - first + 1 if count is None else count, "reason": reason}}
    return json.dumps(body, separators=(",", ":")).encode() + b"\n"


class Agent:
    """An agent that is enrolled, with its place in its epoch."""

    def __init__(self, lake, ingest_token, host_id=None, epoch=0xABCDEF0123456789):
        self.lake = lake
        self.host_id = host_id or str(uuid.uuid4())
        self.epoch = epoch
        self.acked = 0
        self.token = None
        if ingest_token:
            status, _, answer = self.enrol(ingest_token)
            assert status == 200, answer
            self.token = answer["token"]

    def enrol(self, token):
        body = json.dumps({"host_id": self.host_id, "host": "test-host", "machine_id": "0" * 32})
        return self.lake.request("POST", "/api/v1/enrol", body, {"Authorization": f"Bearer {token}"})

    def headers(self, body, first, last, **more):
        headers = {
            "Authorization": f"Bearer {self.token}", "Content-Type": "application/x-ndjson", "Content-Encoding": "gzip",
            "Content-Digest": "sha-256=:" + base64.b64encode(hashlib.sha256(body).digest()).decode() + ":",
            "Tracer-Host": self.host_id, "Tracer-Epoch": f"{self.epoch:016x}", "Tracer-Sequence": f"{first}-{last}",
            "Tracer-After": str(first - 1),
        }
        for name, value in more.items():
            name = name.replace("_", "-")
            headers.pop(name, None)
            if value is not None:
                headers[name] = value
        return headers

    def post(self, text, first, last, **more):
        """Sends frames and holes as one batch. Header members may be changed, or left out with None."""
        body = gzip.compress(text)
        return self.lake.request("POST", "/api/v1/ingest", body, self.headers(body, first, last, **more))

    def batch(self, count, first=None):
        """Frames of count process records from first on (the next number)."""
        first = first or self.acked + 1
        return frame(self.epoch, first, [process(first + i) for i in range(count)])

    def send(self, count):
        first = self.acked + 1
        status, _, answer = self.post(self.batch(count), first, first + count - 1)
        assert status == 200, answer
        self.acked = answer["acked"]
        return answer

    def bytes(self, text, first, last, **more):
        """The whole request as bytes, for who sends it in pieces."""
        body = gzip.compress(text)
        head = "POST /api/v1/ingest HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        headers = {"Content-Length": str(len(body)), **self.headers(body, first, last, **more)}
        head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return head.encode() + b"\r\n" + body
