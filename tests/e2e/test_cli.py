# SPDX-License-Identifier: Apache-2.0
"""The command line as a user meets it: the real binary, real terminals, real shells, a real collector."""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TRACER = str(ROOT / "build" / "tracer")
COMMANDS = (
    "run collect datalake up identity image service top ps status doctor report runs show export tasks tools processes hosts sql "
    "spool stream rules update bundle version help completion man"
).split()
ESCAPE = re.compile(rb"\x1b")
LEAVE = b"\x1b[?1049l"


def tracer(*args, code=0, env=None, **more):
    """Runs tracer; the exit code must be the one expected."""
    settings = {**os.environ, "LC_ALL": "C.UTF-8", "COLUMNS": "100", **(env or {})}
    for name in [n for n in settings if n.startswith("TRACER_") and n not in (env or {})]:
        del settings[name]
    done = subprocess.run([TRACER, *args], capture_output=True, env=settings, timeout=60, **more)
    assert done.returncode == code, (args, done.returncode, done.stdout[-500:], done.stderr[-500:])
    return done


class Terminal:
    """tracer on a pseudo terminal."""

    def __init__(self, *args, columns=100, lines=24, env=None):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update({"TERM": "xterm", "LC_ALL": "C.UTF-8", **(env or {})})
            os.environ.pop("COLUMNS", None)
            os.execv(TRACER, [TRACER, *args])
        self.resize(columns, lines)
        self.seen = b""

    def resize(self, columns, lines):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self, until=None, seconds=10.0):
        """Reads until the bytes are seen (they must be), or for a while, or to the end."""
        start, end = len(self.seen), time.monotonic() + seconds
        while time.monotonic() < end and not (until and until in self.seen[start:]):
            if not select.select([self.fd], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                break
            if not data:
                break
            self.seen += data
        assert until is None or until in self.seen[start:], (until, self.seen[-800:])
        return self.seen[start:]

    def send(self, text):
        os.write(self.fd, text)

    def wait(self):
        status = os.waitpid(self.pid, 0)[1]
        os.close(self.fd)
        return status


# ---- the table behind everything -----------------------------------------------------------------


def test_help_lists_every_command_and_each_has_its_own():
    listed = re.findall(r"^  (\w+) {2,}\S", tracer("help").stdout.decode(), re.M)
    assert listed == COMMANDS
    for name in COMMANDS:
        text = tracer(name, "--help").stdout.decode()
        assert f"  tracer {name}" in text
        assert "\nExamples\n" in text and "\nExit codes\n" in text and "\nOptions\n" in text
        assert text == tracer("help", name).stdout.decode()
        assert not ESCAPE.search(text.encode())
        assert max(map(len, text.splitlines())) <= 100
    assert tracer("--version").stdout == tracer("version").stdout
    assert tracer("--help").stdout == tracer("help").stdout


def test_wrong_usage_says_what_is_right():
    assert b"did you mean `tracer report`?" in tracer("reprot", code=2).stderr
    assert b"Commands" in tracer(code=2).stdout
    assert b"no such command" in tracer("\x1b[2J", code=2).stderr
    for name in COMMANDS:
        if name == "run":
            continue
        done = tracer(name, "--no-such-option", code=2)
        assert b"--no-such-option" in done.stderr and b"--help" in done.stderr, name
    done = tracer("ps", "--\x1b[2J", code=2)
    assert not ESCAPE.search(done.stderr)
    assert b"needs a value" in tracer("ps", "--sort", code=2).stderr
    assert b"from 1 to 3600" in tracer("top", "--interval", "0", code=2).stderr


def test_version_is_the_one_of_the_tree():
    version = (ROOT / "VERSION").read_text().strip()
    assert json.loads(tracer("version", "--json").stdout)["version"] == version
    assert f"tracer {version} ".encode() in tracer("version").stdout


def test_bash_completes_commands_options_and_values():
    script = tracer("completion", "bash").stdout.decode()

    def complete(*words):
        line = f"COMP_WORDS=({' '.join(repr(w) for w in words)}); COMP_CWORD={len(words) - 1}; _tracer; "
        done = subprocess.run(["bash", "-c", script + line + 'printf "%s\\n" "${COMPREPLY[@]}"'],
                              capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert complete("tracer", "") == COMMANDS
    assert complete("tracer", "re") == ["report"]
    assert complete("tracer", "completion", "") != [] and "fish" in complete("tracer", "completion", "f")
    assert complete("tracer", "top", "--by", "t") == ["task", "tool"]
    assert "--spool-cap-bytes" in complete("tracer", "collect", "--spool-")
    for name in COMMANDS:
        wanted = set(re.findall(r"(--[a-z][a-z-]*)", tracer(name, "--help").stdout.decode().split("\nExamples")[0]))
        offered = set(complete("tracer", name, "--"))
        assert offered <= wanted | {"--help"} and "--help" in offered, name


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_is_valid_in_other_shells(shell):
    script = tracer("completion", shell).stdout
    for name in COMMANDS:
        assert name.encode() in script
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed: only its words were checked")
    done = subprocess.run([shell, "-n"], input=script, capture_output=True, check=True)
    assert done.stderr == b""


def test_manual_page_has_every_command_and_no_stray_roff():
    page = tracer("man").stdout.decode()
    for name in COMMANDS:
        assert f'.SS "tracer {name}' in page
    for line in page.splitlines():
        assert not line.startswith("'"), line
        assert not line.startswith(".") or re.match(r"\.(TH|SH|SS|TP|PP|B|I|RS|RE|nf|fi)\b", line), line
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"], input=page.encode(), capture_output=True)
        assert done.stderr == b"" and done.returncode == 0


def test_what_cannot_be_written_is_no_success():
    with open("/dev/full", "wb") as full:
        done = subprocess.run([TRACER, "help"], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1 and b"cannot write to standard output" in done.stderr
    done = subprocess.run([TRACER, "version"], close_fds=True, preexec_fn=lambda: os.closerange(0, 3))
    assert done.returncode == 0


# ---- terminals -----------------------------------------------------------------------------------


def test_colour_only_on_a_terminal_that_wants_it():
    assert not ESCAPE.search(tracer("help").stdout)
    terminal = Terminal("help")
    assert ESCAPE.search(terminal.read(seconds=2))
    assert terminal.wait() == 0
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        terminal = Terminal("help", env=env)
        assert not ESCAPE.search(terminal.read(seconds=2))
        terminal.wait()


def test_top_draws_sorts_searches_and_leaves_the_terminal_as_it_was():
    marker = subprocess.Popen(["sleep", "61.5"])
    terminal = Terminal("top", "--proc", "-i", "1")
    before = termios.tcgetattr(terminal.fd)
    try:
        terminal.read(b"by tool, sorted by cpu")
        terminal.send(b"p")
        terminal.read(b"by process")
        terminal.send(b"M")
        terminal.read(b"sorted by memory")
        terminal.send(b"/61.5\r")
        terminal.read(b"sleep 61.5")
        terminal.resize(60, 10)
        terminal.read(b"tracer top")
        terminal.send(b"?")
        terminal.read(b"containers")
        terminal.send(b"\x1b[B\x1b[6~\x1b[Hq")
        assert terminal.read(LEAVE)
        assert os.waitstatus_to_exitcode(terminal.wait()) == 0
    finally:
        marker.kill()
        marker.wait()
    assert before  # the terminal of the child is gone with it


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGABRT, signal.SIGSEGV])
def test_top_gives_the_terminal_back_when_it_is_killed(number):
    terminal = Terminal("top", "--proc")
    echo = lambda: bool(termios.tcgetattr(terminal.fd)[3] & termios.ECHO)
    terminal.read(b"tracer top")
    assert not echo()
    os.kill(terminal.pid, number)
    terminal.read(LEAVE)
    assert echo()
    assert os.waitstatus_to_exitcode(terminal.wait()) == -number


def test_top_prints_tables_into_a_pipe():
    done = tracer("top", "--once", "--proc", "-i", "1", "--by", "process")
    assert done.stdout.count(b"tracer top") == 1 and b"%CPU" in done.stdout and not ESCAPE.search(done.stdout)
    done = tracer("top", "--batch", "-n", "2", "--proc", "-i", "1")
    assert done.stdout.count(b"tracer top") == 2


# ---- ps ------------------------------------------------------------------------------------------


def test_ps_shows_a_process_with_true_figures():
    # A hostile argument, and half a second of CPU time.
    code = "import sys,time\nwhile time.process_time() < 0.5: pass\ntime.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", code, "evil\x1b[2J\n\u202e"])
    try:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            row = json.loads(tracer("ps", "--proc", "--json", "-p", str(child.pid)).stdout)
            if row["cpu_ns"] >= 500_000_000 and row["state"] == "S":
                break
            time.sleep(0.1)
        assert row["pid"] == child.pid and row["ppid"] == os.getpid() and row["uid"] == os.getuid()
        assert 500_000_000 <= row["cpu_ns"] < 900_000_000
        rss = int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{child.pid}/status").read_text())[1]) * 1024
        assert abs(row["rss_bytes"] - rss) <= 2 << 20
        table = tracer("ps", "--proc", "-p", str(child.pid), env={"COLUMNS": "300"})
        assert b"from /proc" in table.stderr
        assert not ESCAPE.search(table.stdout) and "\u202e".encode() not in table.stdout
        assert rb"\x1b" in table.stdout
        tracer("ps", "--proc", "-p", str(child.pid), "no such name", code=1)
    finally:
        child.kill()
        child.wait()


