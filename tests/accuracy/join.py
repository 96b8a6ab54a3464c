# SPDX-License-Identifier: Apache-2.0
"""Joins what a workload knows about its processes with what was recorded, and says where they differ."""

import collections
import dataclasses
import json
import re

CPU_SLACK_NS = 50_000
CPU_SLACK = 0.01
# wait4's figure ends when the parent reads it; the dying process goes on to its last switch, later on a busy machine.
CPU_SLACK_ABOVE_NS = 200_000
# The kernel itself passes some processes never, or seconds late, to sched_process_free: one to three in a thousand, in
# bunches (10 of 200 were seen). More than this would be ours.
RARE = 0.05
RARE_LEAST = 5
RSS_SLACK = 0.01
CLOCK_SLACK_NS = 2_000_000
# Less than the time between two processes that have the same pid.
START_SLACK_NS = 50_000


def read_truth(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@dataclasses.dataclass
class Pair:
    truth: dict
    record: dict  # None: missing

    @property
    def case(self):
        return self.truth["case"]


def join(truths, processes):
    """Pairs each truth with the record of its pid whose life lies in the truth's window; a record serves once."""
    by_pid = collections.defaultdict(list)
    for process in processes:
        by_pid[process["pid"]].append(process)
    for candidates in by_pid.values():
        candidates.sort(key=lambda process: process["start_ns"])
    pairs = []
    for truth in sorted(truths, key=lambda truth: truth["before_ns"]):
        candidates = by_pid[truth["pid"]]
        within = [process for process in candidates if truth["before_ns"] - START_SLACK_NS <= process["start_ns"]
                  <= truth["after_ns"]]
        found = within[0] if within else None
        if found is not None:
            candidates.remove(found)
        pairs.append(Pair(truth, found))
    return pairs


def relative(value, truth):
    return abs(value - truth) / truth if truth else float(bool(value))


def cpu_error(pair):
    """CPU error in ns, or None where wait4's figure holds more than this process or nothing is known."""
    truth = pair.truth
    if pair.record is None or "cpu_ns" not in truth or truth.get("with_children"):
        return None
    value = pair.record["cpu_ns"]
    return None if value is None else value - truth["cpu_ns"]


def cpu_right(pair):
    error = cpu_error(pair)
    if error is None:
        return True
    return abs(error) <= max(CPU_SLACK_NS, CPU_SLACK * pair.truth["cpu_ns"])


def hex_args(text):
    """The argument block given in hex, as the list of strings a record holds: U+FFFD for each byte that is not UTF-8."""
    block = bytes.fromhex(text)
    if not block:
        return []
    return [re.sub("[\udc80-\udcff]", "\ufffd", part.decode("utf-8", "surrogateescape"))
            for part in block[:-1].split(b"\0")]


def _same(name):
    def check(truth, record):
        if record[name] != truth[name]:
            return f"{name} is {record[name]!r}, not {truth[name]!r}"
        return None

    return check


def _near(name, relative_slack, absolute_slack):
    def check(truth, record):
        value, right = record[name], truth[name]
        if value is None:
            return f"{name} is unknown, not {right}"
        if abs(value - right) > max(relative_slack * right, absolute_slack):
            return f"{name} is {value}, not {right}"
        return None

    return check


def _at_least(truth, record):
    if record["cpu_ns"] is None or record["cpu_ns"] < truth["cpu_at_least_ns"] - 5_000:
        return f"cpu_ns is {record['cpu_ns']}, not at least {truth['cpu_at_least_ns']}"
    return None


def _cpu(truth, record):
    value, right = record["cpu_ns"], truth["cpu_ns"]
    if value is None:
        return f"cpu_ns is unknown, not {right}"
    if truth.get("with_children"):
        return None if value <= right + max(CPU_SLACK_NS, CPU_SLACK * right) else f"cpu_ns {value} is above {right}"
    if not -max(CPU_SLACK_NS, CPU_SLACK * right) <= value - right <= max(CPU_SLACK_ABOVE_NS, CPU_SLACK * right):
        return f"cpu_ns is {value}, not {right}"
    return None


def _args_hex(truth, record):
    if truth["args_total_bytes"] == 0:
        # Since Linux 5.18 an empty list is made into one empty string.
        return None if record["args"] in ([], [""]) else f"args are {record['args']!r}, not empty"
    if not truth["args_hex"]:
        return None
    right = hex_args(truth["args_hex"])
    return None if record["args"] == right else f"args are {record['args']!r}, not {right!r}"


def _not_args(truth, record):
    return f"args are {record['args']!r}" if truth["not_args"] in (record["args"] or []) else None


def _blocked(truth, record):
    blocked, right = record["blocked_ns"], truth["blocked_ns"]
    value = None if blocked is None else blocked.get(truth["blocked"], 0)
    # A sample stands for the time around it; what lies after the last one is not known.
    interval = (value or 0) / max(1, record["blocked_samples"] or 0)
    if value is None or abs(value - right) > 0.15 * right + interval:
        return f"blocked on {truth['blocked']} for {value}, not {right}: {blocked}, {record['blocked_samples']} samples"
    return None


def _blocked_sum(truth, record):
    summed, right = sum((record["blocked_ns"] or {}).values()), truth["blocked_sum_ns"]
    return None if abs(summed - right) <= 0.01 * right + 10_000_000 else f"blocked for {summed} in all, not {right}"


def _images(truth, record):
    images = record["images"]
    if len(images) != len(truth["image_names"]):
        return f"{len(images)} images, not {len(truth['image_names'])}"
    for number, (image, name, cpu_ns) in enumerate(zip(images, truth["image_names"], truth["image_cpu_ns"])):
        args = record["args"] if number == len(images) - 1 else image.get("args")
        if name is not None and (not args or args[0] != name):
            return f"an image is {args!r}, not {name}"
        # The execve itself, about 0.7 ms, falls between the two measurements.
        if abs(image.get("cpu_ns", 0) - cpu_ns) > 1_500_000 + 0.01 * cpu_ns:
            return f"image {name} has cpu_ns {image.get('cpu_ns', 0)}, not {cpu_ns}"
    total = sum(image.get("cpu_ns", 0) for image in images)
    if abs(total - record["cpu_ns"]) > 50_000 * len(images):
        return f"images sum to {total} ns, the process to {record['cpu_ns']}"
    return None


def _cwd_removed(truth, record):
    cwd = record["cwd"]
    return None if cwd is None or "to-be-removed" in cwd else f"cwd is {cwd!r}"


CHECKS = {
    "exit_code": lambda truth, record: None if truth["signal"] else _same("exit_code")(truth, record),
    "signal": lambda truth, record: None if (record["signal"] or 0) == truth["signal"] else (
        f"signal is {record['signal']!r}, not {truth['signal']}"),
    "core": lambda truth, record: None if record["core_dumped"] == truth["core"] else (
        f"core_dumped is {record['core_dumped']}, not {truth['core']}"),
    "cpu_ns": _cpu,
    "cpu_at_least_ns": _at_least,
    "peak_rss_bytes": _near("peak_rss_bytes", RSS_SLACK, 32 << 10),
    "minor_faults": lambda truth, record: None if truth.get("with_children") else (
        _near("minor_faults", 0, 1)(truth, record)),
    "major_faults": lambda truth, record: None if truth.get("with_children") else (
        _near("major_faults", 0, 0)(truth, record)),
    # The last switch away from a dying task may come after its parent has read the count.
    "voluntary_switches": lambda truth, record: None if truth.get("with_children") else (
        _near("voluntary_switches", 0, 2)(truth, record)),
    "involuntary_switches": lambda truth, record: None if truth.get("with_children") else (
        _near("involuntary_switches", 0, 2)(truth, record)),
    "run_delay_ns": _near("run_delay_ns", 0.01, 5_000_000),
    "rchar_bytes": _near("rchar_bytes", 0, 0),
    "wchar_bytes": _near("wchar_bytes", 0, 0),
    "read_bytes": _near("read_bytes", 0, 0),
    "write_bytes": _near("write_bytes", 0, 0),
    "read_syscalls": _near("read_syscalls", 0, 0),
    "write_syscalls": _near("write_syscalls", 0, 0),
    "threads_max": _near("threads_max", 0, 0),
    "ppid": _same("ppid"),
    "uid": _same("uid"),
    "oom": _same("oom"),
    "args": _same("args"),
    "args_hex": _args_hex,
    "not_args": _not_args,
    "cwd": _same("cwd"),
    "cwd_removed": _cwd_removed,
    "blocked_ns": _blocked,
    "blocked_sum_ns": _blocked_sum,
    "image_names": _images,
}


# What only the final record of the kernel tells, and the member of quality that says whether it came.
FINAL = {"cpu_ns": "cpu", "cpu_at_least_ns": "cpu", "minor_faults": "cpu", "voluntary_switches": "cpu",
         "involuntary_switches": "cpu", "run_delay_ns": "cpu", "image_names": "cpu"}


def inexact(pairs):
    """Those whose CPU figure is marked as less than exact: the kernel freed them without a word."""
    return [pair for pair in pairs if pair.record is not None and "cpu" in pair.record["quality"]]


def inexact_and_wrong(pairs):
    """Their CPU was read microseconds before the end, or more when the machine did something else in between: one in
    a hundred, or two in all, may be off."""
    wrong = [pair for pair in inexact(pairs) if not cpu_right(pair)]
    return wrong if len(wrong) > max(2, 0.01 * len(inexact(pairs))) else []


def differences(pairs):
    """One line for each thing that is missing or wrong."""
    lines = []
    rare = inexact(pairs)
    if len(rare) > RARE_LEAST + RARE * len(pairs):
        lines.append(f"{len(rare)} of {len(pairs)} processes have no exact CPU figure")
    lines += [f"{pair.case} (pid {pair.truth['pid']}): cpu_ns is off by {cpu_error(pair)}"
              for pair in inexact_and_wrong(pairs)]
    for pair in pairs:
        where = f"{pair.case} (pid {pair.truth['pid']})"
        if pair.record is None:
            lines.append(f"{where}: no record")
            continue
        for name, check in CHECKS.items():
            if name not in pair.truth or (name in FINAL and FINAL[name] in pair.record["quality"]):
                continue
            problem = check(pair.truth, pair.record)
            if problem:
                lines.append(f"{where}: {problem}")
        if not pair.record["start_ns"] <= pair.record["end_ns"] <= pair.truth["after_ns"] + CLOCK_SLACK_NS:
            lines.append(f"{where}: ends at {pair.record['end_ns']}, after {pair.truth['after_ns']}")
    return lines
