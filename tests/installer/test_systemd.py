# SPDX-License-Identifier: Apache-2.0
"""The units under a real systemd, the first process of a machine in namespaces of its own: installed, run, and gone again."""

import re

import pytest

from machine import Machine


@pytest.fixture
def machine(release, tmp_path_factory):
    with Machine("systemd", release.folder, tmp_path_factory.getbasetemp() / "packages") as made:
        yield made


def test_units_run(machine, release):
    said = machine.run("sh", "/srv/install.sh", "--offline", "/srv", "--endpoint", "http://127.0.0.1:9")
    assert "start the service (systemd)" in said
    assert machine.run("systemctl", "is-active", "tracer.service").strip() == "active"
    assert machine.run("systemctl", "is-enabled", "tracer.service").strip() == "enabled"
    # What the unit forbids is nothing that it needs: the streamer has its user, and new files of the spool its group.
    machine.until(lambda: "host_id" in machine.run("tracer", "identity", code=None))
    machine.until(lambda: "there" in machine.run("sh", "-c", "ls /var/lib/tracer/spool/p-* >/dev/null 2>&1 && echo there", code=None))
    listed = machine.run("sh", "-c", "stat -c '%A %U %G %n' /var/lib/tracer/spool /var/lib/tracer/spool/p-* /var/lib/tracer/spool/stream")
    assert re.search(r"^drwxr-s--- root tracer ", listed, re.M) and re.search(r"^-rw-r----- root tracer .*/p-", listed, re.M), listed
    assert re.search(r"^drwx--x--x tracer tracer .*stream$", listed, re.M), listed
    assert '"refused_calls":0' in machine.run("tracer", "status", "--json", code=None)
    assert "nothing had to change" in machine.run("sh", "/srv/install.sh", "--offline", "/srv", "--endpoint", "http://127.0.0.1:9")
    before = machine.run("systemctl", "show", "-p", "MainPID", "tracer.service")
    machine.run("systemctl", "reload", "tracer.service")
    machine.run("systemctl", "kill", "-s", "KILL", "tracer.service")
    machine.until(lambda: machine.run("systemctl", "is-active", "tracer.service", code=None).strip() == "active"
                  and machine.run("systemctl", "show", "-p", "MainPID", "tracer.service") != before)
    machine.run("systemctl", "start", "tracer-datalake.service")
    machine.until(lambda: "tracer" in machine.run("sh", "-c", "stat -c %U /var/lib/tracer/lake/lake.db 2>/dev/null", code=None).split())
    assert machine.run("systemctl", "is-active", "tracer-datalake.service").strip() == "active"
    machine.run("sh", "/srv/install.sh", "--uninstall", "--purge")
    left = machine.run("sh", "-c", "ls -d /etc/systemd/system/*tracer* /etc/systemd/system/*.wants/*tracer* /run/tracer /var/lib/tracer /etc/tracer "
                       "/usr/local/bin/tracer /usr/local/lib/tracer 2>/dev/null; id tracer 2>/dev/null; pgrep -x tracer; true")
    assert left == "", left
    assert " loaded " not in machine.run("systemctl", "list-units", "--all", "--no-legend", "--plain", "tracer*")
