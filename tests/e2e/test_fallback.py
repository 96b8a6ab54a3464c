# SPDX-License-Identifier: Apache-2.0
"""`tracer run` without BPF: from the kernel's process events, and from /proc, as root and as an ordinary user.

The workloads of tests/accuracy say what really happened. What a source cannot see must be null and said, never
guessed: a record may lack a figure, but what it has must be right for the quality it claims.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TRACER = ROOT / "build" / "tracer"
NOBODY = 65534
AS_NOBODY = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
# A zombie is read while the last of its own way out may still have to run.
CPU_SLACK_NS = 150_000


class Recording:
    def __init__(self, folder, result):
        self.code = result.returncode
        self.report = result.stderr
        self.output = result.stdout
        lines = [json.loads(line) for line in (folder / "records.ndjson").read_text().splitlines()]
        self.processes = [line for line in lines if line["kind"] == "process"]
        self.gaps = [line for line in lines if line["kind"] == "gap"]
        truth = folder / "truth"
        self.truth = [json.loads(line) for line in truth.read_text().splitlines()] if truth.exists() else []

    def of(self, pid):
        return [process for process in self.processes if process["pid"] == pid]

    def said(self, text):
        return text in " ".join(self.report.split())


@pytest.fixture(scope="session")
def place():
    """A folder that every user may enter and write, with the programs in it."""
    folder = Path(tempfile.mkdtemp(prefix="tracer-fallback-"))
    folder.chmod(0o777)
    shutil.copy(TRACER, folder / "tracer")
    for name in ("ends", "threads", "storm", "io", "memory"):
        subprocess.run(
            ["cc", "-O1", "-std=gnu11", "-pthread", "-o", folder / name, ROOT / "tests/accuracy" / (name + ".c")],
            check=True,
        )
    yield folder
    shutil.rmtree(folder)


def record(place, source, command, root=False, options=()):
    """Runs `tracer run` as an ordinary user, or as root, and returns what it recorded."""
    assert not root or os.geteuid() == 0, "run the end-to-end tests as root"
    folder = Path(tempfile.mkdtemp(dir=place))
    folder.chmod(0o777)
    user = AS_NOBODY if os.geteuid() == 0 and not root else []
    chosen = ["--source", source] if source else []
    arguments = [place / "tracer", "run", *chosen, *options, "-o", "records.ndjson", "--", *command]
    result = subprocess.run(
        [*user, *arguments], cwd=folder, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
    )
    assert result.returncode != 125, result.stderr
    return Recording(folder, result)


def events_work(place):
    """Whether an ordinary user may listen to process events here: asked of the kernel (Linux 6.6)."""
    user = AS_NOBODY if os.geteuid() == 0 else []
    result = subprocess.run(
        [*user, place / "tracer", "run", "-q", "--source", "events", "true"], capture_output=True, text=True
    )
    if result.returncode == 125:
        assert "process events" in result.stderr, "refused without saying why"
        return False
    assert result.returncode == 0
    return True


def reaped(recording):
    """Pairs of what wait4 said and the last record of that process, None when there is none."""
    for truth in recording.truth:
        if "pid" in truth and "exit_code" in truth and "signal" in truth:
            found = recording.of(truth["pid"])
            yield truth, found[-1] if found else None


def check_end(truth, process):
    """The status is right, or null."""
    if process["quality"].get("exit") == "unknown":
        assert process["exit_code"] is None and process["signal"] is None
        return False
    assert (process["exit_code"] or 0, process["signal"] or 0) == (truth["exit_code"], truth["signal"]), truth
    return True


def check_cpu(truth, process):
    """Right when it says exact, no more than the truth when it says it may lack some, null when unknown."""
    quality, cpu_ns = process["quality"].get("cpu", "exact"), process["cpu_ns"]
    if quality == "unknown":
        assert cpu_ns is None
    elif "cpu_ns" in truth:
        slack = max(CPU_SLACK_NS, truth["cpu_ns"] // 100)
        assert 0 < cpu_ns <= truth["cpu_ns"] + slack, truth
        if quality == "exact":
            assert cpu_ns >= truth["cpu_ns"] - slack, truth
    return quality


@pytest.mark.parametrize("workload", ["ends", "threads", "storm"])
@pytest.mark.parametrize("root", [True, False], ids=["root", "user"])
def test_events_miss_no_process(place, workload, root):
    """Every end is there with its status, whatever way it came about."""
    if not root and not events_work(place):
        return  # it said why; what is left without events is in test_proc_*
    recording = record(place, "events", [place / workload, "truth"] + (["1000", "4"] if workload == "storm" else []),
                       root=root, options=["-w"])
    assert recording.code == 0
    assert not recording.gaps or not root
    pairs = list(reaped(recording))
    assert len(pairs) > 30
    if recording.gaps:  # an ordinary user's buffer is small: a loss is counted and said, never silent
        assert recording.said("Process events were lost")
        pairs = [(truth, process) for truth, process in pairs if process and process["quality"].get("exit") != "unknown"]
    qualities = []
    for truth, process in pairs:
        assert process, truth
        assert check_end(truth, process), truth
        qualities.append(check_cpu(truth, process))
    # Without root exact is what was read from a zombie, in a race with the parent's wait.
    assert "exact" in qualities or not root
    assert recording.said("Recorded without BPF") and recording.said("every process is here")
    if set(qualities) != {"exact"}:
        assert recording.said("is a sample, a lower bound or unknown")


def test_accounting_gives_figures_of_short_processes(place):
    """As root taskstats has what /proc has no more: memory, I/O and faults of processes that were waited for at once."""
    script = "for i in 1 2 3 4 5 6 7 8 9 10; do head -c 300000 /dev/zero >/dev/null; done"
    recording = record(place, "events", ["sh", "-c", script], root=True)
    heads = [process for process in recording.processes if process["comm"] == "head"]
    assert len(heads) == 10
    for process in heads:
        assert "memory" not in process["quality"]
        assert 300_000 < process["peak_rss_bytes"] < 20_000_000
        assert process["quality"].get("io", "estimated") == "estimated"
        # The kernel hands the bytes over in whole KiB.
        assert 300_000 - 1024 < process["wchar_bytes"] <= 300_000
        assert process["minor_faults"] > 10
        assert process["exit_code"] == 0


@pytest.mark.parametrize("root", [True, False], ids=["root", "user"])
def test_proc_is_right_about_what_it_sees(place, root):
    recording = record(place, "proc", [place / "storm", "truth", "400", "4"], root=root, options=["-w"])
    assert recording.code == 0
    pairs = list(reaped(recording))
    seen = [(truth, process) for truth, process in pairs if process]
    assert len(pairs) == 400
    # Short ones are missing, which is said; long ones are not; none is invented.
    assert 0 < len(seen)
    assert len(recording.processes) <= 401
    assert {process["pid"] for process in recording.processes} <= {truth["pid"] for truth, _ in pairs} | {
        process["pid"] for process in recording.processes if process["comm"] == "storm"
    }
    for truth, process in seen:
        check_end(truth, process)
        check_cpu(truth, process)
    for truth, process in pairs:
        # Looks are up to 10 ms apart while they are cheap; ten times that is seen on a loaded machine too.
        if truth["after_ns"] - truth["before_ns"] > 400_000_000:
            assert process, truth
    assert recording.said("a process that lived shorter is not here")
    assert recording.said("processes were missed")


def test_proc_sees_arguments_directory_and_figures(place):
    script = (
        "cd /usr; dd if=/dev/zero of=/dev/null bs=1000 count=1000 2>/dev/null; "
        "sh -c 'i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; sleep 0.2; exit 3'; sleep 0.2 'x y' 2>/dev/null; "
        "sleep 0.3; exit 5"
    )
    recording = record(place, "proc", ["sh", "-c", script])
    assert recording.code == 5
    shell = [process for process in recording.processes if process["exit_code"] == 5]
    assert len(shell) == 1 and shell[0]["args"][:2] == ["sh", "-c"]
    assert "cpu" not in shell[0]["quality"]
    child = [process for process in recording.processes if process["exit_code"] == 3]
    assert len(child) == 1
    child = child[0]
    assert child["args"][2].endswith("exit 3") and child["exe"] and child["cwd"] == "/usr"
    assert child["ppid"] == shell[0]["pid"] and child["run"]
    assert child["cpu_ns"] > 5_000_000
    assert child["quality"].get("cpu") != "unknown"
    assert child["peak_rss_bytes"] > 300_000 and child["quality"]["memory"] == "sampled"
    assert child["blocked_ns"] is None and child["quality"]["blocked"] == "unknown"
    assert 0 < child["end_ns"] - child["start_ns"] < 5_000_000_000
    assert recording.said("What threads slept for is unknown")


@pytest.mark.parametrize("source", ["events", "proc"])
def test_orphans_stay_in_their_run(place, source):
    """A daemon is adopted by Tracer, not lost: it is waited for with --wait, in the run it came from."""
    if source == "events" and not events_work(place):
        return
    script = "(setsid sh -c 'sleep 0.6; exit 9' &) ; sleep 0.2"
    recording = record(place, source, ["sh", "-c", script], options=["-w"])
    assert recording.code == 0
    daemons = [process for process in recording.processes if process["exit_code"] == 9]
    assert len(daemons) == 1
    runs = {process["run"]["id"] if isinstance(process["run"], dict) else process["run"] for process in recording.processes}
    assert len(runs) == 1 and None not in runs


@pytest.mark.parametrize("source", ["events", "proc"])
@pytest.mark.parametrize("script, code", [("exit 42", 42), ("kill -TERM $$", 143), ("echo said; echo loud >&2", 0)])
def test_command_keeps_its_code_and_output(place, source, script, code):
    if source == "events" and not events_work(place):
        return
    recording = record(place, source, ["sh", "-c", script])
    assert recording.code == code
    assert recording.output == ("said\n" if "said" in script else "")
    assert ("loud" in recording.report) == ("loud" in script)
    root = [process for process in recording.processes if (process["signal"] or 0) + 128 == code or
            process["exit_code"] == code]
    assert root


def test_ordinary_user_gets_a_report_and_what_is_missing(place):
    recording = record(place, None, ["sh", "-c", "sleep 0.1; exit 4"])
    assert recording.code == 4
    assert recording.said("Recorded without BPF")
    assert recording.said("exit 4")
    assert [process for process in recording.processes if process["args"] == ["sleep", "0.1"]]
    for process in recording.processes:
        assert process["uid"] == (NOBODY if os.geteuid() == 0 else os.geteuid())
        assert process["cgroup"] is None or process["cgroup"]


def test_children_are_not_counted_into_io(place):
    """/proc/PID/io of a parent holds its reaped children: the record must not."""
    recording = record(
        place, "proc", ["sh", "-c", "head -c 5000000 /dev/zero | cat >/dev/null; head -c 3000000 /dev/zero >/dev/null; sleep 0.5"]
    )
    shell = [process for process in recording.processes if process["args"] and process["args"][:2] == ["sh", "-c"] and
             process["args"][2].startswith("head") and process["ppid"] not in {p["pid"] for p in recording.processes}]
    assert len(shell) == 1
    assert shell[0]["wchar_bytes"] is not None and shell[0]["wchar_bytes"] < 100_000


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def shells_shown(processes_socket):
    """The pids of the shells whose own work the collector at that socket has seen."""
    shown = subprocess.run([TRACER, "ps", "--json", "--socket", processes_socket], capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    return {row["pid"] for row in rows
            if row["comm"] == "sh" and (row["cpu_ns"] or 0) > 100_000 and (row["rchar_bytes"] or 0) > 1000}


@pytest.mark.parametrize("source", ["events", "proc"])
def test_collect_goes_on_without_bpf(place, source):
    """The daemon with its rights dropped still reads what it may: programs and figures of other users' processes too."""
    assert os.geteuid() == 0, "run the end-to-end tests as root"
    spool = Path(tempfile.mkdtemp(dir=place))
    processes_socket = str(spool) + ".processes"
    environment = {
        **os.environ, "TRACER_SOURCE": source, "TRACER_STATUS_SOCKET": str(spool) + ".status",
        "TRACER_STATUS_PROCESSES_SOCKET": processes_socket,
    }
    collect = subprocess.Popen([TRACER, "collect", "--spool", spool], env=environment, stderr=subprocess.PIPE, text=True)
    try:
        for line in collect.stderr:
            if "collecting into" in line:
                break
        assert collect.poll() is None
        # They live until the collector shows them: how soon it looks depends on how many processes the host has.
        script = "head -c 70000 /dev/zero | wc -c; read -r line; exit %d"
        workloads = [subprocess.Popen([*AS_NOBODY, "sh", "-c", script % number], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
                     for number in range(60, 65)]
        wait_for(lambda: {workload.pid for workload in workloads} <= shells_shown(processes_socket))
        for workload, number in zip(workloads, range(60, 65)):
            workload.communicate(timeout=60)
            assert workload.returncode == number
    finally:
        collect.terminate()
        collect.communicate(timeout=20)
    assert collect.returncode == 0
    dump = subprocess.run([TRACER, "spool", "dump", spool], capture_output=True, text=True, check=True).stdout
    records = [json.loads(line) for line in dump.splitlines()]
    processes = [record for record in records if record["kind"] == "process" and record["uid"] == NOBODY]
    for number in range(60, 65):
        found = [process for process in processes if process["exit_code"] == number]
        assert len(found) == 1
        assert found[0]["args"][:2] == ["sh", "-c"] and found[0]["exe"]
        assert found[0]["cpu_ns"] > 100_000 and found[0]["rchar_bytes"] > 1000
    if source == "events":
        assert len([process for process in processes if process["comm"] in ("head", "wc")]) == 10


@pytest.mark.parametrize("source", ["events", "proc"])
def test_ids_are_followed_without_an_exec(place, source):
    """A process that gives up being root some time after it was first seen is recorded as who it became."""
    program = f"import os; os.setgid({NOBODY}); os.setuid({NOBODY})"
    recording = record(place, source, [sys.executable, "-c", program], root=True)
    assert [(process["uid"], process["gid"]) for process in recording.processes] == [(NOBODY, NOBODY)]


def test_in_a_pid_namespace_foreign_pids_are_not_believed(place):
    """BPF and process events work there, with pids that mean other processes: /proc must be read instead."""
    assert os.geteuid() == 0, "run the end-to-end tests as root"
    folder = Path(tempfile.mkdtemp(dir=place))
    inside = ["unshare", "--pid", "--fork", "--mount-proc"]
    for source in ("bpf", "events"):
        refused = subprocess.run([*inside, TRACER, "run", "--source", source, "true"], capture_output=True, text=True)
        assert refused.returncode == 125 and "pid namespace" in refused.stderr
    command = [TRACER, "run", "-o", "records.ndjson", "sh", "-c", "sh -c 'sleep 0.3; exit 8'; exit 9"]
    result = subprocess.run([*inside, *command], cwd=folder, capture_output=True, text=True)
    assert result.returncode == 9
    assert {8, 9} <= {process["exit_code"] for process in Recording(folder, result).processes}


@contextlib.contextmanager
def collecting(tmp_path, *arguments, inside=()):
    """A collector, inside a command such as unshare; its state as tracer status --json gives it."""
    socket = tmp_path / "status.sock"
    process = subprocess.Popen([*inside, TRACER, "collect", "--spool", tmp_path / "spool", "--status-socket", socket,
                                "--status-processes-socket", "", *arguments], stderr=subprocess.DEVNULL,
                               start_new_session=True)
    try:
        deadline = time.monotonic() + 20
        while not socket.exists():
            assert process.poll() is None and time.monotonic() < deadline, "the collector did not start"
            time.sleep(0.05)
        yield socket
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(20)


@pytest.mark.parametrize("source, words", [("bpf", "BPF"), ("events", "process events (netlink)"),
                                           ("proc", "/proc, at intervals")])
def test_status_tells_the_source(source, words, tmp_path):
    with collecting(tmp_path, "--source", source) as socket:
        status = [TRACER, "status", "--socket", socket]
        state = json.loads(subprocess.run([*status, "--json"], capture_output=True, check=False).stdout)
        assert state["source"] == source
        assert bool(state["missing"]) == (source != "bpf")
        text = subprocess.run(status, capture_output=True, text=True, check=False).stdout
        assert re.search(rf"^ +source +{re.escape(words)}$", text, re.M), text
        # Its rules are read again on request, whatever it reads processes from.
        os.kill(state["pid"], signal.SIGHUP)
        deadline = time.monotonic() + 60
        while state["rules"]["reloads"] == 0 and time.monotonic() < deadline:
            state = json.loads(subprocess.run([*status, "--json"], capture_output=True, check=False).stdout)
        assert (state["rules"]["reloads"], state["rules"]["failed"], state["rules"]["why"]) == (1, 0, None)


def test_collector_inside_a_pid_namespace(tmp_path):
    """BPF's pids are the host's: left alone it takes /proc and says why, told to it refuses."""
    inside = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    with collecting(tmp_path, inside=inside) as socket:
        done = subprocess.run([TRACER, "status", "--json", "--socket", socket], capture_output=True, check=False)
        state = json.loads(done.stdout)
        assert state["source"] == "proc" and "pid namespace" in state["without_bpf"]
    done = subprocess.run([*inside, TRACER, "collect", "--source", "bpf", "--spool", tmp_path / "other"],
                          capture_output=True, text=True, check=False, timeout=20)
    assert done.returncode == 3 and "pid namespace" in done.stderr


def test_without_sys_nothing_but_our_own_words(tmp_path):
    driver = f"umount -l /sys; exec {TRACER} run -o {tmp_path}/out.ndjson -- true"
    done = subprocess.run(["unshare", "-m", "sh", "-c", driver], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0 and "libbpf" not in done.stderr + done.stdout, done.stderr


@pytest.mark.parametrize("source, rights", [("events", {5, 19, 2}), ("proc", {5, 19, 2})])
def test_rights_are_given_up_while_the_command_keeps_its_own(source, rights, tmp_path):
    """CAP_KILL, CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH stay, with what was had before."""
    driver = "sleep 0.5; grep CapEff /proc/$PPID/status /proc/self/status"
    done = subprocess.run([TRACER, "run", "-q", "--source", source, "--", "sh", "-c", driver], capture_output=True, text=True,
                          check=True, timeout=60)
    recorder, command = (int(line.split()[-1], 16) for line in done.stdout.splitlines())
    assert {bit for bit in range(64) if recorder >> bit & 1} == rights
    with open("/proc/self/status", encoding="ascii") as lines:
        own = next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff"))
    assert command == own
