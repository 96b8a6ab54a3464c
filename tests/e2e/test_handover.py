# SPDX-License-Identifier: Apache-2.0
"""The running collector hands everything to another image: updates and downgrades while processes storm. The storm
knows each of its processes by wait4; every one of them must be in the spool exactly once."""

import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from accuracy.join import join, read_truth
from accuracy.programs import program
from harness.lake import Lake
from harness.tracer import BINARY, ROOT, need_binary, read_records

VERSION = (ROOT / "VERSION").read_text().strip()
OTHER_VERSION = VERSION[:-1] + ("8" if VERSION[-1] == "9" else "9")
# Room for a machine that does not let the collector run for seconds: what is lost to a full ring is another test's.
CONFIG = "ring_bytes: 16M\ndrain_interval: 100ms\n"


def replaced(data, old, new):
    assert len(old) == len(new) and old in data, f"{old!r} is not in the program"
    return data.replace(old, new)


def another(path, version, programs):
    """The program as another release: with another version, and where programs is set with other BPF objects (their
    licence says "Dual MPL/GPL", which the kernel takes as well), so that nothing in the kernel can be taken over."""
    data = BINARY.read_bytes()
    data = replaced(data, f"tracer/{VERSION}\0".encode(), f"tracer/{version}\0".encode())
    if programs:
        data = replaced(data, b"Dual BSD/GPL", b"Dual MPL/GPL")
    path.write_bytes(data)
    path.chmod(0o755)
    return path


class Place:
    """A collector that was started through a link, as the installer leaves it, and the images the link may point to."""

    def __init__(self, folder):
        need_binary()
        self.folder, self.spool = folder, folder / "spool"
        self.link, self.socket, self.log = folder / "tracer", folder / "status", folder / "log"
        (folder / "config.yaml").write_text(CONFIG)
        self.images = {}
        self.process = None

    def image(self, name, version, programs=False):
        self.images[name] = (another(self.folder / name, version, programs), version)

    def point(self, name):
        fresh = self.folder / "fresh"
        fresh.symlink_to(self.images[name][0])
        fresh.rename(self.link)

    def start(self, name, *options):
        self.point(name)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [self.link, "collect", "--config", self.folder / "config.yaml", "--spool", self.spool, "--status-socket", self.socket,
                 "--status-processes-socket", self.folder / "processes", *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.wait(lambda status: status["pid"] == self.process.pid)

    def status(self):
        done = subprocess.run([BINARY, "status", "--json", "--socket", self.socket], capture_output=True, check=False)
        return json.loads(done.stdout) if done.stdout else None  # its code tells of losses, which are checked at the end

    def wait(self, condition, seconds=60):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log.read_text()
            status = self.status()
            if status and condition(status):
                return status
            time.sleep(0.02)
        raise AssertionError(f"never came about: {self.status()}\n{self.log.read_text()[-4000:]}")

    def hand_over(self, name, pid=None):
        """Points the link to that image and asks for a hand-over; the status once it is done."""
        before = self.status()["handover"]
        self.point(name)
        os.kill(pid or self.process.pid, signal.SIGUSR2)
        status = self.wait(lambda status: status["handover"]["count"] + status["handover"]["failed"]
                           > before["count"] + before["failed"])
        assert status["handover"]["count"] == before["count"] + 1, status["handover"]
        assert status["version"] == self.images[name][1] and status["pid"] == self.process.pid
        return status

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            assert self.process.wait(timeout=60) == 0, self.log.read_text()

    def records(self):
        found = []
        for segment in sorted(self.spool.glob("p-*")):
            plain = self.folder / "plain"
            plain.write_bytes(b"".join(line for line in segment.read_bytes().splitlines(True) if b'"kind"' in line))
            found += read_records(plain)
        return found


class Storm:
    """Storm after storm, until told to end; jobs at a time."""

    def __init__(self, folder, jobs):
        self.truth, self.jobs, self.over, self.failed = folder / "truth", jobs, threading.Event(), None
        self.thread = threading.Thread(target=self.run)
        self.program = program("storm")
        self.thread.start()

    def run(self):
        while not self.over.is_set() and not self.failed:
            self.failed = subprocess.run([self.program, self.truth, "300", str(self.jobs)], check=False).returncode

    def end(self):
        self.over.set()
        self.thread.join()
        assert not self.failed
        return read_truth(self.truth)


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path)
    yield place
    place.stop()


