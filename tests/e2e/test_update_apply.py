# SPDX-License-Identifier: Apache-2.0
"""`tracer update --apply` and what belongs to it: versions side by side, one pointer, the way back, and what is refused with words
that say what to do."""

import fcntl
import hashlib
import http.client
import json
import os
import platform
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest

from harness.lake import Lake
from harness.tracer import BINARY
from harness.tuf_repository import Client, Repository, in_days

MACHINE = platform.machine()


class Host(Client):
    """A client with a prefix of its own, where version 0.0.1 was installed."""

    def __init__(self, folder, repository):
        super().__init__(folder, repository)
        self.prefix = Path(folder) / "prefix"
        self.library = self.prefix / "lib/tracer"
        self.rules = Path(folder) / "rules"
        self.put("0.0.1")
        (self.library / "current").symlink_to("versions/0.0.1/tracer")
        assert self.init() == 0, self.said

    def put(self, version):
        folder = self.library / "versions" / version
        folder.mkdir(parents=True)
        shutil.copy(BINARY, folder / "tracer")

    def offer(self, version, data=None, **custom):
        fields = {"product": "tracer", "channel": "stable", "version": version, "architecture": MACHINE, **custom}
        self.repository.add_target(f"tracer-{version}", data or Path(BINARY).read_bytes(), custom=fields)
        self.repository.release()

    def run(self, *arguments):
        return super().run("--prefix", self.prefix, "--rules-folder", self.rules, "--config", "/dev/null", *arguments)

    def apply(self, *arguments):
        return self.online("--apply", *arguments)

    def held(self):
        """The trial of what runs has ended well."""
        file = self.trusted / "state"
        file.write_text(json.dumps({**json.loads(file.read_text()), "trial": None}))

    def named(self, pointer):
        try:
            return os.readlink(self.library / pointer).split("/")[1]
        except FileNotFoundError:
            return None

    def state(self):
        return json.loads((self.trusted / "state").read_text())

    def versions(self):
        return sorted(path.name for path in (self.library / "versions").iterdir())


@pytest.fixture
def host(tmp_path):
    host = Host(tmp_path, Repository())
    yield host
    host.server.close()


def test_apply_and_back(host):
    assert host.apply() == 0 and "0.0.1 is the newest" in host.said
    host.offer("9.1")
    assert host.apply() == 0, host.said
    assert host.named("current") == "9.1" and host.named("previous") == "0.0.1"
    assert host.versions() == ["0.0.1", "9.1"]
    assert (host.library / "current").read_bytes() == Path(BINARY).read_bytes()
    ran = subprocess.run([host.library / "current", "version"], capture_output=True, text=True)
    assert ran.returncode == 0 and ran.stdout.startswith("tracer ")
    trial = host.state()["trial"]
    assert (trial["version"], trial["previous"], trial["starts"]) == ("9.1", "0.0.1", 0)
    assert host.run("--rollback") == 0, host.said
    assert host.named("current") == "0.0.1" and host.named("previous") is None
    assert host.state()["trial"] is None
    assert host.apply() == 0 and "0.0.1 stays: 9.1 is there, but it was tried here and is remembered as bad: rolled back by hand" in host.said
    assert host.named("current") == "0.0.1"
    assert host.run("--rollback") == 1 and "no version to go back to" in host.said


def test_at_most_two_versions(host):
    for version in ("9.1", "9.2", "9.3"):
        host.offer(version)
        assert host.apply() == 0, host.said
        assert host.named("current") == version
        assert len(host.versions()) == 2
        host.held()
    assert host.versions() == ["9.2", "9.3"] and host.named("previous") == "9.2"


def test_from_a_bundle(host, tmp_path):
    host.offer("9.1")
    host.repository.write(tmp_path / "site")
    subprocess.run([BINARY, "bundle", "create", tmp_path / "site", tmp_path / "update.bundle"], check=True)
    host.repository.requests.clear()
    assert host.run("--bundle", tmp_path / "update.bundle", "--apply") == 0, host.said
    assert host.named("current") == "9.1" and host.repository.requests == []


def test_owner_and_mode_stay(host):
    program = host.library / "versions/0.0.1/tracer"
    os.chown(program, 0, 12345)
    program.chmod(0o750)
    subprocess.run(["setcap", "cap_bpf,cap_perfmon=ep", program], check=True)
    before = os.getxattr(program, "security.capability")
    host.offer("9.1")
    assert host.apply() == 0, host.said
    info = (host.library / "versions/9.1/tracer").stat()
    assert (info.st_uid, info.st_gid, info.st_mode & 0o7777) == (0, 12345, 0o750)
    assert os.getxattr(host.library / "versions/9.1/tracer", "security.capability") == before


