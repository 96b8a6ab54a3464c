#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast the API answers on a lake of a million processes in 200 runs, the first with 100,000 tasks.

    make build/tests/bench/lake_seed && python3 tests/bench/lake_http.py [DIR]

Seeds DIR (build/bench/lake) when it is not there, starts `tracer datalake` on it and asks 21 times each, over HTTP on
one kept connection: the list of runs, the tree of 100,000 tasks, and a day of one host's series. Prints medians in ms,
by a client in Python and by curl, which throws away what it gets: its time is nearly the server's alone.
"""

import http.client
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from harness.port import free_port  # noqa: E402

ROUNDS = 21


def main():
    lake = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/bench/lake")
    if not lake.exists():
        lake.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([ROOT / "build/tests/bench/lake_seed", lake], check=True)
    port, binary = free_port(), str(ROOT / "build/tracer")
    user = ["--user", "root"] if os.geteuid() == 0 else []
    where = ["--store", f"sqlite:{lake}", *user]
    token = subprocess.run([binary, "datalake", "token", "create", "--role", "read", *where], check=True,
                           capture_output=True, text=True).stdout.strip()
    server = subprocess.Popen([binary, "datalake", "--listen", f"127.0.0.1:{port}", *where], stderr=subprocess.DEVNULL)
    try:
        time.sleep(1)
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

        def ask(path):
            link.request("GET", path, headers={"Authorization": f"Bearer {token}"})
            answer = link.getresponse()
            text = answer.read()
            assert answer.status == 200, text[:300]
            return text

        run = json.loads(ask("/api/v1/runs?sort=-tasks&limit=1&fields=id,tasks"))["items"][0]
        series = json.loads(ask("/api/v1/series?kind=host&limit=1"))["items"][0]
        paths = {
            "200 runs": "/api/v1/runs?sort=-start_ns&limit=200",
            f"tree of {run['tasks']:,} tasks": f"/api/v1/runs/{run['id']}/tree",
            "a day of three metrics, steps of 10 s": f"/api/v1/points?kind=host&owner_id={series['owner_id']}&step=10s"
            f"&metrics=cpu_user_ns,cpu_system_ns,memory_available_bytes&since={series['first_ns']}&until={series['last_ns']}",
        }
        for name, path in paths.items():
            took = []
            for _ in range(ROUNDS):
                start = time.monotonic()
                size = len(ask(path))
                took.append((time.monotonic() - start) * 1000)
            curl = sorted(float(subprocess.run(
                ["curl", "--noproxy", "*", "-s", "-o", "/dev/null", "-w", "%{time_total}", "-H",
                 f"Authorization: Bearer {token}", f"http://127.0.0.1:{port}{path}"],
                check=True, capture_output=True, text=True).stdout) * 1000 for _ in range(ROUNDS))
            print(f"{name:40} curl {statistics.median(curl):7.1f} ms  least {curl[0]:7.1f} ms")
            print(f"{name:40} median {statistics.median(took):7.1f} ms  least {min(took):7.1f} ms  {size:>12,} bytes")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
