#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast the API answers on a lake of a million processes in 200 runs, the first with 100,000 tasks.

    make build/tracer build/tests/bench/lake_seed && python3 tests/bench/lake_http.py [DIR]
    tests/run clickhouse && build/venv/bin/python tests/bench/lake_http.py --clickhouse [DIR]

Seeds DIR (build/bench/lake; build/bench/clickhouse) when it is not there, starts `tracer datalake` on it, with --clickhouse
the real engine of the tests in front of DIR too, and asks 21 times each, over HTTP on one kept connection, turn about so
that noise meets all alike. Prints for each question the median and the least in ms as a client in Python sees it, the same
by curl, which throws away what it gets, and the CPU time of the datalake and of the engine: load beside moves that least.
"""

import argparse
import http.client
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from harness.port import free_port  # noqa: E402

ROUNDS = int(os.environ.get("ROUNDS", "21"))


def cpu_ms(process):
    """CPU time of all its threads so far; the clock of a process by its id (clock_getcpuclockid(3))."""
    return time.clock_gettime((~process.pid << 3) | 2) * 1000 if process else 0.0


def engine_on(directory):
    directory.parent.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen([sys.executable, ROOT / "tests/harness/clickhouse_server.py", directory, "--password", "x"],
                               stdout=subprocess.PIPE, text=True)
    return process, f"clickhouse://default:x@127.0.0.1:{int(process.stdout.readline().split()[1])}/lake?fsync=0"


# What the tables of `tracer processes`, `tracer tasks` and `tracer runs` ask for (cli/runs.c).
PROCESSES = "/api/v1/processes?fields=start_ns,end_ns,host,host_id,pid,tool,comm,cpu_ns,peak_rss_bytes,rchar_bytes," \
            "wchar_bytes,exit_code,signal,oom,args&limit=100"
TASKS = "/api/v1/tasks?fields=start_ns,end_ns,task_name,task,sample,processes,cpu_ns,peak_rss_bytes,rchar_bytes," \
        "wchar_bytes,exit_code,signal,oom&limit=100"


def questions(ask):
    run = json.loads(ask("/api/v1/runs?sort=-tasks&limit=1&fields=id,tasks"))["items"][0]
    series = json.loads(ask("/api/v1/series?kind=host&limit=1"))["items"][0]
    of_run = f"run_id={run['id']}"
    return {
        "200 runs": "/api/v1/runs?sort=-start_ns&limit=200",
        f"tree of {run['tasks']:,} tasks": f"/api/v1/runs/{run['id']}/tree",
        "a day of three metrics, steps of 10 s": f"/api/v1/points?kind=host&owner_id={series['owner_id']}&step=10s"
        f"&metrics=cpu_user_ns,cpu_system_ns,memory_available_bytes&since={series['first_ns']}&until={series['last_ns']}",
        "one run": f"/api/v1/runs/{run['id']}",
        "its latest tasks": f"{TASKS}&{of_run}&sort=-start_ns",
        "its tasks with the most CPU": f"{TASKS}&{of_run}&sort=-cpu_ns",
        "its first processes": f"{PROCESSES}&{of_run}",
        "its latest processes": f"{PROCESSES}&{of_run}&sort=-id",
        "its processes with the most CPU": f"{PROCESSES}&{of_run}&sort=-cpu_ns",
        "its failed processes": f"{PROCESSES}&{of_run}&exit_code.gt=0",
        "its first processes, all columns": f"/api/v1/processes?{of_run}&limit=100",
        "latest processes of all": f"{PROCESSES}&sort=-id",
        "processes of all with the most CPU": f"{PROCESSES}&sort=-cpu_ns",
    }


def measure(paths, ask, curl, processes):
    took = {name: {"python": [], "curl": [], **{who: [] for who in processes}} for name in paths}
    size = {}
    for _ in range(ROUNDS):
        for name, path in paths.items():
            before = {who: cpu_ms(process) for who, process in processes.items()}
            start = time.monotonic()
            size[name] = len(ask(path))
            took[name]["python"].append((time.monotonic() - start) * 1000)
            for who, process in processes.items():
                took[name][who].append(cpu_ms(process) - before[who])
            took[name]["curl"].append(curl(path))
    print(f"{'median / least, ms':40}" + "".join(f"{who:>18}" for who in next(iter(took.values()))) + f"{'bytes':>14}")
    for name, times in took.items():
        cells = "".join(f"{statistics.median(t):9.1f} /{min(t):7.1f}" for t in times.values())
        print(f"{name:40}{cells}{size[name]:>14,}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--clickhouse", action="store_true")
    parser.add_argument("directory", nargs="?", type=pathlib.Path)
    options = parser.parse_args()
    lake = (options.directory or ROOT / "build/bench" / ("clickhouse" if options.clickhouse else "lake")).resolve()
    binary, server, engine, store = str(ROOT / "build/tracer"), None, None, f"sqlite:{lake}"
    there = lake.exists()
    user = ["--user", "root"] if os.geteuid() == 0 else []
    try:
        if options.clickhouse:
            engine, store = engine_on(lake)
        if not there:
            lake.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run([ROOT / "build/tests/bench/lake_seed", store], check=True)
        with tempfile.TemporaryDirectory() as state:
            where = ["--store", store, "--state", state, *user]
            token = subprocess.run([binary, "datalake", "token", "create", "--role", "read", *where], check=True,
                                   capture_output=True, text=True).stdout.strip()
            port = free_port()
            server = subprocess.Popen([binary, "datalake", "--listen", f"127.0.0.1:{port}", *where],
                                      stderr=subprocess.DEVNULL)
            time.sleep(3)
            link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

            def ask(path):
                link.request("GET", path, headers={"Authorization": f"Bearer {token}"})
                answer = link.getresponse()
                text = answer.read()
                assert answer.status == 200, text[:300]
                return text

            def curl(path):
                return float(subprocess.run(
                    ["curl", "--noproxy", "*", "-s", "-o", "/dev/null", "-w", "%{time_total}", "-H",
                     f"Authorization: Bearer {token}", f"http://127.0.0.1:{port}{path}"],
                    check=True, capture_output=True, text=True).stdout) * 1000

            measure(questions(ask), ask, curl, {"datalake CPU": server, **({"engine CPU": engine} if engine else {})})
            server.terminate()
            server.wait()
            server = None
    finally:
        for process in (server, engine):
            if process:
                process.terminate()
                process.wait()


if __name__ == "__main__":
    main()