def test_what_is_not_as_described_leaves_nothing(host):
    host.offer("9.1")
    host.repository.content["tracer-9.1"] = b"x" * len(host.repository.content["tracer-9.1"])
    assert host.apply() == 1 and "not the file that the metadata describes" in host.said
    assert host.versions() == ["0.0.1"] and host.named("current") == "0.0.1"
    assert not (host.trusted / "state").exists()


def test_a_container_says_who_updates_it(host):
    host.offer("9.1")
    done = subprocess.run(["unshare", "--ipc", BINARY, "update", "--metadata-dir", host.trusted, "--prefix", host.prefix, "--rules-folder", "",
                           "--metadata-url", f"{host.server.url}/metadata", "--apply"], capture_output=True, text=True,
                          env={"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert done.returncode == 3 and "whoever owns the DaemonSet updates it" in done.stderr
    assert host.versions() == ["0.0.1"]


@pytest.mark.parametrize("options,words", [("ro", "read-only"), ("noexec", "noexec"), ("size=5m", "make room")])
def test_a_place_that_cannot_hold_it_is_found_before_the_download(host, options, words):
    host.offer("9.1")
    host.repository.requests.clear()
    place = host.library / "versions"
    script = (f'cp -a {place} {host.prefix}/kept && mount -t tmpfs -o size=64m none {place} && cp -a {host.prefix}/kept/. {place} && '
              f'mount -o remount,{options} {place} && exec "$@"')
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", BINARY, "update", "--metadata-dir", host.trusted, "--prefix",
                           host.prefix, "--rules-folder", "", "--metadata-url", f"{host.server.url}/metadata", "--apply"],
                          capture_output=True, text=True)
    assert done.returncode == 1 and words in done.stderr, done.stderr
    assert not [path for path in host.repository.requests if path.startswith("targets/")]


def test_an_overlay_is_refused(host):
    host.offer("9.1")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for name in ("upper", "work"):
            (Path(folder) / name).mkdir()
        script = f'mount -t overlay -o lowerdir={host.library},upperdir={folder}/upper,workdir={folder}/work none {host.library} && exec "$@"'
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", BINARY, "update", "--metadata-dir", host.trusted, "--prefix",
                               host.prefix, "--rules-folder", "", "--metadata-url", f"{host.server.url}/metadata", "--apply"],
                          capture_output=True, text=True)
    assert done.returncode == 1 and "on an overlay" in done.stderr, done.stderr


def test_nothing_is_installed_during_a_trial(host):
    host.offer("9.1")
    assert host.apply() == 0, host.said
    host.offer("9.2")
    assert host.apply() == 1 and "9.1 is on trial still" in host.said
    assert host.apply("--automatic", "--jitter", "0s") == 0 and host.said == ""
    host.held()
    assert host.apply() == 0 and host.named("current") == "9.2"


def test_hold_and_pin(host):
    host.offer("9.1")
    host.offer("9.2")
    assert host.run("--hold") == 0
    assert host.online("--check") == 0 and "9.2 is available" in host.said and "held back by --hold" in host.said
    assert host.apply() == 1 and "--unhold ends that" in host.said
    assert host.run("--unhold") == 0 and host.run("--pin", "9.1") == 0
    assert host.apply() == 0 and host.named("current") == "9.1", host.said
    host.held()
    assert host.apply() == 0 and "9.1 stays: 9.2 is there, but 9.1 is pinned here" in host.said
    assert host.run("--unpin") == 0
    assert host.apply() == 0 and host.named("current") == "9.2"
    assert host.run("--pin", "../9") == 2 and "is no version such as" in host.said


def test_halt_comes_with_the_signed_targets(host):
    host.offer("9.1")
    host.offer("9.2", rollout={"percent": 100, "halt": True})
    assert host.apply() == 0 and host.named("current") == "9.1", host.said
    host.held()
    assert host.apply() == 0 and "9.2 is there, but its rollout was halted" in host.said
    host.offer("9.3", rollout="soon")
    assert host.apply() == 0 and "9.3 is there, but what it says of its rollout is not known" in host.said
    assert host.named("current") == "9.1"


def test_percentage_and_canary(host):
    automatic = ["--automatic", "--jitter", "0s"]
    host.offer("9.1", rollout={"percent": 0})
    assert host.apply(*automatic) == 0 and host.said == "" and host.named("current") == "0.0.1"
    assert host.online("--check", *automatic) == 0 and "it goes to 0% of the hosts so far" in host.said
    assert host.apply(*automatic, "--canary") == 0 and host.named("current") == "9.1", host.said
    host.held()
    host.offer("9.2", rollout={"percent": 100})
    assert host.apply(*automatic) == 0 and host.named("current") == "9.2", host.said


