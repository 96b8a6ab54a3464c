# SPDX-License-Identifier: Apache-2.0
"""`tracer bundle` and `tracer update --bundle`: an update in one file, for a host without a network."""

import os
import platform
import subprocess

import pytest

from harness.tracer import BINARY
from harness.tuf_repository import Client, Repository, in_days

MACHINE = platform.machine()


def custom(version):
    return {"product": "tracer", "channel": "stable", "version": version, "architecture": MACHINE}


@pytest.fixture
def repository():
    repository = Repository()
    repository.add_target("tracer-9.1", b"the new version", custom=custom("9.1"))
    repository.add_target("rules/a b.yaml", b"rules: []")
    repository.publish("root")
    repository.release()
    return repository


@pytest.fixture
def host(tmp_path, repository):
    host = Client(tmp_path, repository)
    host.server.close()
    assert host.init() == 0
    return host


def bundle(*arguments):
    done = subprocess.run([BINARY, "bundle", *arguments], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def made(repository, folder, name="update.bundle"):
    repository.write(folder / "site")
    code, said = bundle("create", folder / "site", folder / name)
    assert code == 0, said
    return folder / name


def root_file(repository, folder):
    file = folder / "first-root.json"
    file.write_bytes(repository.published["root"][0])
    return file


def test_from_a_repository_to_a_host(host, repository, tmp_path):
    file = made(repository, tmp_path)
    code, said = bundle("inspect", file)
    assert code == 0
    names = [line.split()[1] for line in said.splitlines()]
    assert names[:5] == [f"metadata/{name}.json" for name in ("1.root", "2.root", "timestamp", "2.snapshot", "2.targets")]
    assert len(names) == 7 and names[5].endswith(".a%20b.yaml")
    code, said = bundle("verify", "--root", root_file(repository, tmp_path), file)
    assert code == 0 and "root 2, timestamp 2, snapshot 2, targets 2; 2 targets" in said
    assert host.run("--bundle", file, "--check") == 0, host.said
    assert "9.1 is available: tracer-9.1, 15 bytes" in host.said
    assert host.run("--bundle", file, "--target-dir", host.place, "download") == 0, host.said
    assert host.run("--bundle", file, "--target-dir", host.place, "download", "rules/a b.yaml") == 0, host.said
    assert host.got() == {"tracer-9.1": b"the new version", "rules%2Fa%20b.yaml": b"rules: []"}
    assert [host.version(role) for role in ("root", "timestamp", "snapshot", "targets")] == [2, 2, 2, 2]


def test_without_consistent_snapshots(tmp_path):
    repository = Repository(consistent=False)
    repository.add_target("folder/file", b"content")
    repository.release()
    file = made(repository, tmp_path)
    assert bundle("verify", "--root", root_file(repository, tmp_path), file)[0] == 0


def test_older_bundle_is_refused(host, repository, tmp_path):
    old = made(repository, tmp_path, "old.bundle")
    repository.release()
    new = made(repository, tmp_path, "new.bundle")
    assert host.run("--bundle", new, "refresh") == 0, host.said
    assert host.run("--bundle", old, "refresh") == 1
    assert "timestamp: version 2, and 3 was seen before" in host.said
    assert bundle("verify", "--metadata-dir", host.trusted, old)[0] == 1
    assert bundle("verify", "--metadata-dir", host.trusted, new)[0] == 0
    assert host.run("--bundle", new, "refresh") == 0


def test_expired_bundle_is_refused(host, repository, tmp_path):
    repository.timestamp.expires = in_days(-1)
    repository.publish("timestamp")
    repository.write(tmp_path / "site")
    code, said = bundle("create", tmp_path / "site", tmp_path / "update.bundle")
    assert code == 1 and "timestamp: version 3 has expired" in said
    assert sorted(path.name for path in tmp_path.glob("update.bundle*")) == []


def test_a_tree_that_is_not_what_it_says(repository, tmp_path):
    repository.write(tmp_path / "site")
    target = next((tmp_path / "site/targets").glob("*.tracer-9.1"))
    good = target.read_bytes()
    for bad in (good[:-1], good + b"x", good.upper()):
        target.write_bytes(bad)
        code, said = bundle("create", tmp_path / "site", tmp_path / "update.bundle")
        assert code == 1 and "not what the metadata describes" in said
    target.unlink()
    assert bundle("create", tmp_path / "site", tmp_path / "update.bundle")[0] == 1
    assert not (tmp_path / "update.bundle").exists()


def test_cut_and_changed(repository, tmp_path):
    """Cut anywhere it is none; with a bit changed anywhere it is refused, but in the root that the host has already
    and in the name of the one behind it, which it need not have."""
    file = made(repository, tmp_path)
    root = root_file(repository, tmp_path)
    whole = file.read_bytes()
    first = whole.index(repository.published["root"][0])
    known = range(first, whole.index(repository.published["root"][1]))
    other = tmp_path / "other.bundle"
    for cut in sorted({*range(0, len(whole), 257), len(whole) - 1, len(whole) - 2}):
        other.write_bytes(whole[:cut])
        assert bundle("verify", "--root", root, other)[0] == 1, cut
    for at in range(0, len(whole), 131):
        if at not in known:
            other.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
            assert bundle("verify", "--root", root, other)[0] == 1, at
    other.write_bytes(whole + whole[whole.index(b"targets/"):])
    assert "comes twice" in bundle("inspect", other)[1]


@pytest.mark.parametrize("text", ["", "tracer-bundle 2\n", "tracer-bundle 1\nmetadata/a 99999999999999999999\nx\n", "tracer-bundle 1\n../a 1\nx\n",
                                  "tracer-bundle 1\nmetadata/a -1\nx\n", "tracer-bundle 1\nmetadata/a\n", "tracer-bundle 1\nmetadata/a 1 \nx\n"])
def test_no_bundle(host, tmp_path, text):
    file = tmp_path / "it"
    file.write_text(text)
    assert bundle("inspect", file)[0] == 1
    assert host.run("--bundle", file, "refresh") == 1


def test_nothing_is_left_behind(repository, tmp_path):
    place = tmp_path / "temporary"
    place.mkdir()
    os.environ["TMPDIR"] = str(place)
    try:
        file = made(repository, tmp_path)
        assert bundle("verify", "--root", root_file(repository, tmp_path), file)[0] == 0
        assert bundle("verify", "--metadata-dir", tmp_path / "nowhere", file)[0] == 1
    finally:
        del os.environ["TMPDIR"]
    assert list(place.iterdir()) == []


def test_bad_usage(host, tmp_path):
    for arguments in ([], ["create"], ["create", "x"], ["inspect"], ["verify"], ["open", "x"]):
        assert bundle(*arguments)[0] == 2, arguments
    assert host.run("--bundle", "x", "--metadata-url", "http://x", "refresh") == 2
