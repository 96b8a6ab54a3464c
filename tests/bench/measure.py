# SPDX-License-Identifier: Apache-2.0
"""Interleaved A/B measurement: rounds in which every arm runs every storm, in an order drawn anew; for the storms whose cost
is small, many short blocks A B B A, which a drift of the machine does not move; then ratios and intervals."""

import contextlib
import math
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

from bench import tools
from bench.tools import Recorder, Unavailable
from harness.tracer import BUILD, ROOT

# Storm: how much of it, about two thirds of a second on the machine of docs/BENCHMARKS.md.
STORMS = {"spawn": 1000, "exec": 2000, "execs": 3300, "switch": 70_000, "syscall": 2_700_000, "fault": 230_000, "pipe": 600}
TITLES = {"spawn": "fork, exec, wait", "exec": "exec", "execs": "exec on all cores", "switch": "context switch", "syscall": "syscall", "fault": "page fault", "pipe": "pipe"}


PAIRED = ("spawn", "exec", "execs")  # measured in blocks, at half the size


def storms_program():
    source, target = ROOT / "tests" / "bench" / "storms.c", BUILD / "bench" / "storms"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static", str(source), "-o",
                        str(target)], check=True)
    return target


def storm(name, amount, recorder=None):
    """Wall time, CPU time of the storm itself, and of storm and recorder together, in nanoseconds."""
    pid = recorder.process.pid if recorder is not None and recorder.process else None
    before = tools.cpu_ns(pid) if pid else 0
    done = subprocess.run([str(storms_program()), name, str(amount)], capture_output=True, check=True, timeout=300)
    wall, cpu = map(int, done.stdout.split()[-2:])
    return wall, cpu, cpu + (tools.cpu_ns(pid) - before if pid else 0)


class Control(Recorder):
    """Nothing again: what this machine's noise alone does to a ratio."""

    name = "control"
    title = "nothing, again (noise)"


def show_progress(what, number, count):
    if sys.stderr.isatty():
        print(f"\r{what} {number + 1} of {count}", end="" if number + 1 < count else "\n", file=sys.stderr, flush=True)


def interleaved(recorders, rounds, storms=None, seed=1, others=(), other_rounds=0, few=()):
    """{storm: {recorder name: [(what storm() tells, the same beside nothing), per round]}}, and {recorder name: reason} for
    those that do not run here.

    others take part in the first other_rounds rounds only, as do the storms in few.
    """
    storms = storms or STORMS
    generator = random.Random(seed)
    results = {name: {recorder.name: [] for recorder in (*recorders, *others)} for name in storms}
    refused = {}
    for name, amount in storms.items():
        storm(name, amount)  # caches, frequency
    for number in range(rounds):
        present = (*recorders, *others) if number < other_rounds else recorders
        order = [recorder for recorder in present if recorder.name not in refused]
        generator.shuffle(order)
        for recorder in order:
            with tempfile.TemporaryDirectory(prefix="tracer-bench-") as folder:
                try:
                    running = recorder(folder)
                    with running:
                        figures = {name: storm(name, amount, running) for name, amount in storms.items()
                                   if number < other_rounds or name not in few}
                    running.check()
                    for name, figure in figures.items():
                        results[name][recorder.name].append(figure)
                except Unavailable as why:
                    refused[recorder.name] = str(why)
        show_progress("round", number, rounds)
    return {name: {recorder: list(zip(figures, of_storm[Recorder.name])) for recorder, figures in of_storm.items()}
            for name, of_storm in results.items()}, refused


def middle(one, other):
    """The geometric mean of each figure of two storms."""
    return tuple(math.sqrt(a * b) for a, b in zip(one, other))


