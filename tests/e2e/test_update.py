# SPDX-License-Identifier: Apache-2.0
"""`tracer update` against a repository of another implementation (python-tuf): the cases of the public conformance suite for TUF
clients, in our words, with the same command line that it uses. The attacks by name, with the checks behind them, are in
tests/unit/test_update.c."""

import json
import platform
import stat
import subprocess

import pytest
from securesystemslib.signer import CryptoSigner
from tuf.api.metadata import DelegatedRole

from harness import certificates
from harness.tracer import BINARY, ROOT
from harness.tuf_repository import Client, Repository, Server, in_days

VERSION = (ROOT / "VERSION").read_text().strip()


@pytest.fixture
def repository():
    return Repository()


@pytest.fixture
def client(tmp_path, repository):
    client = Client(tmp_path, repository)
    yield client
    client.server.close()


def started(client):
    assert client.init() == 0, client.said
    assert client.refresh() == 0, client.said
    return client


def versions(client):
    return [client.version(role) for role in ("root", "timestamp", "snapshot", "targets")]


def test_first_refresh_asks_for_what_it_needs(client):
    assert client.init() == 0, client.said
    assert client.repository.requests == []
    assert client.refresh() == 0, client.said
    assert client.asked() == ["2.root", "timestamp", "1.snapshot", "1.targets"]
    assert versions(client) == [1, 1, 1, 1]
    for role in ("root", "timestamp", "snapshot", "targets"):
        assert (client.trusted / f"{role}.json").read_bytes() == client.repository.published[role][0]
    assert client.refresh() == 0
    assert client.asked() == ["2.root", "timestamp"]


def test_without_consistent_snapshots(tmp_path):
    client = Client(tmp_path, Repository(consistent=False))
    client.repository.add_target("a/b.txt", b"content")
    client.repository.release()
    started(client)
    assert client.asked() == ["2.root", "timestamp", "snapshot", "targets"]
    assert client.download("a/b.txt") == 0, client.said
    assert client.got() == {"a%2Fb.txt": b"content"}
    client.server.close()


def test_first_root_that_is_not_signed(client):
    root = json.loads(client.repository.published["root"][0])
    root["signatures"][0]["sig"] = "00" * 64
    assert client.init(json.dumps(root).encode()) == 1
    assert "root: signed by 0 of the 1 keys" in client.said
    assert client.refresh() == 1
    assert client.repository.requests == []


def test_first_root_that_is_none(client):
    root = json.loads(client.repository.published["root"][0])
    del root["signed"]["version"]
    assert client.init(json.dumps(root).encode()) == 1
    assert client.init(b"{}") == 1
    assert client.refresh() == 1
    assert client.repository.requests == []


def test_an_older_root_does_not_replace_the_trusted_one(client):
    client.repository.publish("root")
    started(client)
    assert client.version("root") == 2
    assert client.init() == 1
    assert client.version("root") == 2


def test_unknown_fields_are_signed_too(client):
    started(client)
    root = client.repository.root
    root.unrecognized_fields["more"] = {"nested": [1, "zwei", None, True, "\"\\\u00e9\n"]}
    root.roles["root"].unrecognized_fields["note"] = "value"
    root.keys[root.roles["root"].keyids[0]].unrecognized_fields["owner"] = {"b": 1, "a": 2}
    client.repository.publish("root")
    assert client.refresh() == 0, client.said
    assert client.version("root") == 2


def test_key_by_another_name_is_none(client):
    """The name of a key is its digest; renamed, it signs nothing."""
    started(client)
    signer = client.repository.signers["timestamp"][0]
    client.repository.root.revoke_key(signer.public_key.keyid, "timestamp")
    signer.public_key.keyid = "ab" * 32
    client.repository.root.add_key(signer.public_key, "timestamp")
    client.repository.publish("root", "timestamp")
    assert client.refresh() == 1
    assert "timestamp: signed by 0 of the 1 keys" in client.said


