#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make rehearsal`: the whole life of a release in a temporary directory, with the tools as people call them and hosts that are root
directories of their own: keys, two releases, install, update, a bad release, rollback, key rotation, a bundle. Needs root."""

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "installer")]

from box import Box
from life import MACHINE, ROOT, Life, call, program_of

STARTED = time.monotonic()


def step(words):
    print(f"== {time.monotonic() - STARTED:5.1f} s  {words}", flush=True)


def show(text):
    print("".join(f"   {line}\n" for line in text.strip().splitlines()), end="", flush=True)


BAD = """#!/bin/sh
# A release that says its version and does nothing else.
[ "$1" = version ] && echo "tracer 0.9.3 (rehearsal)" && exit
exit 1
"""
# What a new user has: sudo, and /usr/local and /var/lib on disks (an overlay is no place for an update).
HOST = """
rm -f /.dockerenv /run/.containerenv
mount -t tmpfs -o mode=755 tmpfs /usr/local
mkdir -p /var/lib && mount -t tmpfs -o mode=755 tmpfs /var/lib
mkdir -p /opt/new /usr/bin
[ -x /usr/bin/sudo ] || { printf '#!/bin/sh\\nexec "$@"\\n' >/usr/bin/sudo && chmod 755 /usr/bin/sudo; }
"""


def readme_blocks():
    """The README's commands by heading, as somebody would copy them."""
    text = (ROOT / "README.md").read_text()
    text = text[text.index("\n## Install\n"):text.index("\n## What it shows")]
    heading, blocks = "", {}
    for part in re.split(r"^(##+ .*)$", text, flags=re.M):
        if part.startswith("#"):
            heading = part.lstrip("# ")
        else:
            blocks[heading] = re.findall(r"^```sh\n(.*?)^```$", part, re.M | re.S)
    return blocks


