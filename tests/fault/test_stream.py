# SPDX-License-Identifier: Apache-2.0
"""The streamer under faults: killed at every system call, lied to by every one, a connection that is cut, slow, reset or
talks nonsense, servers that forget, segments torn and flipped. Whatever happens, every record that can be read arrives
once, what cannot is declared, and the spool's sum holds. TEST_LONG goes through all of it, else a part."""

import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from harness.datalake import Datalake

ROOT = Path(__file__).resolve().parents[2]
DRIVER = ROOT / "build/tests/fault/spool_driver"
TRACER = ROOT / "build/tracer"
LONG = bool(os.environ.get("TEST_LONG"))
SHAPE = ["1500", "1000000", "65536", "aio"]
TOTAL = 12 * 40
FILL = "".join(f"append 40 {'s' if i % 3 == 2 else 'p'}\n" for i in range(12)) + "close\n"
CASES, NUMBERS = {}, itertools.count()


def count(name, cases=1):
    CASES[name] = CASES.get(name, 0) + cases


@pytest.fixture(scope="session", autouse=True)
def programs():
    subprocess.run(["make", "-s", "build/tests/fault/spool_driver"], cwd=ROOT, check=True)
    yield
    print(f"\ncases: {CASES}, {sum(CASES.values())} in all")


@pytest.fixture(scope="session")
def room():
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix="tracer-stream-", dir=base))
    path.chmod(0o755)
    token = path / "token"
    token.write_text("ingest-secret\n")
    token.chmod(0o600)
    subprocess.run([DRIVER, "steps", path / "full", *SHAPE], input=FILL, text=True, stdout=subprocess.DEVNULL, check=True)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def lake():
    made = Datalake()
    yield made
    made.close()