@pytest.mark.parametrize("role", ["timestamp", "snapshot", "targets"])
def test_threshold(client, role):
    started(client)
    repository = client.repository
    for _ in range(2):
        repository.add_key(role)
    repository.root.roles[role].threshold = 3
    signer = repository.signers[role].pop()
    repository.publish("root", "targets", "snapshot", "timestamp")
    assert client.refresh() == 1
    assert f"{role}: signed by 2 of the 3 keys" in client.said
    repository.signers[role].append(signer)
    repository.release()
    assert client.refresh() == 0, client.said


def test_keys_of_other_kinds_do_not_count_and_do_no_harm(client):
    started(client)
    repository = client.repository
    repository.add_key("timestamp", CryptoSigner.generate_ecdsa())
    repository.publish("root", "timestamp")
    assert client.refresh() == 0, client.said
    repository.root.roles["timestamp"].threshold = 2
    repository.publish("root", "timestamp")
    assert client.refresh() == 1
    assert "signed by 1 of the 2 keys" in client.said


# Keys, threshold, who signs; the last may have to be refused.
ROTATIONS = {
    "to another key": ([([1], 1, [1]), ([2], 1, [2, 1]), ([2], 1, [2])], True),
    "signatures of strangers": ([([1], 1, [3, 1, 4]), ([2], 1, [3, 2, 1, 4]), ([2], 1, [3, 2, 4])], True),
    "any three of five": ([([0, 1, 2, 3, 4], 3, [0, 2, 4]), ([0, 1, 2, 3, 4], 3, [0, 4, 1]), ([0, 1, 2, 3, 4], 3, [1, 2, 3])], True),
    "one of five": ([([0, 1, 2, 3, 4], 3, [0, 2, 4]), ([0, 1, 3, 4, 5], 3, [0, 4, 1])], True),
    "all of five": ([([0, 1, 2, 3, 4], 3, [0, 2, 4]), ([5, 6, 7, 8, 9], 3, [0, 2, 4, 5, 6, 7]), ([5, 6, 7, 8, 9], 3, [5, 6, 7])], True),
    "a higher threshold": ([([1, 2, 3], 1, [1]), ([1, 2, 3], 2, [1, 2])], True),
    "a lower threshold": ([([1, 2, 3], 2, [1, 2]), ([1, 2, 3], 1, [1, 2]), ([1, 2, 3], 1, [1])], True),
    "not by the old key": ([([1], 1, [1]), ([2], 1, [2, 3, 4])], False),
    "not by the new key": ([([1], 1, [1]), ([2], 1, [1, 3, 4])], False),
    "not by three of the new": ([([0, 1, 2, 3, 4], 3, [0, 2, 4]), ([0, 1, 3, 4, 5], 3, [0, 2, 4])], False),
    "not by three of the old": ([([0, 1, 2, 3, 4], 3, [0, 2, 4]), ([0, 1, 3, 4, 5], 3, [0, 4, 5])], False),
    "new threshold not reached": ([([1, 2, 3], 1, [1]), ([1, 2, 3], 2, [2])], False),
    "old threshold not reached": ([([1, 2, 3], 2, [1, 2]), ([1, 2, 3], 1, [1])], False),
}


@pytest.mark.parametrize("case", ROTATIONS)
def test_root_rotation(client, case):
    steps, good = ROTATIONS[case]
    repository = client.repository
    keys = [CryptoSigner.generate_ed25519() for _ in range(10)]
    repository.published["root"].clear()
    repository.root.version = 0
    for names, threshold, signed_by in steps:
        for key in list(repository.root.roles["root"].keyids):
            repository.root.revoke_key(key, "root")
        for name in names:
            repository.root.add_key(keys[name].public_key, "root")
        repository.root.roles["root"].threshold = threshold
        repository.signers["root"] = [keys[name] for name in signed_by]
        repository.publish("root")
    assert client.init() == 0, client.said
    assert client.refresh() == (0 if good else 1), client.said
    assert client.version("root") == (len(steps) if good else len(steps) - 1)