def test_automatic_keeps_to_its_window_and_says_nothing_of_nothing(host):
    closed = time.strftime("%a 00:00-00:00", time.localtime(time.time() + 3 * 86400))
    host.offer("9.1")
    host.repository.requests.clear()
    assert host.apply("--automatic", "--jitter", "0s", "--window", closed) == 0 and host.said == ""
    assert host.repository.requests == [] and host.named("current") == "0.0.1"
    assert host.run("--apply", "--automatic") == 0 and host.said == ""
    assert host.apply("--automatic", "--jitter", "0s", "--window", "at night") == 2 and "02:00-04:00" in host.said
    assert host.run("--hold") == 0 and host.apply("--automatic", "--jitter", "0s") == 0 and host.said == ""


def test_configuration_file(host, tmp_path):
    file = tmp_path / "update.yaml"
    file.write_text(f"metadata_url: {host.server.url}/metadata\nchannel: beta\n")
    host.offer("9.1", channel="beta")
    assert host.run("--config", file, "--apply") == 0 and host.named("current") == "9.1", host.said
    file.write_text("chanel: beta\n")
    assert host.run("--config", file, "--check") == 2 and "chanel" in host.said
    # The way back asks for none.
    assert host.run("--config", file, "--rollback") == 0, host.said


def test_a_damaged_memory_is_not_taken_for_an_empty_one(host):
    host.offer("9.1")
    (host.trusted / "state").write_text('{"hold":fal')
    assert host.apply() == 1 and "damaged; remove it to begin anew" in host.said
    assert host.versions() == ["0.0.1"]


