# SPDX-License-Identifier: Apache-2.0
"""A release as a web server has it: signed, in the layout of docs/install.md, made by the tools of release/."""

import http.server
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from box import Box

ROOT = Path(__file__).resolve().parents[2]
TRACER = ROOT / "build" / "tracer"
VERSION = (ROOT / "VERSION").read_text().strip()
MACHINE = os.uname().machine
SHELLS = {"dash": "dash", "ash": "busybox ash", "bash": "bash --posix", "mksh": "mksh", "ksh93": "ksh93", "yash": "yash"}


def command(*words, **more):
    return subprocess.run([str(word) for word in words], check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more).stdout


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.asked.append(self.path)
        if self.path.startswith("http://"):  # as a proxy is asked
            self.path = "/" + self.path.split("/", 3)[3]
        change = self.server.change.get(self.path.lstrip("/"))
        if change is None:
            return super().do_GET()
        if change == "endless":
            self.send_response(200)
            self.send_header("Connection", "close")
            self.end_headers()
            try:
                for _ in range(4096):
                    self.wfile.write(b"x" * 65536)
                    self.server.sent += 65536
            except OSError:
                pass
            self.close_connection = True
            return None
        if change == "absent":
            return self.send_error(404)
        self.send_response(200)
        self.send_header("Content-Length", str(len(change)))
        self.end_headers()
        self.wfile.write(change)
        return None


class Release:
    """folder: the tree that is served; url; script: install.sh of the release; change: path to what is served instead."""

    def __init__(self, folder):
        self.folder, self.keys = folder / "tree", folder / "keys"
        self.folder.mkdir(parents=True)
        self.keys.mkdir()
        self.make_key("release")
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *a: Handler(*a, directory=str(self.folder)))
        self.server.daemon_threads = True
        self.server.change, self.server.asked, self.server.sent = {}, [], 0
        self.change = self.server.change
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def make_key(self, name):
        command("minisign", "-GfW", "-p", self.keys / f"{name}.pub", "-s", self.keys / f"{name}.key")

    def sign(self, path, key="release"):
        """The signature that minisign, signify and OpenSSL all can check: of the file, not of its hash."""
        command("minisign", "-Slm", path, "-s", self.keys / f"{key}.key", "-t", path.name)

    def add(self, version, channel="stable", program=None):
        folder = self.folder / channel / version
        folder.mkdir(parents=True)
        program = program or TRACER
        shutil.copy(program, folder / f"tracer-{MACHINE}")
        sums = command("sha256sum", f"{channel}/{version}/tracer-{MACHINE}", cwd=self.folder)
        (folder / "SHA256SUMS").write_text(sums)
        self.sign(folder / "SHA256SUMS")
        latest = self.folder / channel / "LATEST"
        latest.write_text(f"tracer {channel} {version}\n")
        self.sign(latest)
        return folder

    def installer(self, version=VERSION, channel="stable", name="install.sh", keys=("release",)):
        words = [word for key in keys for word in ("--key", self.keys / f"{key}.pub")]
        command(ROOT / "release" / "installer", "--url", self.url, "--channel", channel, "--version", version, *words,
                "--sums", self.folder / channel / version / "SHA256SUMS", "--output", self.folder / name)
        return self.folder / name

    def path(self, name, version=VERSION, channel="stable"):
        return f"{channel}/{version}/{name}"


def other_version(path, version):
    """The same program, saying another version: what a next release is to the installer."""
    data = TRACER.read_bytes()
    assert len(version) == len(VERSION)
    data = data.replace(VERSION.encode() + b"\0", version.encode() + b"\0")
    path.write_bytes(data)
    path.chmod(0o755)
    return path


@pytest.fixture(scope="session")
def release(tmp_path_factory):
    assert os.geteuid() == 0, "needs root: makes root directories of its own"
    folder = tmp_path_factory.mktemp("release")
    made = Release(folder)
    made.add(VERSION)
    made.script = made.installer()
    made.next = VERSION[:-1] + ("1" if VERSION[-1] != "1" else "2")
    made.add(made.next, "beta", other_version(folder / "next", made.next))
    return made


@pytest.fixture(autouse=True)
def unchanged(request):
    if "release" in request.fixturenames:
        release = request.getfixturevalue("release")
        release.change.clear()
        release.server.asked.clear()


@pytest.fixture
def box(release):
    with Box(srv=release.folder) as made:
        yield made


@pytest.fixture(scope="session")
def busybox_root(tmp_path_factory):
    """A machine with busybox and nothing else: no curl, no OpenSSL, no useradd, no getent."""
    root = tmp_path_factory.mktemp("busybox")
    for name in ("bin", "sbin", "usr/bin", "usr/sbin", "etc", "proc", "sys", "dev", "run", "tmp", "srv", "var/lib", "var/log", "usr/local"):
        (root / name).mkdir(parents=True)
    shutil.copy("/bin/busybox", root / "bin" / "busybox")
    for name in command("busybox", "--list-full").split():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.symlink_to("/bin/busybox")
    if not (root / "usr/bin/env").exists():
        (root / "usr/bin/env").symlink_to("/bin/busybox")
    (root / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    (root / "etc/shadow").write_text("root:*:19000:0:99999:7:::\n")
    return root