def test_fifty_rotations_in_one_run(client):
    assert client.init() == 0
    for _ in range(50):
        old = client.repository.signers["root"][0]
        client.repository.rotate("root")
        client.repository.signers["root"].append(old)
        client.repository.publish("root")
        client.repository.signers["root"].pop()
    assert client.refresh() == 0, client.said
    assert client.version("root") == 51


def test_skipped_root(client):
    started(client)
    client.repository.root.version += 1
    client.repository.publish("root")
    client.repository.instead["metadata/2.root.json"] = client.repository.published["root"][-1]
    assert client.refresh() == 1
    assert client.version("root") == 1


@pytest.mark.parametrize("role, kept", [("root", [2, 1, 1, 1]), ("timestamp", [1, 1, 1, 1]), ("snapshot", [1, 2, 1, 1]), ("targets", [1, 2, 2, 1])])
def test_expired(client, role, kept):
    started(client)
    client.repository.roles[role].signed.expires = in_days(-1)
    client.repository.release(*(["root"] if role == "root" else []))
    assert client.refresh() == 1
    assert f"{role}: version 2 has expired" in client.said
    assert versions(client) == kept


def test_expired_memory_still_guards_versions(client):
    """What is on disk may have expired: it is still remembered, and something newer is taken."""
    client.repository.timestamp.expires = in_days(-1)
    started_at = client.repository
    assert client.init() == 0
    started_at.publish("timestamp")
    (client.trusted / "timestamp.json").write_bytes(started_at.published["timestamp"][-1])
    started_at.timestamp.expires = in_days(9)
    started_at.publish("timestamp")
    assert client.refresh() == 0, client.said
    assert client.version("timestamp") == 3


def test_rollback_of_timestamp(client):
    started(client)
    client.repository.publish("timestamp")
    assert client.refresh() == 0
    client.repository.instead["metadata/timestamp.json"] = client.repository.published["timestamp"][0]
    assert client.refresh() == 1
    assert "timestamp: version 1, and 2 was seen before" in client.said
    assert client.version("timestamp") == 2


def test_same_version_of_timestamp_changes_nothing(client):
    started(client)
    client.repository.timestamp.snapshot_meta.version = 100
    client.repository.publish("timestamp", bump=False)
    assert client.refresh() == 0, client.said
    assert (client.trusted / "timestamp.json").read_bytes() == client.repository.published["timestamp"][0]


@pytest.mark.parametrize("describe", [False, True])
def test_rollback_of_snapshot(client, describe):
    client.repository.describe = describe
    client.repository.release()
    started(client)
    client.repository.snapshot.version = 0
    client.repository.release()
    assert client.refresh() == 1
    assert "timestamp: of snapshot 1, and 2 was seen before" in client.said
    assert versions(client) == [1, 2, 2, 2]


@pytest.mark.parametrize("describe", [False, True])
def test_rollback_of_targets(client, describe):
    client.repository.describe = describe
    client.repository.release()
    started(client)
    client.repository.targets.version = 0
    client.repository.release()
    assert client.refresh() == 1
    assert "snapshot: targets.json in version 1, and 2 was seen before" in client.said
    assert (client.version("snapshot"), client.version("targets")) == (2, 2)


def test_role_that_vanishes_from_the_snapshot(client):
    client.repository.delegate("targets", DelegatedRole("more", [], 1, False, ["*"]))
    client.repository.publish("more", bump=False)
    client.repository.release()
    started(client)
    del client.repository.snapshot.meta["more.json"]
    client.repository.release()
    assert client.refresh() == 1
    assert "it no longer has more.json" in client.said