def test_ps_groups_what_lives_without_a_collector(tmp_path):
    """By the same rules as a recording: a script is a run, what it starts are its tasks."""
    script = tmp_path / "nightly.sh"
    script.write_text("#!/bin/sh\nsh -c 'sleep 31; true' &\nsleep 31\n")
    script.chmod(0o755)
    # On its own: below a test it would be a step of the test's run.
    subprocess.run(["setsid", "--fork", script], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    rows = []
    try:
        time.sleep(0.5)
        rows = [json.loads(line) for line in tracer("ps", "--proc", "--json", "--run", "nightly").stdout.splitlines()]
        assert {row["run_name"] for row in rows} == {"nightly.sh"} and {row["engine"] for row in rows} == {"script"}
        slept = [row for row in rows if row["command"] == "sleep 31"]
        assert len(rows) == 4 and len(slept) == 2 and all(row["task_name"] for row in slept)
        assert min(rows, key=lambda row: row["start_boot_ns"])["task_name"] is None
        table = tracer("ps", "--proc", "--run", "nightly", env={"COLUMNS": "160"}).stdout.decode()
        assert table.count("nightly.sh") >= 4 and "run / task" in table
        top = tracer("top", "--once", "--proc", "-i", "1", "--by", "run").stdout.decode()
        assert "nightly.sh" in top
    finally:
        for row in rows:
            os.kill(row["pid"], signal.SIGKILL)



# ---- report --------------------------------------------------------------------------------------


def record(**members):
    base = {"kind": "process", "pid": 7, "start_ns": 10**18, "end_ns": 10**18 + 10**9, "start_boot_ns": 5, "cpu_ns": 10**8,
            "comm": "sort", "tool": "sort", "args": ["sort"], "exit_code": 0}
    return json.dumps({**base, **members}) + "\n"


def test_report_reads_a_file_and_standard_input(tmp_path):
    path = tmp_path / "run.ndjson"
    path.write_text(record() + record(pid=8, exit_code=3, args=["sort", "a b"]))
    text = tracer("report", str(path)).stdout
    assert b"2, 1 ended with a failure code" in text and b"exit 3" in text
    assert tracer("report", "-", input=path.read_bytes()).stdout == text
    total = json.loads(tracer("report", "--json", str(path)).stdout)
    assert total["processes"] == 2 and total["cpu_ns"] == 2 * 10**8 and total["rchar_bytes"] is None


def test_report_of_bad_files(tmp_path):
    path = tmp_path / "bad"
    path.write_bytes(b"\x00\xff" * 1000 + b"\n{}\n")
    assert b"holds no record" in tracer("report", str(path), code=2).stderr
    path.write_text(record() + "{\n" + record(pid=9))
    done = tracer("report", str(path), code=1)
    assert b"1 lines of the file were no records" in done.stdout
    path.write_text(record(tool="\x1b]0;owned\x07", comm="\u202eabc", args=["\x1b[2J", "\n"], exit_code=1))
    done = tracer("report", str(path))
    assert not ESCAPE.search(done.stdout) and "\u202e".encode() not in done.stdout and b"\x07" not in done.stdout
    path.write_text(record() + record(args=["x" * 900_000]) + "[" * 2_000_000 + "\n")
    tracer("report", str(path), code=1)
    assert b"No such file" in tracer("report", str(tmp_path / "none"), code=2).stderr
    assert tracer("report", str(tmp_path), code=2).stderr


def test_a_command_that_never_ran_leaves_only_the_reason():
    assert tracer("run", "no-such-command-x", code=127).stderr == \
        b"tracer run: no-such-command-x: No such file or directory\n"
    assert tracer("run", "/etc/passwd", code=126).stderr == b"tracer run: /etc/passwd: Permission denied\n"


# ---- configuration -------------------------------------------------------------------------------


def test_print_config_tells_sources_and_reads_back(tmp_path):
    path = tmp_path / "tracer.yaml"
    path.write_text("nice: 3\nspool:\n  cap_bytes: 2G\n")
    env = {"TRACER_SAMPLE_INTERVAL": "30s", "TRACER_NICE": "4"}
    text = tracer("collect", "--config", str(path), "--print-config", "--nice", "5", env=env).stdout.decode()
    lines = {line.split(":")[0].strip(): line for line in text.splitlines()}
    assert lines["nice"].endswith("# --nice") and " 5 " in lines["nice"]
    assert lines["sample_interval"].endswith("# TRACER_SAMPLE_INTERVAL")
    assert lines["cap_bytes"].endswith(f"# {path}:3")
    assert lines["drain_interval"].endswith("# default")
    again = tmp_path / "again.yaml"
    again.write_text(text)
    twice = tracer("collect", "--config", str(again), "--print-config").stdout.decode()
    strip = lambda t: [line.split("#")[0].strip() for line in t.splitlines()]
    assert strip(twice) == strip(text)


@pytest.mark.parametrize("content, says", [
    ("spool:\n  cap_byte: 1G\n", ":2: spool.cap_byte: no such key; did you mean spool.cap_bytes?"),
    ("nice: 99\n", ':1: nice: "99" is not a count from 0 to 19'),
    ('nice: "3\n', "no valid YAML"),
    ("nice: 3\nnice: 4\n", ":2: nice: given twice"),
])
def test_bad_configuration_names_file_line_and_what_is_allowed(tmp_path, content, says):
    path, spool = tmp_path / "tracer.yaml", tmp_path / "spool"
    path.write_text(content)
    done = tracer("collect", "--config", str(path), "--spool", str(spool), code=2)
    assert str(path) in done.stderr.decode() and says in done.stderr.decode()
    assert not spool.exists() and path.read_text() == content


def test_bad_variables_flags_and_absent_files(tmp_path):
    assert b"TRACER_NICE" in tracer("collect", "--print-config", env={"TRACER_NICE": "x"}, code=2).stderr
    assert b"TRACER_NICEST: no such option" in tracer("collect", "--print-config", env={"TRACER_NICEST": "1"}, code=2).stderr
    assert b"--nice" in tracer("collect", "--nice", "x", code=2).stderr
    assert b"No such file" in tracer("collect", "--config", str(tmp_path / "none"), code=2).stderr


# ---- doctor --------------------------------------------------------------------------------------


def test_doctor_says_state_and_fix_and_its_code_agrees():
    done = subprocess.run([TRACER, "doctor", "--json"], capture_output=True, check=False)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) >= 15 and all(row["state"] in ("ok", "warn", "fail") and row["detail"] for row in rows)
    assert done.returncode == (1 if any(row["state"] == "fail" for row in rows) else 0)
    assert all(row["fix"] for row in rows if row["state"] == "fail")
    assert next(row for row in rows if row["check"] == "kernel")["detail"].startswith(os.uname().release)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become nobody")
