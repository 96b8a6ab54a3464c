# SPDX-License-Identifier: Apache-2.0
"""The tools of release/: keys at rest, thresholds, what an outsider finds. python-tuf, minisign, signify and OpenSSL judge what they write;
hosts judge it in rehearsal.py."""

import functools
import hashlib
import json
import os
import shutil
import stat
import sys
import time

import pytest
from tuf.api.metadata import Metadata, Root

from life import KEYS, MACHINE, ROOT, TOOLS, call, tool

sys.path.insert(0, str(TOOLS))

import ed25519
import keys
import metadata
import minisign
import outside
from common import Refused


@pytest.fixture
def life(ceremony, tmp_path):
    return ceremony.copy(tmp_path / "life")


def checked(tree, digest, now=None):
    return list(outside.check_tree(metadata.from_folder(tree), digest, time.time() if now is None else now))


# ---- keys at rest

def test_a_key_is_encrypted_and_its_owners_alone(ceremony):
    for name in KEYS:
        file = ceremony.key(name)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        held = json.loads(file.read_text())
        assert held["kdf"]["name"] == "argon2id" and len(bytes.fromhex(held["sealed"])) == 32 + 16
        key = keys.load(file, ceremony.words)
        assert key.public == minisign.read_public(ceremony.key(name, "pub").read_text(), name)[1]


def test_a_wrong_passphrase_and_any_change_are_refused(ceremony, tmp_path):
    (tmp_path / "root-1").write_text("not the passphrase\n")
    (tmp_path / "root-1").chmod(0o600)
    with pytest.raises(Refused, match="passphrase is wrong"):
        keys.load(ceremony.key("root-1"), tmp_path)
    held = json.loads(ceremony.key("root-1").read_text())
    for change in ({"public": "00" * 32}, {"name": "root-2"}, {"nonce": "00" * 12}, {"sealed": "00" * 48}, {"more": 1},
                   {"kdf": {**held["kdf"], "salt": "00" * 16}}, {"kdf": {**held["kdf"], "passes": 4}}, {"kdf": {**held["kdf"], "memory_kib": 1}}):
        (tmp_path / "changed.key").write_text(json.dumps({**held, **change}))
        with pytest.raises(Refused):
            keys.load(tmp_path / "changed.key", ceremony.words)


def test_a_passphrase_that_others_may_read_is_refused(life):
    (life.words / "root-1").chmod(0o644)
    with pytest.raises(Refused, match="others may read"):
        keys.load(life.key("root-1"), life.words)


def test_a_key_is_never_written_over(life):
    before = life.key("root-1").read_bytes()
    assert "exists" in life.sign("key", "root-1", life.keys, "--memory-mib", 1, code=1)
    assert life.key("root-1").read_bytes() == before


# ---- thresholds

@pytest.mark.parametrize("draft, too_few, enough", [("root", [1, 2], [4]), ("targets", [3], [1])])
def test_no_draft_is_taken_in_before_enough_have_signed(life, draft, too_few, enough):
    life.sign(draft, life.site)
    life.add(draft, *too_few)
    life.add(draft, *too_few)  # twice is once
    before = sorted(os.listdir(life.site / "metadata"))
    assert f"signed by {len(too_few)} of the {len(too_few) + 1} keys" in life.online(code=1)
    assert sorted(os.listdir(life.site / "metadata")) == before
    assert "waits for signatures" in tool("publish", life.site, life.tree, code=1)
    life.add(draft, *enough)
    life.online()
    assert not list((life.site / "draft").iterdir())
    life.publish()
    assert "all of it holds" in life.verify()


def test_keys_of_another_role_do_not_count(life):
    life.sign("targets", life.site)
    life.add("targets", 1, 2, 3, keys="root")
    assert "signed by 0 of the 2 keys" in life.online(code=1)


def test_a_key_that_left_the_root_signs_no_more(life):
    life.make_key("targets-4")
    life.sign("root", life.site, "--targets", *life.public("targets", 1, 2, 4))
    life.add("root", 1, 2, 3)
    # What 2 and 3 signed has one key left: targets come with the root.
    assert "signed by 1 of the 2 keys" in life.online(code=1)
    life.sign("targets", life.site)
    life.add("targets", 2, 4)
    life.online()
    life.publish()
    life.verify()
    assert metadata.read(life.site / "metadata" / "3.targets.json")["signed"]["version"] == 3