@pytest.mark.parametrize("rotated", [("timestamp",), ("snapshot",), ("timestamp", "snapshot")])
def test_recovery_from_fast_forward(client, rotated):
    """Whoever had the keys used up the version numbers: new keys begin anew."""
    repository = client.repository
    for role in ("timestamp", "snapshot", "targets"):
        repository.roles[role].signed.version = 99999
    repository.release()
    started(client)
    assert versions(client) == [1, 100000, 100000, 100000]
    for role in ("timestamp", "snapshot", "targets"):
        repository.roles[role].signed.version = 1
    repository.release()
    assert client.refresh() == 1
    for role in rotated:
        repository.rotate(role)
    repository.publish("root")
    repository.release()
    assert client.refresh() == 0, client.said
    assert versions(client) == [2, 3, 3, 3]


@pytest.mark.parametrize("role", ["snapshot", "targets"])
def test_metadata_that_is_not_what_was_described(client, role):
    client.repository.describe = True
    client.repository.release()
    started(client)
    client.repository.release()
    other = json.loads(client.repository.published[role][-1])
    client.repository.instead[f"metadata/3.{role}.json"] = json.dumps(other).encode()
    assert client.refresh() == 1
    assert client.version(role) == 2


def test_mix_of_two_releases(client):
    """An old targets file, still signed, where the snapshot has a newer one."""
    started(client)
    client.repository.release()
    client.repository.instead["metadata/2.targets.json"] = client.repository.published["targets"][0]
    assert client.refresh() == 1
    assert "targets: version 1 where 2 was described" in client.said


def test_endless_data(client):
    sent = []

    def endless(handler):
        handler.send_response(200)
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b" " * 65536)
                sent.append(65536)
        except OSError:
            pass

    assert client.init() == 0
    client.repository.instead["metadata/timestamp.json"] = endless
    assert client.refresh() == 1
    assert "timestamp.json: longer than 16384 bytes" in client.said
    assert sum(sent) < 32 << 20  # what fits into buffers on the way
    del client.repository.instead["metadata/timestamp.json"]
    client.repository.add_target("big", b"x" * 1000)
    client.repository.release()
    assert client.refresh() == 0
    digest = client.repository.targets.targets["big"].hashes["sha256"]
    client.repository.instead[f"targets/{digest}.big"] = endless
    assert client.download("big") == 1
    assert client.got() == {}


def test_server_that_answers_nothing_useful(client):
    started(client)
    for path in ("timestamp", "2.root"):
        client.repository.instead = {f"metadata/{path}.json": lambda handler: handler.send_error(500)}
        assert client.refresh() == 1
    client.repository.instead = {"metadata/timestamp.json": b"<html>hello</html>"}
    assert client.refresh() == 1
    client.server.close()
    assert client.refresh() == 1
    assert versions(client) == [1, 1, 1, 1]


def test_download(client):
    client.repository.add_target("tool.txt", b"one")
    client.repository.add_target("path/to/a/tool.txt", b"two")
    client.repository.release()
    assert client.init() == 0
    assert client.download("tool.txt") == 0, client.said
    assert client.download("path/to/a/tool.txt") == 0, client.said
    assert client.got() == {"tool.txt": b"one", "path%2Fto%2Fa%2Ftool.txt": b"two"}
    assert stat.S_IMODE((client.place / "tool.txt").stat().st_mode) == 0o644
    client.repository.requests.clear()
    assert client.download("tool.txt") == 0
    assert "it was there already" in client.said
    assert not [path for path in client.repository.requests if path.startswith("targets/")]
    assert client.download("no such thing") == 1
    assert "no such target" in client.said


def test_target_that_was_exchanged(client):
    client.repository.add_target("one", b"good content")
    client.repository.add_target("two", b"more content")
    client.repository.release()
    assert client.init() == 0
    assert client.download("one") == 0
    for path in ("one", "two"):
        client.repository.content[path] = b"evil content"
    assert client.download("two") == 1
    assert "not the file that the metadata describes" in client.said
    client.repository.content["two"] = b"short"
    assert client.download("two") == 1
    assert client.got() == {"one": b"good content"}
    (client.place / "one").write_bytes(b"spoilt here!")
    assert client.download("one") == 1
    client.repository.content["one"] = b"good content"
    assert client.download("one") == 0
    assert client.got() == {"one": b"good content"}


