# SPDX-License-Identifier: Apache-2.0
"""What the running collector has no right to mend, its streamer's keeper killed and the spool's directory taken away: it
hands over to an image that starts another streamer, by itself; no record is lost on the way and the account adds up."""

import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

from e2e.test_stream import collect, processes, status, wait_for
from harness.datalake import Datalake


class Place:
    def __init__(self):
        self.room = Path(tempfile.mkdtemp(prefix="tracer-loss-"))
        self.room.chmod(0o755)
        self.spool, self.where, self.lake = self.room / "spool", self.room / "sock", Datalake()
        token = self.room / "token"
        token.touch(mode=0o600)
        token.write_text("ingest-secret\n")
        self.options = ["--stream-url", self.lake.url, "--stream-token-file", str(token), "--stream-batch-age", "100ms"]

    def start(self):
        self.collector = collect(self.spool, self.where, self.options)
        wait_for(lambda: self.stream().get("last_success_ns"), process=self.collector)

    def stream(self):
        return (status(self.where) or {}).get("stream") or {}

    def records(self):
        with self.lake.lock:
            return sum(len(host) for host in self.lake.records.values())

    def account(self):
        spool = status(self.where)["spool"]
        assert spool["balanced"] and spool["accepted"] == spool["delivered"] + spool["pending"] + sum(spool["dropped"].values())
        return spool

    def stop(self):
        self.collector.send_signal(signal.SIGTERM)
        log = self.collector.communicate(timeout=60)[1]
        assert self.collector.returncode in (0, 1), log
        return log


@pytest.fixture
def place():
    made = Place()
    made.start()
    yield made
    if made.collector.poll() is None:
        made.stop()
    made.lake.close()
    shutil.rmtree(made.room)


def parent_of(pid):
    text = Path(f"/proc/{pid}/stat").read_text()
    return int(text[text.rindex(")") + 2:].split()[1])


def test_a_killed_keeper_is_missed_once_the_streamer_dies_too_and_both_come_back(place):
    streamer = place.stream()["pid"]
    keeper = parent_of(streamer)
    assert parent_of(parent_of(keeper)) == place.collector.pid
    os.kill(keeper, signal.SIGKILL)
    # The streamer itself goes on.
    before = place.records()
    processes(50)
    wait_for(lambda: place.records() >= before + 50)
    assert place.stream()["state"] != "stopped" and place.stream()["pid"] == streamer
    accepted = place.account()["accepted"]
    os.kill(streamer, signal.SIGKILL)
    processes(50)
    wait_for(lambda: place.stream().get("pid") not in (None, streamer) and place.account()["delivered"] >= accepted + 50)
    assert place.account()["dropped"] == dict.fromkeys(place.account()["dropped"], 0)
    log = place.stop()
    assert "streamer is gone" in log and "took over" in log, log
    assert place.lake.duplicates == 0 and not place.lake.breaches


def test_a_spool_that_is_taken_away_is_made_anew_and_delivered(place):
    processes(50)
    streamer = place.stream()["pid"]
    shutil.rmtree(place.spool)
    accepted, before = place.account()["accepted"], place.records()
    processes(200)
    wait_for(lambda: place.account()["accepted"] >= accepted + 200 and place.spool.is_dir())
    wait_for(lambda: place.stream().get("pid") not in (None, streamer))
    processes(50)
    wait_for(lambda: place.records() >= before + 200)
    place.account()
    log = place.stop()
    assert "another than the streamer's" in log and "took over" in log, log
    assert place.lake.duplicates == 0 and not place.lake.breaches