def test_doctor_of_an_unprivileged_user_fails_where_rights_are_missing(tmp_path):
    binary = tmp_path / "tracer"
    shutil.copy(TRACER, binary)
    for folder in [tmp_path, *list(tmp_path.parents)[:-2]]:
        folder.chmod(folder.stat().st_mode | 0o111)
    done = subprocess.run([str(binary), "doctor", "--json"], capture_output=True, user=65534, group=65534, extra_groups=[])
    rows = {row["check"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 1 and rows["capabilities"]["state"] == "fail" and "root" in rows["capabilities"]["fix"]


# ---- a running collector -------------------------------------------------------------------------


def test_status_without_a_collector(tmp_path):
    done = tracer("status", "--socket", str(tmp_path / "none.sock"), code=3)
    assert b"no collector runs" in done.stderr and b"tracer collect" in done.stderr


@pytest.fixture
def collector(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    state, processes, log = tmp_path / "s.sock", tmp_path / "p.sock", tmp_path / "log"
    args = [TRACER, "collect", "--spool", str(tmp_path / "spool"), "--status-socket", str(state),
            "--status-processes-socket", str(processes)]
    with open(log, "wb") as out:
        daemon = subprocess.Popen(args, stderr=out, stdin=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while not processes.exists() and daemon.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert daemon.poll() is None, log.read_text()
    yield daemon, str(state), str(processes)
    if daemon.poll() is None:
        daemon.terminate()
    assert daemon.wait(timeout=20) == 0, log.read_text()
    assert not state.exists() and not processes.exists()


def test_collector_is_confined_and_tells_of_itself(collector):
    daemon, state, processes = collector
    time.sleep(0.5)
    status = json.loads(tracer("status", "--json", "--socket", state).stdout)
    fields = dict(re.findall(r"^(\w+):\s+(.*)$", Path(f"/proc/{status['collector_pid']}/status").read_text(), re.M))
    assert int(fields["CapEff"], 16) == int(fields["CapPrm"], 16) == int(fields["CapBnd"], 16) == 0
    assert fields["NoNewPrivs"] == "1" and fields["Seccomp"] == "2" and int(fields["PPid"]) == daemon.pid
    service = status["service"]
    assert [(one["name"], one["pid"]) for one in service["processes"]] == [("recorder", status["collector_pid"]), ("parent", daemon.pid)]
    assert all(one["rss_bytes"] > 0 for one in service["processes"])
    assert service["rss_bytes"] == sum(one["rss_bytes"] for one in service["processes"])
    # The parent keeps what an image needs to start, no more, and no socket but the one to its child.
    parent = dict(re.findall(r"^(\w+):\s+(.*)$", Path(f"/proc/{daemon.pid}/status").read_text(), re.M))
    assert parent["NoNewPrivs"] == "1" and parent["Seccomp"] == "2"
    for capability in (12 - 1, 13, 16, 17, 18, 22, 23, 25, 27):  # net_broadcast, net_raw, sys_module, ...: never
        assert not int(parent["CapBnd"], 16) >> capability & 1 and not int(parent["CapPrm"], 16) >> capability & 1
    sockets = [link for link in map(os.readlink, Path(f"/proc/{daemon.pid}/fd").iterdir()) if link.startswith("socket:")]
    assert len(sockets) == 1
    assert status["pid"] == daemon.pid and status["spool"]["balanced"] is True and status["refused_calls"] == 0
    assert {m["name"]: m["state"] for m in status["modules"]}["proc"] == "running"
    ring = status["rings"]["lifecycle"]
    assert ring["seen"] == ring["submitted"] + ring["lost"] + ring["filtered"]
    text = tracer("status", "--socket", state).stdout.decode()
    assert "Modules" in text and "accepted" in text and "nothing was lost" in text
    rows = [json.loads(line) for line in tracer("ps", "--json", "--socket", processes).stdout.splitlines()]
    mine = next(row for row in rows if row["pid"] == os.getpid())
    assert mine["state"] and mine["cpu_ns"] > 0 and mine["rss_bytes"] > 1 << 20
    done = tracer("top", "--once", "-i", "1", "--socket", processes)
    assert b"from /proc" not in done.stdout


@pytest.mark.parametrize("key", ["log_level", "source", "ring_bytes"])
def test_a_bad_value_is_told_with_its_place(key, tmp_path):
    """Those too that only the command itself can judge."""
    bad, allowed = {"log_level": ("loud", b"error, warn"), "source": ("magic", b"auto, bpf"), "ring_bytes": ("3M", b"power of two")}[key]
    (tmp_path / "t.yaml").write_text(f"nice: 6\n{key}: {bad}\n")
    flag, spool = "--" + key.replace("_", "-"), str(tmp_path / "spool")
    told = tracer("collect", "-c", str(tmp_path / "t.yaml"), "--spool", spool, code=2).stderr
    assert f"t.yaml:2: {key}: ".encode() in told and allowed in told
    assert f"{flag}: ".encode() in tracer("collect", flag, bad, "--spool", spool, code=2).stderr
    told = tracer("collect", "--spool", spool, code=2, env={**os.environ, "TRACER_" + key.upper(): bad}).stderr
    assert f"TRACER_{key.upper()}: ".encode() in told
    assert not (tmp_path / "spool").exists()


def test_top_knows_what_it_has_not_seen_move(collector):
    """The collector reads the living less often than top looks: a busy process never shows as idle."""
    _, _, processes = collector
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        out = tracer("top", "--batch", "-n", "3", "-i", "1", "--by", "process", "--socket", processes, str(busy.pid)).stdout.decode()
    finally:
        busy.kill()
        busy.wait()
    rates = re.findall(rf"^ +{busy.pid} +\S+ +(\S+)", out, re.M)
    assert rates and rates[-1] != "?" and "0.0" not in rates, out


def test_a_client_that_never_reads_does_not_hold_the_collector(collector):
    import socket

    daemon, state, processes = collector
    idle = [socket.socket(socket.AF_UNIX) for _ in range(40)]
    for client in idle:
        client.setblocking(False)
        client.connect_ex(processes)
    for _ in range(5):
        assert json.loads(tracer("status", "--json", "--socket", state).stdout)["pid"] == daemon.pid
    for client in idle:
        client.close()


def test_other_users_see_the_state_but_no_processes(collector):
    _, state, processes = collector
    assert os.stat(state).st_mode & 0o777 == 0o666 and os.stat(processes).st_mode & 0o777 == 0o600


def test_the_document_of_the_configuration_is_complete():
    rows = re.findall(r"^\| `([a-z_.]+)` \| (?:`([^`]+)`|none) \|", (ROOT / "docs" / "config.md").read_text(), re.M)
    documented = {"--" + re.sub("[._]", "-", key): default or "none" for key, default in rows}
    # Joins what --help wraps.
    text = re.sub(r"\n {30}", " ", tracer("collect", "--help").stdout.decode().split("\nConfiguration")[1])
    declared = dict(re.findall(r"^  (--[a-z-]+) .*\(default: ([^)]*)\)$", text, re.M))
    # Those of the streamer are in its own document, some in one row.
    stream = re.findall(r"`(stream\.[a-z_]+)`", "".join(re.findall(r"^\| (`stream\.[^|]*)\|", (ROOT / "docs" / "stream.md").read_text(), re.M)))
    ours = {flag: default for flag, default in declared.items() if not flag.startswith("--stream-")}
    assert documented == ours
    assert {"--" + re.sub("[._]", "-", key) for key in stream} == declared.keys() - ours.keys()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become nobody")
def test_collector_works_as_nobody_with_two_capabilities():
    import tempfile

    place = Path(tempfile.mkdtemp(prefix="tracer-test-"))
    try:
        place.chmod(0o777)
        binary = place / "tracer"
        shutil.copy(TRACER, binary)
        caps = "-all,+bpf,+perfmon"
        daemon = subprocess.Popen(
            ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", f"--inh-caps={caps}", f"--ambient-caps={caps}",
             str(binary), "collect", "--spool", str(place / "spool"), "--status-socket", str(place / "s"),
             "--status-processes-socket", str(place / "p"), "--sample-interval", "1s"], stderr=subprocess.PIPE)
        deadline = time.monotonic() + 30
        while not (place / "p").exists() and daemon.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)
        image = json.loads(tracer("status", "--json", "--socket", str(place / "s")).stdout)["collector_pid"]
        fields = dict(re.findall(r"^(\w+):\s+(.*)$", Path(f"/proc/{image}/status").read_text(), re.M))
        assert fields["Uid"].split()[0] == "65534" and int(fields["CapPrm"], 16) == 0 and fields["Seccomp"] == "2"
        child = subprocess.Popen(["sh", "-c", "exit 7"])
        child.wait()
        daemon.send_signal(signal.SIGHUP)
        time.sleep(1.5)
        status = json.loads(tracer("status", "--json", "--socket", str(place / "s")).stdout)
        assert {m["name"]: m["state"] for m in status["modules"]}["proc"] == "running"
        assert status["refused_calls"] == 0 and status["gaps"] == []
        daemon.terminate()
        assert daemon.wait(timeout=20) == 0, daemon.stderr.read()
        records = [json.loads(line) for line in tracer("spool", "dump", str(place / "spool")).stdout.splitlines()]
        mine = next(r for r in records if r["kind"] == "process" and r["pid"] == child.pid)
        assert mine["exit_code"] == 7 and mine["cpu_ns"] > 0 and mine["args"] == ["sh", "-c", "exit 7"]
    finally:
        if daemon.poll() is None:
            daemon.kill()
        daemon.wait()
        shutil.rmtree(place)