# Who delegates to whom: parent, name, paths, terminating; then in which order they are asked for "a/file.txt".
GRAPHS = {
    "in order": ([("targets", "A", ["*/*"], False), ("targets", "B", ["*/*"], False)], "AB"),
    "down before across": ([("targets", "A", ["*/*"], False), ("targets", "B", ["*/*"], False), ("A", "C", ["*/*"], False)], "ACB"),
    "terminating": ([("targets", "A", ["*/*"], True), ("targets", "B", ["*/*"], False), ("A", "C", ["*/*"], False)], "AC"),
    "terminating below": ([("targets", "A", ["*/*"], False), ("targets", "B", ["*/*"], False), ("A", "C", ["*/*"], True)], "AC"),
    "terminating that does not match": ([("targets", "A", ["b/*"], True), ("targets", "B", ["*/*"], False)], "B"),
    "in a circle": ([("targets", "A", ["*/*"], False), ("A", "B", ["*/*"], False), ("B", "A", ["*/*"], False)], "AB"),
    "twice": ([("targets", "A", ["*/*"], False), ("targets", "B", ["*/*"], False), ("A", "C", ["*/*"], False), ("B", "C", ["*/*"], False)], "ACB"),
    "paths": ([("targets", "A", ["*"], False), ("targets", "B", ["a/*.md"], False), ("targets", "C", ["a/f?le.*"], False),
               ("targets", "D", ["?/file.txt", "x"], False), ("targets", "E", ["a/file.txt/*"], False)], "CD"),
}


@pytest.mark.parametrize("case", GRAPHS)
def test_delegations(client, case):
    edges, order = GRAPHS[case]
    for parent, name, paths, terminating in edges:
        client.repository.delegate(parent, DelegatedRole(name, [], 1, terminating, paths))
    client.repository.publish(*sorted({edge[1] for edge in edges}), bump=False)
    client.repository.release()
    started(client)
    client.repository.requests.clear()
    assert client.download("a/file.txt") == 1
    assert client.asked() == ["2.root", "timestamp"] + [f"1.{name}" for name in order]
    # Found in the last that is asked; the others are on disk by now.
    client.repository.add_target("a/file.txt", b"x", role=order[-1])
    client.repository.publish(order[-1])
    client.repository.release()
    client.repository.requests.clear()
    assert client.download("a/file.txt") == 0, client.said
    assert client.asked() == ["2.root", "timestamp", "3.snapshot", "3.targets", f"2.{order[-1]}"]


def test_delegation_by_hash(client):
    import hashlib

    prefix = hashlib.sha256(b"a/file.txt").hexdigest()[:3]
    client.repository.delegate("targets", DelegatedRole("no", [], 1, False, None, ["0" if prefix[0] != "0" else "1"]))
    client.repository.delegate("targets", DelegatedRole("yes", [], 1, False, None, [prefix]))
    client.repository.add_target("a/file.txt", b"x", role="yes")
    client.repository.publish("no", "yes", bump=False)
    client.repository.release()
    assert client.init() == 0
    assert client.download("a/file.txt") == 0, client.said
    assert "1.no" not in client.asked()


def test_too_many_delegations(client):
    parent = "targets"
    names = [f"r{i}" for i in range(40)]
    for name in names:
        client.repository.delegate(parent, DelegatedRole(name, [], 1, False, ["*"]))
        parent = name
    client.repository.publish(*names, bump=False)
    client.repository.release()
    started(client)
    client.repository.requests.clear()
    assert client.download("file") == 1
    assert client.asked() == ["2.root", "timestamp"] + [f"1.r{i}" for i in range(32)]


def test_delegated_role_below_its_threshold(client):
    client.repository.delegate("targets", DelegatedRole("A", [], 2, False, ["*"]))
    client.repository.add_target("file", b"x", role="A")
    client.repository.publish("A", bump=False)
    client.repository.release()
    assert client.init() == 0
    assert client.download("file") == 1
    assert "A: signed by 1 of the 2 keys" in client.said
    assert client.got() == {}


