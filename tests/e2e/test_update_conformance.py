# SPDX-License-Identifier: Apache-2.0
"""The contract of the public conformance suite for TUF clients, word by word: its command line, exit codes, the names of files,
and those of its cases that test_update.py has not. Its own keys are ECDSA unless told otherwise; these are Ed25519."""

import hashlib
import json
import subprocess
import time
from copy import deepcopy

import pytest
from securesystemslib.formats import encode_canonical
from securesystemslib.signer import CryptoSigner
from tuf.api.metadata import DelegatedRole, TargetFile

from harness.tracer import BINARY
from harness.tuf_repository import Repository, Server, in_days

TOP = ["root", "snapshot", "targets", "timestamp"]


class Driven:
    """A client as the suite drives it: folders that are there and empty, options before the operation, in its order."""

    def __init__(self, folder):
        self.repository = Repository()
        self.server = Server(self.repository)
        self.metadata, self.artifacts = folder / "metadata", folder / "targets"
        self.metadata.mkdir()
        self.artifacts.mkdir()
        self.root = folder / "initial_root.json"
        self.said = ""

    def run(self, *words):
        done = subprocess.run([BINARY, "update", *map(str, words)], capture_output=True, text=True, timeout=120)
        self.said = done.stdout + done.stderr
        return done.returncode

    def init(self):
        self.root.write_bytes(self.repository.published["root"][0])
        return self.run("--metadata-dir", self.metadata, "init", self.root)

    def refresh(self):
        self.repository.requests.clear()
        return self.run("--metadata-url", self.server.url + "/metadata", "--metadata-dir", self.metadata, "refresh")

    def download(self, name):
        self.repository.requests.clear()
        return self.run("--metadata-url", self.server.url + "/metadata", "--metadata-dir", self.metadata, "--target-name", name,
                        "--target-dir", self.artifacts, "--target-base-url", self.server.url + "/targets", "download")

    def trusted(self):
        return {path.name.removesuffix(".json"): json.loads(path.read_bytes())["signed"]["version"] for path in sorted(self.metadata.glob("*.json"))}

    def asked(self):
        return [path.removeprefix("metadata/").removesuffix(".json") for path in self.repository.requests if path.startswith("metadata/")]

    def got(self):
        return sorted(path.read_bytes() for path in self.artifacts.rglob("*") if path.is_file())


@pytest.fixture
def client(tmp_path):
    client = Driven(tmp_path)
    yield client
    client.server.close()


def started(client):
    assert client.init() == 0, client.said
    assert client.refresh() == 0, client.said
    return client.repository


def test_what_is_where(client):
    assert client.init() == 0, client.said
    assert client.repository.requests == [] and client.trusted() == {"root": 1}
    assert client.refresh() == 0, client.said
    assert client.trusted() == dict.fromkeys(TOP, 1)
    for role in TOP:
        assert (client.metadata / f"{role}.json").read_bytes() == client.repository.published[role][0], "byte for byte"
    assert client.got() == []


def test_a_download_refreshes_first(client):
    assert client.init() == 0
    assert client.download("nothing of that name") == 1
    assert client.asked() == ["2.root", "timestamp", "1.snapshot", "1.targets"]
    assert client.trusted() == dict.fromkeys(TOP, 1)


# Keys, threshold, who signs, whether it is good.
ROTATIONS = {
    "another key": ([2], 1, [2], True),
    "strangers sign too": ([1], 1, [3, 1, 4], True),
    "not by the new one": ([2], 1, [1, 3, 4], False),
    "one of three is no key of it": ([0, 1, 3, 4, 5], 3, [0, 2, 4], False),
    "two of three": ([0, 1, 3, 4, 5], 3, [0, 4], False),
    "first three": ([0, 1, 2, 3, 4], 3, [0, 2, 4], True),
    "another three": ([0, 1, 2, 3, 4], 3, [0, 4, 1], True),
    "last three": ([0, 1, 2, 3, 4], 3, [2, 3, 4], True),
    "all five": ([0, 1, 2, 3, 4], 5, [4, 3, 2, 1, 0], True),
}


@pytest.mark.parametrize("role", ["snapshot"] + [pytest.param(role, marks=pytest.mark.long) for role in ("timestamp", "targets")])
@pytest.mark.parametrize("case", ROTATIONS)
def test_rotation_of_keys(client, role, case):
    keys, threshold, signed_by, good = ROTATIONS[case]
    repository = started(client)
    signers = [CryptoSigner.generate_ed25519() for _ in range(6)]
    for keyid in list(repository.root.roles[role].keyids):
        repository.root.revoke_key(keyid, role)
    for key in keys:
        repository.root.add_key(signers[key].public_key, role)
    repository.root.roles[role].threshold = threshold
    repository.signers[role] = [signers[key] for key in signed_by]
    repository.publish("root")
    repository.release()
    assert client.refresh() == (0 if good else 1), client.said
    assert client.trusted()["root"] == 2
    if good:
        assert client.trusted()[role] == 2
        assert (client.metadata / f"{role}.json").read_bytes() == repository.published[role][-1]
    else:
        assert client.trusted().get(role, 1) == 1


