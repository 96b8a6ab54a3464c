# SPDX-License-Identifier: Apache-2.0
"""The accuracy workloads as one Markdown table: the same join as the tests, with what it found instead of a verdict."""

import collections
import tempfile

from accuracy import join, scenes
from harness.cgroup import cgroup

WORKLOADS = ["threads", "spawn", "ends", "memory", "io", "images", "arguments", "places"]


def row(case, pairs):
    present = [pair for pair in pairs if pair.record is not None]
    right_end = [pair for pair in present if (pair.record["signal"] or 0) == pair.truth["signal"]
                 and (pair.truth["signal"] or pair.record["exit_code"] == pair.truth["exit_code"])]
    errors = [abs(join.cpu_error(pair)) for pair in pairs if join.cpu_error(pair) is not None]
    within = [pair for pair in pairs if join.cpu_error(pair) is not None and join.cpu_right(pair)]
    peaks = [join.relative(pair.record["peak_rss_bytes"], pair.truth["peak_rss_bytes"]) for pair in present
             if "peak_rss_bytes" in pair.truth and pair.record["peak_rss_bytes"] is not None]
    cpu = f"{len(within)} of {len(errors)}, worst {max(errors) / 1000:.0f} µs" if errors else ""
    peak = f"worst {max(peaks) * 100:.2f} %" if peaks else ""
    rare = len(join.inexact(pairs))
    wrong = len({line.split(":")[0] for line in join.differences(pairs)})
    return f"| {case} | {len(pairs)} | {len(present)} | {len(right_end)} | {cpu} | {rare or ''} | {peak} | {wrong or ''} |"


def text():
    lines = ["| case | processes | recorded | right code and signal | CPU within 1 % or 50 µs of wait4 | "
             "CPU marked as not exact | peak RSS error | any difference |", "|---|---|---|---|---|---|---|---|"]
    cases = collections.defaultdict(list)

    def add(scene):
        for pair in scene.pairs:
            cases[pair.case].append(pair)

    for name in WORKLOADS:
        with tempfile.TemporaryDirectory(prefix="tracer-accuracy-") as folder:
            add(scenes.record(name, folder))
    with tempfile.TemporaryDirectory(prefix="tracer-accuracy-") as folder, cgroup("memory", "oom") as group:
        group.limit_memory(64 << 20)
        add(scenes.record("oom", folder, group.path))
    for name, arguments, options in (("zombie", (3,), ["--wait"]), ("reuse", (200,), []), ("waits", (2000,), [])):
        with tempfile.TemporaryDirectory(prefix="tracer-accuracy-") as folder:
            add(scenes.record(name, folder, *arguments, options=options))
    with tempfile.TemporaryDirectory(prefix="tracer-accuracy-") as folder, cgroup("cpuacct", "storm") as group:
        scene = scenes.record("storm", folder, 10000, 8, group=group)
        counted, summed = group.cpu_ns(), scenes.cpu_in_tree(scene)
        cases["10,000 processes of 0.3 to 50 ms"] = scene.pairs
    lines += [row(case, pairs) for case, pairs in cases.items()]
    return "\n".join(lines) + f"""

CPU of all records of the storm: {summed / 1e9:.3f} s; the cgroup's own counter: {counted / 1e9:.3f} s; difference
{(summed / counted - 1) * 100:+.2f} %.
"""
