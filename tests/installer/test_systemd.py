# SPDX-License-Identifier: Apache-2.0
"""The units under a real systemd, the first process of a machine in namespaces of its own: installed, run, and gone again."""

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import time

import pytest

BOOT = r"""
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
cd "$1"
mkdir upper work root
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" overlay root
mkdir -p root/srv
mount --bind "$2" root/srv
ip link set lo up
cd root
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --rbind /dev dev
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t cgroup2 none sys/fs/cgroup
rm -rf etc/systemd/system/*.wants var/lib/tracer etc/tracer
mkdir -p old
pivot_root . old
cd /
umount -l /old
rmdir /old
export container=test
exec /lib/systemd/systemd --system --unit=basic.target --show-status=no
"""


class Machine:
    def __init__(self, srv):
        self.folder = tempfile.mkdtemp(prefix="tracer-machine-")
        self.holder = subprocess.Popen(["unshare", "-mpfuiCn", "--kill-child", "sh", "-c", BOOT, "sh", self.folder, str(srv)],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.pid = None
        self.until(lambda: self.run("systemctl", "is-system-running", code=None).strip() in ("running", "degraded"))

    def close(self):
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        self.holder.kill()
        self.holder.communicate()
        os.rmdir(self.folder)

    def until(self, true, seconds=30):
        end = time.monotonic() + seconds
        while not true():
            assert self.holder.poll() is None, "no systemd here: " + self.holder.stderr.read()
            assert time.monotonic() < end, "waited in vain"
            time.sleep(0.2)

    def run(self, *command, code=0):
        if not self.pid:
            with open(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children") as file:
                children = file.read().split()
            if not children:
                return ""
            self.pid = int(children[0])
        done = subprocess.run(["nsenter", f"--target={self.pid}", "-m", "-p", "-u", "-i", "-C", "-n", "env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
                               *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        assert code is None or done.returncode == code, f"{command} ended with {done.returncode}:\n{done.stdout}"
        return done.stdout


@pytest.fixture
def machine(release):
    made = Machine(release.folder)
    yield made
    made.close()


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