# ---- renewal

def test_the_timestamp_expires_and_is_renewed_alone(life):
    digest = life.root_digest()
    month = time.time() + 31 * 86400
    with pytest.raises(Refused, match="timestamp.json: expired"):
        checked(life.tree, digest, month)
    before = {file: file.read_bytes() for file in (life.site / "metadata").iterdir()}
    life.sign("timestamp", life.site, life.key("timestamp-1"), "--days", 60)
    life.publish()
    checked(life.tree, digest, month)
    changed = [file.name for file in (life.site / "metadata").iterdir() if before.get(file) != file.read_bytes()]
    assert changed == ["timestamp.json"]


def test_publishing_never_goes_back(life, tmp_path):
    shutil.copytree(life.site, tmp_path / "older")
    life.sign("timestamp", life.site, life.key("timestamp-1"))
    life.publish()
    assert "nothing goes back" in tool("publish", tmp_path / "older", life.tree, code=1)


# ---- what an outsider finds

def test_each_file_that_is_changed_cut_or_gone_is_found(life, monkeypatch):
    # The same signature over the same bytes is asked for again and again.
    monkeypatch.setattr(ed25519, "is_signed", functools.cache(ed25519.is_signed))
    digest, found = life.root_digest(), 0
    checked(life.tree, digest)
    for file in sorted(file for file in life.tree.rglob("*") if file.is_file()):
        data = file.read_bytes()
        at = len(data) // 2
        if data[at - 1:at + 2].isspace():
            at += 1
        changes = [data[:at] + bytes([data[at] ^ 1]) + data[at + 1:], data[:at], None]
        for change in changes:
            file.unlink()
            if change is not None:
                file.write_bytes(change)
            name = str(file.relative_to(life.tree))
            try:
                checked(life.tree, digest)
                # A superseded version that nothing names any more may go; install.sh itself need not be there.
                assert is_superseded(name) or (change is None and name == "install.sh"), f"{name}: not found"
            except Refused:
                found += 1
            file.unlink(missing_ok=True)
            file.write_bytes(data)
    assert found > 40


def is_superseded(name):
    return name in ("metadata/1.targets.json", "metadata/1.snapshot.json")


def test_another_first_root_is_refused(ceremony):
    with pytest.raises(Refused, match="not 00000"):
        checked(ceremony.tree, "0" * 64)


def test_an_outsider_needs_python_alone(ceremony):
    said = call("/usr/bin/env", "-i", "PATH=/usr/bin:/bin", sys.executable, "-E", "-s", "-S", TOOLS / "verify", ceremony.tree,
                "--root", ceremony.site / "metadata" / "1.root.json", "--source", ROOT, "--build", ceremony.folder / "built-1.0.0")
    assert "all of it holds" in said and "the same bytes as" in said and "the 13 sources of deps.lock" in said


def test_a_build_of_ones_own_that_differs_is_refused(life):
    file = life.folder / "built-1.0.0" / f"tracer-{MACHINE}"
    file.write_text(file.read_text() + "#\n")
    assert "not the bytes that are published" in life.verify("--build", life.folder / "built-1.0.0", code=1)


def test_materials_that_leave_a_source_out_are_refused(ceremony, tmp_path):
    lock = (ROOT / "deps.lock").read_text()
    (tmp_path / "deps.lock").write_text(lock + f"other other 1 1 {'0' * 64} - MIT\n")
    assert "not what deps.lock pins: [('other'" in ceremony.verify("--source", tmp_path, code=1)


# ---- the words of others

def test_python_tuf_reads_and_counts_alike(ceremony):
    def load(name):
        return Metadata.from_bytes((ceremony.tree / "metadata" / name).read_bytes())

    root = load("1.root.json")
    assert isinstance(root.signed, Root) and root.signed.consistent_snapshot
    assert root.signed.roles["root"].threshold == 3 and len(root.signed.roles["root"].keyids) == 5
    assert root.signed.roles["targets"].threshold == 2 and len(root.signed.roles["targets"].keyids) == 3
    root.verify_delegate("root", root)
    targets = load("2.targets.json")
    for role, document in (("targets", targets), ("snapshot", load("2.snapshot.json")), ("timestamp", load("timestamp.json"))):
        root.verify_delegate(role, document)
    for role in ("rules", "prices"):
        targets.verify_delegate(role, load(f"1.{role}.json"))
    for path, target in targets.signed.targets.items():
        folder, _, name = path.rpartition("/")
        target.verify_length_and_hashes((ceremony.tree / "targets" / folder / f"{target.hashes['sha256']}.{name}").read_bytes())


