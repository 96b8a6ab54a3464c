# SPDX-License-Identifier: Apache-2.0
"""The filter of the rules, decided in the kernel: by name, user and cgroup, inherited, reloaded, for what already ran."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

from harness import tracer

@contextlib.contextmanager
def collector(tmp_path, rules):
    directory = tmp_path / "rules"
    directory.mkdir(exist_ok=True)
    (directory / "filter.yaml").write_text(rules)
    spool, socket = tmp_path / "spool", tmp_path / "status.sock"
    process = subprocess.Popen([tracer.BINARY, "collect", "--spool", spool, "--rules-directory", directory,
                                "--status-socket", socket, "--status-processes-socket", ""], stderr=subprocess.PIPE,
                               text=True)
    try:
        deadline = time.monotonic() + 20
        while not socket.exists():
            assert process.poll() is None and time.monotonic() < deadline, "the collector did not start"
            time.sleep(0.05)
        process.directory, process.spool, process.socket = directory, spool, socket
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)


def records(spool):
    out = subprocess.run([tracer.BINARY, "spool", "dump", spool], check=True, capture_output=True, text=True).stdout
    return [record for record in map(json.loads, out.splitlines()) if record["kind"] == "process"]


def copy(tmp_path, name, program="env"):
    """A program under a name that nothing else on the host has."""
    path = tmp_path / name
    shutil.copy(shutil.which(program), path)
    return path


def status(socket):
    out = subprocess.run([tracer.BINARY, "status", "--json", "--socket", socket], check=True, capture_output=True).stdout
    return json.loads(out)


def test_excluded_name_takes_its_children_with_it(tmp_path):
    outside = copy(tmp_path, "filteredout")
    with collector(tmp_path, "filter:\n  - exclude: {comm: filteredout}\n") as process:
        subprocess.run([outside, "sh", "-c", "env sleep 0.01; true"], check=True)
        subprocess.run(["env", "sleep", "0.0101"], check=True)
        time.sleep(1)
        counts = status(process.socket)["rings"]["lifecycle"]
    ran = {tuple(record["args"] or []) for record in records(process.spool)}
    assert ("sleep", "0.01") not in ran
    assert ("sleep", "0.0101") in ran
    assert counts["filtered"] > 0
    assert counts["seen"] == counts["submitted"] + counts["lost"] + counts["filtered"]


def test_excluded_user(tmp_path):
    with collector(tmp_path, "filter:\n  - exclude: {uid: 65534}\n") as process:
        subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", "sh", "-c", "sleep 0.011; sleep 0.012"],
                       check=True)
        subprocess.run(["sh", "-c", "sleep 0.013; true"], check=True)
        time.sleep(1)
    ran = {tuple(record["args"] or []) for record in records(process.spool)}
    assert ("sleep", "0.013") in ran
    assert ("sleep", "0.011") not in ran and ("sleep", "0.012") not in ran


def test_include_records_nothing_else(tmp_path):
    inside = copy(tmp_path, "filteredin")
    with collector(tmp_path, "filter:\n  - include: {exe: filteredin}\n") as process:
        subprocess.run([inside, "sh", "-c", "sleep 0.014; true"], check=True)
        subprocess.run(["sh", "-c", "sleep 0.015; true"], check=True)
        time.sleep(1)
    found = records(process.spool)
    ran = {tuple(record["args"] or []) for record in found}
    assert ("sleep", "0.014") in ran, "children of what is included are included"
    assert ("sleep", "0.015") not in ran
    assert not any(record["comm"] == "systemd" or record["pid"] == os.getpid() for record in found)


def test_cgroup_with_all_below_it_also_made_later(tmp_path):
    controller = pathlib.Path("/sys/fs/cgroup/memory")
    if not controller.is_dir():
        controller = pathlib.Path("/sys/fs/cgroup")
    top = controller / f"tracer-filter-{os.getpid()}"
    path = "/" + top.name
    with collector(tmp_path, f"filter:\n  - exclude: {{cgroup: {path}}}\n") as process:
        below = top / "below"
        below.mkdir(parents=True)
        try:
            time.sleep(0.5)
            subprocess.run(["sh", "-c", f"echo $$ > {below}/cgroup.procs; exec env sh -c 'sleep 0.016; true'"],
                           check=True)
            subprocess.run(["sh", "-c", "sleep 0.017; true"], check=True)
            time.sleep(1)
        finally:
            below.rmdir()
            top.rmdir()
    ran = {tuple(record["args"] or []) for record in records(process.spool)}
    assert ("sleep", "0.017") in ran
    assert ("sleep", "0.016") not in ran


def test_what_already_ran_and_a_reload(tmp_path):
    early, late = copy(tmp_path, "filterearly", "sh"), copy(tmp_path, "filterlate")
    before = subprocess.Popen([early, "-c", "while read -r line; do sleep 0.0$line; done"], stdin=subprocess.PIPE,
                              text=True)
    try:
        time.sleep(0.3)
        with collector(tmp_path, "filter:\n  - exclude: {comm: filterearly}\n") as process:
            before.stdin.write("18\n")
            before.stdin.flush()
            time.sleep(0.5)
            (process.directory / "filter.yaml").write_text("filter:\n  - exclude: {comm: filterlate}\n")
            process.send_signal(signal.SIGHUP)
            time.sleep(0.5)
            subprocess.run([early, "-c", "sleep 0.019; true"], check=True)
            subprocess.run([late, "sh", "-c", "sleep 0.02; true"], check=True)
            time.sleep(1)
    finally:
        before.stdin.close()
        before.wait(timeout=20)
    ran = {tuple(record["args"] or []) for record in records(process.spool)}
    assert ("sleep", "0.018") not in ran, "the tree of what ran before was excluded"
    assert ("sleep", "0.019") in ran, "after the reload it is not"
    assert ("sleep", "0.02") not in ran
