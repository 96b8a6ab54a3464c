# SPDX-License-Identifier: Apache-2.0
"""The swap under faults: `tracer update --apply` and `--rollback` killed before and after every system call, and every state that a power
cut could leave of their writes. In each of them `current` names one complete, verified version that starts, there are at most two, and the
next run comes to the end."""

import collections
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

import power_cut
from harness.tuf_repository import Repository

ROOT = Path(__file__).resolve().parents[2]
STUB = ROOT / "build/tests/fault/version_stub"
TRACER = ROOT / "build/tracer"
LONG = bool(os.environ.get("TEST_LONG"))
# What changes names, without which a kill falls into the same state as the one before.
CHANGES = ["renameat", "symlinkat", "unlinkat", "mkdirat", "fsync"]


class World:
    """A host with 9.0 installed and 8.0 as the way back, and a bundle with 9.1."""

    def __init__(self, folder):
        self.folder, self.runs = folder, folder / "run"
        stub = STUB.read_bytes()
        self.programs = {version: stub + version.encode() * 40000 for version in ("8.0", "9.0", "9.1")}
        self.sums = {hashlib.sha256(data).hexdigest(): version for version, data in self.programs.items()}
        repository = Repository()
        custom = {"product": "tracer", "channel": "stable", "version": "9.1", "architecture": platform.machine()}
        repository.add_target("tracer", self.programs["9.1"], custom=custom)
        repository.release()
        repository.write(folder / "site")
        subprocess.run([TRACER, "bundle", "create", folder / "site", folder / "bundle"], check=True)
        self.kept = {}
        for version, data in self.programs.items():
            program = folder / f"tracer-{version}"
            program.write_bytes(data)
            program.chmod(0o755)
            self.kept[data, 0o755] = program
        (folder / "root.json").write_bytes(repository.published["root"][0])
        self.fresh()
        self.clean_call_log = None

    @property
    def library(self):
        return self.runs / "prefix/lib/tracer"

    @property
    def trusted(self):
        return self.runs / "trusted"

    def fresh(self, previous="8.0", current="9.0"):
        shutil.rmtree(self.runs, ignore_errors=True)
        for version in (previous, current):
            place = self.library / "versions" / version
            place.mkdir(parents=True)
            os.link(self.folder / f"tracer-{version}", place / "tracer")
        (self.library / "current").symlink_to(f"versions/{current}/tracer")
        (self.library / "previous").symlink_to(f"versions/{previous}/tracer")
        first = self.folder / "trusted"
        if not first.exists():
            subprocess.run([TRACER, "update", "--metadata-dir", first, "init", self.folder / "root.json"], check=True)
        shutil.copytree(first, self.trusted)

    def command(self, action):
        source = ["--config", "/dev/null", "--rules-folder", "", "--bundle", self.folder / "bundle"] if action == "--apply" else []
        return [TRACER, "update", "--metadata-dir", self.trusted, "--prefix", self.runs / "prefix", *source, action]

    def run(self, action, *tracer):
        return subprocess.run([*tracer, *self.command(action)], capture_output=True, text=True, timeout=60, cwd=self.folder)

    def named(self, pointer):
        try:
            return os.readlink(self.library / pointer).split("/")[1]
        except FileNotFoundError:
            return None

    def whole(self, version):
        program = self.library / "versions" / version / "tracer"
        assert self.sums.get(hashlib.sha256(program.read_bytes()).hexdigest()) == version
        assert os.access(program, os.X_OK)

    def check(self, allowed, starts=True):
        """current is one of the allowed, whole, and starts; at most two versions; the trial is on record before it is switched."""
        current = self.named("current")
        assert current in allowed, current
        self.whole(current)
        versions = [path.name for path in (self.library / "versions").iterdir() if not path.name.startswith(".")]
        assert len(versions) <= 2, versions
        if self.named("previous"):
            self.whole(self.named("previous"))
        if starts:
            ran = subprocess.run([self.library / "current"], capture_output=True, text=True, timeout=10)
            assert (ran.returncode, ran.stdout) == (0, "tracer stub\n")
        state = self.trusted / "state"
        said = json.loads(state.read_text()) if state.exists() else {"trial": None, "bad": []}
        if current == "9.1":
            assert said["trial"] and (said["trial"]["version"], said["trial"]["previous"]) == ("9.1", "9.0")
            assert self.named("previous") == "9.0"
        return current

    def left(self):
        """What a kill left half-written beside what is trusted."""
        return [path.name for path in self.trusted.iterdir() if re.search(r"\.[A-Za-z0-9]{6}$", path.name)]

    def end(self):
        """Once more, without a fault: it comes to the end from wherever it is, and nothing is left of the kill."""
        before = self.named("current")
        done = self.run("--apply")
        if before == "9.0":
            assert done.returncode == 0, done.stderr
        else:
            assert "9.1 is the newest" in done.stdout, done.stderr
        assert self.check(["9.1"]) == "9.1" and not self.left()
        if before == "9.0":
            assert sorted(path.name for path in (self.library / "versions").iterdir()) == ["9.0", "9.1"]