@pytest.mark.parametrize("name, quoted", [("?", "%3F"), ("#", "%23"), ("/role", "%2Frole"), ("../role", "..%2Frole"), ("a b", "a%20b"), ("\u00fc", "%C3%BC")])
def test_names_of_roles_that_are_no_names_of_files(client, name, quoted):
    client.repository.delegate("targets", DelegatedRole(name, [], 1, False, ["*"]))
    client.repository.publish(name, bump=False)
    client.repository.release()
    assert client.init() == 0
    client.repository.requests.clear()
    assert client.download("file") == 1
    assert f"1.{quoted}" in client.asked()
    assert sorted(path.name for path in client.trusted.iterdir()) == sorted(
        [f"{quoted}.json", "root.json", "snapshot.json", "targets.json", "timestamp.json"])


def test_delegated_role_with_the_name_of_a_top_one(client):
    # python-tuf itself refuses to make one.
    started(client)
    role = DelegatedRole("more", [], 1, False, ["*"])
    client.repository.delegate("targets", role)
    role.name = "root"
    client.repository.release()
    assert client.refresh() == 1
    assert client.version("targets") == 1


def custom(version, **more):
    return {"product": "tracer", "channel": "stable", "version": version, "architecture": platform.machine(), **more}


def test_check_and_download_for_this_host(client):
    started(client)
    assert client.online("--check") == 0
    assert f"{VERSION} is the newest on channel stable" in client.said
    offers = {
        "old": custom(VERSION), "new": custom("9.1"), "newer": custom("9.2"), "newest": custom("9.3-rc1"),
        "far": custom("10.0", minimum_version="9.0"), "beta": custom("11.0", channel="beta"),
        "machine": custom("12.0", architecture="pdp11"), "thing": custom("13.0", product="rules"), "nothing": None,
    }
    for name, what in offers.items():
        client.repository.add_target(name, name.encode(), custom=what)
    client.repository.release()
    assert client.online("--check", "--json") == 0, client.said
    assert json.loads(client.said) == {
        "running": VERSION, "channel": "stable", "available": "9.3-rc1", "target": "newest", "length_bytes": 6,
        "passed_over": None, "passed_over_because": None, "hold": False}
    assert client.online("--check", "--channel", "beta") == 0
    assert "11.0 is available: beta, 4 bytes" in client.said
    assert client.download() == 0, client.said
    assert client.got() == {"newest": b"newest"}


def test_status(client):
    assert client.run("--status") == 1
    for role, days in (("root", 365), ("timestamp", 0.9), ("snapshot", 6.5), ("targets", 29)):
        client.repository.roles[role].signed.expires = in_days(days)
    client.repository.publish("root")
    client.repository.release()
    started(client)
    assert client.run("--status", "--json") == 0
    said = json.loads(client.said)
    assert {role: said[role]["announced_days"] for role in said if role != "host"} == {"root": 0, "timestamp": 1, "snapshot": 7, "targets": 30}
    assert client.run("--status") == 0
    assert "EXPIRES in 6 days" in client.said
    client.repository.timestamp.expires = in_days(-1)
    client.repository.publish("timestamp")
    (client.trusted / "timestamp.json").write_bytes(client.repository.published["timestamp"][-1])
    assert client.run("--status") == 1
    assert "EXPIRED since" in client.said


def test_no_root_given_and_none_inside(client):
    for arguments in (["init"], ["--metadata-url", "http://127.0.0.1:1/", "refresh"]):
        assert client.run(*arguments) == 1
        assert "trusts no root yet, and this build has none inside" in client.said
    assert not client.trusted.exists()


def test_bad_usage(client):
    for arguments in ([], ["refresh"], ["refresh", "--check"], ["swap"], ["--metadata-url", "http://x", "refresh", "more"]):
        assert client.run(*arguments) == 2, arguments


