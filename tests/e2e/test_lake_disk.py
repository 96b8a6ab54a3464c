# SPDX-License-Identifier: Apache-2.0
"""The datalake over a disk that is full, turns read-only, or fails: agents are told to come back, the log says why once,
nothing acknowledged is lost, and it goes on by itself once the disk does."""

import errno
import subprocess
import sys
import time

import pytest

from harness import tracer
from harness.lake import Agent, Lake



def in_namespace(function):
    """Runs tests/e2e/test_lake_disk.py:function in a private mount namespace, as a process of its own."""
    done = subprocess.run(["unshare", "--mount", "--propagation", "private", sys.executable, "-c",
                           f"import sys; sys.path.insert(0, 'tests'); from e2e import test_lake_disk as t; t.{function}()"],
                          cwd=tracer.ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


class DiskLake(Lake):
    """Its lake lies on a file system of its own, of so many bytes."""

    def __init__(self, size, **more):
        super().__init__(**more)
        self.directory.mkdir()
        self.mount("-t", "tmpfs", "-o", f"size={size},mode=0755", "tmpfs", str(self.directory))

    def mount(self, *words):
        subprocess.run(["mount", *words], check=True)

    def __exit__(self, *words):
        self.stop()
        subprocess.run(["umount", "-l", str(self.directory)], check=True)
        super().__exit__(*words)

    def until(self, what, seconds=30):
        end = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < end and self.process.poll() is None, self.log.read_text()
            time.sleep(0.1)


def post(agent, count=200):
    """One further batch, or None and the refusal."""
    first = agent.acked + 1
    status, headers, body = agent.post(agent.batch(count), first, first + count - 1)
    if status == 200:
        agent.acked = body["acked"]
        return None
    assert status == 503 and 1 <= int(headers["Retry-After"]) <= 60 and body["error"], (status, body)
    return body


def refused(lake, agent, word):
    """Batches are refused now, and the log says why, once."""
    end = time.monotonic() + 30
    while not post(agent, 2000):
        assert time.monotonic() < end, "it takes everything"
    lake.until(lambda: "agents keep their records" in lake.log.read_text())
    trouble = [line for line in lake.log.read_text().splitlines() if "agents keep their records" in line]
    assert word in trouble[-1], trouble
    # Questions are answered meanwhile.
    assert lake.request("GET", "/api/v1/hosts", None, {"Authorization": f"Bearer {lake.read}"})[0] == 200


def goes_on(lake, agent):
    lake.until(lambda: post(agent) is None)
    lake.until(lambda: "works again" in lake.log.read_text())
    whole(lake, agent)
    lake.stop(9)
    lake.start()
    whole(lake, agent)
    assert lake.command("check").stdout == "sound\n"


def whole(lake, agent):
    rows = lake.rows("SELECT count(*), count(DISTINCT pid), sum(cpu_ns) FROM processes")
    assert rows == [(agent.acked, agent.acked, agent.acked * 1000 + agent.acked * (agent.acked + 1) // 2)], (rows, agent.acked)


def begin(lake):
    lake.read = lake.token("read")
    agent = Agent(lake, lake.token("ingest"))
    for _ in range(5):
        agent.send(200)
    return agent


def full():
    with DiskLake("30m") as lake:
        agent = begin(lake)
        filler = lake.directory / "filler"
        with filler.open("wb", buffering=0) as file:
            try:
                while file.write(bytes(65536)):
                    pass
            except OSError as error:
                assert error.errno == errno.ENOSPC
        refused(lake, agent, "full")
        acked = agent.acked
        assert post(agent, 2000) and lake.count() == acked
        filler.unlink()
        goes_on(lake, agent)


def read_only():
    with DiskLake("200m") as lake:
        agent = begin(lake)
        # What is open for writing keeps a file system writable: a bind mount of it is what turns.
        lake.stop()
        lake.mount("--bind", str(lake.directory), str(lake.directory))
        lake.mount("-o", "remount,bind,ro", str(lake.directory))
        done = subprocess.run([*lake.arguments(), *lake.options], capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode not in (0, -11) and "Read-only" in done.stderr, done
        lake.mount("-o", "remount,bind,rw", str(lake.directory))
        lake.start()
        whole(lake, agent)
        agent.send(200)
        whole(lake, agent)


def injected(error, word):
    """Writes and syncs of the store fail for a while."""
    calls = "pwrite64,fsync,fdatasync"
    with DiskLake("200m", options=["--sandbox=false"]) as lake:
        agent = begin(lake)
        tracing = subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}", "-e",
                                    f"inject={calls}:error={error}", "-P", f"{lake.directory}/lake.db-wal", "-P",
                                    f"{lake.directory}/lake.db", "-p", str(lake.process.pid)])
        try:
            refused(lake, agent, word)
        finally:
            tracing.terminate()
            tracing.wait()
        goes_on(lake, agent)


def failing():
    """As a dying disk's do."""
    injected("EIO", "")


def turns_read_only():
    """As on a file system that the kernel turned read-only under a running datalake, until somebody repairs it."""
    injected("EROFS", "read-only")


@pytest.mark.parametrize("disk", ["full", "read_only", "turns_read_only", "failing"])
def test_a_bad_disk_loses_nothing_acknowledged_and_is_recovered_from(disk):
    in_namespace(disk)