def test_one_at_a_time(host):
    host.offer("9.1")
    with open(host.library / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert host.apply() == 1 and "another update is at work" in host.said
    assert host.apply() == 0, host.said


def test_status_tells_of_this_host(host):
    host.offer("9.1")
    host.offer("9.2", rollout={"halt": True})
    assert host.apply() == 0 and host.run("--status", "--json") == 0, host.said
    said = json.loads(host.said)["host"]
    assert (said["installed"], said["previous"], said["on_trial"], said["last_outcome"]) == ("9.1", "0.0.1", True, "on trial")
    assert host.run("--rollback") == 0 and host.run("--hold") == 0 and host.run("--pin", "9.1") == 0
    assert host.run("--status") == 0
    lines = dict(line.split(None, 1) for line in host.said.splitlines())
    assert lines["installed"] == "0.0.1" and lines["pinned"] == "9.1" and "--unhold" in lines["held"]
    assert lines["bad"].startswith("9.1, since 20") and lines["bad"].endswith("rolled back by hand")
    assert lines["last"].startswith("rollback 9.1, ") and "rolled back" in lines["last"]


def test_the_collector_goes_on_whatever_becomes_of_updates(host, tmp_path):
    """Expiry is announced in its status; pushed rules that it cannot read are left out with a warning."""
    (tmp_path / "pushed.yaml").write_text("novelty: 1\n")
    for role, days in (("timestamp", 0.5), ("snapshot", 12.5), ("targets", 28.5)):
        host.repository.roles[role].signed.expires = in_days(days)
    host.repository.release()
    assert host.refresh() == 0, host.said
    socket = tmp_path / "status"
    collector = subprocess.Popen([BINARY, "collect", "--source", "proc", "--spool", tmp_path / "spool", "--status-socket", socket,
                                  "--status-processes-socket", "", "--rules-pushed", tmp_path / "pushed.yaml"],
                                 stderr=subprocess.PIPE, text=True, env={"PATH": os.environ["PATH"]})
    try:
        status = [BINARY, "status", "--socket", socket, "--metadata-dir", host.trusted]
        deadline, text = time.monotonic() + 60, ""
        while "Updates" not in text:
            assert time.monotonic() < deadline and collector.poll() is None
            text = subprocess.run(status, capture_output=True, text=True).stdout
        assert "Updates" in text and "EXPIRES in 0 days" in text and "EXPIRES in 12 days" in text and "EXPIRES in 28 days" in text
        said = json.loads(subprocess.run([*status, "--json"], capture_output=True, text=True).stdout)
        assert said["kind"] == "status"
        assert {role: entry["announced_days"] for role, entry in said["update"].items()} == {
            "root": 0, "timestamp": 1, "snapshot": 14, "targets": 30}
    finally:
        collector.terminate()
        log = collector.communicate(timeout=30)[1]
    assert "left out: " in log and "novelty" in log


RULES = "catalogue:\n  pushed tools:\n    splitreads: index merge\n"


def offer_rules(host, version, text, **custom):
    fields = {"product": "tracer-rules", "channel": "stable", "version": version, "architecture": "any", **custom}
    host.repository.add_target(f"rules-{version}.yaml", text.encode(), custom=fields)
    host.repository.release()


def test_rules_are_targets_too(host):
    current = host.rules / "current"
    offer_rules(host, "1", RULES)
    host.offer("9.1")
    assert host.apply("--rules") == 0, host.said
    assert current.read_text() == RULES and current.stat().st_mode & 0o777 == 0o644
    assert host.named("current") == "0.0.1"  # the program was not asked for
    offer_rules(host, "2", RULES.replace("merge", "merge sort"))
    assert host.apply() == 0 and host.named("current") == "9.1", host.said
    assert "merge sort" in current.read_text() and os.readlink(host.rules / "previous") == "versions/1/rules.yaml"
    assert host.run("--status", "--json") == 0 and json.loads(host.said)["host"]["rules"] == "2"
    # The same way back, the same memory; the trial of the program is not touched.
    assert host.run("--rollback", "--rules") == 0 and current.read_text() == RULES, host.said
    assert host.state()["trial"]["version"] == "9.1"
    assert host.apply("--rules") == 0 and "2 is there, but it was tried here" in host.said and current.read_text() == RULES
    offer_rules(host, "3", RULES, rollout={"halt": True})
    assert host.apply("--rules") == 0 and "its rollout was halted" in host.said
    assert host.run("--rollback", "--rules") == 0 and "pushed rules: none" in host.said and not current.exists()


def test_rules_that_cannot_be_read_are_never_current(host):
    offer_rules(host, "1", RULES)
    assert host.apply("--rules") == 0, host.said
    offer_rules(host, "2", "tools: [unheard-of: 1]\n")
    host.offer("9.1")
    assert host.apply() == 1 and "rules 2: " in host.said
    assert (host.rules / "current").read_text() == RULES
    assert host.named("current") == "9.1"  # no reason against the program
    assert [bad["version"] for bad in host.state()["bad"]] == ["rules-2"]
    host.repository.requests.clear()
    assert host.apply("--rules") == 0 and "remembered as bad" in host.said
    assert not [path for path in host.repository.requests if path.startswith("targets/")]


def test_the_datalake_pushes_rules_and_programs(host):
    offer_rules(host, "1", RULES)
    host.offer("9.1")
    lake = Lake()
    lake.options += ["--updates", lake.base / "site"]
    host.repository.write(lake.base / "site")
    (lake.base / "site/.hidden").write_text("x")
    with lake:
        url = f"http://127.0.0.1:{lake.port}/updates/metadata"
        assert host.run("--metadata-url", url, "--apply") == 0, host.said
        for path in ("metadata/../.hidden", ".hidden", "metadata/", "metadata/none.json", "targets/./x", "metadata/%2e%2e%2f.hidden"):
            connection = http.client.HTTPConnection("127.0.0.1", lake.port)
            connection.request("GET", "/updates/" + path)
            assert connection.getresponse().status in (400, 401, 404), path
    assert host.named("current") == "9.1" and (host.rules / "current").read_text() == RULES
    assert host.repository.requests == []


def test_the_worker_ends_with_who_would_watch(host):
    """Killed while the download waits: no version is switched to behind its back."""
    host.offer("9.1")
    waiting = threading.Event()
    go_on = threading.Event()

    def slow(_handler):
        waiting.set()
        go_on.wait(30)

    path = f"targets/{hashlib.sha256(Path(BINARY).read_bytes()).hexdigest()}.tracer-9.1"
    host.repository.instead[path] = slow
    update = subprocess.Popen([BINARY, "update", "--metadata-dir", host.trusted, "--prefix", host.prefix, "--rules-folder", "", "--metadata-url",
                               f"{host.server.url}/metadata", "--apply"])
    try:
        assert waiting.wait(30)
        worker = [int(pid) for pid in Path(f"/proc/{update.pid}/task/{update.pid}/children").read_text().split()]
        update.kill()
        update.wait()
        deadline = time.monotonic() + 30
        while any(Path(f"/proc/{pid}/fd/0").exists() for pid in worker):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        go_on.set()
    host.repository.instead.clear()
    assert host.named("current") == "0.0.1"
    assert host.apply() == 0 and host.named("current") == "9.1", host.said
    assert host.versions() == ["0.0.1", "9.1"]