def test_two_at_once(client):
    """The second is told so, and changes nothing."""
    import fcntl
    import os

    started(client)
    held = os.open(client.trusted, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    assert client.refresh() == 1
    assert "another update is at work" in client.said
    os.close(held)


def test_who_may_what(client):
    """While bytes come: the child has the network and no rights, its parent has files and no way to a network."""
    seen = {}

    def look(handler):
        import os

        for process in os.listdir("/proc"):
            try:
                name = open(f"/proc/{process}/comm").read().strip()
                arguments = open(f"/proc/{process}/cmdline").read()
                if process.isdigit() and str(client.trusted) in arguments:
                    status = open(f"/proc/{process}/status").read()
                    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
                    seen[name] = (fields, len(os.listdir(f"/proc/{process}/fd")))
            except OSError:
                pass
        handler.send_error(404)

    assert client.init() == 0
    client.repository.instead["metadata/timestamp.json"] = look
    assert client.refresh() == 1
    assert set(seen) == {"tracer", "tracer-fetch"}
    for fields, _ in seen.values():
        assert fields["NoNewPrivs"] == "1"
        assert fields["Seccomp"] == "2"
    child, files = seen["tracer-fetch"]
    assert int(child["CapPrm"], 16) == int(child["CapBnd"], 16) == 0
    assert child["Uid"].split()[0] != "0"
    assert files < 12
    assert int(seen["tracer"][0]["CapEff"], 16) in (0, 1 << 1)  # CAP_DAC_OVERRIDE


def test_https(client, tmp_path):
    """With the child's sandbox on: a server whose authority is given, and one that nobody vouches for."""
    authority = certificates.authority()
    certificate = certificates.Certificate("server", authority, names=["127.0.0.1"], extended=[certificates.SERVER])
    (tmp_path / "tls").mkdir()
    server = Server(client.repository, certificates.server_context(tmp_path / "tls", certificate))
    ca = tmp_path / "ca.pem"
    ca.write_bytes(authority.pem)
    client.repository.add_target("file", b"content")
    client.repository.release()
    assert client.init() == 0
    where = ["--metadata-url", f"{server.url}/metadata"]
    assert client.run(*where, "refresh") == 1
    assert "ertificate" in client.said
    assert client.repository.requests == []
    assert client.run(*where, "--ca-file", ca, "--target-dir", client.place, "download", "file") == 0, client.said
    assert client.got() == {"file": b"content"}
    server.close()


@pytest.mark.parametrize("call, least", [("rename", 5), ("unlink", 2)] + [
    pytest.param(call, 1, marks=pytest.mark.long) for call in ("openat", "open", "write", "fchmod", "fsync")])
def test_killed_before_any_call(client, tmp_path, call, least):
    """SIGKILL before each call that changes the disk: what is there is whole, and the next run goes on."""
    client.repository.add_target("file", b"content")
    client.repository.release()
    first = client.repository.published["root"][0]
    client.repository.rotate("snapshot")
    client.repository.publish("root")
    client.repository.release()
    for when in range(1, 40):
        folder = tmp_path / str(when)
        folder.mkdir()
        host = Client(folder, client.repository)
        try:
            assert host.init(first) == 0
            done = subprocess.run(
                ["strace", "-o", folder / "trace", "-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={when}", BINARY, "update",
                 "--metadata-dir", host.trusted, "--metadata-url", f"{host.server.url}/metadata", "--target-dir", host.place, "download", "file"],
                capture_output=True)
            if done.returncode == 0:
                break  # there are not so many of this call
            for file in host.trusted.glob("*.json"):
                assert "signed" in json.loads(file.read_bytes()), (call, when, file)
            assert host.got().get("file", b"content") == b"content"
            assert host.download("file") == 0, (call, when, host.said)
            assert (host.place / "file").read_bytes() == b"content"
            assert versions(host) == [client.repository.roles[role].signed.version for role in ("root", "timestamp", "snapshot", "targets")]
        finally:
            host.server.close()
    assert when > least
