#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ten thousand connected agents against one datalake, on this machine, and an outage of an hour of all of them.

    make build/tracer build/tests/bench/agents_load && python3 tests/bench/agents.py [--agents N] [--interval S] ...

Three runs, each with a datalake of its own: plain HTTP; TLS; and, over TLS, the outage. It is an hour by the clock of the
agents alone: each goes through its failed attempts as core/stream_pause.c says, reckoned and not waited for, and comes back
when the pause then ends, with what gathered in 360 intervals. Prints a table and ends with 1 when a bound is missed. Takes
about four minutes, and the recovery ten to twenty more; `--only plain,tls` leaves that out. With ten times fewer agents and
a tenth of the interval the rate is the same and the ramp shorter.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from harness.port import free_port  # noqa: E402

BOUND_MS, BOUND_MIB, BOUND_PEAK = 1000, 512, 1.5


def memory_mib(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0


def run(options, name):
    """One datalake, one generator: what it printed, with the peak memory."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="agents-", dir=options.directory))
    port, tls = free_port(), name != "plain"
    user = ["--user", "root"] if os.geteuid() == 0 else []
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen([ROOT / "build/tracer", "datalake", "--store", f"sqlite:{folder}/lake", "--listen",
                                   f"127.0.0.1:{port}", "--tls", "on" if tls else "auto", *user], stdout=log, stderr=log)
    try:
        time.sleep(2)
        command = [ROOT / "build/tests/bench/agents_load", "--state", folder / "lake", "--port", str(port), "--server",
                   str(server.pid), "--agents", str(options.agents), "--interval", str(int(options.interval * 1000)),
                   "--seconds", str(options.seconds), "--records", str(options.records), *(["--tls"] if tls else [])]
        if name == "outage":
            command += ["--outage-batches", str(options.outage), "--retry-limit", str(options.retry_limit),
                        "--recovery-limit", "3000"]
        result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        result["memory_mib"] = memory_mib(server.pid)
        return result
    finally:
        server.terminate()
        server.wait(timeout=60)
        if not options.keep:
            shutil.rmtree(folder)


def verdicts(options, name, result):
    """(what, measured, bound, holds) of one run."""
    steady = options.agents / options.interval
    yield ("datalake's peak memory", f"{result['memory_mib']:.0f} MiB", f"< {BOUND_MIB} MiB",
           result["memory_mib"] < BOUND_MIB)
    yield "connections that failed", str(result["failures"]), "0", result["failures"] == 0
    if name == "outage":
        peak = result["busiest_second_of_recovery"]
        yield ("busiest second after the outage", f"{peak} requests, {peak / steady:.2f} of steady", f"<= {BOUND_PEAK} of steady",
               peak <= BOUND_PEAK * steady)
        yield "everything delivered after", f"{result['recovery_s']:.0f} s", "ever", result["recovery_s"] > 0
        return
    yield ("acknowledgement", f"p50 {result['p50_ms']:.0f} ms, p99 {result['p99_ms']:.0f} ms, longest {result['max_ms']:.0f} ms",
           f"p99 < {BOUND_MS} ms", 0 < result["p99_ms"] < BOUND_MS)
    least = steady * options.seconds * 0.97
    yield "acknowledged", f"{result['acknowledged']} batches", f">= {least:.0f}", result["acknowledged"] >= least
    yield "datalake's CPU time of a batch", f"{result['server_cpu_ms_per_batch']:.3f} ms", "", True


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--agents", type=int, default=10000)
    arguments.add_argument("--interval", type=float, default=10, help="seconds between two batches of an agent")
    arguments.add_argument("--seconds", type=int, default=60, help="how long is measured")
    arguments.add_argument("--records", type=int, default=8, help="of a batch")
    arguments.add_argument("--outage", type=int, default=360, help="intervals that the datalake is away")
    arguments.add_argument("--retry-limit", type=int, default=300, help="the agents' longest pause, seconds")
    arguments.add_argument("--only", default="plain,tls,outage")
    arguments.add_argument("--directory", default=tempfile.gettempdir())
    arguments.add_argument("--keep", action="store_true", help="leave the lakes there")
    options = arguments.parse_args()
    missed = 0
    print(f"{options.agents} agents, a batch of {options.records} records every {options.interval:g} s; load average "
          f"{os.getloadavg()[0]:.1f} when it began\n\n| run | what | measured | bound | |\n|---|---|---|---|---|", flush=True)
    for name in options.only.split(","):
        result = run(options, name)
        for what, measured, bound, holds in verdicts(options, name, result):
            missed += not holds
            print(f"| {name} | {what} | {measured} | {bound} | {'' if not bound else 'holds' if holds else 'MISSED'} |",
                  flush=True)
        print(json.dumps(result), file=sys.stderr, flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