@pytest.fixture(scope="module")
def world():
    subprocess.run(["make", "-s", "build/tests/fault/version_stub"], cwd=ROOT, check=True)
    assert shutil.which("strace"), "strace is needed; tests/packages.txt names it"
    folder = Path(tempfile.mkdtemp(prefix="tracer-update-", dir="/dev/shm" if os.access("/dev/shm", os.X_OK) else None))
    yield World(folder)
    shutil.rmtree(folder)


def calls(world, action):
    """How often each of the processes of a run makes each system call."""
    logs = world.folder / "calls"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir()
    done = world.run(action, "strace", "-ff", "-qq", "-o", logs / "log")
    assert done.returncode == 0, done.stderr
    return [collections.Counter(re.findall(r"^(\w+)\(", log.read_text(), re.M)) for log in sorted(logs.iterdir())]


def kills(world, action, names):
    """(options of strace, name, n): every system call of every process of it, once."""
    for number, counter in enumerate(calls(world, action)):
        for name, count in sorted(counter.items()):
            if (names and name not in names) or name in ("execve", "exit_group", "wait4"):
                continue
            # Alone, strace sees the first process only; with -f the worker is the first to come so far, for the first
            # waits for it.
            follow = ["-f"] if number else []
            for when in range(1, count + 1):
                yield [*follow, "-qq", "-o", "/dev/null", "-e", f"trace={name}", "-e", f"inject={name}:signal=KILL:when={when}"], name, when


def test_apply_killed_at_every_system_call(world):
    cases = half = 0
    left = collections.Counter()
    world.fresh()
    for options, name, when in list(kills(world, "--apply", None if LONG else CHANGES)):
        world.fresh()
        assert world.run("--apply", "strace", *options).returncode != 0, (name, when)
        left[world.check(["9.0", "9.1"])] += 1
        half += bool(world.left())
        world.end()
        cases += 1
    print(f"{cases} of {cases} kills of --apply: current is whole and starts, {dict(left)}; {half} left a file half-written")
    assert cases >= (250 if LONG else 25) and left["9.0"] > left["9.1"] > 0 and half > 0


def test_rollback_killed_at_every_system_call(world):
    cases, left = 0, collections.Counter()
    world.fresh()
    assert world.run("--apply").returncode == 0
    kept = world.folder / "applied"
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(world.runs, kept, symlinks=True)
    for options, name, when in list(kills(world, "--rollback", None if LONG else CHANGES)):
        shutil.rmtree(world.runs)
        shutil.copytree(kept, world.runs, symlinks=True)
        assert world.run("--rollback", "strace", *options).returncode != 0, (name, when)
        current = world.named("current")
        world.whole(current)
        left[current] += 1
        said = json.loads((world.trusted / "state").read_text())
        # Left behind is only what is remembered as bad.
        assert current == "9.1" or [bad["version"] for bad in said["bad"]] == ["9.1"]
        done = world.run("--rollback")
        assert done.returncode == 0 or "no version to go back to" in done.stderr, done.stderr
        assert (world.named("current"), world.named("previous")) == ("9.0", None)
        assert not world.left()
        assert "remembered as bad" in world.run("--apply").stdout
        cases += 1
    print(f"{cases} of {cases} kills of --rollback: current is whole, {dict(left)}")
    assert cases >= (60 if LONG else 6) and set(left) == {"9.0", "9.1"}


