# SPDX-License-Identifier: Apache-2.0
"""`tracer up`: both products start, and both end, on Ctrl-C and when either dies; nothing is left, and it says so."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest

from harness import tracer
from harness.port import free_port


def parents():
    """Of every process: the parent's pid."""
    found = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue
        found[int(path.parent.name)] = int(text[text.rindex(")") + 2:].split()[1])
    return found


def below(pid):
    known, found = parents(), [pid]
    for one in found:
        found += [child for child, parent in known.items() if parent == one]
    return found[1:]


def command_line(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


class Up:
    def __init__(self):
        tracer.need_binary()
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="tracer-up."))  # closed to others: it works there too
        self.port = free_port()

    def start(self):
        self.log = (self.base / "log").open("wb")
        self.process = subprocess.Popen([str(tracer.BINARY), "up", "--directory", str(self.base / "place"), "--listen",
                                         f"127.0.0.1:{self.port}"], stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        self.wait(lambda: "/login?code=" in self.said() and "collecting into" in self.said())
        self.family = below(self.process.pid)
        self.of = {command_line(child)[1]: child for child in self.family if len(command_line(child)) > 1
                   and parents()[child] == self.process.pid}
        return self

    def wait(self, what, seconds=60):
        until = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < until and self.process.poll() is None, self.said()
            time.sleep(0.02)

    def said(self):
        return (self.base / "log").read_text()

    def ended(self, code):
        assert self.process.wait(60) == code, self.said()
        assert not [pid for pid in self.family if pathlib.Path(f"/proc/{pid}").exists()], self.said()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", self.port), 1)

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)
        shutil.rmtree(self.base)


@pytest.fixture
def up():
    made = Up()
    yield made.start()
    made.close()


def test_ctrl_c_ends_both_and_it_starts_again(up):
    assert set(up.of) == {b"datalake", b"collect"}
    assert "Uid:\t0\t" not in pathlib.Path(f"/proc/{up.of[b'datalake']}/status").read_text()
    subprocess.run(["/bin/true"], check=True)
    up.process.send_signal(signal.SIGINT)
    up.ended(0)
    # What was recorded was delivered before the end.
    done = subprocess.run([str(tracer.BINARY), "processes", "--json", "-n", "1000", "--store", str(up.base / "place/lake")],
                          capture_output=True, text=True, check=True)
    assert '"true"' in done.stdout, up.said()
    up.start()
    os.kill(up.process.pid, signal.SIGTERM)
    up.ended(0)


def test_when_it_is_killed_itself_both_end(up):
    up.process.kill()
    up.process.wait()
    until = time.monotonic() + 30
    while any(pathlib.Path(f"/proc/{pid}").exists() for pid in up.family):
        assert time.monotonic() < until, [command_line(pid) for pid in up.family]
        time.sleep(0.05)


@pytest.mark.parametrize(("child", "name"), [(b"datalake", "the datalake"), (b"collect", "the collector")])
def test_when_one_dies_the_other_ends_and_the_exit_code_says_so(up, child, name):
    os.kill(up.of[child], signal.SIGKILL)
    up.ended(1)
    assert f"{name} was killed by signal 9" in up.said()
