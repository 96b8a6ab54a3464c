# SPDX-License-Identifier: Apache-2.0
"""Interleaved A/B measurement: in each round every arm runs every storm, in an order drawn anew; then ratios and intervals."""

import math
import random
import statistics
import subprocess
import sys
import tempfile

from bench import tools
from bench.tools import Recorder, Unavailable
from harness.tracer import BUILD, ROOT

# Storm: how much of it, about 0.7 s on the machine of docs/BENCHMARKS.md.
STORMS = {"exec": 3000, "switch": 100_000, "syscall": 4_000_000, "fault": 350_000, "pipe": 900}
TITLES = {"exec": "exec", "switch": "context switch", "syscall": "syscall", "fault": "page fault", "pipe": "pipe"}


def storms_program():
    source, target = ROOT / "tests" / "bench" / "storms.c", BUILD / "bench" / "storms"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static", str(source), "-o",
                        str(target)], check=True)
    return target


def storm_ns(name, amount):
    done = subprocess.run([str(storms_program()), name, str(amount)], capture_output=True, check=True, timeout=300)
    return int(done.stdout.split()[-1])


class Control(Recorder):
    """Nothing again: what this machine's noise alone does to a ratio."""

    name = "control"
    title = "nothing, again (noise)"


def interleaved(recorders, rounds, storms=None, progress=True, seed=1):
    """{storm: {recorder name: [ns per round]}}, and {recorder name: reason} for those that do not run here."""
    storms = storms or STORMS
    generator = random.Random(seed)
    results = {storm: {recorder.name: [] for recorder in recorders} for storm in storms}
    refused = {}
    for storm, amount in storms.items():
        storm_ns(storm, amount)  # caches, frequency
    for number in range(rounds):
        order = [recorder for recorder in recorders if recorder.name not in refused]
        generator.shuffle(order)
        for recorder in order:
            with tempfile.TemporaryDirectory(prefix="tracer-bench-") as folder:
                try:
                    with recorder(folder):
                        for storm, amount in storms.items():
                            results[storm][recorder.name].append(storm_ns(storm, amount))
                except Unavailable as why:
                    refused[recorder.name] = str(why)
        if progress and sys.stderr.isatty():
            print(f"\rround {number + 1} of {rounds}", end="", file=sys.stderr, flush=True)
    if progress and sys.stderr.isatty():
        print(file=sys.stderr)
    return results, refused


def ratio(measured, base, seed=2, resamples=4000):
    """Ratio of pairs with a 95 % bootstrap interval: of the mean of the log ratios, the outer tenth cut off each side."""
    logs = [math.log(one / other) for one, other in zip(measured, base)]
    generator = random.Random(seed)

    def centre(values):
        values = sorted(values)
        cut = len(values) // 10
        return statistics.fmean(values[cut:len(values) - cut] if cut else values)

    means = sorted(centre(generator.choices(logs, k=len(logs))) for _ in range(resamples))
    return (math.exp(centre(logs)), math.exp(means[int(0.025 * resamples)]), math.exp(means[int(0.975 * resamples)]))


def percent(value):
    return f"{(value - 1) * 100:+.1f} %"


def table(results, recorders, refused, rounds):
    """Markdown: a row for each recorder, a column for each storm."""
    storms = list(results)
    lines = ["| beside | " + " | ".join(TITLES[storm] for storm in storms) + " |",
             "|---" * (len(storms) + 1) + "|"]
    for recorder in recorders:
        if recorder is Recorder:
            continue
        if recorder.name in refused:
            lines.append(f"| {recorder.title} | does not run here: {refused[recorder.name]} |" + " |" * (len(storms) - 1))
            continue
        cells = []
        for storm in storms:
            middle, low, high = ratio(results[storm][recorder.name], results[storm][Recorder.name])
            cells.append(f"{percent(middle)} ({percent(low)[:-2]} … {percent(high)})")
        lines.append(f"| {recorder.title} | " + " | ".join(cells) + " |")
    assert rounds >= 1
    return "\n".join(lines)


__all__ = ["Control", "STORMS", "interleaved", "ratio", "storm_ns", "storms_program", "table", "tools"]
