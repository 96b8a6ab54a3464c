# SPDX-License-Identifier: Apache-2.0
"""ClickHouse behind TLS: whom the datalake trusts, and that it still can once its files are confined."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import pytest

from clickhouse.conftest import PASSWORD, SERVER
from harness import certificates as made
from harness.certificates import SERVER as FOR_SERVERS
from harness.certificates import Certificate
from harness.lake import Agent, Lake

CA = made.authority("CA of ClickHouse")


class Secure:
    def __init__(self, folder):
        self.folder, self.port, self.process = folder, 0, None
        self.files = Certificate("clickhouse", CA, names=["127.0.0.1"], extended=[FOR_SERVERS]).write(folder, "clickhouse")
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, SERVER, str(self.folder / "store"), "--port", str(self.port), "--password", PASSWORD,
             "--certificate", str(self.files[0]), "--key", str(self.files[1])], stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().split()[1])

    def stop(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    server = Secure(tmp_path_factory.mktemp("secure"))
    yield server
    server.stop()


@pytest.fixture
def authority():
    """The CA's file in a folder of its own, as a user that is not root reads it."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tracer-ca."))
    folder.chmod(0o755)
    (folder / "ca.pem").write_bytes(CA.pem)
    yield folder / "ca.pem"
    shutil.rmtree(folder)


class ClickLake(Lake):
    """A datalake whose rows are in ClickHouse; its state is its own."""

    def __init__(self, url):
        super().__init__()
        self.url = url

    def arguments(self, *words):
        return [self.binary, "datalake", *words, "--store", self.url, "--state", str(self.directory), "--listen", self.listen]


def test_connections_made_after_the_files_are_confined_still_know_whom_to_trust(secure, authority):
    with ClickLake(f"clickhouse://default:{PASSWORD}@127.0.0.1:{secure.port}/trusted?tls=1&fsync=0&ca_file={authority}") as lake:
        agent = Agent(lake, lake.token("ingest"))
        agent.send(5)
        # Every connection after this is a new one. The file is gone, as it is for a process that may not open it.
        secure.stop()
        authority.unlink()
        secure.start()
        deadline = time.monotonic() + 30
        while agent.post(agent.batch(5), 6, 10)[0] != 200:
            assert time.monotonic() < deadline, lake.log.read_text()
            time.sleep(0.2)
        agent.acked = 10
        agent.send(5)
        allowed = {"Authorization": f"Bearer {lake.token('read')}"}
        assert len(lake.request("GET", "/api/v1/processes?limit=100", None, allowed)[2]["items"]) == 15


@pytest.mark.parametrize("more", ["", "&ca_file=/nowhere/ca.pem"])
def test_a_server_that_nobody_vouches_for_is_refused(secure, more):
    lake = ClickLake(f"clickhouse://default:{PASSWORD}@127.0.0.1:{secure.port}/stranger?tls=1&fsync=0{more}")
    done = subprocess.run(lake.arguments(), capture_output=True, text=True, timeout=60, check=False)
    shutil.rmtree(lake.base)
    assert done.returncode == 3, done
    assert ("/nowhere/ca.pem" if more else "certificate") in done.stderr.lower() and PASSWORD not in done.stderr
