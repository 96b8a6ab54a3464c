# SPDX-License-Identifier: Apache-2.0
"""From a host's processes to the datalake's tables: a real collector, its child, TLS, a real datalake, which is killed
again and again. What is in the store at the end is what the spool held, record by record."""

import json
import os
import random
import re
import select
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest

from harness.datalake import Datalake
from harness.port import free_port
from harness.tracer import BINARY

LONG = bool(os.environ.get("TEST_LONG"))


@pytest.fixture(scope="module")
def room():
    path = Path(tempfile.mkdtemp(prefix="tracer-stream-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


class Lake:
    """A real `tracer datalake` with its own store, over TLS with the certificate it made itself."""

    def __init__(self, folder):
        self.folder, self.port = folder, free_port()
        self.store = f"sqlite:{folder}/store"
        self.log = open(folder / "lake.log", "ab")
        self.process = None
        self.start()
        try:
            self.enrolment(folder)
        except BaseException:
            self.close()
            raise

    def enrolment(self, folder):
        self.token = folder / "token"
        self.token.write_text(self.ask("token", "create", "--role", "ingest").split()[-1] + "\n")
        self.token.chmod(0o600)
        self.pin = re.search(r"sha256//\S+", self.ask("certificate"))[0]
        self.options = ["--stream-url", f"https://127.0.0.1:{self.port}", "--stream-token-file", str(self.token),
                        "--stream-pin", self.pin]

    def start(self):
        before = (self.folder / "lake.log").stat().st_size
        self.process = subprocess.Popen([BINARY, "datalake", "--listen", f"127.0.0.1:{self.port}", "--store", self.store,
                                         "--tls", "on", "--user", "root"], stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            assert self.process.poll() is None, (self.folder / "lake.log").read_text()
            if b"taking batches" in (self.folder / "lake.log").read_bytes()[before:]:
                return
            time.sleep(0.01)
        raise AssertionError("the datalake does not start")

    def ask(self, *words):
        return subprocess.run([BINARY, "datalake", *words, "--store", self.store, "--user", "root"], check=True, text=True,
                              stdout=subprocess.PIPE).stdout

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        self.process.wait(timeout=20)

    def sql(self, question):
        with sqlite3.connect(f"file:{self.folder}/store/lake.db?mode=ro", uri=True, timeout=20) as store:
            return store.execute(question).fetchall()

    def close(self):
        self.kill(signal.SIGTERM)
        self.log.close()


@pytest.fixture
def lake(room):
    made = Lake(Path(tempfile.mkdtemp(dir=room)))
    yield made
    made.close()


def dump(spool):
    done = subprocess.run([BINARY, "spool", "dump", spool], stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def stats(spool):
    return json.loads(subprocess.run([BINARY, "spool", "stats", "--json", spool], stdout=subprocess.PIPE, check=True).stdout)


def collect(spool, socket_path, options=()):
    return subprocess.Popen([BINARY, "collect", "--spool", spool, "--status-socket", socket_path,
                             "--status-processes-socket", "", "--sample-interval", "1s", *options],
                            stderr=subprocess.PIPE, text=True)


def status(socket_path):
    done = subprocess.run([BINARY, "status", "--json", "--socket", socket_path], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True)
    return json.loads(done.stdout) if done.stdout else None


def wait_for(condition, seconds=60, process=None):
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert not process or process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline, "in vain"
        time.sleep(0.05)
    return result


def processes(count):
    subprocess.run(["sh", "-c", f"i=0; while [ $i -lt {count} ]; do /bin/true; i=$((i+1)); done"], check=True)


@pytest.fixture(scope="module")
def recorded(room):
    """A spool of a collector that delivers nowhere, with what it holds."""
    spool = room / "recorded"
    collector = collect(spool, room / "recorded.sock")
    wait_for(lambda: (status(room / "recorded.sock") or {}).get("stream", "") is None, process=collector)
    processes(1500)
    time.sleep(1.5)
    collector.send_signal(signal.SIGTERM)
    assert collector.wait(timeout=30) in (0, 1)
    records = dump(spool)
    assert sum(record["kind"] == "process" for record in records) >= 1500
    return spool, records


def same_as_source(lake, records):
    """Counts and sums, exactly."""
    ended = [record for record in records if record["kind"] == "process" and record["end_ns"] is not None]
    (rows, distinct, cpu) = lake.sql("select count(*), count(distinct pid || ':' || start_ns), sum(cpu_user_ns + cpu_system_ns) "
                                     "from processes where end_ns is not null")[0]
    source = {(record["pid"], record["start_ns"]) for record in ended}
    missing = source - set(lake.sql("select pid, start_ns from processes where end_ns is not null"))
    assert not missing, [record for record in ended if (record["pid"], record["start_ns"]) in missing][:2]
    assert (rows, distinct) == (len(ended), len(source))
    assert cpu == sum(record["cpu_user_ns"] + record["cpu_system_ns"] for record in ended)
    assert lake.sql("select count(*) from hosts") == [(1,)]


def test_from_a_process_to_the_store(room, lake):
    spool, where = room / "live", room / "live.sock"
    # Segments so large that none is removed before it can be compared.
    collector = collect(spool, where, [*lake.options, "--spool-cap-bytes", "80G", "--spool-segment-bytes", "8G"])
    try:
        wait_for(lambda: ((status(where) or {}).get("stream") or {}).get("last_success_ns"), process=collector)
        processes(300)
        seen = wait_for(lambda: (now := status(where)) and now["spool"]["delivered"] >= 300 and now)
        told = seen["stream"]
        assert told["state"] in ("idle", "sending") and told["failures"] == 0 and told["last_error"] is None
        assert told["seccomp"] and told["refused_calls"] == 0 and told["quarantined"] == told["holes"] == 0
        assert told["lag_ns"] < 10_000_000_000 and 0 < told["bytes_sent"] < told["bytes_packed"]
        confined = Path(f"/proc/{told['pid']}/status").read_text()
        assert re.search(r"^CapEff:\s+0+$", confined, re.M) and re.search(r"^CapBnd:\s+0+$", confined, re.M)
        assert "NoNewPrivs:\t1" in confined and re.search(r"^Seccomp:\t2$", confined, re.M)
        assert not re.search(r"^Uid:\t0", confined, re.M)
        command = Path(f"/proc/{told['pid']}/cmdline").read_bytes()
        assert lake.token.read_text().strip().encode() not in command
        # It dies and comes back; what it had sent is not sent as new.
        os.kill(told["pid"], signal.SIGKILL)
        wait_for(lambda: status(where)["stream"]["restarts"] == 1)
        processes(100)
        for _ in range(40):
            now = status(where)["spool"]
            assert now["accepted"] == now["delivered"] + now["pending"] + sum(now["dropped"].values()) and now["balanced"]
    finally:
        collector.send_signal(signal.SIGTERM)
        log = collector.communicate(timeout=40)[1]
    assert collector.returncode in (0, 1), log
    assert lake.token.read_text().strip() not in log
    end = stats(spool)
    assert end["delivered"] == end["accepted"] and end["pending"] == 0, f"{end}\n{log}"
    same_as_source(lake, dump(spool))


def test_the_datalake_is_killed_again_and_again(room, lake, recorded):
    source, records = recorded
    spool = room / "killed"
    shutil.copytree(source, spool)
    random.seed(23)
    streamer = subprocess.Popen([BINARY, "stream", "--spool", spool, *lake.options, "--stream-batch-records", "9",
                                 "--stream-retry-limit", "50ms", "--stream-batch-age", "10ms"], stderr=subprocess.PIPE, text=True)
    kills = 0
    try:
        for _ in range(300 if LONG else 12):
            if stats(spool)["pending"] == 0:
                break
            time.sleep(random.random() * 0.25)
            lake.kill()
            kills += 1
            lake.start()
        wait_for(lambda: stats(spool)["pending"] == 0, 120)
    finally:
        streamer.send_signal(signal.SIGTERM)
        log = streamer.communicate(timeout=20)[1]
    assert kills >= 5, log
    print(f"{kills} kills")
    end = stats(spool)
    assert end["delivered"] == end["accepted"] == len(records), end
    same_as_source(lake, records)


def test_a_spool_carried_by_hand(room, lake, recorded):
    source, records = recorded
    spool = room / "carried"
    shutil.copytree(source, spool)
    for _ in range(2):  # the second time there is nothing left to do
        done = subprocess.run([BINARY, "stream", "--once", "--json", "--spool", spool, *lake.options], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        assert done.returncode == 0, done.stderr
    same_as_source(lake, records)
    # The same spool under its old identity, the cursor lost: all of it comes again, none of it counts twice.
    (spool / "stream/cursor").unlink()
    done = subprocess.run([BINARY, "stream", "--once", "--json", "--spool", spool, *lake.options], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    assert done.returncode == 0, done.stderr
    same_as_source(lake, records)


# ---- proxies ---------------------------------------------------------------------------------------------------------


class Proxy:
    """Counts what goes through it: HTTP CONNECT or SOCKS5 with names, everything to one server."""

    def __init__(self, kind, target):
        self.kind, self.target, self.used, self.names = kind, target, 0, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        self.used += 1
        if self.kind == "http":
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(4096)
            self.names.append(head.split()[1].decode())
            client.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
        else:
            _, methods = client.recv(2)
            client.recv(methods)
            client.sendall(b"\x05\x00")
            client.recv(4)
            name = client.recv(client.recv(1)[0]).decode()
            self.names.append(f"{name}:{struct.unpack('!H', client.recv(2))[0]}")
            client.sendall(b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x00")
        server = socket.create_connection(("127.0.0.1", self.target))
        while True:
            for one in select.select([client, server], [], [])[0]:
                data = one.recv(65536)
                if not data:
                    client.close(), server.close()
                    return
                (server if one is client else client).sendall(data)


@pytest.mark.parametrize("kind,scheme,given", [("http", "http", "option"), ("socks", "socks5h", "environment")])
def test_through_a_proxy(room, recorded, kind, scheme, given, tmp_path):
    from harness import certificates as made

    authority = made.authority()
    server = made.Certificate("lake", authority, names=["lake.example.org"], extended=[made.SERVER])
    lake = Datalake(context=made.server_context(tmp_path, server), check_crc=False)
    proxy = Proxy(kind, lake.port)
    spool, token = room / f"{kind}-{given}", tmp_path / "token"
    shutil.copytree(recorded[0], spool)
    token.write_text("ingest-secret\n")
    token.chmod(0o600)
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    command = [BINARY, "stream", "--once", "--json", "--spool", spool, "--stream-token-file", token, "--stream-ca-file",
               tmp_path / "ca.pem", "--stream-url", f"https://lake.example.org:{lake.port}", "--stream-connect-timeout", "3s"]
    address = f"{scheme}://127.0.0.1:{proxy.port}"
    environment = {**os.environ, "https_proxy": address} if given == "environment" else os.environ
    options = [] if given == "environment" else ["--stream-proxy", address]
    try:
        done = subprocess.run([*command, *options], env=environment, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=120)
        assert done.returncode == 0, done.stderr
        assert proxy.used and set(proxy.names) == {f"lake.example.org:{lake.port}"}
        assert len(lake.numbers()) == len(recorded[1]) and not lake.breaches
        used = proxy.used
        # Said to be reached without it, or told to use none: it is not asked.
        for without in (["--stream-no-proxy", "example.org"], ["--stream-proxy", "none"]):
            (spool / "stream/cursor").unlink(missing_ok=True)
            done = subprocess.run([*command, *options, *without], env=environment, text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=120)
            assert done.returncode == 1 and proxy.used == used, done.stdout
    finally:
        lake.close()
        proxy.listener.close()


def test_a_spool_that_cannot_be_written_keeps_nobody_from_recording(room, lake):
    place = room / "readonly"
    place.mkdir()
    where = room / "readonly.sock"
    command = f"mount -t tmpfs -o ro none {place} && exec {BINARY} collect --spool {place}/spool --status-socket {where} " \
              "--status-processes-socket '' " + " ".join(lake.options)
    collector = subprocess.Popen(["unshare", "-m", "sh", "-c", command], stderr=subprocess.PIPE, text=True)
    try:
        told = wait_for(lambda: status(where), process=collector)
        assert told["stream"]["state"] == "dead" and "Read-only" in told["stream"]["last_error"]
        assert told["spool"]["in_memory"] and told["spool"]["balanced"]
    finally:
        collector.send_signal(signal.SIGTERM)
        collector.communicate(timeout=40)