@pytest.mark.parametrize("hashed", [False, True])
def test_minisign_signify_and_openssl_check_what_we_sign(life, tmp_path, hashed):
    file = tmp_path / "any file"
    file.write_bytes(os.urandom(1000))
    life.sign("file", file, life.key("release-1"), *(["--hashed"] if hashed else []))
    pub = life.key("release-1", "pub")
    call("minisign", "-Vm", file, "-p", pub)
    if not hashed:
        (tmp_path / "two").write_text("".join((tmp_path / "any file.minisig").read_text().splitlines(True)[:2]))
        call("signify-openbsd", "-V", "-p", pub, "-x", tmp_path / "two", "-m", file)
    text = (tmp_path / "any file.minisig").read_text()
    key = minisign.read_public(pub.read_text(), pub)
    assert minisign.check(file.read_bytes(), text, [key], "here") == "any file"
    for changed in (text.replace("any file", "another"), text.replace("\n", "\nA", 1), "", text[: len(text) // 2]):
        with pytest.raises(Refused):
            minisign.check(file.read_bytes(), changed, [key], "here")
    file.write_bytes(b"other")
    with pytest.raises(Refused):
        minisign.check(file.read_bytes(), text, [key], "here")


def test_minisigns_own_signatures_are_read(tmp_path):
    file = tmp_path / "file"
    file.write_text("text")
    call("minisign", "-GW", "-p", tmp_path / "pub", "-s", tmp_path / "key")
    key = minisign.read_public((tmp_path / "pub").read_text(), "pub")
    for form in ("-S", "-Sl"):
        call("minisign", form, "-s", tmp_path / "key", "-m", file, "-t", "words")
        assert minisign.check(b"text", (tmp_path / "file.minisig").read_text(), [key], "here") == "words"


def test_signatures_are_checked_and_nothing_else_passes(tmp_path, monkeypatch):
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    for size in (1, 37, 4096):
        private, message = Ed25519PrivateKey.generate(), os.urandom(size)
        public, made = private.public_key().public_bytes_raw(), private.sign(message)
        other = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
        assert ed25519.is_signed(public, made, message)
        assert not ed25519.is_signed(public, made, message + b"x")
        assert not ed25519.is_signed(public, made[:32] + bytes(32), message)
        assert not ed25519.is_signed(public, made[:63], message)
        assert not ed25519.is_signed(other, made, message)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Refused, match="openssl: not found"):
        ed25519.is_signed(public, made, message)


def test_materials_are_the_same_bytes_again(ceremony, tmp_path):
    built = ceremony.folder / "built-1.0.0"
    shutil.copy(built / f"tracer-{MACHINE}", tmp_path)
    tool("materials", ROOT, tmp_path, "--version", "1.0.0")
    for name in ("tracer-1.0.0.spdx.json", "tracer-1.0.0.provenance.json"):
        assert (tmp_path / name).read_bytes() == (built / name).read_bytes()
    document = json.loads((tmp_path / "tracer-1.0.0.spdx.json").read_text())
    ids = {each["SPDXID"] for each in document["packages"]} | {"SPDXRef-DOCUMENT"}
    assert len(ids) == len(document["packages"]) + 1
    assert all(each[side] in ids for each in document["relationships"] for side in ("spdxElementId", "relatedSpdxElement"))
    said = json.loads((tmp_path / "tracer-1.0.0.provenance.json").read_text())
    digest = hashlib.sha256((tmp_path / f"tracer-{MACHINE}").read_bytes()).hexdigest()
    assert said["subject"] == [{"name": f"tracer-{MACHINE}", "digest": {"sha256": digest}}]


def test_the_offline_side_is_pinned_by_hash():
    said = (ROOT / "release" / "requirements.txt").read_text()
    pinned = [line.split()[0] for line in said.splitlines() if "==" in line]
    assert {each.partition("==")[0] for each in pinned} == {"cffi", "cryptography", "pycparser"}
    tests = (ROOT / "tests" / "requirements.txt").read_text().split()
    assert all(each in tests for each in pinned) and said.count("--hash=sha256:") >= 3