def paired(recorder, names, blocks, control_blocks):
    """As interleaved(), for one recorder and the control, in blocks: nothing, twice the recorder, nothing. What drifts
    evenly within a block cancels out, and a block takes seconds."""
    storms = {name: STORMS[name] // 2 for name in names}
    results = {name: {recorder.name: [], Control.name: []} for name in names}
    every = max(blocks // control_blocks, 1) if control_blocks else 0

    def block(kind, folder):
        figures = [{name: storm(name, amount) for name, amount in storms.items()}]
        with kind(folder) as running:
            figures += [{name: storm(name, amount, running) for name, amount in storms.items()} for _ in range(2)]
        running.check()
        figures.append({name: storm(name, amount) for name, amount in storms.items()})
        for name in names:
            first, second, third, last = (figure[name] for figure in figures)
            results[name][kind.name].append((middle(second, third), middle(first, last)))

    for name, amount in storms.items():
        storm(name, amount)
    for number in range(blocks):
        for kind in (recorder, Control) if every and number % every == 0 else (recorder,):
            with tempfile.TemporaryDirectory(prefix="tracer-bench-") as folder:
                block(kind, folder)
        show_progress("block", number, blocks)
    return results


def bpf_ns(pid):
    """Nanoseconds in the hooks that a process holds, since the kernel was told to count them. Its iterators run in its own
    time, and are counted there."""
    spent, iterators = {}, set()
    for path in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        lines = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
        if "run_time_ns" in lines:
            spent[lines["prog_id"].strip()] = int(lines["run_time_ns"])
        elif lines.get("link_type", "").strip() == "iter":
            iterators.add(lines["prog_id"].strip())
    return sum(ns for program, ns in spent.items() if program not in iterators)


@contextlib.contextmanager
def bpf_counted():
    """The kernel's own clock on every BPF program of the host: some tens of nanoseconds for each call, so briefly."""
    switch = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")
    before = switch.read_text()
    switch.write_text("1")
    try:
        yield
    finally:
        switch.write_text(before)


def direct(recorder, names, rounds=5):
    """{storm: (CPU of the storm, of that in the recorder's BPF programs, the recorder's own), a start and end each, in ns}.

    The ratio of two clocks that run at the same time on the same work: what else the machine does moves both alike. The
    storms are long, so that what the recorder does each second anyway is counted for the second that they take.
    """
    results = {}
    for name in names:
        amount, each = STORMS[name] * 3, []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory(prefix="tracer-bench-") as folder, recorder(folder) as running, bpf_counted():
                pid = tools.worker(running.process.pid)
                ended = running.status()["processes_ended"]
                kernel, own = bpf_ns(pid), tools.cpu_ns(pid)
                _, cpu, _ = storm(name, amount)
                time.sleep(0.3)  # what it still had to drain
                kernel, own = bpf_ns(pid) - kernel, tools.cpu_ns(pid) - own
                ended = running.status()["processes_ended"] - ended  # those of others that ran meanwhile too
                each.append((cpu / amount, kernel / ended, own / ended))
        results[name] = tuple(statistics.median(figures) for figures in zip(*each))
    return results


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
    return f"{(value - 1) * 100:+.1f}"


def table(results, recorders, refused, what):
    """Markdown: a row for each recorder, a column for each storm. what: which of the figures of storm()."""
    lines = ["| % more, beside | " + " | ".join(TITLES[name] for name in results) + " |",
             "|---" * (len(results) + 1) + "|"]
    for recorder in recorders:
        if recorder is Recorder:
            continue
        if recorder.name in refused:
            lines.append(f"| {recorder.title} | does not run here: {refused[recorder.name]} |" + " |" * (len(results) - 1))
            continue
        cells = []
        for figures in results.values():
            pairs = figures[recorder.name]
            centre, low, high = ratio([one[what] for one, _ in pairs], [base[what] for _, base in pairs])
            cells.append(f"{percent(centre)} ({percent(low)} … {percent(high)})")
        lines.append(f"| {recorder.title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


__all__ = ["Control", "PAIRED", "STORMS", "direct", "interleaved", "paired", "ratio", "storm", "storms_program", "table", "tools"]
