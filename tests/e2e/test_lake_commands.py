# SPDX-License-Identifier: Apache-2.0
"""The commands beside a running datalake, good and bad: backup, check, certificate, token; as root over a lake of root's,
below a closed directory; and the reading commands over TLS, with an authority, a pin, and what they must refuse."""

import http.client
import json
import os
import pathlib
import re
import shutil
import sqlite3
import ssl
import subprocess
import tempfile
import threading

import pytest

from harness import certificates as made
from harness import tracer
from harness.lake import Agent, Lake

HERE = ["localhost", "127.0.0.1"]


class SecureLake(Lake):
    """Every port of it speaks TLS."""

    def __init__(self, *options):
        super().__init__(options=["--tls", "on", *options])

    @property
    def url(self):
        return f"https://127.0.0.1:{self.port}"

    def start(self):
        super().start()
        self.request("GET", "/api/v1/health")
        return self

    def request(self, method, path, body=None, headers=None):
        link = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=ssl._create_unverified_context())
        try:
            link.request(method, path, body, headers or {})
            answer = link.getresponse()
            return answer.status, answer.headers, json.loads(answer.read())
        finally:
            link.close()


def command(*words, **more):
    return subprocess.run([str(tracer.BINARY), *map(str, words)], capture_output=True, text=True, timeout=60, check=False, **more)


@pytest.fixture(scope="module")
def lake():
    with Lake() as running:
        running.agent = Agent(running, running.token("ingest"))
        running.agent.send(500)
        yield running
        assert running.process.poll() is None, running.log.read_text()


def test_a_backup_is_whole_while_batches_arrive(lake, tmp_path):
    store, stop = ["--store", f"sqlite:{lake.directory}"], threading.Event()
    copy = lake.base / "copy.db"

    def write():
        while not stop.is_set():
            lake.agent.send(50)

    writer = threading.Thread(target=write)
    before = lake.count()
    writer.start()
    try:
        done = command("datalake", "backup", copy.name, *store, cwd=lake.base)
    finally:
        stop.set()
        writer.join()
    assert done.returncode == 0 and not done.stderr, (done.returncode, done.stderr)
    with sqlite3.connect(copy) as taken:
        assert taken.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert before <= taken.execute("SELECT count(*) FROM processes").fetchone()[0] <= lake.count()
        assert taken.execute("SELECT sum(processes) FROM hosts").fetchone()[0] >= before
    assert copy.stat().st_mode & 0o077 == 0
    # It is a lake: check reads it, and says when it is damaged.
    (tmp_path / "again").mkdir()
    shutil.copy(copy, tmp_path / "again/lake.db")
    again = ["--store", f"sqlite:{tmp_path}/again", "--user", "root"]
    done = command("datalake", "check", *again)
    assert (done.returncode, done.stdout) == (0, "sound\n"), done.stderr
    with sqlite3.connect(tmp_path / "again/lake.db") as store:
        store.execute("UPDATE hosts SET cpu_ns = cpu_ns + 1")
    done = command("datalake", "check", *again)
    assert done.returncode == 1 and "CPU time of" in done.stdout, (done.stdout, done.stderr)


def test_a_backup_that_cannot_be_made_says_why(lake):
    store = ["--store", f"sqlite:{lake.directory}"]
    there = lake.base / "there"
    there.write_text("mine")
    done = command("datalake", "backup", there, *store)
    assert done.returncode == 1 and "exists" in done.stderr and there.read_text() == "mine"
    done = command("datalake", "backup", lake.base / "no/such/place", *store)
    assert done.returncode == 1 and "No such file" in done.stderr
    done = command("datalake", "backup", lake.base / "none", "--store", f"sqlite:{lake.base}/nowhere")
    assert done.returncode == 1 and "nowhere" in done.stderr
    assert command("datalake", "backup", *store).returncode == 2
    full = pathlib.Path("/dev/full")
    assert command("datalake", "backup", full, *store).returncode == 1 and full.is_char_device()


def test_check_says_what_is_damaged(lake, tmp_path):
    assert lake.command("check").stdout == "sound\n"
    assert lake.command("check", "more", check=False).returncode == 2
    place = tmp_path / "lake"
    place.mkdir()
    source = lake.base / "for-damage.db"
    assert command("datalake", "backup", source, "--store", f"sqlite:{lake.directory}").returncode == 0
    data = bytearray(source.read_bytes())
    for at in range(20000, len(data) - 3000, 20000):
        data[at:at + 3000] = b"\xa5" * 3000
    (place / "lake.db").write_bytes(data)
    done = command("datalake", "check", "--store", f"sqlite:{place}", "--user", "root")
    assert done.returncode == 1 and (done.stdout + done.stderr).strip() and "sound" not in done.stdout
    (place / "lake.db").write_bytes(b"no lake at all" * 1000)
    done = command("datalake", "check", "--store", f"sqlite:{place}", "--user", "root")
    assert done.returncode == 1 and "not a database" in done.stdout + done.stderr