class Spool:
    """A copy of the full spool, and what streams it."""

    def __init__(self, room, lake, options=()):
        self.path, self.lake = room / f"spool-{next(NUMBERS)}", lake
        shutil.copytree(room / "full", self.path)
        self.command = [TRACER, "stream", "--spool", self.path, "--stream-url", lake.url, "--stream-token-file",
                        room / "token", "--stream-retry-limit", "3ms", "--stream-batch-records", "100",
                        "--stream-batch-age", "1ms", *options]

    def once(self, before=()):
        return subprocess.run([*map(str, before), *map(str, self.command), "--once", "--json"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)

    def until_done(self, seconds=30):
        """Runs it as a service does, until all is there."""
        process = subprocess.Popen([*map(str, self.command), "--json"], text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        try:
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline and self.acked() < TOTAL and process.poll() is None:
                time.sleep(0.005)
        finally:
            process.send_signal(signal.SIGTERM)
            said, log = process.communicate(timeout=20)
        assert self.acked() == TOTAL, (self.acked(), log)
        return json.loads(said)

    def acked(self):
        try:
            return int(re.search(r'"acked": *(\d+)', (self.path / "stream/cursor").read_text())[1])
        except FileNotFoundError:
            return 0

    def complete(self, what=None):
        """All is there, once, under its number; and the spool's own sum says so."""
        kept = {}
        for host in self.lake.records.values():
            assert not kept.keys() & host.keys()
            kept.update(host)
        assert sorted(kept) == list(range(1, TOTAL + 1)), (what, len(kept))
        assert all(json.loads(record)["n"] == number for number, record in kept.items())
        assert self.lake.duplicates == 0 and not self.lake.breaches, self.lake.breaches
        self.adds_up(delivered=TOTAL)

    def adds_up(self, **expected):
        done = subprocess.run([DRIVER, "steps", self.path, *SHAPE], input="tick\ntick\nclose\n", text=True,
                              stdout=subprocess.PIPE, timeout=30)
        assert done.returncode == 0, done.stdout
        answer = [json.loads(line) for line in done.stdout.splitlines()][-2]
        assert answer["sum"] == answer["accepted"], answer
        for name, value in expected.items():
            assert answer[name] == value, (name, answer)
        return answer

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)


# ---- the wire --------------------------------------------------------------------------------------------------------

FAULTS = ["cut", "reset", "cut_body", "reset_body", "slow", "408", "429", "500", "502", "503", "504", "404", "405", "403",
          "301", "digest", "garbage", "empty", "huge", "not_http", "forget_answer", "half_answer", "lie_high", "lie_low",
          "retry_date"]
QUICK = [fault for fault in FAULTS if fault not in ("slow", "429", "503", "retry_date")]


@pytest.mark.parametrize("fault", FAULTS)
def test_every_failure_of_a_request(room, lake, fault):
    for position in range(5) if LONG else (0, 2):
        lake.reset()
        spool = Spool(room, lake)
        lake.faults = [None] * position + [fault]
        said = spool.until_done()
        spool.complete()
        # On a connection that was used before, libcurl itself sends what was cut a second time.
        quiet = ("slow", "lie_high", "cut", "reset", "cut_body", "reset_body", "forget_answer")
        assert said["failures"] >= (fault not in quiet), said
        spool.remove()
        count("request failures")


def test_failures_at_random(room, lake):
    random.seed(7)
    for _ in range(120 if LONG else 6):
        lake.reset()
        spool = Spool(room, lake, ["--stream-batch-records", "37"])
        lake.faults = [random.choice(QUICK + [None]) for _ in range(20)]
        spool.until_done()
        spool.complete()
        spool.remove()
        count("random failures", 20)


def test_retry_after_is_kept(room, lake):
    spool = Spool(room, lake)
    lake.faults = ["503"]
    spool.until_done()
    spool.complete()
    assert 1.0 <= lake.times[1] - lake.times[0] < 3
    spool.remove()


def test_a_line_too_slow_for_a_batch_gets_smaller_ones(room, lake):
    spool = Spool(room, lake, ["--stream-request-timeout", "400ms"])
    lake.faults = ["hang", "hang", "hang"]
    said = spool.until_done()
    spool.complete()
    assert said["failures"] == 3 and said["batches"] > 6, said
    spool.remove()
    count("request failures", 3)


def test_an_unreachable_server_is_tried_again(room, lake):
    spool = Spool(room, lake)
    lake.close()
    process = subprocess.Popen([*map(str, spool.command)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(0.5)
    assert process.poll() is None
    started = time.monotonic()
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=20)
    assert time.monotonic() - started < 8 and log.count("Could not connect") == 1, log  # told once, not each time
    spool.adds_up(delivered=0, pending=TOTAL)
    spool.remove()


def test_a_server_restored_from_a_backup(room, lake):
    """It has less than it acknowledged: what the spool still has comes again, the rest is declared as lost there."""
    spool = Spool(room, lake)
    assert spool.once().returncode == 0
    host = lake.host
    (key,) = lake.acked
    lake.acked[key] = 130
    lake.records[host] = {number: record for number, record in lake.records[host].items() if number <= 130}
    spool.adds_up()  # the writer removes what was acknowledged
    script = "append 20 p\nclose\n"
    subprocess.run([DRIVER, "steps", spool.path, *SHAPE], input=script, text=True, stdout=subprocess.DEVNULL, check=True)
    done = spool.once()
    assert done.returncode == 0, done.stderr
    have, holes = lake.records[host], lake.holes[host]
    assert sorted([*have, *holes]) == list(range(1, TOTAL + 21))
    assert all(holes[number] == "server_lost" for number in holes) and set(range(TOTAL + 1, TOTAL + 21)) <= set(have)
    spool.adds_up(delivered=TOTAL + 20)
    spool.remove()
    count("restored backup")


def test_a_record_no_server_takes(room, lake):
    for bad in ({1}, {250}, {TOTAL}, {99, 100, 101}, {7, 300, 301, 479}):
        for exact in (True, False) if LONG else (bad != {250},):
            lake.reset()
            lake.refuse = lambda number, record, bad=bad: number in bad
            if not exact:  # a server that does not say which one it was
                plain = lake.ingest

                def vague(handler, body, plain=plain):
                    try:
                        return plain(handler, body)
                    except Exception as error:
                        error.body.pop("sequence", None)
                        raise

                lake.ingest = vague
            spool = Spool(room, lake)
            said = spool.until_done()
            assert said["quarantined"] == len(bad)
            assert sorted(lake.records[lake.host]) == sorted(set(range(1, TOTAL + 1)) - bad)
            assert {number: reason for number, reason in lake.holes[lake.host].items()} == dict.fromkeys(bad, "quarantined")
            aside = [json.loads(line) for line in (spool.path / "stream/quarantine.ndjson").read_text().splitlines()]
            assert [json.loads(one["record"])["n"] for one in aside] == sorted(bad)
            spool.adds_up(delivered=TOTAL - len(bad), damaged=len(bad))
            spool.remove()
            lake.__dict__.pop("ingest", None)
            count("refused records")


def test_a_server_that_refuses_everything_costs_little(room, lake):
    lake.refuse = lambda number, record: True
    spool = Spool(room, lake)
    process = subprocess.Popen([*map(str, spool.command), "--json"], text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL)
    time.sleep(3)
    process.send_signal(signal.SIGTERM)
    said = json.loads(process.communicate(timeout=20)[0])
    assert 1 <= said["quarantined"] <= 17, said
    spool.remove()


# ---- killed ----------------------------------------------------------------------------------------------------------

CALLS = ["openat", "write", "fsync", "renameat", "fchmod", "flock", "pread64", "getdents64", "fstat", "close", "socket",
         "connect", "sendto", "recvfrom", "poll", "unlinkat", "read", "fcntl", "mmap", "munmap", "setresuid",
         "landlock_restrict_self", "seccomp", "eventfd2", "getsockopt"]


def strace(*what):
    return ["strace", "-f", "-qq", "-o", "/dev/null", *what]


def calls_of(room, lake, names):
    log = room / "calls"
    spool = Spool(room, lake)
    done = spool.once(["strace", "-f", "-qq", "-o", log, "-e", "trace=" + ",".join(names)])
    assert done.returncode == 0, done.stderr
    spool.complete()
    spool.remove()
    return {name: len(re.findall(rf"^\d+ +{name}\(", log.read_text(), re.M)) for name in names}


def spots(found, many):
    return range(1, found + 1) if LONG or found <= many else sorted(random.sample(range(1, found + 1), many))


def test_killed_at_every_system_call(room, lake):
    random.seed(11)
    found = calls_of(room, lake, CALLS)
    assert found["fsync"] >= 10 and found["renameat"] >= 5 and found["sendto"] >= 6 and found["pread64"] >= 10, found
    for name, times in found.items():
        for when in spots(times, 3):
            lake.reset()
            spool = Spool(room, lake)
            done = spool.once(strace("-e", f"trace={name}", "-e", f"inject={name}:signal=KILL:when={when}"))
            assert done.returncode in (-9, 137, 0), (name, when, done.returncode, done.stderr)
            done = spool.once()
            assert done.returncode == 0, (name, when, done.stderr)
            spool.complete((name, when) if "name" in locals() else None)
            spool.remove()
            count("kills of the streamer")


ERRORS = ["openat", "write", "fsync", "renameat", "fchmod", "pread64", "getdents64", "fstat", "sendto", "recvfrom", "connect",
          "socket", "poll", "read", "unlinkat"]


@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "EROFS", "ECONNRESET"])
def test_errors_of_system_calls(room, lake, error):
    """One failure, or three in a row: this run or the next delivers all of it, and none twice."""
    random.seed(5)
    found = calls_of(room, lake, ERRORS)
    for name, times in found.items():
        if (error == "ECONNRESET") != (name in ("sendto", "recvfrom", "connect", "socket", "poll")):
            continue
        for when in spots(times, 1):
            lake.reset()
            spool = Spool(room, lake)
            done = spool.once(strace("-e", f"trace={name}", "-e", f"inject={name}:error={error}:when={when}..{when + 2}"))
            assert done.returncode in (0, 1, 2, 3), (name, when, done.returncode, done.stderr)
            done = spool.once()
            assert done.returncode == 0, (name, when, done.stderr)
            spool.complete((name, when) if "name" in locals() else None)
            spool.remove()
            count("errors of the streamer")


