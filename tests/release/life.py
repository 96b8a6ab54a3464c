# SPDX-License-Identifier: Apache-2.0
"""A release's life in one folder, by the tools of release/ as people call them: keys, a site, programs that trust its root, a server."""

import functools
import hashlib
import http.server
import os
import secrets
import shutil
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "release"
MACHINE = os.uname().machine
KEYS = [f"{role}-{number}" for role, count in (("root", 5), ("targets", 3), ("snapshot", 1), ("timestamp", 1), ("rules", 1), ("prices", 1), ("release", 1))
        for number in range(1, count + 1)]


def call(*words, code=0, **more):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL, **more)
    assert code is None or done.returncode == code, f"{' '.join(map(str, words))}: ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def tool(name, *words, **more):
    return call(sys.executable, TOOLS / name, *words, **more)


class Life:
    def __init__(self, folder, memory_mib=1):
        self.folder, self.memory = Path(folder), memory_mib
        self.site, self.tree, self.keys, self.words = (self.folder / name for name in ("site", "tree", "keys", "passphrases"))
        self.words.mkdir(parents=True, mode=0o700)
        self.site.mkdir()
        self.server = None
        self.timestamp = 1  # which of its keys counts

    def copy(self, folder):
        """Another, to be changed."""
        shutil.copytree(self.folder, folder, symlinks=True)
        made = Life.__new__(Life)
        made.__dict__.update(self.__dict__, folder=Path(folder), server=None)
        made.site, made.tree, made.keys, made.words = (made.folder / name for name in ("site", "tree", "keys", "passphrases"))
        return made

    # ---- the ceremony

    def sign(self, verb, *words, **more):
        secret = ["--passphrases", self.words] if verb not in ("root", "targets", "delegate", "show") else []
        return tool("sign", verb, *words, *secret, **more)

    def key(self, name, form="key"):
        return self.keys / f"{name}.{form}"

    def public(self, role, *numbers):
        return [self.key(f"{role}-{number}", "pub") for number in numbers]

    def make_key(self, name):
        (self.words / name).write_text(secrets.token_hex(16) + "\n")
        (self.words / name).chmod(0o600)
        self.sign("key", name, self.keys, "--memory-mib", self.memory)

    def begin(self):
        """Keys, the first root (3 of 5, targets 2 of 3) and empty targets with two delegated roles."""
        for name in KEYS:
            self.make_key(name)
        self.sign("root", self.site, "--root", *self.public("root", 1, 2, 3, 4, 5), "--root-threshold", 3, "--targets", *self.public("targets", 1, 2, 3),
                  "--targets-threshold", 2, "--snapshot", *self.public("snapshot", 1), "--timestamp", *self.public("timestamp", 1))
        self.add("root", 1, 3, 5)
        self.sign("delegate", self.site, "rules", "--path", "rules/*", "--key", *self.public("rules", 1))
        self.sign("delegate", self.site, "prices", "--path", "prices/*", "--key", *self.public("prices", 1))
        self.sign("role", self.site, "rules", self.key("rules-1"))
        self.sign("role", self.site, "prices", self.key("prices-1"))
        self.add("targets", 1, 2)
        self.online()
        return self.site / "metadata" / "1.root.json"

    def add(self, draft, *numbers, keys=None):
        return self.sign("add", self.site / "draft" / f"{draft}.json", *(self.key(f"{keys or draft}-{number}") for number in numbers))

    def online(self, *more, number=None, **also):
        timestamp = self.key(f"timestamp-{number or self.timestamp}")
        return self.sign("online", self.site, "--snapshot", self.key("snapshot-1"), "--timestamp", timestamp, *more, **also)

    def root_digest(self):
        return hashlib.sha256((self.site / "metadata" / "1.root.json").read_bytes()).hexdigest()

    # ---- a release

    def built(self, version, program):
        """A folder as release/build leaves one."""
        folder = self.folder / f"built-{version}"
        folder.mkdir()
        (folder / "VERSION").write_text(version + "\n")
        shutil.copy(program, folder / f"tracer-{MACHINE}")
        tool("materials", ROOT, folder, "--version", version)
        return folder

    def stage(self, version, program, *more):
        built = program if Path(program).is_dir() else self.built(version, program)
        self.sign("stage", self.site, built, self.key("release-1"), *more)
        self.add("targets", 2, 3)
        self.online()

    def installer(self, version, url=None, channel="stable"):
        call(TOOLS / "installer", "--url", url or self.url, "--channel", channel, "--version", version, "--key", self.site / "release.pub",
             "--sums", self.site / channel / version / "SHA256SUMS", "--output", self.site / "install.sh")
        self.sign("file", self.site / "install.sh", self.key("release-1"))

    def publish(self):
        return tool("publish", self.site, self.tree)

    def verify(self, *more, **also):
        return tool("verify", self.tree, "--root-sha256", self.root_digest(), *more, **also)

    # ---- who asks for it

    def serve(self):
        handler = functools.partial(Quiet, directory=str(self.tree))
        self.tree.mkdir(exist_ok=True)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self):
        if self.server:
            self.server.shutdown()
            self.server.server_close()


class Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass


def program_of(folder, version, root, url):
    """build/ again, of another version, trusting a root: what release/build makes, without compiling everything anew."""
    place = Path(folder) / "source"
    if not place.exists():
        names = call("git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").rstrip("\0").split("\0")
        for name in names:
            if (ROOT / name).is_file():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, place / name)
        (place / "build").mkdir()
        for name in ("obj", "gen", "bpf", "deps"):
            source = ROOT / "build" / name
            if name == "deps":
                (place / "build" / "deps").symlink_to(source.resolve())
            else:
                shutil.copytree(source, place / "build" / name, symlinks=True)
    jobs = os.environ.get("JOBS", "2")
    call("make", "-s", f"-j{jobs}", f"VERSION={version}", f"ROOT_JSON={root}", f"UPDATE_URL={url}", "BUILD_ID=rehearsal", "all", cwd=place,
         env={**os.environ, "MAKEFLAGS": ""})
    made = Path(folder) / f"tracer-{version}"
    shutil.copy2(place / "build" / "tracer", made)
    return made
