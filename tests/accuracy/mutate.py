#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows that each trap of an exit record is held by a test: takes its handling out in a copy of the tree, builds that, and runs the
test, which must fail. As root, on a machine that can load BPF, from a tree that is built.

    tests/accuracy/mutate.py [--only TEXT] [--list]

Prints one line for each trap and 'N of M noticed'; exits 1 when one was not. About half a minute each.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROC, COUNTERS, MODULE = "bpf/proc.bpf.c", "bpf/lib/counters.h", "modules/proc.c"
ACCURACY = "tests/accuracy/test_accuracy.py::"
REPORT = "build/asan/unit/test_report"

# Trap, test, and for each file that changes: its path, what stands there (once), what is put in its place.
TRAPS = [
    ("the leader ends before its threads", "test_workload[threads]", (PROC, "\tif (!last)\n", "\tif (!is_leader || (last && !task))\n")),
    ("dead threads are summed by us", "test_workload[io]", (PROC, "\t\tthread_sums_add(sums, task);\n", "\t\t;\n")),
    ("utime + stime are sampled by ticks", "test_workload[spawn]",
     (COUNTERS, "counters->cpu_ns = signal->sum_sched_runtime;", "counters->cpu_ns = signal->utime + signal->stime;")),
    ("figures are final when the task is released", "test_workload[memory]",
     (MODULE, "\tprocess->counters = *counters;\n\tif (process->counters.threads_max", "\tif (process->counters.threads_max")),
    ("the release of some is never told", "test_never_released", (PROC, "\tparting->cpu_ns = cpu_ns;", "\tparting->cpu_ns = 0;")),
    ("ru_maxrss is inherited through exec", "test_workload[memory]",
     (PROC, "event->peak_rss_bytes = peak > now ? peak : now;", "event->peak_rss_bytes = peak + now ? event->maxrss_bytes : 0;")),
    ("the high-water mark lags behind", "test_workload[memory]", (PROC, "event->peak_rss_bytes = peak > now ? peak : now;", "event->peak_rss_bytes = now ? peak : 0;")),
    ("memory given back before the end", "test_workload[memory]", (PROC, "event->peak_rss_bytes = peak > now ? peak : now;", "event->peak_rss_bytes = peak ? now : 0;")),
    ("memory is counted on each CPU apart", "test_workload[memory]", (PROC, "mm_pages_read(mm, cpu_count, &pages);", "mm_pages_read(mm, 0, &pages);")),
    ("signal->ioac has reaped children", "test_workload[io]",
     ("bpf/lib/kernel.h", "\tstruct mm_struct *oom_mm;\n", "\tstruct mm_struct *oom_mm;\n\tstruct task_io_accounting ioac;\n"),
     (COUNTERS, "counters->rchar_bytes += task->ioac.rchar;", "counters->rchar_bytes += task->ioac.rchar + BPF_CORE_READ(task, signal, ioac.rchar);")),
    ("oom_mm marks the victim", "test_oom_kill_in_a_cgroup",
     (PROC, "\tif (signal->oom_mm)\n\t\tevent->flags |= PROC_EXIT_OOM_VICTIM;\n\texit_memory", "\texit_memory")),
    ("which limit it was", "test_oom_kill_in_a_cgroup", ("modules/mem.c", "if (process->oom && process->cgroup && cgroups)", "if (0)")),
    ("the code is in bits 8 to 15", "test_workload[ends]", (MODULE, "(int32_t)(status >> 8 & 0xff)", "(int32_t)(status & 0xff)")),
    ("the signal is in bits 0 to 6", "test_workload[ends]", (MODULE, "(int32_t)(status & 0x7f)", "(int32_t)(status & 0xff)")),
    ("bit 7 is the core", "test_workload[ends]", (MODULE, "(status & 0x80) != 0", "0")),
    ("group_exit_code, where another thread ended all", "test_workload[threads]", (PROC, "\tif (signal->flags & SIGNAL_GROUP_EXIT)\n", "\tif (0)\n")),
    ("an exec from another thread is the leader's", "test_workload[threads]",
     (PROC, "\tevent->identity.parent = (struct event_process_id){ 0 };\n", "\tevent->identity.process.pid = old_pid;\n\tevent->identity.parent = (struct event_process_id){ 0 };\n")),
    ("scripts: what was called, and what ran it", "test_scripts_and_interpreters", (PROC, "\tif (interp != filename) {\n", "\tif (0) {\n")),
    ("real_parent, not the debugger", "test_workload[traced]",
     ("bpf/lib/kernel.h", "\tstruct task_struct *real_parent;\n", "\tstruct task_struct *real_parent;\n\tstruct task_struct *parent;\n"),
     (PROC, "task_plain(leader)->real_parent->group_leader", "task_plain(leader)->parent->group_leader")),
    ("threads of the kernel are no processes", "test_running_processes_are_seeded",
     (PROC, "\t\thost_namespaces_learn(task);\n\t\treturn 0;\n", "\t\thost_namespaces_learn(task);\n")),
    ("a pid alone is no identity", "test_pid_reuse", ("core/process.c", "(process->pid != pid || process->start_boot_ns != start_boot_ns)", "(process->pid != pid)")),
    ("arguments are read whole, up to 16 KiB", "test_argument_bounds", (PROC, "size = event->args_total > PROC_ARGS_MAX ? PROC_ARGS_MAX : event->args_total;",
                                                                       "size = event->args_total > 4096 ? 4096 : event->args_total;")),
    ("a task's peak is no sum over its processes", REPORT,
     ("core/report.c", "\t} else if (bytes > sum->peak_bytes) {\n\t\tsum->peak_bytes = bytes;", "\t} else {\n\t\tsum->peak_bytes += bytes;")),
]


