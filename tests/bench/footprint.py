# SPDX-License-Identifier: Apache-2.0
"""What the collector itself takes: CPU and memory when idle, memory with 10,000 processes, and a million processes recorded."""

import subprocess
import tempfile
import time

from bench import measure, tools
from harness.tracer import BINARY


def idle(seconds):
    """CPU share of one core over that time, and what is resident at its end, of all processes of the service."""
    with tempfile.TemporaryDirectory(prefix="tracer-bench-") as folder, tools.Tracer(folder) as collector:
        pid = collector.process.pid
        time.sleep(3)
        before, started = tools.cpu_ns(pid), time.monotonic_ns()
        time.sleep(seconds)
        share = (tools.cpu_ns(pid) - before) / (time.monotonic_ns() - started)
        return {"cpu_share": share, "seconds": seconds, **tools.memory(pid)}


def crowd(count=10_000):
    """RSS with that many living processes, seeded ones: they run before the collector does."""
    with subprocess.Popen([measure.storms_program(), "crowd", str(count)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as sleepers:
        try:
            assert sleepers.stdout.readline() == b"ready\n"
            with tempfile.TemporaryDirectory(prefix="tracer-bench-") as folder, tools.Tracer(folder) as collector:
                time.sleep(5)
                before, started = tools.cpu_ns(collector.process.pid), time.monotonic_ns()
                time.sleep(10)
                share = (tools.cpu_ns(collector.process.pid) - before) / (time.monotonic_ns() - started)
                return {"processes": count, "cpu_share": share, **tools.memory(collector.process.pid)}
        finally:
            sleepers.stdin.close()


def events_of(status):
    """Sums of seen, submitted, lost and filtered over the rings that status shows."""
    sums = dict.fromkeys(("seen", "submitted", "lost", "filtered"), 0)

    def walk(value):
        if isinstance(value, dict):
            if all(isinstance(value.get(name), int) for name in sums):
                for name in sums:
                    sums[name] += value[name]
                return
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(status)
    return sums


def many(count):
    """That many processes under the collector: the accounting identity and how many records reached the spool."""
    with tempfile.TemporaryDirectory(prefix="tracer-bench-") as folder, tools.Tracer(folder) as collector:
        before = events_of(collector.status())
        duration_ns, *_ = measure.storm("fork", count)
        time.sleep(2)
        after = events_of(collector.status())
        events = {name: after[name] - before[name] for name in after}
        memory = tools.memory(collector.process.pid)
        cpu = tools.cpu_ns(collector.process.pid)
        collector.process.terminate()
        collector.process.wait(60)
        dump = subprocess.Popen([str(BINARY), "spool", "dump", "--kind", "process", str(collector.home / "spool")],
                                stdout=subprocess.PIPE)
        records = sum(1 for line in dump.stdout if b'"comm":"storms"' in line)
        dump.wait()
        return {"processes": count, "seconds": duration_ns / 1e9, "events": events, "records": records,
                "cpu_seconds": cpu / 1e9, **memory}