def test_rotation_of_a_delegated_role(client):
    repository = client.repository
    repository.delegate("targets", DelegatedRole("more", [], 1, False, ["*"]))
    repository.add_target("file", b"one", role="more")
    repository.publish("more", bump=False)
    repository.release()
    assert client.init() == 0
    assert client.download("file") == 0, client.said
    old, = repository.signers["more"]
    repository.targets.revoke_key(old.public_key.keyid, "more")
    fresh = CryptoSigner.generate_ed25519()
    repository.targets.add_key(fresh.public_key, "more")
    repository.add_target("file", b"two", role="more")
    repository.release("more")
    assert client.download("file") == 1
    assert "more: signed by 0 of the 1 keys" in client.said and client.got() == [b"one"]
    repository.signers["more"] = [fresh]
    repository.release("more")
    assert client.download("file") == 0, client.said
    assert client.got() == [b"two"], "in the same file"


@pytest.mark.parametrize("role", ["timestamp", "snapshot", "targets"])
def test_one_key_many_times(client, role):
    """A name that stands twice, or a key without an entry, is no second key."""
    repository = started(client)
    named = repository.root.roles[role]
    named.keyids += named.keyids * 3 + ["ab" * 32]
    named.threshold = 2
    repository.publish("root")
    repository.release()
    assert client.refresh() == 1
    assert client.trusted().get(role, 1) == 1


def test_words_beside_a_key(client):
    """`keyid_hash_algorithms` is no part of the specification: whatever it says, the key is the same."""
    repository = started(client)
    for keyid in repository.root.roles["snapshot"].keyids:
        repository.root.keys[keyid].unrecognized_fields["keyid_hash_algorithms"] = ["md5"]
    repository.publish("root")
    repository.release()
    assert client.refresh() == 0, client.said
    assert client.trusted() == dict.fromkeys(TOP, 2)


@pytest.mark.parametrize("field, value", [("scheme", "ed25519ph"), ("scheme", "ecdsa-sha2-nistp256"), ("keytype", "ecdsa"), ("keytype", "ED25519")])
def test_a_key_of_another_scheme_does_not_count(client, field, value):
    repository = started(client)
    signer, = repository.signers["snapshot"]
    key = deepcopy(signer.public_key)
    setattr(key, field, value)
    plain = {"keytype": key.keytype, "scheme": key.scheme, "keyval": key.keyval}
    key.keyid = hashlib.sha256(encode_canonical(plain).encode()).hexdigest()
    repository.root.revoke_key(signer.public_key.keyid, "snapshot")
    repository.root.add_key(key, "snapshot")
    repository.publish("root")
    repository.signers["snapshot"] = []
    repository.publish("targets", "snapshot", "timestamp")
    body = json.loads(repository.published["snapshot"][-1])
    body["signatures"] = [{"keyid": key.keyid, "sig": signer.sign(encode_canonical(body["signed"]).encode()).signature}]
    repository.published["snapshot"][-1] = json.dumps(body).encode()
    assert client.refresh() == 1
    assert "snapshot: signed by 0 of the 1 keys" in client.said
    assert client.trusted()["root"] == 2 and client.trusted().get("snapshot", 1) == 1


# Digests of a target, each of the bytes that are served or of others, and whether it is good.
DIGESTS = {
    "sha512 alone": ({"sha512": True}, True),
    "both": ({"sha256": True, "sha512": True}, True),
    "the second is of other bytes": ({"sha256": True, "sha512": False}, False),
    "the first is of other bytes": ({"sha256": False, "sha512": True}, False),
    "one that nobody knows beside": ({"sha256": True, "blake9": True}, True),
    "only one that nobody knows": ({"blake9": True}, False),
}


@pytest.mark.parametrize("case", DIGESTS)
def test_digests(client, case):
    digests, good = DIGESTS[case]
    data = {True: b"content", False: b"CONTENT"}
    hashes = {name: hashlib.new("sha256" if name == "blake9" else name, data[same]).hexdigest() for name, same in digests.items()}
    repository = started(client)
    repository.targets.targets["file"] = TargetFile(len(data[True]), hashes, "file")
    repository.content["file"] = data[True]
    repository.release()
    assert client.download("file") == (0 if good else 1), client.said
    assert client.got() == ([data[True]] if good else [])


