#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make rehearsal`: the whole life of a release in a temporary directory, with the tools as people call them and hosts that are root
directories of their own: keys, two releases, install, update, a bad release, rollback, key rotation, a bundle. Needs root."""

import argparse
import hashlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "installer")]

from box import Box
from life import MACHINE, Life, call, program_of

STARTED = time.monotonic()


def step(words):
    print(f"== {time.monotonic() - STARTED:5.1f} s  {words}", flush=True)


def show(text):
    print("".join(f"   {line}\n" for line in text.strip().splitlines()), end="", flush=True)


class Rehearsal:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.life = Life(self.folder / "release", memory_mib=64)

    def keys_and_first_release(self):
        step("keys: 5 of the root, 3 of targets, and six more, each encrypted by its own passphrase")
        root = self.life.begin()
        show(self.life.sign("show", self.life.site))
        self.life.serve()
        self.url = f"{self.life.url}/metadata"
        step("the first release, 0.9.1: the program carries the first root")
        self.programs = {version: program_of(self.folder, version, root, self.url) for version in ("0.9.1", "0.9.2")}
        self.release("0.9.1")

    def release(self, version, program=None):
        self.life.stage(version, program or self.programs[version])
        self.life.installer(version)
        show(self.life.publish())
        show(self.life.verify())

    def host(self):
        return Box(srv=self.life.folder)

    def install(self, box):
        step("install: curl | sh, on a host that knows nothing")
        show(box.sh(f"curl -fsSL {self.life.url}/install.sh | TRACER_INSTALL_INIT=none sh"))
        self.is_version(box, "0.9.1")

    def is_version(self, box, version):
        said = box.run("tracer", "version")
        assert f"tracer {version} " in said, said

    def second_release(self, box):
        step("the second release, 0.9.2: rules and prices with it, by keys of their own")
        self.life.sign("role", self.life.site, "rules", self.life.key("rules-1"), "--put", f"rules/site.yaml={self.rules()}")
        self.life.sign("role", self.life.site, "prices", self.life.key("prices-1"), "--put", f"prices/2026.json={self.prices()}")
        self.release("0.9.2")
        show(box.run("tracer", "update", "--check"))

    def rules(self):
        file = self.folder / "site.yaml"
        file.write_text("tools:\n  - name: rehearsed\n    program: rehearsed\n")
        return file

    def prices(self):
        file = self.folder / "prices.json"
        file.write_text('{"currency": "USD", "per_core_hour": 0.04}\n')
        return file

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
        self.life.online(number=2)
        show(self.life.publish())
        show(self.life.verify())
        show(box.run("tracer", "update", "refresh"))
        assert "root 2" in box.run("tracer", "update", "refresh")

    def bundle(self):
        step("a bundle: signed for minisign too, checked, and onto a host without a network")
        file = self.life.folder / "update.bundle"
        program = self.programs["0.9.1"]
        call(program, "bundle", "create", self.life.site, file)
        self.life.sign("file", "--hashed", file, self.life.key("release-1"))
        show(call("minisign", "-Vm", file, "-p", self.life.site / "release.pub"))
        show(call(program, "bundle", "verify", "--root", self.life.site / "metadata" / "1.root.json", file))
        return file

    def run(self):
        self.keys_and_first_release()
        with self.host() as box:
            self.install(box)
            self.second_release(box)
            self.rotate(box)
        self.bundle()
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
