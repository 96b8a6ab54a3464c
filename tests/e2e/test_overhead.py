# SPDX-License-Identifier: Apache-2.0
"""The short form of the benchmarks: wide bounds that a busy machine meets too, to notice when something gets much worse."""

import pytest

from bench import footprint, measure, tools
from bench.tools import Recorder


def test_storms_are_not_slowed_down():
    """By CPU time of storm and collector together: it hardly depends on what else the machine does."""
    recorders = [Recorder, tools.Tracer]
    storms = {"exec": 1500, "switch": 30_000, "syscall": 1_500_000, "fault": 120_000}
    results, refused = measure.interleaved(recorders, 6, storms, progress=False)
    assert not refused, refused
    for storm, bound in {"exec": 1.12, "switch": 1.12, "syscall": 1.05, "fault": 1.10}.items():
        ratios = measure.ratio([cpu for _, cpu in results[storm]["tracer"]], [cpu for _, cpu in results[storm]["nothing"]])
        assert ratios[1] < bound, f"{storm}: {ratios[0]:.3f} ({ratios[1]:.3f} to {ratios[2]:.3f})"


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
