#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ClickHouse for tests: the real engine (chDB) behind the HTTP interface of a ClickHouse server, on loopback.

    clickhouse_server.py DIRECTORY [--port N] [--user U --password P] [--certificate PEM --key PEM]

Prints 'port N' when it listens. What a request means (query, settings, parameters, formats, errors) is left to the
engine; this file only carries it over HTTP as the server does. Each request has an engine connection of its own, so its
settings end with it. DIRECTORY is the engine's store and outlives a kill of this process.

Faults for tests: POST /_fault with {"match": REGEX, "when": "before"|"after", "action": "cut"|"die"|"hang"|"fail"|
"wait", "seconds": S, "skip": N, "times": N} applies the action to requests whose query matches, before or after the
engine ran it. POST /_fault with {} clears. GET /_log gives the queries so far.
"""

import argparse
import base64
import gzip
import http.server
import json
import os
import re
import signal
import socket
import ssl
import sys
import threading
import time
import urllib.parse

from chdb.state import sqlitelike

NOT_SETTINGS = {"query", "database", "user", "password", "default_format", "query_id", "session_id", "quota_key",
                "session_timeout", "session_check", "compress", "decompress", "wait_end_of_query", "buffer_size",
                "close_session", "role"}
STATUS = {516: 403, 192: 403, 193: 403, 194: 401, 497: 403, 164: 500, 60: 404, 81: 404, 47: 404, 36: 400, 62: 400,
          27: 400, 26: 400, 6: 400, 115: 404, 456: 400, 457: 400, 48: 501, 159: 408}
INSERT = re.compile(rb"\s*INSERT\b", re.I)
FORMAT_AT = re.compile(rb"\bFORMAT\s+([A-Za-z0-9]+)\s*(;?\s*)$", re.I)
SETTING_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Engine:
    """Opens connections to one store. The engine allows many in a process, each with settings of its own."""

    def __init__(self, directory):
        self.directory = directory
        self.keep = sqlitelike.Connection(directory)

    def connect(self):
        return sqlitelike.Connection(self.directory)


class EngineError(Exception):
    def __init__(self, text):
        text = re.sub(r"^(Streaming insert (append|finish) failed: )", "", text)
        found = re.search(r"Code: (\d+)", text)
        self.code = int(found.group(1)) if found else 1001
        self.text = text if found else "Code: 1001. DB::Exception: " + text
        super().__init__(self.text)


def quoted(value):
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def prepare(connection, pairs):
    """Puts the URL's settings into force."""
    for name, _ in pairs:
        if not SETTING_NAME.fullmatch(name):
            raise EngineError("Code: 115. DB::Exception: Unknown setting %r. (UNKNOWN_SETTING)" % name)
    if pairs:  # in one statement, as a server would take them: each costs about what a small question does
        connection.query("SET " + ", ".join("%s = %s" % (name, quoted(value)) for name, value in pairs))


def run(engine, query, data, url):
    """One request: (body, format, rows written or None). An INSERT's data follows the query or is in the body."""
    connection = engine.connect()
    try:
        prepare(connection, [(n, v) for n, v in url if n not in NOT_SETTINGS and not n.startswith("param_")])
        parameters = {n[6:]: v for n, v in url if n.startswith("param_")}
        database = dict(url).get("database")
        if database:
            connection.query("USE `%s`" % database.replace("`", ""))
        wanted = dict(url).get("default_format", "TabSeparated")
        if INSERT.match(query):
            at = FORMAT_AT.search(query)
            if at and data:
                inserter = connection.send_insert(query[:at.start()].decode(), at.group(1).decode())
                try:
                    for start in range(0, len(data), 1 << 20):
                        inserter.append(data[start:start + (1 << 20)])
                    return b"", wanted, inserter.finish().rows_written
                except Exception:
                    inserter.cancel()
                    raise
        at = FORMAT_AT.search(query)
        if at:
            wanted = at.group(1).decode()
        result = connection.query(query.decode(), wanted, params=parameters)
        return (result.bytes() or b""), wanted, None
    except EngineError:
        raise
    except Exception as error:  # the engine's own, of several types
        raise EngineError(str(error)) from None
    finally:
        connection.close()