def test_the_certificate_is_shown_as_it_is(tmp_path):
    with SecureLake() as running:
        shown = dict(line.split(None, 1) for line in running.command("certificate").stdout.replace("valid until", "until").splitlines())
        assert shown["pin"].startswith("sha256//") and shown["file"] == f"{running.directory}/tls.crt"
        assert "pin this server's key as " + shown["pin"] in running.log.read_text()
        token = running.base / "token"
        token.touch(mode=0o600)
        token.write_text(running.token("read"))
        os.chown(token, 0, 0)
        (tmp_path / "pem").write_bytes((running.directory / "tls.crt").read_bytes())
        where = ["--url", running.url, "--token-file", token]
        Agent(running, running.token("ingest")).send(3)
        good = command("processes", "--json", *where, "--pin", shown["pin"], "--ca-file", tmp_path / "pem")
        assert good.returncode == 0 and len(good.stdout.splitlines()) >= 1, good.stderr
        # The pin alone is enough for a certificate that signed itself: that is what it is for.
        assert command("hosts", *where, "--pin", shown["pin"]).returncode in (0, 3)
        for wrong in (["--pin", "sha256//" + "A" * 43 + "="], [], ["--pin", "sha256//short"], ["--ca-file", "/no/such/file"]):
            bad = command("hosts", *where, *wrong)
            assert bad.returncode != 0 and bad.stderr and not bad.stdout, (wrong, bad)
        (running.directory / "tls.crt").write_text("nothing")
        assert running.command("certificate", check=False).returncode == 1
    assert command("datalake", "certificate", "--store", f"sqlite:{tmp_path}/none", "--user", "root").returncode == 1


def test_the_readers_over_tls_with_an_authority_of_ones_own(tmp_path):
    authority = made.authority()
    server = made.Certificate("lake", authority, names=HERE, extended=[made.SERVER])
    running = SecureLake()
    certificate, key = server.write(running.base, "server")
    for path in (certificate, key):
        path.chmod(0o644)
    running.options += ["--tls-certificate", str(certificate), "--tls-key", str(key)]
    with running:
        Agent(running, running.token("ingest")).send(7)
        token, trust = tmp_path / "token", tmp_path / "ca.pem"
        token.touch(mode=0o600)
        token.write_text(running.token("read"))
        trust.write_bytes(authority.pem)
        (tmp_path / "other.pem").write_bytes(made.authority("Another").pem)
        where = ["--url", running.url, "--token-file", token]
        for more in (["--ca-file", trust], ["--ca-file", trust, "--pin", server.pin]):
            done = command("processes", "--csv", "-n", "100", *where, *more)
            assert done.returncode == 0 and len(done.stdout.splitlines()) == 8, done.stderr
        local = command("hosts", "--json", "--store", running.directory, "--workspace", "default")
        remote = command("hosts", "--json", *where, "--ca-file", trust)
        assert local.returncode == 0 and local.stdout == remote.stdout, (local.stderr, remote.stderr)
        for more in ([], ["--ca-file", tmp_path / "other.pem"], ["--ca-file", trust, "--pin", made.authority("x").pin]):
            done = command("hosts", *where, *more)
            assert done.returncode == 3 and re.search("ertificate|pin", done.stderr), done.stderr
        # A token that others could read is not sent.
        token.chmod(0o644)
        done = command("hosts", *where, "--ca-file", trust)
        assert done.returncode != 0 and "token" in done.stderr


def test_a_lake_of_roots_stays_roots_for_commands_and_is_given_by_a_start():
    with Lake(options=["--user", "root"]) as running:
        assert running.request("GET", "/api/v1/health")[0] == 200
        token = command("datalake", "token", "create", "--role", "read", "--store", f"sqlite:{running.directory}").stdout.strip()
        assert running.request("GET", "/api/v1/runs", None, {"Authorization": f"Bearer {token}"})[0] == 200
        assert all(path.stat().st_uid == 0 for path in [running.directory, *running.directory.iterdir()])
        # A second server, as another user, takes nothing from the one that runs.
        done = command("datalake", "--store", f"sqlite:{running.directory}", "--listen", "127.0.0.1:0")
        assert done.returncode != 0 and "has this lake open" in done.stderr, done.stderr
        assert all(path.stat().st_uid == 0 for path in [running.directory, *running.directory.iterdir()])
        Agent(running, running.token("ingest")).send(4)
        running.stop()
        running.options = []
        running.start()
        assert running.request("GET", "/api/v1/runs", None, {"Authorization": f"Bearer {token}"})[0] == 200
        assert all(path.stat().st_uid != 0 for path in [running.directory, *running.directory.iterdir()])
        assert running.count() == 4
        # Back again it is not given by itself: as root, without capabilities, nothing of it could be read.
        done = command("datalake", "--user", "root", "--store", f"sqlite:{running.directory}", "--listen", "127.0.0.1:0")
        assert done.returncode == 3 and "belongs to user" in done.stderr, done.stderr


def test_below_a_closed_directory_it_is_not_root_either():
    closed = pathlib.Path(tempfile.mkdtemp(prefix="tracer-closed."))
    running = Lake()
    try:
        assert closed.stat().st_mode & 0o077 == 0
        running.directory = closed / "deep/lake"
        with running:
            status = pathlib.Path(f"/proc/{running.process.pid}/status").read_text()
            assert "\nUid:\t0\t" not in status
            Agent(running, running.token("ingest")).send(5)
            running.stop(9)
            running.start()
            Agent(running, running.token("ingest")).send(5)
            assert running.command("check").stdout == "sound\n" and running.count() == 10
            done = command("hosts", "--json", "--store", running.directory)
            assert done.returncode == 0 and len(done.stdout.splitlines()) == 2, done.stderr
    finally:
        shutil.rmtree(closed)