# The writer beside one that acknowledges: the cursor's own calls, and the removal of what was delivered.
ACKNOWLEDGE = "".join(f"append 60 {'s' if i % 3 == 2 else 'p'}\nack {i * 60} {i * 60}\ntick\ntick\ntick\ntick\n" for i in range(1, 9))
GARBAGE = ["openat", "renameat", "fsync", "fchmod", "write", "pwrite64", "pwritev", "unlinkat", "pread64", "fstat", "close",
           "mkdirat", "flock", "io_submit"]


@pytest.mark.parametrize("sync", ["aio", "blocking"])
def test_acknowledge_and_collect_garbage(room, sync):
    random.seed(3)
    log, place = room / "calls", room / "garbage"
    shape = ["1500", "65536", "65536", sync]

    def run(before, script):
        return subprocess.run([*map(str, before), DRIVER, "steps", place, *shape], input=script, text=True,
                              stdout=subprocess.PIPE, timeout=60)

    def check(what):
        done = subprocess.run([DRIVER, "verify", place, *shape], text=True, stdout=subprocess.PIPE, timeout=60)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert done.returncode == 0 and answers[0]["sum"] == answers[0]["accepted"], (what, answers)
        return answers[0]

    assert run(["strace", "-qq", "-o", log, "-e", "trace=" + ",".join(GARBAGE)], ACKNOWLEDGE + "close\n").returncode == 0
    found = {name: len(re.findall(rf"^{name}\(", log.read_text(), re.M)) for name in GARBAGE}
    assert found["renameat"] == 8 and found["unlinkat"] >= 8, found
    shutil.rmtree(place)
    for name, times in found.items():
        for when in spots(times, 2):
            for what in ("signal=KILL", "error=EIO", "error=ENOSPC", "error=EROFS") if LONG else ("signal=KILL", "error=EIO"):
                done = run(["strace", "-qq", "-o", "/dev/null", "-e", f"trace={name}", "-e", f"inject={name}:{what}:when={when}"],
                           ACKNOWLEDGE + "tick\n" * 8 + "close\n")
                said = [json.loads(line) for line in done.stdout.splitlines() if line.endswith("}")]
                assert done.returncode in (0, -9, 137), (name, when, what, done.returncode, done.stdout[-300:])
                known = [answer for answer in said if "accepted" in answer]
                assert all(answer["sum"] == answer["accepted"] for answer in known), (name, when, what)
                if known and place.exists():
                    after = check((name, when, what))
                    assert after["accepted"] >= known[-1]["accepted"], (name, when, what)
                shutil.rmtree(place, ignore_errors=True)
                count("acknowledge and collect-garbage")