def test_a_target_that_changes_again_and_again(client):
    """Always the newest, in one file; never what is not described, never fetched twice."""
    repository = client.repository
    assert client.init() == 0
    for number in range(4):
        now = f"content {number}".encode()
        repository.add_target("a/file", now)
        repository.release()
        assert client.download("a/file") == 0, client.said
        assert client.got() == [now]
        assert client.download("a/file") == 0
        assert not [path for path in client.repository.requests if path.startswith("targets/")]
        repository.content["a/file"] = b"evil content"
        client.download("a/file")
        assert client.got() == [now]


def test_snapshot_that_is_older_than_the_timestamp_says(client):
    assert client.init() == 0
    client.repository.timestamp.snapshot_meta.version = 2
    client.repository.publish("timestamp", bump=False)
    client.repository.instead["metadata/2.snapshot.json"] = client.repository.published["snapshot"][0]
    assert client.refresh() == 1
    assert client.trusted() == {"root": 1, "timestamp": 1}
    assert client.asked()[-1] == "2.snapshot"


def test_what_the_timestamp_does_not_name_is_not_asked_for(client):
    repository = started(client)
    repository.publish("snapshot")
    assert client.refresh() == 0, client.said
    assert client.asked() == ["2.root", "timestamp"]
    assert client.trusted() == dict.fromkeys(TOP, 1)


@pytest.mark.parametrize("first", [True, False])
def test_consistent_snapshots_begin_and_end(client, first):
    repository = client.repository
    for consistent in (first, not first, first):
        repository.root.consistent_snapshot = consistent
        repository.publish("root")
        if not client.trusted():
            assert client.init() == 0
        repository.add_target("file", str(consistent).encode())
        repository.release()
        assert client.download("file") == 0, client.said
        assert client.got() == [str(consistent).encode()]
        version = client.trusted()["targets"]
        assert [name for name in client.asked() if "targets" in name] == [f"{version}.targets" if consistent else "targets"]


@pytest.mark.parametrize("name, order", [("file", []), ("README.md", ["A"]), ("releases/x/x_v1", ["B", "C"]), ("releases/y/y_v1.zip", ["B", "D"]),
                                         ("releases/z/z_v1.zip", ["B"])])
def test_who_is_asked_for_a_target(client, name, order):
    """The last is in D's metadata, and B does not let D speak of it."""
    repository = client.repository
    for parent, role, paths in (("targets", "A", ["*.doc", "*.md"]), ("targets", "B", ["releases/*/*"]), ("B", "C", ["releases/x/*"]),
                                ("B", "D", ["releases/y/*.zip"])):
        repository.delegate(parent, DelegatedRole(role, [], 1, False, paths))
    for role, path in (("targets", "file"), ("A", "README.md"), ("C", "releases/x/x_v1"), ("D", "releases/y/y_v1.zip"), ("D", "releases/z/z_v1.zip")):
        repository.add_target(path, path.encode(), role=role)
    repository.publish("A", "B", "C", "D", bump=False)
    repository.release()
    assert client.init() == 0
    found = not name.startswith("releases/z")
    assert client.download(name) == (0 if found else 1), client.said
    assert client.asked()[4:] == [f"1.{role}" for role in order]
    assert client.got() == ([name.encode()] if found else [])


def test_delegated_role_that_has_expired(client):
    repository = client.repository
    repository.delegate("targets", DelegatedRole("more", [], 1, False, ["*"]))
    repository.more.expires = in_days(-1)
    repository.add_target("file", b"content", role="more")
    repository.publish("more", bump=False)
    repository.release()
    assert client.init() == 0
    assert client.refresh() == 0, client.said
    assert client.download("file") == 1
    assert "more: version 1 has expired" in client.said
    assert client.got() == [] and "more" not in client.trusted()


@pytest.mark.long
def test_time_stands_still_in_an_update(client):
    """What expires while the snapshot is on its way was good when the update began; the next one refuses it."""
    repository = client.repository
    repository.snapshot.expires = in_days(30 / 86400)
    repository.release()
    over = repository.snapshot.expires.timestamp() + 1

    def late(handler):
        time.sleep(max(0, over - time.time()))
        data = repository.published["snapshot"][-1]
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    assert client.init() == 0
    repository.instead["metadata/2.snapshot.json"] = late
    assert client.refresh() == 0, client.said
    assert client.trusted()["snapshot"] == 2
    assert client.refresh() == 1
    assert "snapshot: version 2 has expired" in client.said
