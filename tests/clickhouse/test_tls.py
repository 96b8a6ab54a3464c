# SPDX-License-Identifier: Apache-2.0
"""ClickHouse over TLS: taken with the right authority's certificate, refused with any other reason not to."""

import datetime
import pathlib
import subprocess
import sys

import pytest

from harness.certificates import NOW, Certificate
from tests.clickhouse.conftest import SERVER, write, writer

PASSWORD = "secret-of-the-test"


class Served:
    def __init__(self, folder, certificate):
        pem, key = certificate.write(folder, "server")
        self.process = subprocess.Popen(
            [sys.executable, SERVER, str(folder / "store"), "--password", PASSWORD, "--certificate", pem, "--key", key],
            stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("port "), line
        self.port = int(line.split()[1])

    def url(self, ca_file, host="127.0.0.1", **options):
        more = "".join(f"&{name}={value}" for name, value in options.items())
        return f"clickhouse://default:{PASSWORD}@{host}:{self.port}/lake?tls=1&fsync=0&ca_file={ca_file}{more}"

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()


def refused(url, words):
    process = writer(url, "facts", "w")
    output = process.communicate(timeout=120)[0]
    assert process.returncode == 1 and any(word in output for word in words), output
    assert PASSWORD not in output


def test_tls(tmp_path: pathlib.Path):
    authority, stranger = Certificate("authority", ca=True), Certificate("stranger", ca=True)
    for name, certificate in (("ca", authority), ("stranger", stranger)):
        (tmp_path / f"{name}.pem").write_bytes(certificate.pem)
    with Served(tmp_path, Certificate("clickhouse", authority, names=["127.0.0.1"])) as served:
        url = served.url(tmp_path / "ca.pem")
        write(url, "w", "host-1", 1, 20, 20)
        assert "processes rows 16 " in writer(url, "facts", "w").communicate(timeout=120)[0]
        refused(served.url(tmp_path / "stranger.pem"), ["certificate", "SSL", "TLS"])
        refused(served.url(tmp_path / "ca.pem", host="localhost"), ["certificate", "SSL", "TLS"])
        refused(url.replace("tls=1", "tls=0"), ["ClickHouse"])


@pytest.mark.long
def test_tls_of_yesterday(tmp_path):
    authority = Certificate("authority", ca=True)
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    old = Certificate("clickhouse", authority, names=["127.0.0.1"], begin=NOW - datetime.timedelta(days=9),
                      end=NOW - datetime.timedelta(days=1))
    with Served(tmp_path, old) as served:
        refused(served.url(tmp_path / "ca.pem"), ["certificate", "SSL", "TLS"])