# ---- what is on disk -------------------------------------------------------------------------------------------------

def test_segments_torn_and_flipped(room, lake):
    """What a CRC does not cover is never sent, the rest is; the server gets all numbers, as records or as holes."""
    random.seed(13)
    for _ in range(3000 if LONG else 25):
        lake.reset()
        spool = Spool(room, lake)
        segments = sorted(spool.path.glob("[ps]-*"))
        for _ in range(random.choice((1, 1, 2, 5))):
            victim = random.choice(segments)
            data = bytearray(victim.read_bytes())
            kind = random.choice(("flip", "flip", "cut", "zero", "remove", "garbage"))
            if kind == "remove":
                victim.unlink(missing_ok=True)
                segments.remove(victim)
                continue
            if not data:
                continue
            at = random.randrange(len(data))
            if kind == "flip":
                data[at] ^= 1 << random.randrange(8)
            elif kind == "cut":
                del data[at:]
            elif kind == "zero":
                data[at:at + 300] = bytes(len(data[at:at + 300]))
            else:
                data[at:at] = os.urandom(50)
            victim.write_bytes(data)
        assert spool.once().returncode == 0
        # Damage at the very end has no number behind it that tells its extent: the next records do.
        subprocess.run([DRIVER, "steps", spool.path, *SHAPE], input="append 3 p\nappend 3 s\nclose\n", text=True,
                       stdout=subprocess.DEVNULL, check=True)
        done = spool.once()
        assert done.returncode == 0, done.stderr
        have, holes = lake.records.get(lake.host, {}), lake.holes.get(lake.host, {})
        assert all(json.loads(record)["n"] == number for number, record in have.items())
        assert not have.keys() & holes.keys() and not lake.breaches and not lake.duplicates
        after = spool.adds_up(delivered=len(have), pending=0)
        assert sorted([*have, *holes]) == list(range(1, after["accepted"] + 1)), after
        spool.remove()
        count("damaged segments")


@pytest.mark.parametrize("damage", ["remove", "empty", "garbage", "other", "link", "fifo", "far", "large"])
def test_a_cursor_that_cannot_be_right(room, lake, damage):
    """The streamer owns it and may be taken over: the writer neither follows, waits nor believes. What was delivered
    comes again, and the server knows it by its number."""
    spool = Spool(room, lake)
    assert spool.once().returncode == 0
    cursor = spool.path / "stream/cursor"
    text = cursor.read_bytes()
    cursor.unlink()
    if damage == "empty":
        cursor.write_bytes(b"")
    elif damage == "garbage":
        cursor.write_bytes(os.urandom(136))
    elif damage == "other":
        cursor.write_bytes(text.replace(b"480", b"481"))
    elif damage == "link":
        cursor.symlink_to("/etc/passwd")
    elif damage == "fifo":
        os.mkfifo(cursor)
    elif damage == "large":
        cursor.write_bytes(b"x" * 10_000_000)
    elif damage == "far":
        subprocess.run([DRIVER, "steps", room / "far", *SHAPE], input=f"ack {1 << 62} 5\ndie\n", text=True,
                       stdout=subprocess.DEVNULL)
        shutil.copy(room / "far/stream/cursor", cursor)
        shutil.rmtree(room / "far")
    after = spool.adds_up()
    assert after["accepted"] < TOTAL + 10, after
    if damage != "far":
        assert spool.once().returncode == 0
        spool.complete()
    spool.remove()
    count("cursors")


def test_many_starts_end_well(room, lake):
    """Started and killed at random, over and over: it always starts."""
    random.seed(17)
    for _ in range(300 if LONG else 8):
        lake.reset()
        spool = Spool(room, lake, ["--stream-batch-records", "5"])
        for _ in range(4):
            process = subprocess.Popen([*map(str, spool.command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(random.random() * 0.08)
            process.kill()
            process.wait()
        assert spool.once().returncode == 0
        spool.complete()
        spool.remove()
        count("random kills", 4)