def copy(folder):
    """The sources and what was built of them."""
    subprocess.run(["sh", "-c", f'git ls-files -z --cached --others --exclude-standard | tar -c --null --no-recursion -T - | tar -x -C "{folder}"'], cwd=ROOT, check=True)
    (folder / "build").mkdir(exist_ok=True)
    for name in ("obj", "bpf", "gen", "asan", "arch", "deps", "tracer.debug"):
        source = ROOT / "build" / name
        if source.exists():
            subprocess.run(["cp", "-a", source, folder / "build" / name], check=True)


def run(folder, test):
    """The lines of the test, None where it passed."""
    if test == REPORT:
        subprocess.run(["make", "-s", test], cwd=folder, check=True, capture_output=True)
        done = subprocess.run([folder / test], cwd=folder, capture_output=True, text=True, timeout=300)
    else:
        python = ROOT / "build/venv/bin/python"
        done = subprocess.run([python, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-c", "tests/pytest.ini", "--rootdir", ".", ACCURACY + test],
                              cwd=folder, capture_output=True, text=True, timeout=600)
    return None if done.returncode == 0 else done.stdout + done.stderr


def attempt(folder, trap):
    kept = {}
    try:
        for path, old, new in trap[2:]:
            text = (folder / path).read_text()
            if text.count(old) != 1:
                return f"stands {text.count(old)} times in {path}: {old.strip()[:60]}"
            kept[path] = text
            (folder / path).write_text(text.replace(old, new))
        done = subprocess.run(["make", "-s", "-j2", "WERROR=", "build/tracer"], cwd=folder, capture_output=True, text=True)
        if done.returncode:
            return "does not compile: " + next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[-200:])
        output = run(folder, trap[1])
        if output is None:
            return "NOT NOTICED"
        lines = [line for line in output.splitlines() if line.startswith("E  ")] or output.strip().splitlines()
        return "ok " + " ".join(" ".join(lines[:2]).split())[:150]
    finally:
        for path, text in kept.items():
            (folder / path).write_text(text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", metavar="TEXT", action="append", help="traps with TEXT in their name")
    parser.add_argument("--list", action="store_true")
    chosen = parser.parse_args()
    traps = [trap for trap in TRAPS if not chosen.only or any(text in trap[0] for text in chosen.only)]
    if chosen.list:
        print("| trap | test |\n|---|---|")
        for trap in traps:
            print(f"| {trap[0]} | `{trap[1]}` |")
        return 0
    if os.geteuid() != 0 or not (ROOT / "build/tracer").exists():
        sys.exit("as root, in a tree that is built")
    bad = 0
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tracer-traps-"))
    try:
        copy(folder)
        for trap in traps:
            result = attempt(folder, trap)
            bad += not result.startswith("ok ")
            print(f"{'ok ' if result.startswith('ok ') else 'BAD'} {trap[0]:52} {trap[1]:36} {result.removeprefix('ok ')}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(traps) - bad} of {len(traps)} noticed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
