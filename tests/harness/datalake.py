# SPDX-License-Identifier: Apache-2.0
"""A small server that speaks docs/wire.md strictly and fails on demand: what the streamer must outlive. It keeps what
it acknowledged in memory, checks every digest, CRC and number, and records each breach of the protocol by the client."""

import base64
import gzip
import hashlib
import http.server
import json
import socket
import struct
import threading
import time

TABLE = []
for _byte in range(256):
    for _ in range(8):
        _byte = (_byte >> 1) ^ (0x82F63B78 if _byte & 1 else 0)
    TABLE.append(_byte)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


class Refusal(Exception):
    def __init__(self, status, code, text, **more):
        super().__init__(text)
        self.status, self.body = status, {"error": text, "code": code, **more}


def parse(body, first, last, epoch, check_crc=True):
    """The body's frames and holes: {number: record bytes}, {number: reason}. Raises Refusal for what is not as it has to be."""
    records, holes, expected, at = {}, {}, first, 0
    while at < len(body):
        end = body.index(b"\n", at) + 1
        line = json.loads(body[at:end])
        at = end
        if "hole" in line:
            hole = line["hole"]
            if hole["first"] != expected or hole["count"] != hole["last"] - hole["first"] + 1:
                raise Refusal(400, "frame", f"hole {hole} where {expected} should be")
            for number in range(hole["first"], hole["last"] + 1):
                holes[number] = hole["reason"]
            expected = hole["last"] + 1
            continue
        if line.get("frame") != "tracer-spool-1" or line["epoch"] != epoch or line["seq"] != expected:
            raise Refusal(400, "frame", f"frame {line} where {expected} of {epoch} should be")
        text = body[at:at + line["bytes"]]
        if check_crc and f"{crc32c(text):08x}" != line["crc"]:
            raise Refusal(400, "frame", "CRC")
        lines = text.splitlines(keepends=True)
        if len(text) != line["bytes"] or len(lines) != line["records"] or not text.endswith(b"\n"):
            raise Refusal(400, "frame", "records")
        for offset, record in enumerate(lines):
            records[line["seq"] + offset] = record
        at += line["bytes"]
        expected += line["records"]
    if expected != last + 1:
        raise Refusal(400, "frame", f"ends at {expected - 1}, not {last}")
    return records, holes


