# SPDX-License-Identifier: Apache-2.0
"""Who a process is (parent, user, session, group, namespaces, name) where the kernel's records leave out what the collector
knows already: everywhere but under a filter, before everything that lives was read, and after a full ring."""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import time

import pytest

from harness import tracer

NOBODY = 65534
PR_SET_NAME = 15


@contextlib.contextmanager
def collector(tmp_path, *options):
    spool, socket = tmp_path / "spool", tmp_path / "status.sock"
    process = subprocess.Popen([tracer.BINARY, "collect", "--spool", spool, "--status-socket", socket,
                                "--status-processes-socket", "", *options], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while not socket.exists():
            assert process.poll() is None and time.monotonic() < deadline, "the collector did not start"
            time.sleep(0.05)
        process.spool, process.socket = spool, socket
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def records(spool):
    out = subprocess.run([tracer.BINARY, "spool", "dump", spool], check=True, capture_output=True, text=True).stdout
    return {(record["pid"], record["exit_code"]): record for record in map(json.loads, out.splitlines())
            if record["kind"] == "process"}


def child(code, *steps, command=None):
    """Forks; the child takes the steps, then runs the command or ends with the code. Its pid."""
    pid = os.fork()
    if not pid:
        try:
            for step in steps:
                step()
            if command:
                os.execvp(command[0], command)
        finally:
            os._exit(code)
    return pid


def be_nobody():
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def be_called(name):
    ctypes.CDLL(None).prctl(PR_SET_NAME, name, 0, 0, 0)


def scene():
    """{what: (pid, code)} of processes that end at once."""
    ends = {
        "as its parent": (child(31), 31),
        "another user": (child(32, be_nobody), 32),
        "a session": (child(33, os.setsid), 33),
        "a name": (child(34, lambda: be_called(b"renamed")), 34),
        "exec": (child(0, command=["sh", "-c", "exit 35"]), 35),
        "exec, another user": (child(0, be_nobody, command=["sh", "-c", "exit 36"]), 36),
        "exec, a session": (child(0, os.setsid, command=["sh", "-c", "exit 37"]), 37),
        "exec, a group": (child(0, lambda: os.setpgid(0, 0), command=["sh", "-c", "exit 38"]), 38),
        "exec, namespaces": (child(0, command=["unshare", "--uts", "sh", "-c", "exit 39"]), 39),
    }
    for pid, code in ends.values():
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == code
    return ends


def check(found, ends):
    own = {"uid": os.getuid(), "gid": os.getgid(), "session": os.getsid(0), "process_group": os.getpgid(0)}
    nobody = own | {"uid": NOBODY, "gid": NOBODY}
    for what, (pid, code) in ends.items():
        record = found[pid, code]
        wanted = own | {"ppid": os.getpid(), "pid_in_namespace": pid}
        if "user" in what:
            wanted |= nobody
        if "session" in what:
            wanted |= {"session": pid, "process_group": pid}
        if "group" in what:
            wanted["process_group"] = pid
        if what == "a name":
            wanted["comm"] = "renamed"
        assert {name: record[name] for name in wanted} == wanted, what
        # unshare calls exec in the namespace it made.
        assert ("namespaces" in record) == ("namespaces" in what), what
        assert record["parent_start_boot_ns"] and record["run"] == found[ends["exec"]]["run"], what


@pytest.mark.parametrize("filtered", [False, True])
def test_who_it_is(tmp_path, filtered):
    rules = tmp_path / "rules"
    rules.mkdir()
    if filtered:
        (rules / "filter.yaml").write_text("filter:\n  - exclude: {comm: nosuchname}\n")
    with collector(tmp_path, "--rules-directory", rules) as process:
        ends = scene()
    check(records(process.spool), ends)


def status(process):
    return json.loads(subprocess.run([tracer.BINARY, "status", "--json", "--socket", process.socket], check=False,
                                     capture_output=True).stdout or "{}")


def test_who_it_is_after_a_full_ring(tmp_path):
    """The record of a fork is lost, that of its end is not: it says all."""
    with collector(tmp_path, "--ring-bytes", "512K") as process:
        image = status(process)["collector_pid"]
        os.kill(image, signal.SIGSTOP)
        subprocess.run(["sh", "-c", "i=0; while [ $i -lt 2500 ]; do (:); i=$((i + 1)); done"], check=True)
        go, stop = os.pipe()
        late = child(41, be_nobody, os.setsid, lambda: os.close(stop), lambda: os.read(go, 1))
        os.kill(image, signal.SIGCONT)
        deadline = time.monotonic() + 20
        while not status(process).get("processes_ended"):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert status(process)["rings"]["lifecycle"]["lost"] > 0, "the ring took everything: nothing was tested"
        os.close(stop)
        os.waitpid(late, 0)
        ends = scene()
    found = records(process.spool)
    check(found, ends)
    record = found[late, 41]
    assert (record["uid"], record["session"], record["ppid"]) == (NOBODY, late, os.getpid())