class Faults:
    def __init__(self):
        self.lock = threading.Lock()
        self.rules = []
        self.log = []

    def take(self, when, query):
        with self.lock:
            if when == "before":
                self.log.append(query)
            for rule in self.rules:
                if rule.get("when", "before") != when or not re.search(rule["match"], query):
                    continue
                if rule.get("skip", 0) > 0:
                    rule["skip"] -= 1
                    continue
                if rule.get("times", 1) > 0:
                    rule["times"] = rule.get("times", 1) - 1
                    return rule
        return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "ClickHouse"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            data = b"".join(parts)
        else:
            length = int(self.headers.get("Content-Length", 0))
            data = self.rfile.read(length)
            if len(data) < length:
                raise ConnectionError("the client stopped in the middle of its body")
        return gzip.decompress(data) if self.headers.get("Content-Encoding") == "gzip" else data

    def answer(self, status, data, headers=()):
        if "gzip" in self.headers.get("Accept-Encoding", "") and self.compress and len(data) > 1000:
            data, headers = gzip.compress(data, 1), [*headers, ("Content-Encoding", "gzip")]
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def fail(self, error):
        text = error.text + ("" if "(version" in error.text else " (version %s)" % self.server.version) + "\n"
        self.answer(STATUS.get(error.code, 500), text.encode(), [
            ("Content-Type", "text/plain; charset=UTF-8"), ("X-ClickHouse-Exception-Code", str(error.code))])

    def known(self, url):
        user, password = self.headers.get("X-ClickHouse-User"), self.headers.get("X-ClickHouse-Key", "")
        basic = self.headers.get("Authorization", "")
        if user is None and basic.startswith("Basic "):
            user, _, password = base64.b64decode(basic[6:]).decode().partition(":")
        if user is None:
            user, password = dict(url).get("user", "default"), dict(url).get("password", "")
        return (user, password) == self.server.account

    def fault(self, when, query):
        rule = self.server.faults.take(when, query)
        if not rule:
            return False
        action = rule["action"]
        if action == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if action in ("hang", "wait"):
            time.sleep(float(rule.get("seconds", 3600)))
            if action == "wait":
                return False
        if action == "fail":
            raise EngineError("Code: %d. DB::Exception: a fault of the test" % rule.get("code", 999))
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True
        return True

    def do_GET(self):
        parts = urllib.parse.urlsplit(self.path)
        self.compress = False
        if parts.path == "/ping":
            return self.answer(200, b"Ok.\n")
        if parts.path == "/_log":
            return self.answer(200, json.dumps(self.server.faults.log).encode())
        return self.query(parts, b"", [("readonly", "1")])

    def do_POST(self):
        parts = urllib.parse.urlsplit(self.path)
        self.compress = False
        data = self.body()
        if parts.path == "/_fault":
            rule = json.loads(data)
            with self.server.faults.lock:
                self.server.faults.rules = self.server.faults.rules + [rule] if rule else []
                self.server.faults.log.clear()
            return self.answer(200, b"")
        return self.query(parts, data, [])

    def query(self, parts, data, more):
        try:
            url = urllib.parse.parse_qsl(parts.query, keep_blank_values=True) + more
            self.compress = dict(url).get("enable_http_compression") == "1"
            if not self.known(url):
                raise EngineError("Code: 516. DB::Exception: %s: Authentication failed: password is incorrect, or there "
                                  "is no user with such name. (AUTHENTICATION_FAILED)" % self.server.account[0])
            query = dict(url).get("query", "").encode()
            if not query:
                query, data = data, b""
            text = query[:20000].decode("utf-8", "replace")
            if self.fault("before", text):
                return
            started = time.monotonic()
            result, form, written = run(self.server.engine, query, data, url)
            if self.fault("after", text):
                return
            summary = {"written_rows": str(written or 0), "elapsed_ns": str(int((time.monotonic() - started) * 1e9))}
            self.answer(200, result, [
                ("Content-Type", "text/plain; charset=UTF-8"), ("X-ClickHouse-Format", form),
                ("X-ClickHouse-Server-Display-Name", "chdb"), ("X-ClickHouse-Summary", json.dumps(summary))])
        except EngineError as error:
            self.fail(error)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    tls = None

    def handle_error(self, request, address):
        pass  # a client that went away

    def finish_request(self, request, address):
        if self.tls:
            request = self.tls.wrap_socket(request, server_side=True)
        super().finish_request(request, address)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--user", default="default")
    parser.add_argument("--password", default="")
    parser.add_argument("--certificate")
    parser.add_argument("--key")
    options = parser.parse_args()
    server = Server(("127.0.0.1", options.port), Handler)
    server.engine = Engine(options.directory)
    server.version = server.engine.keep.query("SELECT version()", "TabSeparatedRaw").bytes().decode().strip()
    server.account = (options.user, options.password)
    server.faults = Faults()
    if options.certificate:
        server.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.tls.load_cert_chain(options.certificate, options.key)
    print("port", server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())