class Rehearsal:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.life = Life(self.folder / "release", memory_mib=16)

    def host(self):
        box = Box(srv=self.folder)
        box.sh(HOST)
        return box

    def block(self, box, text, version=None, offline=False):
        """A block of the README, line by line, with HOST for where this rehearsal publishes and nothing else changed."""
        text = text.replace("https://HOST", self.life.url)
        for line in text.splitlines():
            print(f"   $ {line}", flush=True)
            shell = ["unshare", "-n", "sh"] if offline else ["sh"]
            init = "export TRACER_INSTALL_INIT=none; " if "install.sh" in line else ""  # the machine below runs systemd, this host nothing
            command = [*shell, "-ec", f"cd /opt/new; {init}{line}"]
            if " --apply" in line:
                self.apply(box, version, *command)
            else:
                show(box.run(*command))

    def apply(self, box, version, *command):
        """It stays for the trial, ten minutes when all is well: the next step does not wait for its end."""
        guard = box.popen(*command)
        began = time.monotonic()
        while f"tracer {version} " not in box.run("tracer", "version"):
            assert guard.poll() is None or guard.returncode == 0, guard.stdout.read()
            assert time.monotonic() - began < 120, "no new version after 120 s"
            time.sleep(0.2)
        self.is_on_trial(box, version, began)
        return guard

    def is_on_trial(self, box, version, began):
        """The new version runs: the collector says so."""
        while f'"version":"{version}"' not in box.run("tracer", "status", "--json", code=None):
            assert time.monotonic() - began < 120, box.run("tracer", "status", code=None)
            time.sleep(0.2)
        print(f"   {version} runs after {time.monotonic() - began:.1f} s, on trial", flush=True)

    def is_version(self, box, version):
        said = box.run("tracer", "version")
        assert f"tracer {version} " in said, said

    # ---- the steps

    def keys(self):
        step("keys: 5 of the root, 3 of targets, and five more, each encrypted by its own passphrase")
        self.root = self.life.begin()
        show(self.life.sign("show", self.life.site))
        self.life.serve()

    def release(self, version, program=None):
        self.life.stage(version, program or self.programs[version])
        self.life.installer(version)
        self.bundle()
        show(self.life.publish())
        show(self.life.verify())

    def bundle(self):
        file = self.life.site / "tracer.bundle"
        call(self.programs["0.9.1"], "bundle", "create", self.life.site, file)
        self.life.sign("file", "--hashed", file, self.life.key("release-1"))

    def first_release(self):
        step("the first release, 0.9.1: the program carries the first root")
        self.programs = {version: program_of(self.folder, version, self.root, f"{self.life.url}/metadata") for version in ("0.9.1", "0.9.2")}
        self.release("0.9.1")

    def install(self, box):
        step("README, Install: on a host that knows nothing")
        (box.root / "opt/new/token").write_text("tracer_rehearsal_token\n")
        first, options = self.readme["Install"]
        self.block(box, first)
        self.is_version(box, "0.9.1")
        with self.host() as other:
            (other.root / "opt/new/token").write_text("tracer_rehearsal_token\n")
            self.block(other, options)
            assert not (other.root / "usr/local/bin/tracer").exists()
            other.kill_all()
        step("README, A golden image")
        with self.host() as other:
            self.block(other, self.readme["A golden image"][0])
            self.is_version(other, "0.9.1")

    def second_release(self, box):
        step("the second release, 0.9.2: rules and prices with it, by keys of their own")
        rules = f"rules/site.yaml={self.file('tools: []')}"
        self.life.sign("targets", self.life.site, "--put", rules, "--custom", "product=tracer-rules", "--custom", "channel=stable",
                       "--custom", "version=1.0", "--custom", "architecture=any")
        self.life.sign("role", self.life.site, "rules", self.life.key("rules-1"), "--put", rules)
        self.life.sign("role", self.life.site, "prices", self.life.key("prices-1"), "--put", f"prices/2026.json={self.file('{}')}")
        self.release("0.9.2")
        box.run("tracer", "update", "--target-dir", "/opt/new", "download", "prices/2026.json")
        step("README, Update, and back")
        text = self.readme["Update, and back"][0].splitlines(True)
        self.block(box, "".join(text[:2]), "0.9.2")
        self.is_version(box, "0.9.2")
        self.block(box, "".join(text[2:]))
        self.is_version(box, "0.9.1")

    def file(self, text):
        file = self.folder / "file"
        file.write_text(text + "\n")
        return file

    def bad_release(self, box):
        step("a bad release, 0.9.3: it says its version and does nothing else")
        (self.folder / "bad").write_text(BAD)
        (self.folder / "bad").chmod(0o755)
        self.release("0.9.3", self.folder / "bad")
        show(box.run("tracer", "update", "--apply", code=1, timeout=300))
        self.is_version(box, "0.9.1")
        said = box.run("tracer", "update", "--status", code=None)
        show(said)
        assert "0.9.3" in said and "bad" in said, said
        said = box.run("tracer", "update", "--check")
        assert "0.9.3 is available" not in said, said
        show(said)
        step("halted for everybody else, and replaced by 0.9.4")
        self.life.sign("targets", self.life.site, "--change", f"stable/0.9.3/tracer-{MACHINE}", "--custom", 'rollout={"halt": true}')
        self.life.add("targets", 1, 3)
        self.life.online()
        self.programs["0.9.4"] = program_of(self.folder, "0.9.4", self.root, f"{self.life.url}/metadata")
        self.release("0.9.4")
        self.apply(box, "0.9.4", "tracer", "update", "--apply")

    def rotate(self, box):
        step("rotation: two holders of the root leave, one key of targets and that of the timestamp are new")
        for name in ("root-6", "root-7", "targets-4", "timestamp-2"):
            self.life.make_key(name)
        self.life.sign("root", self.life.site, "--root", *self.life.public("root", 1, 2, 3, 6, 7), "--targets", *self.life.public("targets", 2, 3, 4),
                       "--timestamp", *self.life.public("timestamp", 2))
        self.life.add("root", 1, 2)
        refused = self.life.online(number=2, code=1)
        assert "signed by 2 of the 3 keys" in refused, refused
        show(refused)
        self.life.add("root", 3, 6)
        self.life.timestamp = 2
        self.life.online()
        self.bundle()
        show(self.life.publish())
        show(self.life.verify())
        said = box.run("tracer", "update", "refresh")
        assert "root 2" in said, said
        show(said)

    def carried(self):
        step("README, Without a network: a bundle, checked by minisign too, and a host that has none")
        with self.host() as box:
            fetch, use = self.readme["Without a network"]
            self.block(box, fetch)
            self.block(box, use.splitlines()[0], offline=True)
            self.is_version(box, "0.9.4")
            self.programs["0.9.5"] = program_of(self.folder, "0.9.5", self.root, f"{self.life.url}/metadata")
            self.release("0.9.5")
            old = (box.root / "opt/new/tracer.bundle").read_bytes()
            (box.root / "opt/new/tracer.bundle").write_bytes((self.life.tree / "tracer.bundle").read_bytes())
            self.block(box, use.splitlines()[1], "0.9.5", offline=True)
            (box.root / "opt/new/old.bundle").write_bytes(old)
            refused = box.run("unshare", "-n", "tracer", "update", "--bundle", "/opt/new/old.bundle", "refresh", code=1)
            show(refused)
            assert "was seen before" in refused, refused
            box.kill_all()

    def run(self):
        self.readme = readme_blocks()
        self.keys()
        self.first_release()
        with self.host() as box:
            self.install(box)
            self.second_release(box)
            self.bad_release(box)
            self.rotate(box)
            box.kill_all()
        self.carried()
        step("all of it held")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the directory, and say where it is")
    given = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("rehearsal: run it as root: it makes root directories of its own")
    folder = tempfile.mkdtemp(prefix="tracer-rehearsal-")
    rehearsal = Rehearsal(folder)
    try:
        rehearsal.run()
    finally:
        rehearsal.life.close()
        if given.keep:
            print(folder)
        else:
            shutil.rmtree(folder)


main()
