# SPDX-License-Identifier: Apache-2.0
"""The short form of the benchmarks: wide bounds that a busy machine meets too, to notice when something gets much worse."""

import subprocess
import time

import pytest

from bench import footprint, measure, tools
from bench.tools import Recorder


def test_storms_are_not_slowed_down():
    """By CPU time of storm and collector together: it hardly depends on what else the machine does."""
    recorders = [Recorder, tools.Tracer]
    storms = {"exec": 1500, "switch": 30_000, "syscall": 1_500_000, "fault": 120_000}
    results, refused = measure.interleaved(recorders, 6, storms)
    assert not refused, refused
    for storm, bound in {"exec": 1.12, "switch": 1.12, "syscall": 1.05, "fault": 1.10}.items():
        ratios = measure.ratio(*zip(*((one[2], base[2]) for one, base in results[storm]["tracer"])))
        assert ratios[1] < bound, f"{storm}: {ratios[0]:.3f} ({ratios[1]:.3f} to {ratios[2]:.3f})"


def test_a_process_costs_little():
    """By the kernel's own clocks: the BPF programs and the collector together, for the start and end of a process."""
    cpu, kernel, own = measure.direct(tools.Tracer, ("exec",), 1)["exec"]
    assert 0 < kernel and 0 < own
    assert (kernel + own) / cpu < 0.04, f"{kernel:.0f} ns in BPF and {own:.0f} in the collector, of {cpu:.0f}"


class SmallRing(tools.Tracer):
    """A ring that a storm fills at once."""

    def command(self):
        return [*super().command(), "--ring-bytes", "64K", "--drain-interval", "1s"]


def lost_and_seen(status):
    gaps = {(gap["room"], gap["reason"]): gap["count"] for gap in status["gaps"]}
    return gaps.get(("ring", "full"), 0), sum(count for (room, _), count in gaps.items() if room == "proc")


def test_a_loss_is_counted_once(tmp_path):
    """Records that found the ring full make processes without a beginning or an end: these are no further losses."""
    with SmallRing(tmp_path) as collector:
        for _ in range(3):
            measure.storm("exec", 700)
            time.sleep(2.5)  # the iterator meets what is left
        for _ in range(20):  # what else the host does is lost too, and told a second later
            status = collector.status()
            lost, unseen = lost_and_seen(status)
            if lost == status["rings"]["lifecycle"]["lost"]:
                break
            time.sleep(0.3)
        assert lost > 100, "the ring took everything: nothing was tested"
        assert lost == status["rings"]["lifecycle"]["lost"]
        assert unseen == 0, status["gaps"]


def killed_at_once(folder, count):
    """How many records of count processes' end found no room; all of them have ended, with what was lost counted."""
    folder.mkdir()
    with subprocess.Popen([measure.storms_program(), "crowd", str(count)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as sleepers:
        assert sleepers.stdout.readline() == b"ready\n"
        with tools.Tracer(folder) as collector:
            before = collector.status()["processes_ended"]
            sleepers.stdin.close()
            sleepers.wait(60)
            end = time.monotonic() + 60
            while collector.status()["processes_ended"] < before + count and time.monotonic() < end:
                time.sleep(0.2)
            status = collector.status()
            ring = status["rings"]["lifecycle"]
            assert status["processes_ended"] >= before + count, status
            assert ring["seen"] == ring["submitted"] + ring["lost"] + ring["filtered"], ring
            return ring["lost"]


def test_nine_thousand_killed_at_once(tmp_path):
    """Their last records come faster than anything can read; the ring holds them, and the reader is called early. Where
    others have the processors it may still come too late: then once more."""
    lost = []
    while len(lost) < 4 and 0 not in lost:
        lost.append(killed_at_once(tmp_path / str(len(lost)), 9000))
    assert 0 in lost, f"records lost each time: {lost}"


def test_idle_footprint():
    idle = footprint.idle(8)
    assert idle["rss_bytes"] <= 12 << 20, idle
    assert idle["cpu_share"] <= 0.02, idle


def test_ten_thousand_living_processes():
    crowd = footprint.crowd(10_000)
    assert crowd["rss_bytes"] <= 32 << 20, crowd


@pytest.mark.parametrize("count", [30_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_every_process_is_accounted_for(count):
    many = footprint.many(count)
    events = many["events"]
    assert events["seen"] >= 2 * count, events
    assert events["seen"] == events["submitted"] + events["lost"] + events["filtered"], events
    if not events["lost"]:
        assert many["records"] >= count, many