# What writes and names, each of which may fail once. A second failure of the same would be the same.
WRITES = ["write", "fsync", "fchmod", "fchown", "rename", "renameat", "symlinkat", "unlinkat", "mkdirat", "openat", "open"]


@pytest.mark.parametrize("error", ["ENOSPC", pytest.param("EIO", marks=pytest.mark.long), pytest.param("EROFS", marks=pytest.mark.long)])
def test_a_call_that_fails_leaves_what_was(world, error):
    """A full or broken disk at any step: it says so with a path and what to do, and the host is as whole as before."""
    world.fresh()
    worker = calls(world, "--apply")[-1]
    silent = cases = 0
    for name in WRITES:
        count = worker[name]
        for when in range(1, count + 1) if LONG else sorted({1, count // 2, count} - {0}):
            world.fresh()
            done = world.run("--apply", "strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={name}",
                             "-e", f"inject={name}:error={error}:when={when}")
            world.check(["9.0", "9.1"], starts=False)
            if done.returncode == 0:
                silent += 1  # what is tidied up may fail, and is tidied up the next time
                assert world.named("current") in ("9.0", "9.1")
            else:
                assert "tracer update: " in done.stderr, (name, when, done)
            world.end()
            cases += 1
    print(f"{error} in {cases} calls, {silent} of which a run does without; current is whole after each")
    assert cases >= 20 and silent < cases // 4


def recorded(world, action):
    """(the disk before, the system calls of the run)"""
    disk = power_cut.Disk([world.library, world.trusted])
    log = world.folder / "log"
    done = world.run(action, "strace", "-f", "-y", "-z", "-xx", "-s", "1000000", "-o", log, "-e", "trace=" + power_cut.CALLS)
    assert done.returncode == 0, done.stderr
    return disk, log.read_text()


def cuts(world, disk, log):
    """Every state once, each made on disk."""
    seen = set()
    for state in disk.play(log, world.folder):
        key = tuple(power_cut.freeze(tree) for tree in state.values())
        if key not in seen:
            seen.add(key)
            shutil.rmtree(world.runs, ignore_errors=True)
            for root, tree in state.items():
                power_cut.put(tree, root, world.kept)
            yield len(seen)


def test_every_state_that_a_power_cut_may_leave(world):
    left = collections.Counter()
    world.fresh()
    for cases in cuts(world, *recorded(world, "--apply")):
        left[world.check(["9.0", "9.1"])] += 1
        if LONG or cases % 8 == 0:
            world.end()
    print(f"{cases} of {cases} states after a power cut: current is whole and starts, {dict(left)}")
    assert cases > 60 and left["9.0"] > left["9.1"] > 0


@pytest.mark.long
@pytest.mark.parametrize("folder,name", [("versions/.9.1.new", "tracer"), ("versions", ""), ("", "state")])
def test_the_model_finds_a_flush_that_is_missing(world, folder, name):
    """Without it there is a state that the test above refuses."""
    world.fresh()
    disk, log = recorded(world, "--apply")
    place = world.trusted if name == "state" else world.library / folder
    path = "".join(f"\\x{byte:02x}" for byte in str(place / name if name == "tracer" else place).encode())
    lines = log.splitlines()
    flush = [number for number, line in enumerate(lines) if " fsync(" in line and f"<{path}>" in line]
    # Of the trusted directory: the last, which is the state's.
    kept = [line for number, line in enumerate(lines) if number not in (flush[-1:] if name == "state" else flush)]
    assert len(kept) < len(lines)
    with pytest.raises((AssertionError, OSError)):
        for _ in cuts(world, disk, "\n".join(kept)):
            world.check(["9.0", "9.1"], starts=False)