class Datalake:
    """records[host][number] and holes[host][number] are what was acknowledged; faults is a list of names, one taken for
    each ingest request; refuse(number, record) makes a record that is never taken."""

    def __init__(self, address="127.0.0.1", context=None, ingest_token="ingest-secret", check_crc=True):
        self.ingest_token, self.check_crc = ingest_token, check_crc
        self.lock = threading.Lock()
        self.reset()
        lake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 30
            wbufsize = 1 << 16  # one segment for head and body

            def log_message(self, *arguments):
                pass

            def setup(self):
                if context:
                    self.request.settimeout(30)
                    self.request = context.wrap_socket(self.request, server_side=True)
                with lake.lock:
                    lake.connections += 1
                super().setup()

            def do_POST(self):
                lake.serve(self)

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            address_family = socket.AF_INET6 if ":" in address else socket.AF_INET

            def handle_error(self, request, client_address):
                with lake.lock:
                    lake.handshake_failures += 1

        self.server = Server((address, 0), Handler)
        self.port = self.server.server_address[1]
        host = f"[{address}]" if ":" in address else address
        self.url = f"{'https' if context else 'http'}://{host}:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    def reset(self):
        """As if it had just been started, with an empty store."""
        self.tokens, self.acked, self.records, self.holes = {}, {}, {}, {}
        self.faults, self.refuse = [], None
        self.breaches, self.duplicates, self.requests, self.enrolments = [], 0, 0, 0
        self.connections, self.handshake_failures, self.paths, self.times = 0, 0, [], []

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    # ---- one request

    @staticmethod
    def answer(handler, status, body, headers=()):
        text = body if isinstance(body, bytes) else json.dumps(body).encode() + b"\n"
        handler.send_response(status)
        for name, value in headers:
            handler.send_header(name, value)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)

    @staticmethod
    def cut(handler, reset=False):
        if reset:
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        handler.close_connection = True
        handler.wfile.flush()
        try:
            handler.connection.shutdown(socket.SHUT_RDWR) if not reset else handler.connection.close()
        except OSError:
            pass

    def serve(self, handler):
        length = int(handler.headers.get("Content-Length", 0))
        if handler.path.endswith("/api/v1/enrol"):
            self.enrol(handler, handler.rfile.read(length))
            return
        with self.lock:
            self.requests += 1
            self.paths.append(handler.path)
            self.times.append(time.monotonic())
            fault = self.faults.pop(0) if self.faults else None
        if fault in ("cut", "reset"):
            self.cut(handler, fault == "reset")
            return
        if fault in ("cut_body", "reset_body"):
            handler.rfile.read(length // 2)
            self.cut(handler, fault == "reset_body")
            return
        body = handler.rfile.read(length)
        if fault == "slow":
            time.sleep(1.5)
        if fault == "hang":
            time.sleep(20)
        if fault in ("408", "429", "500", "502", "503", "504", "404", "405", "401", "403", "301"):
            headers = [("Retry-After", "1")] if fault in ("429", "503") else []
            if fault == "301":
                headers = [("Location", "/stolen")]
            self.answer(handler, int(fault), {"error": "told to", "code": "test"}, headers)
            return
        if fault == "retry_date":
            self.answer(handler, 503, {"error": "later"}, [("Retry-After", handler.date_time_string(time.time() + 1))])
            return
        if fault == "digest":
            self.answer(handler, 400, {"error": "body does not match its digest", "code": "digest"})
            return
        if fault == "garbage":
            self.answer(handler, 200, b"<html>\x1b[31m captive portal \xff</html>")
            return
        if fault == "empty":
            self.answer(handler, 200, {})
            return
        if fault == "huge":
            self.answer(handler, 200, b"[" + b"1," * 200000 + b"1]")
            return
        if fault == "not_http":
            handler.wfile.write(b"\x00\x01 nonsense\r\n\r\n" * 4)
            self.cut(handler)
            return
        try:
            status, answer = self.ingest(handler, body)
        except Refusal as refusal:
            status, answer = refusal.status, refusal.body
        except Exception as error:  # a body that cannot be read is the client's breach
            self.breaches.append(repr(error))
            status, answer = 400, {"error": repr(error), "code": "frame"}
        if fault == "forget_answer":
            self.cut(handler)
            return
        if fault == "half_answer":
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n{\"acked\":")
            self.cut(handler)
            return
        if fault == "lie_high" and status == 200:
            answer = {"acked": 1 << 62}
        if fault == "lie_low" and status == 200:
            answer = {"acked": 0}
        self.answer(handler, status, answer)

    def enrol(self, handler, body):
        with self.lock:
            self.enrolments += 1
        if handler.headers.get("Authorization") != f"Bearer {self.ingest_token}":
            self.answer(handler, 401, {"error": "no such ingest token", "code": "token"})
            return
        host = json.loads(body)["host_id"]
        token = "agent-" + hashlib.sha256(host.encode()).hexdigest()[:32]
        self.tokens[token] = host
        self.answer(handler, 200, {"token": token})

    def ingest(self, handler, body):
        headers = handler.headers
        token = headers.get("Authorization", "")[7:]
        if self.tokens.get(token) != headers["Tracer-Host"]:
            raise Refusal(401, "token", "no such agent token")
        if headers["Content-Type"] != "application/x-ndjson" or headers["Content-Encoding"] != "gzip":
            raise Refusal(400, "encoding", "type")
        digest = "sha-256=:" + base64.b64encode(hashlib.sha256(body).digest()).decode() + ":"
        if headers["Content-Digest"] != digest:
            self.breaches.append("digest")
            raise Refusal(400, "digest", "digest")
        first, last = map(int, headers["Tracer-Sequence"].split("-"))
        host, epoch, after = headers["Tracer-Host"], headers["Tracer-Epoch"], int(headers["Tracer-After"])
        try:
            records, holes = parse(gzip.decompress(body), first, last, epoch, self.check_crc)
        except Refusal as refusal:
            self.breaches.append(refusal.body)
            raise
        with self.lock:
            acked = self.acked.setdefault((host, epoch), after)
            if first > acked + 1:
                raise Refusal(409, "sequence", f"acknowledged up to {acked}", acked=acked)
            if self.refuse:
                for index, (number, record) in enumerate(sorted(records.items())):
                    if number > acked and self.refuse(number, record):
                        raise Refusal(400, "schema", "a record nobody can read", record=index, sequence=number)
            kept, kept_holes = self.records.setdefault(host, {}), self.holes.setdefault(host, {})
            for number, record in records.items():
                if number <= acked:
                    continue
                if number in kept or number in kept_holes:
                    self.duplicates += 1
                kept[number] = record
            for number, reason in holes.items():
                if number > acked:
                    kept_holes[number] = reason
            self.acked[host, epoch] = max(acked, last)
            return 200, {"acked": self.acked[host, epoch]}

    # ---- what a test asks

    @property
    def host(self):
        assert len(self.records) <= 1, list(self.records)
        return next(iter(self.records), None)

    def numbers(self):
        return sorted(self.records.get(self.host, {}))
