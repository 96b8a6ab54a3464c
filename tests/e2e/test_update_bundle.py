# SPDX-License-Identifier: Apache-2.0
"""`tracer bundle` and `tracer update --bundle`: an update in one file, for a host without a network."""

import os
import platform
import socket
import subprocess

import pytest
from tuf.api.metadata import DelegatedRole

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


def delegated(repository):
    """rules/* and, below that, rules/site/* are other roles'."""
    repository.delegate("targets", DelegatedRole("rules", [], 1, True, paths=["rules/*", "rules/site/*"]))
    repository.delegate("rules", DelegatedRole("site", [], 1, True, paths=["rules/site/*"]))
    repository.add_target("rules/b.yaml", b"rules: [b]", "rules")
    repository.add_target("rules/site/c.yaml", b"rules: [c]", "site")
    repository.add_target("rules/a b.yaml", b"rules: []", "rules")  # the same file as one of targets.json
    repository.release("site", "rules")


def test_delegated_roles_and_their_targets_are_in_it(host, repository, tmp_path):
    delegated(repository)
    file = made(repository, tmp_path)
    names = [line.split()[1] for line in bundle("inspect", file)[1].splitlines()]
    assert {"metadata/1.rules.json", "metadata/1.site.json"} <= set(names)
    code, said = bundle("verify", "--root", root_file(repository, tmp_path), file)
    assert code == 0 and "; 5 targets, all as described" in said
    for name, content in (("rules/b.yaml", b"rules: [b]"), ("rules/site/c.yaml", b"rules: [c]")):
        assert host.run("--bundle", file, "--target-dir", host.place, "download", name) == 0, host.said
        assert host.got()[name.replace("/", "%2F")] == content
    whole = file.read_bytes()
    for part in (b"rules: [c]", repository.published["site"][0], repository.published["rules"][0]):
        at = whole.index(part) + len(part) // 2
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
        assert bundle("verify", "--root", root_file(repository, tmp_path), file)[0] == 1


def test_a_delegated_role_that_is_signed_by_another_key(repository, tmp_path):
    delegated(repository)
    repository.signers["site"] = repository.signers["rules"]
    repository.release("site")
    repository.write(tmp_path / "site")
    code, said = bundle("create", tmp_path / "site", tmp_path / "update.bundle")
    assert code == 1 and "site: signed by 0 of the 1 keys" in said


# ---- a mirror

class Mirror:
    def __init__(self, what):
        self.process = subprocess.Popen([BINARY, "bundle", "serve", "--listen", "127.0.0.1:0", what], stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().rpartition(":")[2])
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait(10) == 0

    def ask(self, head):
        with socket.create_connection(("127.0.0.1", self.port), 10) as connection:
            connection.sendall(head.encode())
            with connection.makefile("rb") as answer:
                return answer.read()

    def status(self, path, method="GET"):
        return int(self.ask(f"{method} {path} HTTP/1.1\r\nHost: mirror\r\n\r\n").split()[1])


@pytest.mark.parametrize("form", ["tree", "bundle"])
def test_a_mirror_of_a_tree_and_of_a_bundle(host, repository, tmp_path, form):
    delegated(repository)
    file = made(repository, tmp_path)
    with Mirror(tmp_path / "site" if form == "tree" else file) as mirror:
        online = ["--metadata-url", f"{mirror.url}/metadata"]
        assert host.run(*online, "--check") == 0 and "9.1 is available" in host.said, host.said
        for name in ((), ("rules/a b.yaml",), ("rules/site/c.yaml",)):
            assert host.run(*online, "--target-dir", host.place, "download", *name) == 0, host.said
        assert host.got()["tracer-9.1"] == b"the new version"
        assert mirror.status("/metadata/timestamp.json") == 200
        head = mirror.ask("HEAD /metadata/timestamp.json HTTP/1.1\r\nHost: m\r\n\r\n")
        assert head.endswith(b"\r\n\r\n") and b"Content-Length: %d\r\n" % len(repository.published["timestamp"][-1]) in head


@pytest.mark.parametrize("form", ["tree", "bundle"])
def test_what_a_mirror_does_not_give(repository, tmp_path, form):
    file = made(repository, tmp_path)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "site/link").symlink_to("../secret")
    (tmp_path / "site/folder").symlink_to("..")
    os.mkfifo(tmp_path / "site/fifo")
    with Mirror(tmp_path / "site" if form == "tree" else file) as mirror:
        for path in ("/", "/metadata", "/metadata/", "/nothing", "/link", "/folder/secret", "/fifo", "//etc/passwd", "/" + "a" * 3000, "/a/" * 500):
            assert mirror.status(path) == 404, path
        for path in ("/../secret", "/metadata/../../secret", "/metadata/%2e%2e/%2e%2e/secret", "/%00", "http://elsewhere/x y"):
            assert mirror.status(path) in (400, 404), path
        assert mirror.status("/metadata/timestamp.json", "DELETE") == 405
        for head in ("GET / HTTP/1.1\r\nHost: m\r\nContent-Length: 4\r\n\r\nbody", "\x00\x01\r\n\r\n", "GET\r\n\r\n"):
            assert mirror.ask(head).startswith(b"HTTP/1.1 400 "), head
        assert mirror.ask("GET /" + "a" * 20000).startswith(b"HTTP/1.1 431 ")
        # As many as there are slots may wait; who comes then is turned away, and the others are served.
        waiting = [socket.create_connection(("127.0.0.1", mirror.port), 10) for _ in range(128)]
        waiting[0].sendall(b"GET /metadata/timestamp.json HTTP/1.1\r\nHost: m\r\n\r\n")
        assert waiting[0].recv(15) == b"HTTP/1.1 200 OK"
        for connection in waiting:
            connection.close()


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
    for arguments in ([], ["create"], ["create", "x"], ["inspect"], ["verify"], ["open", "x"], ["serve"], ["serve", "--listen", "here", tmp_path]):
        assert bundle(*arguments)[0] == 2, arguments
    assert host.run("--bundle", "x", "--metadata-url", "http://x", "refresh") == 2
