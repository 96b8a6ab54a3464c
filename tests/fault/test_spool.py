# SPDX-License-Identifier: Apache-2.0
"""The spool under faults: killed at every system call, lied to by every one it writes with, on a full and on a
read-only file system, with a large backlog. Whatever happens, accepted = delivered + pending + dropped, every
pending record can be read under its number, and nothing that was acknowledged to the caller is lost."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DRIVER = ROOT / "build/tests/fault/spool_driver"
SPEED = ROOT / "build/tests/bench/spool_speed"
TRACER = ROOT / "build/tracer"
LONG = bool(os.environ.get("TEST_LONG"))
SHAPE = ["8192", "65536", "65536"]

# Fills three times the cap in both classes, with acknowledgements and ticks in between.
SCRIPT = "".join(
    f"append 150 {'s' if i % 3 else 'p'}\n" + ("tick\n" if i % 2 else "") + (f"ack {i * 10} {i * 10}\n" if i == 9 else "")
    for i in range(24)
)
RECOVER = "tick\n" * 8

WRITE_SIDE = ["openat", "pwritev", "pwrite64", "unlinkat", "fchmod", "ftruncate", "flock", "fdatasync", "fsync",
              "io_submit", "renameat", "mkdir"]
READ_SIDE = ["pread64", "getdents64", "fstat", "io_getevents", "io_setup"]


@pytest.fixture(scope="session", autouse=True)
def programs():
    subprocess.run(["make", "-s", "build/tests/fault/spool_driver", "build/tests/bench/spool_speed"], cwd=ROOT,
                   check=True)
    assert shutil.which("strace"), "strace is needed; tests/packages.txt names it"


@pytest.fixture
def place():
    path = Path(tempfile.mkdtemp(prefix="tracer-spool-"))
    yield path / "spool"
    shutil.rmtree(path)


@pytest.fixture
def memory():
    """In memory where there is such a place: thousands of starts, each with its syncs, would take long on a disk."""
    path = Path(tempfile.mkdtemp(prefix="tracer-spool-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
    yield path / "spool"
    shutil.rmtree(path)


def lines(text):
    return [json.loads(line) for line in text.splitlines() if line.endswith("}")]


def steps(place, script, sync, strace=()):
    return subprocess.run([*strace, DRIVER, "steps", place, *SHAPE, sync], input=script, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)


def check_sums(answers):
    for answer in answers:
        if "sum" in answer:
            assert answer["sum"] == answer["accepted"], answer


def verify(place):
    done = subprocess.run([DRIVER, "verify", place, *SHAPE, "aio"], text=True, stdout=subprocess.PIPE, timeout=60)
    answers = lines(done.stdout)
    assert done.returncode == 0, answers
    check_sums(answers)
    return {**answers[0], **answers[1]}


def calls(place, script, sync, names):
    """How often a fault-free run makes each system call."""
    log = place.parent / "calls"
    done = steps(place, script, sync, ["strace", "-qq", "-o", str(log), "-e", "trace=" + ",".join(names)])
    assert done.returncode == 0, done.stdout[-500:]
    check_sums(lines(done.stdout))
    shutil.rmtree(place)
    return {name: len(re.findall(rf"^{name}\(", log.read_text(), re.M)) for name in names}


def inject(name, what, when):
    return ["strace", "-qq", "-o", "/dev/null", "-e", f"trace={name}", "-e", f"inject={name}:{what}:when={when}"]


@pytest.mark.parametrize("sync", ["aio", "blocking"])
def test_killed_at_every_system_call(memory, sync):
    counts = calls(memory, SCRIPT + "close\n", sync, WRITE_SIDE + READ_SIDE)
    assert counts["pwritev"] >= 24 and counts["unlinkat"] >= 3 and counts["openat"] >= 24
    cases = 0
    for name, count in counts.items():
        step = 1 if LONG or count < 24 else count // 12
        for when in range(1, count + 1, step):
            done = steps(memory, SCRIPT + "close\n", sync, inject(name, "signal=KILL", when))
            if name == "io_getevents" and done.returncode == 0:
                break  # how often it looks depends on the disk's speed
            assert done.returncode in (-9, 137), (name, when, done.returncode)
            before = [answer for answer in lines(done.stdout) if "accepted" in answer]
            check_sums(before)
            after = verify(memory)
            if before:
                last = before[-1]
                # Every record of an append that returned is there, or was dropped over the cap and is counted.
                assert after["accepted"] >= last["accepted"], (name, when)
                assert after["damaged"] <= after["accepted"] - last["accepted"], (name, when, after)
                assert after["cap"] >= last["cap"], (name, when)
                assert after["epoch"] == last["epoch"], (name, when)
            again = verify(memory)
            assert again["accepted"] == after["accepted"] + 3, (name, when)
            assert again["damaged"] == after["damaged"], (name, when)
            shutil.rmtree(memory, ignore_errors=True)
            cases += 1
    print(f"{cases} kills")


REASONS = {"ENOSPC": "disk_full", "EROFS": "read_only", "EIO": "io_error"}


@pytest.mark.parametrize("sync", ["aio", "blocking"])
@pytest.mark.parametrize("error", REASONS)
def test_errors_that_pass(memory, error, sync):
    """One failure, or three in a row, of each call: it recovers by itself, and nothing is lost to a write that
    failed as long as memory holds it."""
    counts = calls(memory, SCRIPT + "close\n", sync, WRITE_SIDE + READ_SIDE)
    for name, count in counts.items():
        spots = range(1, count + 1) if LONG else sorted({1, 2, 3, 5, count // 2, count} - {0})
        for when in spots:
            if when > count:
                continue
            done = steps(memory, SCRIPT + RECOVER + "close\n", sync, inject(name, f"error={error}", f"{when}..{when + 2}"))
            answers = lines(done.stdout)
            assert done.returncode == 0, (name, when, done.stdout[-300:])
            check_sums(answers)
            last = answers[-2]
            assert not last["ring"], (name, when, last)
            assert answers[-1]["closed"] == 0, (name, when)
            after = verify(memory)
            assert after["accepted"] == last["accepted"], (name, when)
            if name in WRITE_SIDE:
                assert after["damaged"] == 0, (name, when, after)
            shutil.rmtree(memory)


@pytest.mark.parametrize("error", REASONS)
@pytest.mark.parametrize("name", ["pwritev", "openat", "pwrite64", "ftruncate", "unlinkat", "fdatasync"])
def test_errors_that_stay(memory, name, error):
    """From some point on every call fails: no crash, memory stays bounded, every drop has its reason."""
    for when in (1, 4, 9):
        done = steps(memory, SCRIPT * 3 + RECOVER + "close\n", "blocking", inject(name, f"error={error}", f"{when}+"))
        answers = lines(done.stdout)
        assert done.returncode == 0, (when, done.stdout[-300:])
        check_sums(answers)
        assert max(answer.get("ring_bytes", 0) for answer in answers) <= int(SHAPE[2])
        last = answers[-2]
        if name in ("pwritev", "openat"):
            assert last["ring"], last
            assert last["ring_reason"] == REASONS[error]
            assert last[REASONS[error]] > 0
        if name == "fdatasync":
            assert last["sync_errors"] > 0
        if memory.exists():
            verify(memory)
            shutil.rmtree(memory)


class Driver:
    """A driver inside a private mount namespace, its spool on a small tmpfs."""

    def __init__(self, mount, place):
        command = f"mkdir -p {place} && mount -t tmpfs -o {mount} none {place} && exec {DRIVER} steps {place}/spool " \
                  + " ".join(SHAPE[:1] + ["1000000"] + SHAPE[2:]) + " aio"
        own = [] if os.geteuid() == 0 else ["-r"]
        self.process = subprocess.Popen(["unshare", *own, "-m", "sh", "-c", command], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.place = place
        self.first = self.read()

    def read(self):
        line = self.process.stdout.readline()
        assert line, "the driver is gone"
        answer = json.loads(line)
        check_sums([answer])
        return answer

    def __call__(self, step):
        self.process.stdin.write(step + "\n")
        self.process.stdin.flush()
        return self.read()

    def inside(self, *command):
        own = [] if os.geteuid() == 0 else ["-U", "--preserve-credentials"]
        return subprocess.run(["nsenter", "-t", str(self.process.pid), *own, "-m", *command], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def close(self):
        answer = self("close")
        self.process.stdin.close()
        assert self.process.wait(timeout=10) == 0
        return answer


def test_a_full_disk_that_is_freed(place):
    driver = Driver("size=200k", place)
    driver("append 100 p")
    driver.inside("dd", "if=/dev/zero", f"of={place}/filler", "bs=1k")
    for i in range(60):
        answer = driver("append 100 " + ("s" if i % 2 else "p"))
        driver("tick")
    assert answer["ring"] and answer["ring_reason"] == "disk_full" and answer["ring_error"] == 28
    assert answer["disk_full"] > 0 and answer["accepted"] == 6100
    assert driver("tick")["reported_disk_full"] == 0
    assert driver.inside("rm", f"{place}/filler").returncode == 0
    for _ in range(3):
        answer = driver("tick")
    assert not answer["ring"]
    assert answer["reported_disk_full"] == answer["disk_full"]
    assert answer["pending"] + answer["disk_full"] == 6100
    answer = driver("append 1 p")  # shows a hole before it
    stats = json.loads(driver.inside(TRACER, "spool", "fsck", "--json", f"{place}/spool").stdout)
    assert stats["good"] and stats["records"] == answer["pending"]
    assert stats["records_missing"] == answer["disk_full"]
    assert driver.close()["closed"] == 0


def test_a_read_only_disk_that_is_writable_again(place):
    driver = Driver("ro,size=1m", place)
    assert driver.first["ring"] and driver.first["ring_reason"] == "read_only" and driver.first["ring_error"] == 30
    for _ in range(5):
        driver("append 100 p")
        answer = driver("tick")
    assert answer["ring"] and answer["pending"] == 500
    assert driver.inside("mount", "-o", "remount,rw", str(place)).returncode == 0
    for _ in range(3):
        answer = driver("tick")
    assert not answer["ring"] and answer["pending"] == 500
    assert driver.close()["closed"] == 0


def test_a_second_writer_is_told_so(place):
    first = subprocess.Popen([DRIVER, "steps", place], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    first.stdout.readline()
    second = subprocess.run([DRIVER, "steps", place], text=True, input="", stdout=subprocess.PIPE)
    assert second.returncode == 1 and lines(second.stdout) == [{"error": "open", "errno": 16}]
    first.stdin.write("close\n")
    first.stdin.close()
    assert first.wait(timeout=10) == 0


def figures(text):
    return {line.split()[0]: float(line.split()[1]) for line in text.splitlines()}


def test_speed_and_a_backlog_of_1_gib_opens_in_200_ms(place):
    done = subprocess.run([SPEED, place, "1024"], text=True, stdout=subprocess.PIPE, check=True)
    found = figures(done.stdout)
    print(done.stdout)
    assert found["backlog"] >= 1024
    assert found["open_backlog"] < 200
    # The floors of issue 3 are 500,000 records and 500 MB a CPU second of one core; the machine may be shared.
    assert found["append_records_per_cpu"] > 500000
    assert found["append_bytes_per_cpu"] > 500
    # Five times that, again in CPU time of one core, which others on the machine slow down too: the best of three.
    for again in range(2):
        if found["drain_records_per_cpu"] <= 2500000:
            other = place.with_name(f"again-{again}")
            found = figures(subprocess.run([SPEED, other, "512"], text=True, stdout=subprocess.PIPE, check=True).stdout)
            shutil.rmtree(other)
    assert found["drain_records_per_cpu"] > 2500000 and found["drain_bytes_per_cpu"] > 2500

    def opening(shape):
        best = 60.0
        for _ in range(3):  # the machine may be shared
            subprocess.run([DRIVER, "cold", place], check=True)
            started = time.monotonic()
            subprocess.run([DRIVER, "steps", place, *shape, "aio"], input="die\n", text=True, stdout=subprocess.PIPE)
            best = min(best, time.monotonic() - started)
        return best

    shape = ["16777216", str(8 << 30), "4194304"]
    assert opening(shape) < 0.2  # nothing in the page cache
    # Killed in the middle of a segment of each class: those have to be walked. Only the first start does.
    for _ in range(3):
        script = "append 400000 p\nappend 300000 s\ndie\n"
        subprocess.run([DRIVER, "steps", place, *shape, "aio"], input=script, text=True, stdout=subprocess.PIPE)
        subprocess.run([DRIVER, "cold", place], check=True)
        started = time.monotonic()
        subprocess.run([DRIVER, "steps", place, *shape, "aio"], input="die\n", text=True, stdout=subprocess.PIPE)
        took = time.monotonic() - started
        if took < 0.2:
            break
    assert took < 0.2


def test_reading_beside_a_writer_at_full_speed_finds_no_damage(place):
    writer = subprocess.Popen([SPEED, place, "1024", "200", "2000"], stdout=subprocess.DEVNULL)
    checks = 0
    while not (place / "state").exists():
        time.sleep(0.001)
    while writer.poll() is None:
        done = subprocess.run([TRACER, "spool", "fsck", "--json", place], stdout=subprocess.PIPE)
        assert done.returncode == 0, done.stdout[:1000]
        checks += 1
    assert writer.returncode == 0 and checks > 2
    done = subprocess.run([TRACER, "spool", "fsck", "--json", place], stdout=subprocess.PIPE, check=True)
    assert json.loads(done.stdout)["good"]


def tracer(*arguments):
    return subprocess.run([TRACER, "spool", *map(str, arguments)], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)


def test_the_command(place):
    for bad in ([], ["walk"], ["stats", "--from", "2", place], ["dump", "--from", "x", place], ["fsck", "a", "b"]):
        assert tracer(*bad).returncode == 2, bad
    missing = tracer("stats", place)
    assert missing.returncode == 2 and "No such file" in missing.stderr
    steps(place, "append 5 p\nappend 7 s\nappend 3 p\nclose\n", "aio")
    stats = json.loads(tracer("stats", "--json", place).stdout)
    assert (stats["accepted"], stats["pending"], stats["delivered"], stats["written"]) == (15, 15, 0, False)
    assert sum(stats["dropped"].values()) == 0
    dump = [json.loads(line)["n"] for line in tracer("dump", place).stdout.splitlines()]
    assert dump == list(range(1, 16))
    dump = [json.loads(line)["n"] for line in tracer("dump", "--from", 8, "--kind", "process", place).stdout.splitlines()]
    assert dump == [13, 14, 15]
    assert tracer("fsck", place).returncode == 0
    listing = {path.name: path.read_bytes() for path in place.iterdir()}

    segment = place / "p-00000000000000000001.ndjson"
    text = bytearray(segment.read_bytes())
    text[230] ^= 4
    segment.write_bytes(text)
    found = tracer("fsck", "--json", place)
    assert found.returncode == 1
    report = json.loads(found.stdout)
    assert report["places"] == [{"file": segment.name, "offset": 0, "bytes": report["places"][0]["bytes"],
                                 "reason": "records", "records_lost": 5, "first": 1, "last": 5}]
    assert "offset 0" in tracer("fsck", place).stdout
    partial = tracer("dump", place)
    assert partial.returncode == 0 and len(partial.stdout.splitlines()) == 10 and "5 records" in partial.stderr
    segment.write_bytes(listing[segment.name])

    (place / "s-00000000000000000006.ndjson").unlink()
    found = tracer("fsck", "--json", place)
    assert found.returncode == 1 and json.loads(found.stdout)["records_missing"] == 7
    assert json.loads(tracer("stats", "--json", place).stdout)["dropped"]["damaged"] == 7
    # Nothing of all that changed a byte.
    for path in place.iterdir():
        assert path.read_bytes() == listing[path.name], path
