# SPDX-License-Identifier: Apache-2.0
"""`tracer update --apply` and what belongs to it: versions side by side, one pointer, the way back, and what is refused with words
that say what to do."""

import json
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from harness.tracer import BINARY
from harness.tuf_repository import Client, Repository

MACHINE = platform.machine()


class Host(Client):
    """A client with a prefix of its own, where version 0.0.1 was installed."""

    def __init__(self, folder, repository):
        super().__init__(folder, repository)
        self.prefix = Path(folder) / "prefix"
        self.library = self.prefix / "lib/tracer"
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
        return super().run("--prefix", self.prefix, *arguments)

    def apply(self, *arguments):
        return self.online("--apply", *arguments)

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
    assert host.apply() == 1 and "9.1 was tried here and is remembered as bad: rolled back by hand" in host.said
    assert host.named("current") == "0.0.1"
    assert host.run("--rollback") == 1 and "no version to go back to" in host.said


def test_at_most_two_versions(host):
    for version in ("9.1", "9.2", "9.3"):
        host.offer(version)
        assert host.apply() == 0, host.said
        assert host.named("current") == version
        assert len(host.versions()) == 2
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
    done = subprocess.run(["unshare", "--ipc", BINARY, "update", "--metadata-dir", host.trusted, "--prefix", host.prefix, "--metadata-url",
                           f"{host.server.url}/metadata", "--apply"], capture_output=True, text=True,
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
                           host.prefix, "--metadata-url", f"{host.server.url}/metadata", "--apply"], capture_output=True, text=True)
    assert done.returncode == 1 and words in done.stderr, done.stderr
    assert not [path for path in host.repository.requests if path.startswith("targets/")]


def test_an_overlay_is_refused(host):
    host.offer("9.1")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for name in ("upper", "work"):
            (Path(folder) / name).mkdir()
        script = f'mount -t overlay -o lowerdir={host.library},upperdir={folder}/upper,workdir={folder}/work none {host.library} && exec "$@"'
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", BINARY, "update", "--metadata-dir", host.trusted, "--prefix",
                               host.prefix, "--metadata-url", f"{host.server.url}/metadata", "--apply"], capture_output=True, text=True)
    assert done.returncode == 1 and "on an overlay" in done.stderr, done.stderr
