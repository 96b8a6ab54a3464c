# SPDX-License-Identifier: Apache-2.0
"""The recorders that are measured against each other: how each is started, when it is ready, how it is stopped."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from harness.tracer import BINARY

READY_SECONDS = 20


class Unavailable(Exception):
    """This recorder does not run here; the text says why."""


class Recorder:
    """Base: nothing is recorded."""

    name = "nothing"
    title = "nothing"
    settle_seconds = 0.0
    stop_signal = signal.SIGINT
    output = None  # the file in the folder that fills while processes start; None: nothing is checked

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.process = None

    def command(self):
        return None

    def ready(self):
        return True

    def __enter__(self):
        command = self.command()
        if command is None:
            return self
        if shutil.which(command[0]) is None:
            raise Unavailable(f"{command[0]} is not installed")
        self.log = open(self.folder / f"{self.name}.log", "wb")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
                                        start_new_session=True)
        end = time.monotonic() + READY_SECONDS
        while not self.ready():
            if self.process.poll() is not None or time.monotonic() > end:
                self.__exit__()
                raise Unavailable(f"{self.name} did not start: {self.last_words()}")
            time.sleep(0.05)
        time.sleep(self.settle_seconds)
        if self.process.poll() is not None:
            self.__exit__()
            raise Unavailable(f"{self.name} ended by itself: {self.last_words()}")
        return self

    def __exit__(self, *_):
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(self.stop_signal)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None
        self.log.close()

    def last_words(self):
        lines = (self.folder / f"{self.name}.log").read_text(errors="replace").strip().splitlines()
        reasons = [line for line in lines if "nable to" in line] or lines[-1:]
        return reasons[0].split(". ")[0][:160] if reasons else "it said nothing"

    def check(self):
        """After it stopped: what ran and recorded nothing is not to be compared with."""
        if self.output is not None and not (self.folder / self.output).stat().st_size:
            raise Unavailable(f"{self.name} recorded nothing")


class Tracer(Recorder):
    name = "tracer"
    title = "tracer collect"
    settle_seconds = 0.3

    def __enter__(self):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="tracer-bench-", dir=self.folder))
        return super().__enter__()

    def __exit__(self, *_):
        super().__exit__()
        shutil.rmtree(self.home, ignore_errors=True)

    def command(self):
        return [str(BINARY), "collect", "--spool", str(self.home / "spool"), "--spool-cap-bytes", "20G",
                "--status-socket", str(self.home / "status"), "--status-processes-socket", ""]

    def status(self):
        done = subprocess.run([str(BINARY), "status", "--json", "--socket", str(self.home / "status")],
                              capture_output=True, check=False, timeout=10)
        try:
            return json.loads(done.stdout)
        except json.JSONDecodeError:
            return None

    def ready(self):
        return self.status() is not None


class Bpftrace(Recorder):
    name = "bpftrace"
    output = "bpftrace.log"
    title = "bpftrace execsnoop.bt"
    settle_seconds = 1.0

    def command(self):
        return ["bpftrace", shutil.which("execsnoop.bt") or "execsnoop.bt"]

    def ready(self):
        return b"ARGS" in (self.folder / "bpftrace.log").read_bytes()


class LibbpfExecsnoop(Recorder):
    name = "execsnoop"
    output = "execsnoop.log"
    title = "execsnoop of bcc's libbpf-tools"
    settle_seconds = 1.5

    def command(self):
        return ["execsnoop"]


class BccExecsnoop(Recorder):
    name = "execsnoop-bpfcc"
    output = "execsnoop-bpfcc.log"
    title = "execsnoop of bcc (Python)"
    settle_seconds = 6.0

    def command(self):
        return ["execsnoop-bpfcc"]


class PerfTrace(Recorder):
    name = "perf"
    output = "perf.txt"
    title = "perf trace -e execve"
    settle_seconds = 2.0

    def command(self):
        return ["perf", "trace", "-a", "-e", "execve", "-o", str(self.folder / "perf.txt")]


class PerfSched(Recorder):
    name = "perf-sched"
    output = "perf.data"
    title = "perf record, process lifecycle"
    settle_seconds = 1.5

    def command(self):
        return ["perf", "record", "-a", "-q", "-e", "sched:sched_process_exec,sched:sched_process_fork,sched:sched_process_exit",
                "-o", str(self.folder / "perf.data")]


class Forkstat(Recorder):
    name = "forkstat"
    output = "forkstat.log"
    title = "forkstat (netlink)"
    settle_seconds = 0.5

    def command(self):
        return ["forkstat", "-e", "fork,exec,exit"]


class Auditd(Recorder):
    """auditd in a folder of its own with one rule: every execve. Auditing is switched off again at the end."""

    name = "auditd"
    output = "audit/audit.log"
    title = "auditd, rule on execve"
    stop_signal = signal.SIGTERM
    settle_seconds = 1.0

    def __enter__(self):
        home = self.folder / "audit"
        home.mkdir(exist_ok=True)
        home.chmod(0o750)
        (home / "auditd.conf").write_text(
            f"log_file = {home}/audit.log\nlog_format = RAW\nlog_group = root\nflush = INCREMENTAL_ASYNC\nfreq = 50\n"
            "max_log_file = 200\nnum_logs = 2\nmax_log_file_action = ROTATE\nspace_left = 75\nadmin_space_left = 50\n"
            "space_left_action = SUSPEND\nadmin_space_left_action = SUSPEND\ndisk_full_action = SUSPEND\n"
            "disk_error_action = SUSPEND\n")
        (home / "auditd.conf").chmod(0o640)
        super().__enter__()
        for rule in (["-e", "1"], ["-b", "8192"], ["-a", "always,exit", "-F", "arch=b64", "-S", "execve"]):
            done = subprocess.run(["auditctl", *rule], capture_output=True, check=False)
            if done.returncode:
                self.__exit__()
                raise Unavailable(f"auditctl {' '.join(rule)}: {done.stderr.decode(errors='replace').strip()[:120]}")
        return self

    def __exit__(self, *_):
        subprocess.run(["auditctl", "-D"], capture_output=True, check=False)
        subprocess.run(["auditctl", "-e", "0"], capture_output=True, check=False)
        super().__exit__()

    def command(self):
        return ["auditd", "-n", "-c", str(self.folder / "audit")]


OTHERS = [Bpftrace, LibbpfExecsnoop, BccExecsnoop, PerfTrace, PerfSched, Forkstat, Auditd]
PACKAGES = ["bpftrace", "libbpf-tools", "bpfcc-tools", "linux-perf", "forkstat", "auditd"]


def worker(pid):
    """Of a collector, whose first process only starts images, the image that records; else pid itself."""
    if pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="ascii").strip() != "tracer-parent":
        return pid
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return next(int(child) for child in children
                if pathlib.Path(f"/proc/{child}/comm").read_text(encoding="ascii").strip() == "tracer")


def cpu_ns(pid):
    """CPU time a process has used, all threads, dead ones included (to the tick) or living ones (to the nanosecond)."""
    total, pid = 0, worker(pid)
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as file:
                total += int(file.read().split()[0])
        except OSError:
            continue
    return total


def service(pid):
    """Of a collector, all its processes: the one that was started, the image that records, keeper and streamer; else pid itself."""
    found = [pid]
    for one in found:
        for task in os.listdir(f"/proc/{one}/task"):
            found += map(int, pathlib.Path(f"/proc/{one}/task/{task}/children").read_text(encoding="ascii").split())
    return found


def memory(pid):
    """What is resident of all processes of a service, and their share of it where pages belong to several."""
    sums = {"Rss": 0, "Pss": 0}
    for one in service(pid):
        with open(f"/proc/{one}/smaps_rollup", encoding="ascii") as lines:
            for line in lines:
                name = line.split(":")[0]
                if name in sums:
                    sums[name] += int(line.split()[1]) * 1024
    assert all(sums.values()), sums
    return {"rss_bytes": sums["Rss"], "pss_bytes": sums["Pss"]}