def check_storm(truths, records):
    """Every process of the storm once, with its end."""
    processes = [record for record in records if record["kind"] == "process"]
    times = collections.Counter((record["pid"], record["start_ns"]) for record in processes)
    assert not [key for key, count in times.items() if count > 1], "recorded twice"
    pairs = join(truths, processes)
    missing = [pair.truth for pair in pairs if pair.record is None]
    assert not missing, f"{len(missing)} of {len(pairs)} processes are missing: {missing[:5]}"
    for pair in pairs:
        truth, record = pair.truth, pair.record
        ended = (record["signal"] or 0, None if record["signal"] else record["exit_code"])
        assert ended == (truth["signal"], None if truth["signal"] else truth["exit_code"]), (truth, record)
        if "args" in truth:
            assert record["args"] == truth["args"] and len(record["images"]) == 2, (truth, record)
    return pairs


def losses(records):
    return [record for record in records if record["kind"] == "gap"]


def storm_through(place, names, rounds, jobs):
    place.start(names[0])
    first = place.status()
    # One that lives through all of it: one record, with each program it was.
    steps = place.folder / "steps"
    steps.mkdir()
    wait = "while [ ! -e {} ]; do read -t 0.05 x <> {}; done; "
    os.mkfifo(steps / "pause")
    script = wait.format(steps / "1", steps / "pause") + f"exec bash -c '{wait.format(steps / '2', steps / 'pause')} exec sleep 0.1'"
    long = subprocess.Popen(["bash", "-c", script])
    storm = Storm(place.folder, jobs)
    gaps, how = [], collections.Counter()
    try:
        for number in range(rounds):
            status = place.hand_over(names[(number + 1) % len(names)])
            assert status["collector_pid"] != first["collector_pid"]
            gaps.append(status["handover"]["last_gap_ns"] / 1e6)
            how[status["handover"]["how"]] += 1
            if number in (rounds // 3, 2 * rounds // 3):
                (steps / ("1" if number == rounds // 3 else "2")).touch()
    finally:
        truths = storm.end()
        (steps / "1").touch()
        (steps / "2").touch()
        ended = long.wait()
    assert ended == 0
    place.stop()
    records = place.records()
    pairs = check_storm(truths, records)
    mine = [record for record in records if record["kind"] == "process" and record["pid"] == long.pid]
    assert len(mine) == 1 and [image["comm"] for image in mine[0]["images"][-3:-1]] == ["bash", "bash"], mine
    assert mine[0]["comm"] == "sleep" and mine[0]["exit_code"] == 0
    assert not losses(records), losses(records)[:5]
    assert status["handover"]["count"] == rounds and status["handover"]["failed"] == 0 and status["refused_calls"] == 0
    assert how["attached" if len(names) > 2 or place.images[names[1]][0].name == "hooks" else "adopted"] > 0
    print(f"\n{rounds} hand-overs ({dict(how)}), {len(pairs)} processes each recorded once, 0 lost; rings not read for "
          f"{max(gaps):.1f} ms at the longest, {sorted(gaps)[len(gaps) // 2]:.1f} ms in the middle", flush=True)
    return gaps


def test_a_storm_through_updates_and_downgrades(place):
    place.image("old", VERSION)
    place.image("new", OTHER_VERSION)
    place.image("hooks", OTHER_VERSION, programs=True)
    storm_through(place, ["old", "new", "hooks"], 6, 6)


def test_what_is_delivered_goes_on(place):
    """The streamer stays, or another takes its cursor over: each process that ran is in the datalake once."""
    place.image("old", VERSION)
    place.image("new", OTHER_VERSION)
    place.image("hooks", OTHER_VERSION, programs=True)
    codes = []
    with Lake() as lake:
        token = place.folder / "token"
        token.write_text(lake.token("ingest").split()[-1] + "\n")
        token.chmod(0o600)
        place.start("old", "--stream-url", f"http://127.0.0.1:{lake.port}", "--stream-token-file", token)
        for name in ("new", "hooks", "old"):
            for _ in range(20):
                codes.append(len(codes) + 1)
                subprocess.run(["sh", "-c", f"exit {codes[-1]}"], check=False)
            place.hand_over(name)
            sent = place.status()["stream"]["delivered"] or 0  # unknown until the streamer says it
            place.wait(lambda status, sent=sent: (status["stream"]["delivered"] or 0) > sent)
            service = place.status()["service"]
            assert [one["name"] for one in service["processes"]] == ["recorder", "parent", "keeper", "streamer"]
            assert service["rss_bytes"] == sum(one["rss_bytes"] for one in service["processes"])
        place.stop()
        found = [code for code, in lake.rows(f"SELECT exit_code FROM processes WHERE ppid = {os.getpid()} AND comm = 'sh'")]
    assert sorted(found) == codes
    assert not losses(place.records())


@pytest.mark.long
@pytest.mark.parametrize("names", [("old", "new"), ("old", "hooks")], ids=["same-programs", "other-programs"])
def test_two_hundred_updates_and_downgrades_under_a_storm(place, names):
    place.image("old", VERSION)
    place.image("new", OTHER_VERSION)
    place.image("hooks", OTHER_VERSION, programs=True)
    gaps = storm_through(place, names, 200, 8)
    assert sorted(gaps)[len(gaps) // 2] <= 250


HALF_WAY = """#!{python}
import os, select, socket, struct, time
kind, descriptor, parent = os.environ["_TRACER_WARDEN"].split()
parent = socket.socket(fileno=int(descriptor))
parent.send(struct.pack("II240s", 1, 2, b""))  # ready
select.select([parent], [], [])
peer = socket.socket(fileno=socket.recv_fds(parent, 4096, 1)[1][0])
peer.send(struct.pack("IIQ", 1, 1, 0))  # hello
select.select([peer], [], [])
socket.recv_fds(peer, 65536, 250)
socket.send_fds(peer, [struct.pack("IIQ", 1, 3, {flags})], [os.memfd_create("state", os.MFD_ALLOW_SEALING)])
select.select([peer], [], [])
{end}
"""


def refused(place, name):
    """Asks for a hand-over that must not come about; the status once it failed."""
    before = place.status()
    place.point(name)
    os.kill(place.process.pid, signal.SIGUSR2)
    status = place.wait(lambda status: status["handover"]["failed"] > before["handover"]["failed"])
    assert status["handover"]["count"] == before["handover"]["count"]
    assert status["collector_pid"] == before["collector_pid"] and status["version"] == before["version"]
    return status["handover"]["last_error"]


def test_an_image_that_cannot_take_over_changes_nothing(place):
    place.image("old", VERSION)
    place.start("old")
    storm = Storm(place.folder, 4)
    try:
        for name, text in (("crash", "#!/bin/sh\nexit 3\n"), ("killed", "#!/bin/sh\nkill -SEGV $$\n"), ("damaged", "no program"),
                           ("state taken, then gone", HALF_WAY.format(python=sys.executable, flags=0, end="")),
                           ("the same with hooks", HALF_WAY.format(python=sys.executable, flags=1, end="")),
                           ("stuck", HALF_WAY.format(python=sys.executable, flags=1, end="time.sleep(1000)"))):
            path = place.folder / name
            path.write_text(text)
            path.chmod(0o755)
            place.images[name] = (path, VERSION)
            assert refused(place, name), name
    finally:
        truths = storm.end()
    place.hand_over("old")
    place.stop()
    records = place.records()
    check_storm(truths, records)
    assert not losses(records), losses(records)[:5]


@pytest.mark.parametrize("source", ["events", "proc"])
def test_without_bpf_one_image_ends_and_the_next_begins(place, source):
    """Nothing is in the kernel that could change hands: the pid stays, what lives across it and what ran before and after is there once."""
    place.image("old", VERSION)
    place.image("new", OTHER_VERSION)
    place.start("old", "--source", source)
    before = place.status()
    across = subprocess.Popen(["sh", "-c", "read line; : marker across"], stdin=subprocess.PIPE)
    # Long enough to be seen by who looks from time to time, on a busy machine too.
    subprocess.run(["sh", "-c", "sleep 1; : marker before"], check=True)
    place.point("new")
    os.kill(place.process.pid, signal.SIGUSR2)
    status = place.wait(lambda status: status["version"] == OTHER_VERSION)
    assert status["pid"] == place.process.pid and status["collector_pid"] != before["collector_pid"]
    assert status["source"] == source and status["spool"]["balanced"]
    subprocess.run(["sh", "-c", "sleep 1; : marker after"], check=True)
    across.communicate(b"now\n")
    place.stop()
    markers = collections.Counter(record["args"][2].split(": ")[1] for record in place.records()
                                  if record["kind"] == "process" and record.get("args") and ": marker " in record["args"][-1])
    assert markers == {f"marker {word}": 1 for word in ("across", "before", "after")}
    assert subprocess.run([BINARY, "spool", "fsck", place.spool], capture_output=True, check=False).returncode == 0
